//! Resource managers: the nodes of an allocation, its end, nodes that are down, and how a command
//! gets to a node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::commands::Commands;
use super::hosts::{RunHost, clock, counted, hostfile, list_of, repeated};
use crate::error::{Error, Result};
use crate::operations::HostList;
use crate::params::Environment;

const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How a command is brought to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// `{host}` stands in one of them; else it follows them.
    words: Vec<String>,
    /// The other side gives the rest to a shell, as ssh does.
    line: bool,
}

impl Shell {
    /// Takes the words of a remote shell such as ssh. pdsh is told to leave out the node's name and
    /// to tell how the command has ended.
    pub fn remote(command: &str) -> Shell {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let program = words.first().map(Path::new).and_then(Path::file_name);
        if program.is_some_and(|name| name == "pdsh") {
            words.splice(1..1, ["-N", "-S"].map(str::to_owned));
            if !words.iter().any(|word| word.contains("{host}")) {
                words.extend(["-w", "{host}"].map(str::to_owned));
            }
        }
        Shell { words, line: true }
    }

    fn starter(words: &str) -> Shell {
        Shell { words: words.split(' ').map(str::to_owned).collect(), line: false }
    }

    /// Makes the command line that runs `words` on `host`.
    pub fn command(&self, host: &str, words: &[String]) -> Vec<String> {
        let named = self.words.iter().any(|word| word.contains("{host}"));
        let mut all: Vec<String> =
            self.words.iter().map(|word| word.replace("{host}", host)).collect();
        if !named {
            all.push(host.to_owned());
        }
        match self.line {
            true => all.push(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
            false => all.extend_from_slice(words),
        }
        all
    }
}

/// Returns a word as a shell has to see it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// What a resource manager tells.
pub trait Manager: Sync {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// The nodes of the allocation.
    fn hosts(&self, commands: &dyn Commands) -> Result<Vec<RunHost>>;

    /// When the allocation ends, in seconds since 1970; `now` likewise.
    fn end_time(&self, _commands: &dyn Commands, _now: u64) -> Option<u64> {
        None
    }

    /// Nodes of these that it knows to be down.
    fn down(&self, _commands: &dyn Commands, _hosts: &[RunHost]) -> Vec<String> {
        Vec::new()
    }

    /// How it brings a command to a node; `None`: by a remote shell.
    fn shell(&self) -> Option<Shell> {
        None
    }
}

/// Finds the manager of this job: a hostfile that is named, else what the environment tells.
pub fn find(environment: &Environment, hostfile: Option<&Path>) -> Box<dyn Manager> {
    let of = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
    if let Some(path) = hostfile {
        return Box::new(Hostfile(path.to_owned()));
    }
    if let Some(job) = of("SLURM_JOB_ID") {
        return Box::new(Slurm { job, environment: environment.clone() });
    }
    if of("FLUX_URI").is_some() || of("FLUX_JOB_ID").is_some() {
        return Box::new(Flux);
    }
    if let (Some(job), Some(nodes)) = (of("PBS_JOBID"), of("PBS_NODEFILE")) {
        return Box::new(Pbs { job, nodes: nodes.into() });
    }
    if let Some(job) = of("LSB_JOBID") {
        return Box::new(Lsf { job, environment: environment.clone() });
    }
    Box::new(Alone)
}

struct Alone;

impl Manager for Alone {
    fn name(&self) -> &'static str {
        "none"
    }

    fn hosts(&self, _: &dyn Commands) -> Result<Vec<RunHost>> {
        Ok(vec![RunHost { name: crate::system::hostname(), slots: None }])
    }
}

struct Hostfile(PathBuf);

impl Manager for Hostfile {
    fn name(&self) -> &'static str {
        "hostfile"
    }

    fn hosts(&self, _: &dyn Commands) -> Result<Vec<RunHost>> {
        let hosts = hostfile(&read(&self.0)?);
        match hosts.is_empty() {
            true => Err(Error::Missing(format!("{} names no node", self.0.display()))),
            false => Ok(hosts),
        }
    }
}

struct Slurm {
    job: String,
    environment: Environment,
}

