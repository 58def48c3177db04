//! Command lines of launchers: where the program begins, and the options that name nodes.

use super::hosts::RunHost;
use crate::operations::HostList;
use crate::params::Environment;

const NODE_COUNT: &[&str] = &["N", "nodes"];

/// A family of launchers, told apart by what they call themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// mpirun of Open MPI (and PRRTE).
    OpenMpi,
    /// mpirun of MPICH and its relatives.
    Hydra,
    /// Slurm's.
    Srun,
    /// `flux run`, `flux submit`.
    Flux,
    /// mpiexec of HPE's PALS, on Cray systems with PBS.
    Pals,
    /// Any other: it is run as it is.
    Other,
}

impl Launcher {
    /// Finds it by the name of the program; `version` is asked if several have that name.
    pub fn of(program: &str, version: impl FnOnce() -> String) -> Launcher {
        let name = program.rsplit('/').next().unwrap_or_default();
        match name {
            "srun" => Launcher::Srun,
            "flux" => Launcher::Flux,
            "orterun" | "prterun" | "mpirun.openmpi" | "mpiexec.openmpi" => Launcher::OpenMpi,
            "mpiexec.hydra" | "mpirun.mpich" | "mpiexec.mpich" => Launcher::Hydra,
            "mpirun" | "mpiexec" => {
                let told = version();
                let says = |words: &[&str]| words.iter().any(|word| told.contains(word));
                match () {
                    () if says(&["Open MPI", "OpenRTE", "PRRTE"]) => Launcher::OpenMpi,
                    () if says(&["HYDRA", "Intel(R) MPI", "MPICH"]) => Launcher::Hydra,
                    () if is_of_pals(&told) => Launcher::Pals,
                    () => Launcher::Other,
                }
            }
            _ => Launcher::Other,
        }
    }

    fn host_options(self) -> &'static [&'static str] {
        match self {
            Launcher::OpenMpi => &["host", "H", "hostfile", "machinefile", "default-hostfile"],
            Launcher::Hydra => &["hosts", "host", "f", "hostfile", "machinefile"],
            Launcher::Pals => &["hosts", "hostlist", "hostfile"],
            Launcher::Srun | Launcher::Flux | Launcher::Other => &[],
        }
    }

    fn rank_options(self) -> &'static [&'static str] {
        match self {
            Launcher::OpenMpi => &["n", "np", "c"],
            Launcher::Hydra | Launcher::Pals => &["n", "np"],
            Launcher::Srun | Launcher::Flux => &["n", "ntasks"],
            Launcher::Other => &[],
        }
    }

    /// Tells whether `LauncherLine::place` can put a launch on certain nodes.
    pub fn places(self) -> bool {
        self != Launcher::Other
    }
}

/// A launcher's command line, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherLine {
    /// Which launcher.
    pub launcher: Launcher,
    words: Vec<String>,
    /// Index of the program; the launcher's own words stand before it.
    program: usize,
}

impl LauncherLine {
    /// Finds the program in `words`, the first one that `runs`: values of options hardly ever do.
    pub fn new(launcher: Launcher, words: &[String], runs: impl Fn(&str) -> bool) -> LauncherLine {
        let candidate = |word: &String| !word.starts_with('-') && runs(word);
        let skipped = if launcher == Launcher::Flux { 2 } else { 1 };
        let found = words.iter().skip(skipped).position(candidate).map(|at| at + skipped);
        LauncherLine { launcher, words: words.to_vec(), program: found.unwrap_or(words.len()) }
    }

    /// Returns the words as they were given.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the program and its arguments; empty if none was found.
    pub fn program(&self) -> &[String] {
        &self.words[self.program..]
    }

    fn values(&self, names: &[&str]) -> Vec<(String, String)> {
        let own = &self.words[..self.program];
        let mut found = Vec::new();
        for (at, word) in own.iter().enumerate() {
            let Some((name, value)) = option(word, names) else { continue };
            let next = || own.get(at + 1).or_else(|| self.words.get(at + 1)).cloned();
            found.extend(value.or_else(next).map(|value| (name, value)));
        }
        found
    }