impl Manager for Slurm {
    fn name(&self) -> &'static str {
        "Slurm"
    }

    fn hosts(&self, _: &dyn Commands) -> Result<Vec<RunHost>> {
        let of = |names: [&str; 2]| names.into_iter().find_map(|name| self.environment.get(name));
        let list = of(["SLURM_JOB_NODELIST", "SLURM_NODELIST"]).ok_or_else(|| {
            Error::Missing("Slurm has set no SLURM_JOB_NODELIST: which nodes?".to_owned())
        })?;
        let names = HostList::expand(list)?;
        let tasks = of(["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"]);
        let slots = tasks.and_then(|text| repeated(text)).unwrap_or_default();
        let slots = slots.into_iter().map(Some).chain(std::iter::repeat(None));
        let hosts = names.hosts().iter().cloned().zip(slots);
        Ok(hosts.map(|(name, slots)| RunHost { name, slots }).collect())
    }

    fn end_time(&self, commands: &dyn Commands, _now: u64) -> Option<u64> {
        let told = self.environment.get("SLURM_JOB_END_TIME").and_then(|text| text.parse().ok());
        told.or_else(|| {
            let words =
                ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-j", &self.job, "-o", "%e"];
            ask(commands, &words)?.trim().parse().ok()
        })
    }

    fn down(&self, commands: &dyn Commands, hosts: &[RunHost]) -> Vec<String> {
        let list = HostList::of(hosts.iter().map(|host| host.name.clone())).compress();
        let words = ["sinfo", "-h", "-N", "-t", "down,fail", "-n", &list, "-o", "%N"];
        list_of(ask(commands, &words))
    }

    fn shell(&self) -> Option<Shell> {
        // `sbatch --export=NONE` would keep even PATH from it, without `--export=ALL`.
        let words = "srun --overlap --export=ALL --mpi=none --quiet -N1 -n1 -w {host}";
        Some(Shell::starter(words))
    }
}

struct Flux;

impl Manager for Flux {
    fn name(&self) -> &'static str {
        "Flux"
    }

    fn hosts(&self, commands: &dyn Commands) -> Result<Vec<RunHost>> {
        let list = list_of(ask(commands, &["flux", "hostlist", "--expand", "local"]));
        match list.is_empty() {
            true => Err(Error::Missing("'flux hostlist local' names no node".to_owned())),
            false => Ok(list.into_iter().map(|name| RunHost { name, slots: None }).collect()),
        }
    }

    fn end_time(&self, commands: &dyn Commands, now: u64) -> Option<u64> {
        let left: f64 = ask(commands, &["flux", "job", "timeleft"])?.trim().parse().ok()?;
        // Without a limit it says "inf", or the largest number of 32 bits.
        (left < f64::from(u32::MAX)).then(|| now + left as u64)
    }

    fn down(&self, commands: &dyn Commands, _: &[RunHost]) -> Vec<String> {
        list_of(ask(commands, &["flux", "resource", "list", "-s", "down", "-no", "{nodelist}"]))
    }

    fn shell(&self) -> Option<Shell> {
        Some(Shell::starter("flux run -N1 -n1 --requires=host:{host}"))
    }
}

struct Pbs {
    job: String,
    nodes: PathBuf,
}

impl Manager for Pbs {
    fn name(&self) -> &'static str {
        "PBS"
    }

    fn hosts(&self, _: &dyn Commands) -> Result<Vec<RunHost>> {
        Ok(counted(read(&self.nodes)?.split_whitespace()))
    }

    fn end_time(&self, commands: &dyn Commands, now: u64) -> Option<u64> {
        let text = ask(commands, &["qstat", "-f", &self.job])?;
        let value = |key: &str| {
            let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix(key))?;
            clock(line.trim_start().strip_prefix('=')?.trim())
        };
        let used = value("resources_used.walltime").unwrap_or(0);
        Some(now + value("Resource_List.walltime")?.saturating_sub(used))
    }

    fn down(&self, commands: &dyn Commands, _: &[RunHost]) -> Vec<String> {
        let text = ask(commands, &["pbsnodes", "-l"]).unwrap_or_default();
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }
    // How it brings a command to a node: by a remote shell, as `pbs_tmrsh` puts what the command
    // says into the job's output, where nobody reads an answer.
}

struct Lsf {
    job: String,
    environment: Environment,
}

impl Manager for Lsf {
    fn name(&self) -> &'static str {
        "LSF"
    }

    fn hosts(&self, _: &dyn Commands) -> Result<Vec<RunHost>> {
        if let Some(path) = self.environment.get("LSB_DJOB_HOSTFILE") {
            return Ok(counted(read(Path::new(path))?.split_whitespace()));
        }
        if let Some(text) = self.environment.get("LSB_MCPU_HOSTS") {
            let words: Vec<&str> = text.split_whitespace().collect();
            let host = |pair: &[&str]| RunHost {
                name: pair[0].to_owned(),
                slots: pair.get(1).and_then(|count| count.parse().ok()),
            };
            return Ok(words.chunks(2).map(host).collect());
        }
        let hosts = self.environment.get("LSB_HOSTS").map(String::as_str).unwrap_or_default();
        Ok(counted(hosts.split_whitespace()))
    }

    fn end_time(&self, commands: &dyn Commands, now: u64) -> Option<u64> {
        let text = ask(commands, &["bjobs", "-noheader", "-o", "time_left", &self.job])?;
        // "1:30 L": hours, minutes, and seconds where the site wants them; a limit (L, X) or an
        // estimate (E), which binds nobody.
        let left = text.trim().strip_suffix(['L', 'X'])?.trim();
        let unit = if left.matches(':').count() == 1 { 60 } else { 1 };
        Some(now + unit * clock(left)?)
    }

    fn down(&self, commands: &dyn Commands, hosts: &[RunHost]) -> Vec<String> {
        let mut words = vec!["bhosts", "-w"];
        words.extend(hosts.iter().map(|host| host.name.as_str()));
        let text = ask(commands, &words).unwrap_or_default();
        let down = |line: &str| {
            let mut columns = line.split_whitespace();
            let (name, state) = (columns.next()?, columns.next()?);
            ["unavail", "unreach"].contains(&state).then(|| name.to_owned())
        };
        text.lines().filter_map(down).collect()
    }

    fn shell(&self) -> Option<Shell> {
        Some(Shell::starter("blaunch -no-shell"))
    }
}