    /// Returns the number of ranks, if the line gives one for all.
    pub fn ranks(&self) -> Option<usize> {
        let parts = self.words.iter().filter(|word| *word == ":").count();
        let values = self.values(self.launcher.rank_options());
        match &values[..] {
            [(_, value)] if parts == 0 => value.parse().ok(),
            _ => None,
        }
    }

    /// Returns the nodes that the user names: `Ok` is a list as in `--host a:2,b`, `Err` a file.
    pub fn own_hosts(&self) -> Option<Result<String, String>> {
        let (name, value) = self.values(self.launcher.host_options()).into_iter().next()?;
        match name.as_str() {
            "host" | "hosts" | "hostlist" | "H" => Some(Ok(value)),
            _ => Some(Err(value)),
        }
    }

    /// Makes the line that starts the program on `hosts` and not on the nodes of `out`.
    pub fn place(&self, hosts: &[RunHost], out: &[String], nodes: Option<usize>) -> Vec<String> {
        let list = self.host_list(hosts);
        let down = HostList::of(out.iter().cloned()).compress();
        let mut added = match self.launcher {
            Launcher::OpenMpi => vec!["--host".to_owned(), list],
            Launcher::Hydra => vec!["-hosts".to_owned(), list],
            Launcher::Pals => {
                vec!["--hosts".to_owned(), names(hosts).collect::<Vec<_>>().join(",")]
            }
            Launcher::Srun if !down.is_empty() => vec![format!("--exclude={down}")],
            Launcher::Flux if !down.is_empty() => vec![format!("--requires=-host:{down}")],
            Launcher::Srun | Launcher::Flux | Launcher::Other => Vec::new(),
        };
        let mut replaced = self.launcher.host_options().to_vec();
        if let Some(count) = self.node_count(hosts.len(), nodes) {
            replaced.extend(NODE_COUNT);
            added.push(format!("--nodes={count}"));
            if self.launcher == Launcher::Srun {
                added.push(format!("--nodelist={}", HostList::of(names(hosts)).compress()));
            }
        }
        let mut line = self.without(&replaced);
        let behind = usize::from(self.launcher == Launcher::Flux) + 1;
        let behind = behind.min(line.len());
        line.splice(behind..behind, added);
        line
    }

    /// Adds to a line of [`LauncherLine::place`] options that hand the variables `names` on, where
    /// the launcher does not do that and the user has not said what ranks get.
    pub fn hand_on(&self, mut line: Vec<String>, names: &[String]) -> Vec<String> {
        let own = &self.words[..self.program];
        let has_list = own.iter().any(|word| word == "mca_base_env_list");
        if self.launcher != Launcher::OpenMpi || has_list || line.is_empty() {
            return line;
        }
        let given = |name: &String| {
            own.iter().any(|word| word == name || word.starts_with(&format!("{name}=")))
        };
        let added = names.iter().filter(|name| !given(name));
        let added: Vec<String> = added.flat_map(|name| ["-x".to_owned(), name.clone()]).collect();
        line.splice(1..1, added);
        line
    }

    /// Returns the number of nodes that the line itself asks for (`srun -N 4`).
    pub fn own_nodes(&self) -> Option<usize> {
        self.own_node_count().and_then(|count| count.parse().ok())
    }

    /// It may be a range.
    fn own_node_count(&self) -> Option<String> {
        let counts = matches!(self.launcher, Launcher::Srun | Launcher::Flux);
        let values = if counts { self.values(NODE_COUNT) } else { Vec::new() };
        values.into_iter().next_back().map(|(_, count)| count)
    }