fn ask(commands: &dyn Commands, words: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    commands.output(&words, ANSWER_MAX).ok()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::io("cannot read", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that were recorded, by command line.
    struct Recorded<'a>(&'a [(&'static str, &'static str)]);

    impl Commands for Recorded<'_> {
        fn output(&self, words: &[String], _: Duration) -> Result<String> {
            let line = words.join(" ");
            let found = self.0.iter().find(|(command, _)| *command == line);
            found
                .map(|(_, answer)| (*answer).to_owned())
                .ok_or_else(|| Error::Missing(format!("{line}: not recorded")))
        }
    }

    fn variables(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn slots(hosts: &[RunHost]) -> Vec<String> {
        let text = |host: &RunHost| match host.slots {
            Some(slots) => format!("{}:{slots}", host.name),
            None => host.name.clone(),
        };
        hosts.iter().map(text).collect()
    }

    #[test]
    fn slurm_tells_by_variables_squeue_and_sinfo() {
        let answers = Recorded(&[
            ("env SLURM_TIME_FORMAT=%s squeue -h -j 7 -o %e", "1700000600\n"),
            ("sinfo -h -N -t down,fail -n node[1-4] -o %N", "node3\n"),
        ]);
        let environment = variables(&[
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_NODELIST", "node[1-4]"),
            ("SLURM_TASKS_PER_NODE", "2(x3),1"),
        ]);
        let slurm = find(&environment, None);
        let hosts = slurm.hosts(&answers).unwrap();
        assert_eq!(slots(&hosts), ["node1:2", "node2:2", "node3:2", "node4:1"]);
        assert_eq!(slurm.down(&answers, &hosts), ["node3"]);
        assert_eq!(slurm.end_time(&answers, 0), Some(1_700_000_600));
        let line = slurm.shell().unwrap().command("node2", &["true".into()]).join(" ");
        assert_eq!(line, "srun --overlap --export=ALL --mpi=none --quiet -N1 -n1 -w node2 true");
        assert!(find(&variables(&[("SLURM_JOB_ID", "7")]), None).hosts(&answers).is_err());
    }

    #[test]
    fn flux_tells_by_its_commands() {
        let answers = Recorded(&[
            ("flux hostlist --expand local", "corona1 corona2 corona3\n"),
            ("flux resource list -s down -no {nodelist}", "corona[2-3]\n"),
            ("flux job timeleft", "3599.5\n"),
        ]);
        let flux = find(&variables(&[("FLUX_URI", "local:///run/flux/local")]), None);
        let hosts = flux.hosts(&answers).unwrap();
        assert_eq!(slots(&hosts), ["corona1", "corona2", "corona3"]);
        assert_eq!(flux.down(&answers, &hosts), ["corona2", "corona3"]);
        assert_eq!(flux.end_time(&answers, 1000), Some(4599));
        for none in ["4294967295\n", "inf\n"] {
            let answers = [("flux job timeleft", none)];
            assert_eq!(flux.end_time(&Recorded(&answers), 1000), None, "{none}");
        }
        assert!(flux.hosts(&Recorded(&[])).is_err());
    }

    #[test]
    fn pbs_tells_by_its_node_file_and_qstat() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nodes");
        std::fs::write(&file, "n1\nn1\nn2\nn2\nn3\n").unwrap();
        let answers = Recorded(&[
            (
                "qstat -f 12.head",
                "Job Id: 12.head\n    Job_Name = heat\n    resources_used.cput = 00:35:02\n    \
                 resources_used.walltime = 00:10:00\n    job_state = R\n    \
                 exec_vnode = (n1:ncpus=2)+(n2:ncpus=2)+(n3:ncpus\n\t=1)\n    \
                 Resource_List.nodect = 3\n    Resource_List.walltime = 01:00:30\n",
            ),
            ("pbsnodes -l", "n2                   down\nn9  offline broken disk\n"),
        ]);
        let path = file.to_str().unwrap();
        let pbs = find(&variables(&[("PBS_JOBID", "12.head"), ("PBS_NODEFILE", path)]), None);
        let hosts = pbs.hosts(&answers).unwrap();
        assert_eq!(slots(&hosts), ["n1:2", "n2:2", "n3:1"]);
        assert_eq!(pbs.end_time(&answers, 1000), Some(1000 + 3030));
        assert_eq!(pbs.down(&answers, &hosts), ["n2", "n9"]);
        assert_eq!(pbs.shell(), None, "ssh, which brings the answer back");
    }

    #[test]
    fn lsf_tells_by_variables_bjobs_and_bhosts() {
        let answers = Recorded(&[(
            "bhosts -w h1 h2",
            "HOST_NAME STATUS JL/U MAX\nh1 ok - 4\nh2 unavail - 4\n",
        )]);
        let environment = variables(&[("LSB_JOBID", "5"), ("LSB_MCPU_HOSTS", "h1 4 h2 2")]);
        let lsf = find(&environment, None);
        let hosts = lsf.hosts(&answers).unwrap();
        assert_eq!(slots(&hosts), ["h1:4", "h2:2"]);
        assert_eq!(lsf.down(&answers, &hosts), ["h2"]);
        for (told, end) in [
            ("1:30 L\n", Some(5400)),
            ("0:10 X\n", Some(600)),
            ("01:30:05 L\n", Some(5405)),
            ("1:30 E\n", None),
            ("-\n", None),
        ] {
            let answers = [("bjobs -noheader -o time_left 5", told)];
            assert_eq!(lsf.end_time(&Recorded(&answers), 0), end, "{told}");
        }
        let line = lsf.shell().unwrap().command("h2", &["echo".into(), "a b".into()]);
        assert_eq!(line, ["blaunch", "-no-shell", "h2", "echo", "a b"]);
    }

    #[test]
    fn a_hostfile_that_is_not_there_is_told() {
        let missing = find(&Environment::new(), Some(Path::new("/no/such/file")));
        assert!(missing.hosts(&Recorded(&[])).is_err());
    }

    #[test]
    fn a_remote_shell_gets_a_line_that_its_shell_takes_apart_again() {
        let words = ["echo".to_owned(), "a b".to_owned(), "it's".to_owned()];
        let line = Shell::remote("ssh -x").command("n1", &words);
        assert_eq!(line, ["ssh", "-x", "n1", r"echo 'a b' 'it'\''s'"]);
        let line = Shell::remote("/usr/bin/pdsh -R ssh").command("n1", &words[..1]);
        assert_eq!(line.join(" "), "/usr/bin/pdsh -N -S -R ssh -w n1 echo");
    }
}