    /// For a launcher that takes no nodes by name: `wanted`, unless the line has a number of its
    /// own.
    fn node_count(&self, there: usize, wanted: Option<usize>) -> Option<usize> {
        if !matches!(self.launcher, Launcher::Srun | Launcher::Flux) {
            return None;
        }
        let count = match self.own_node_count() {
            Some(_) => self.own_nodes().filter(|own| *own > there || Some(*own) == wanted),
            None => wanted,
        };
        count.map(|count| count.min(there))
    }

    /// Where nothing says how many ranks a node is to have they are spread evenly, one on each node
    /// at least: what its cache holds is out of reach otherwise.
    fn host_list(&self, hosts: &[RunHost]) -> String {
        let (ranks, count) = (self.ranks(), hosts.len().max(1));
        let even = |at: usize| ranks.map(|ranks| ranks / count + usize::from(at < ranks % count));
        let text = |(at, host): (usize, &RunHost)| match host.slots.or_else(|| even(at)) {
            Some(0) => None,
            Some(slots) => Some(format!("{}:{slots}", host.name)),
            None => Some(host.name.clone()),
        };
        hosts.iter().enumerate().filter_map(text).collect::<Vec<_>>().join(",")
    }

    fn without(&self, names: &[&str]) -> Vec<String> {
        let (mut kept, mut skip) = (Vec::new(), false);
        for (at, word) in self.words.iter().enumerate() {
            if std::mem::take(&mut skip) {
                continue;
            }
            match option(word, names).filter(|_| at < self.program) {
                Some((_, value)) => skip = value.is_none(),
                None => kept.push(word.clone()),
            }
        }
        kept
    }
}

fn names(hosts: &[RunHost]) -> impl Iterator<Item = String> {
    hosts.iter().map(|host| host.name.clone())
}

/// PALS says `mpiexec version 1.2.12 revision ...`, and the same of `mpirun`, a link to it.
fn is_of_pals(told: &str) -> bool {
    let mut words = told.split_whitespace().skip(1);
    words.next() == Some("version")
        && words.next().is_some_and(|word| word.starts_with(|digit: char| digit.is_ascii_digit()))
}

fn option(word: &str, names: &[&str]) -> Option<(String, Option<String>)> {
    let bare = word.strip_prefix('-')?;
    let bare = bare.strip_prefix('-').unwrap_or(bare);
    let (name, value) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (bare, None),
    };
    if names.contains(&name) {
        return Some((name.to_owned(), value));
    }
    let short = names.iter().filter(|name| name.len() == 1);
    let joined = |name: &&&str| bare.strip_prefix(**name).filter(|rest| is_number(rest));
    let name = short.filter(|_| !word.starts_with("--")).find(|name| joined(name).is_some())?;
    Some(((*name).to_owned(), joined(&name).map(str::to_owned)))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Makes the variables in which Slurm tells a job of its nodes (with `has_others`: `hosts` only). A
/// step that died with its node must not keep the next one waiting, and ranks need our variables
/// also under `sbatch --export=NONE`, which is in `around`.
pub fn slurm_variables(around: &Environment, hosts: &[RunHost], has_others: bool) -> Environment {
    const EXPORT: &str = "SLURM_EXPORT_ENV";
    let mut variables = Environment::new();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    set("SLURM_OVERLAP", "1".to_owned());
    // One lost rank would leave the others waiting, and srun with them.
    let kill = around.get("SLURM_KILL_BAD_EXIT").map_or("1", String::as_str);
    set("SLURM_KILL_BAD_EXIT", kill.to_owned());
    match around.get(EXPORT).map_or("ALL", String::as_str) {
        all if all == "ALL" || all.starts_with("ALL,") => {}
        "NONE" | "NIL" => drop(set(EXPORT, "ALL".to_owned())),
        list => drop(set(EXPORT, format!("ALL,{list}"))),
    }
    if has_others {
        let list = HostList::of(names(hosts)).compress();
        set("SLURM_JOB_NODELIST", list.clone());
        set("SLURM_NODELIST", list);
        set("SLURM_JOB_NUM_NODES", hosts.len().to_string());
        set("SLURM_NNODES", hosts.len().to_string());
        let slots: Option<Vec<usize>> = hosts.iter().map(|host| host.slots).collect();
        if let Some(slots) = slots {
            let counts: Vec<String> = slots.iter().map(usize::to_string).collect();
            set("SLURM_TASKS_PER_NODE", counts.join(","));
            set("SLURM_JOB_CPUS_PER_NODE", counts.join(","));
            let sum: usize = slots.iter().sum();
            set("SLURM_NTASKS", sum.to_string());
            set("SLURM_NPROCS", sum.to_string());
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::run::hosts::hostfile;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn line(text: &str) -> LauncherLine {
        let words = words(text);
        let told = match words[0].as_str() {
            "mpiexec" => "mpiexec version 1.2.12 revision b1c5c2f",
            _ => "mpirun (Open MPI) 4.1.4",
        };
        let launcher = Launcher::of(&words[0], || told.to_owned());
        LauncherLine::new(launcher, &words, |word| word.starts_with("./"))
    }

    fn placed(text: &str, hosts: &str, out: &str, nodes: Option<usize>) -> String {
        let out: Vec<String> = out.split_whitespace().map(str::to_owned).collect();
        line(text).place(&hostfile(hosts), &out, nodes).join(" ")
    }

    #[test]
    fn a_launcher_is_known_by_name_or_by_what_it_says() {
        let of = |name: &str, version: &str| Launcher::of(name, || version.to_owned());
        assert_eq!(of("/usr/bin/mpirun", "mpirun (Open MPI) 4.1.4"), Launcher::OpenMpi);
        assert_eq!(of("mpiexec", "HYDRA build details:"), Launcher::Hydra);
        assert_eq!(of("mpirun", "Intel(R) MPI Library 2021"), Launcher::Hydra);
        assert_eq!(of("mpirun", ""), Launcher::Other);
        assert_eq!(of("mpiexec", "mpiexec version 1.2.12 revision b1c5c2f"), Launcher::Pals);
        assert_eq!(of("mpiexec", "mpiexec version unknown"), Launcher::Other);
        assert_eq!(of("srun", "never asked"), Launcher::Srun);
        assert_eq!(of("./script", ""), Launcher::Other);
    }

    #[test]
    fn the_nodes_of_the_launch_replace_those_of_the_line() {
        let two = "n1 slots=2\nn4 slots=2";
        for (text, want) in [
            ("mpirun -n 4 ./app -f x", "mpirun --host n1:2,n4:2 -n 4 ./app -f x"),
            ("mpirun -H a,b -n 4 ./app -H x", "mpirun --host n1:2,n4:2 -n 4 ./app -H x"),
            ("mpirun --hostfile=f -n 4 ./app", "mpirun --host n1:2,n4:2 -n 4 ./app"),
            (
                "mpirun.mpich -f hosts -n 4 ./app -f x",
                "mpirun.mpich -hosts n1:2,n4:2 -n 4 ./app -f x",
            ),
            (
                "mpiexec -n 4 --ppn 2 --hostfile f ./app --hosts x",
                "mpiexec --hosts n1,n4 -n 4 --ppn 2 ./app --hosts x",
            ),
            ("srun -n4 ./app", "srun --exclude=n[2-3] -n4 ./app"),
            ("flux run -n4 ./app", "flux run --requires=-host:n[2-3] -n4 ./app"),
            ("./start.sh -H x", "./start.sh -H x"),
        ] {
            assert_eq!(placed(text, two, "n2 n3", None), want);
        }
        assert_eq!(placed("srun -n4 ./app", two, "", None), "srun -n4 ./app");
        let named = "srun --nodes=2 --nodelist=n[1,4] -n4 ./app";
        assert_eq!(placed("srun -n4 ./app", two, "", Some(2)), named);
        assert_eq!(placed("srun -N 2 -n4 ./app", two, "", Some(3)), "srun -N 2 -n4 ./app");
        // More than are left is what no launcher gives.
        let fewer = format!("srun --exclude=n2 {}", &named["srun ".len()..]);
        for text in ["srun -n4 ./app", "srun -N 3 -n4 ./app", "srun --nodes=3 -N3 -n4 ./app"] {
            assert_eq!(placed(text, two, "n2", Some(3)), fewer, "{text}");
        }
        assert_eq!(
            placed("srun -N3 ./app -N3", two, "", None),
            "srun --nodes=2 --nodelist=n[1,4] ./app -N3"
        );
        assert_eq!(
            placed("srun -N2 ./app", two, "", Some(2)),
            "srun --nodes=2 --nodelist=n[1,4] ./app"
        );
        assert_eq!(line("srun -N 5 --nodes=4 ./app -N 3").own_nodes(), Some(4));
        assert_eq!(line("srun -n 4 ./app -N 3").own_nodes(), None);
        assert_eq!(line("mpirun -N 2 ./app").own_nodes(), None, "ranks on each node");
        assert_eq!(placed("srun -N 2-3 ./app", two, "", Some(3)), "srun -N 2-3 ./app");
    }

    #[test]
    fn ranks_are_spread_evenly_where_nothing_says_how_many_a_node_has() {
        let hosts = "n1\nn2\nn4";
        let open = |text: &str| placed(text, hosts, "n3", None);
        assert_eq!(open("mpirun -n 8 ./a"), "mpirun --host n1:3,n2:3,n4:2 -n 8 ./a");
        assert_eq!(open("mpirun -np 2 ./a"), "mpirun --host n1:1,n2:1 -np 2 ./a");
        assert_eq!(open("mpirun ./a"), "mpirun --host n1,n2,n4 ./a");
        // Two programs: nothing says how many ranks in all.
        assert_eq!(open("mpirun -n 2 ./a : -n 2 ./b").matches(":").count(), 1);
    }

    #[test]
    fn the_lines_own_nodes_are_found() {
        let own = |text: &str| line(text).own_hosts();
        assert_eq!(own("mpirun --host a:2,b -n 3 ./app"), Some(Ok("a:2,b".into())));
        assert_eq!(own("mpirun -hostfile f -n 3 ./app"), Some(Err("f".into())));
        assert_eq!(own("mpirun -n 3 ./app --host a"), None);
        assert_eq!(line("srun -n4 ./app").ranks(), Some(4));
        assert_eq!(line("srun --ntasks=4 ./app -n 3").ranks(), Some(4));
        assert_eq!(line("srun ./app -n 3").ranks(), None);
    }

    #[test]
    fn slurms_variables_tell_of_the_live_nodes_only() {
        let hosts = hostfile("n1:2\nn3:2");
        let none = Environment::new();
        let all = slurm_variables(&none, &hosts, true);
        assert_eq!((&*all["SLURM_NODELIST"], &*all["SLURM_NTASKS"]), ("n[1,3]", "4"));
        assert_eq!(slurm_variables(&none, &hosts, false).len(), 2);
        let own = Environment::from([("SLURM_KILL_BAD_EXIT".to_owned(), "0".to_owned())]);
        for (around, kill) in [(&none, "1"), (&own, "0")] {
            assert_eq!(slurm_variables(around, &hosts, false)["SLURM_KILL_BAD_EXIT"], kill);
        }
    }

    #[test]
    fn slurms_ranks_have_our_variables_whatever_the_script_exports() {
        for (around, want) in [
            (None, None),
            (Some("ALL"), None),
            (Some("ALL,A=1"), None),
            (Some("NONE"), Some("ALL")),
            (Some("PATH,A=1"), Some("ALL,PATH,A=1")),
        ] {
            let pair = |value: &str| ("SLURM_EXPORT_ENV".to_owned(), value.to_owned());
            let environment: Environment = around.map(pair).into_iter().collect();
            let found = slurm_variables(&environment, &[], false);
            let found = found.get("SLURM_EXPORT_ENV").map(String::as_str);
            assert_eq!(found, want, "{around:?}");
        }
    }
}
