//! Which nodes are down (manual 1.1, section 11.2.3), and why. A node that was down once stays out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::commands::Commands;
use super::hosts::RunHost;
use super::manager::{Manager, Shell};

/// Looks at the nodes of an allocation.
pub struct RunNodes<'a> {
    /// All, in the allocation's order.
    pub hosts: Vec<RunHost>,
    /// What the resource manager knows.
    pub manager: &'a dyn Manager,
    /// How a node is reached.
    pub shell: Shell,
    /// What runs commands.
    pub commands: &'a dyn Commands,
    /// Name of this node, which no remote shell is needed for.
    pub here: String,
    /// Commands that a node has to do well, with their names.
    pub tests: Vec<Test>,
    /// How often a test is tried.
    pub tries: u64,
    /// Nodes that are out, with the reason.
    pub down: BTreeMap<String, String>,
}

/// A test that every node has to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// For messages: "does not answer".
    pub failure: String,
    /// What is run on the node; `{host}` is its name.
    pub words: Vec<String>,
    /// It runs on this node, to reach the other one (ping).
    pub from_here: bool,
    /// How long it may take.
    pub limit: Duration,
    /// It prints `FAIL: ` and a reason if the node is no good.
    pub tells: bool,
}

impl Test {
    /// Makes the test that a node answers to a command.
    pub fn echo(limit: Duration) -> Test {
        let words = vec!["echo".to_owned(), "up".to_owned()];
        Test::new("it does not answer", words, limit)
    }

    /// Makes the test that a node answers to ping.
    pub fn ping(limit: Duration) -> Test {
        let words = ["ping", "-c", "1", "-w", "2", "{host}"].map(str::to_owned).to_vec();
        Test { from_here: true, ..Test::new("ping gets no answer", words, limit) }
    }

    /// Makes a test of a command of the user's choice.
    pub fn command(line: &str, limit: Duration) -> Test {
        let words = ["sh", "-c", line].map(str::to_owned).to_vec();
        Test::new(&format!("'{line}' fails there"), words, limit)
    }

    /// Makes the test by `scr check-node` (`program` is the path of `scr`).
    pub fn directories(program: &str, arguments: Vec<String>, limit: Duration) -> Test {
        let mut words = [program, "check-node", "--exit-zero"].map(str::to_owned).to_vec();
        words.extend(arguments);
        Test { tells: true, ..Test::new("scr check-node cannot be run there", words, limit) }
    }

    fn new(failure: &str, words: Vec<String>, limit: Duration) -> Test {
        Test { failure: failure.to_owned(), words, from_here: false, limit, tells: false }
    }
}

impl RunNodes<'_> {
    /// Takes a node out.
    pub fn mark(&mut self, host: &str, reason: &str) {
        self.down.entry(host.to_owned()).or_insert_with(|| reason.to_owned());
    }

    /// Looks at all nodes that are not out yet; returns those that are out from now on.
    pub fn look(&mut self) -> Vec<(String, String)> {
        let known = self.manager.down(self.commands, &self.hosts);
        let asked: Vec<&RunHost> =
            self.hosts.iter().filter(|host| !self.down.contains_key(&host.name)).collect();
        let this: &RunNodes = self;
        let found: Vec<(String, String)> = std::thread::scope(|scope| {
            let look = |host: &RunHost| {
                let name = host.name.clone();
                // Resource managers have names with and without the domain.
                let reason = match known.iter().any(|down| is_same_host(down, &name)) {
                    true => Some(format!("{} says so", this.manager.name())),
                    false => this.fails(&name),
                };
                Some((name, reason?))
            };
            let threads: Vec<_> =
                asked.iter().map(|&host| scope.spawn(move || look(host))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
        });
        self.down.extend(found.iter().cloned());
        found
    }

    fn fails(&self, host: &str) -> Option<String> {
        let failed = |test: &Test| {
            let words: Vec<String> =
                test.words.iter().map(|word| word.replace("{host}", host)).collect();
            let local = test.from_here || host == "localhost" || is_same_host(host, &self.here);
            let words = if local { words } else { self.shell.command(host, &words) };
            let mut answer = self.commands.output(&words, test.limit);
            for _ in 1..self.tries {
                answer = answer.or_else(|_| self.commands.output(&words, test.limit));
            }
            match answer {
                // A key that ssh does not know is another thing than a node that is off.
                Err(error) => Some(format!("{} ({error})", test.failure)),
                Ok(text) if test.tells => {
                    text.lines().find_map(|line| line.strip_prefix("FAIL: ")).map(str::to_owned)
                }
                Ok(_) => None,
            }
        };
        self.tests.iter().find_map(failed)
    }

    /// Returns the nodes that are not out. A spare one takes the place of one of the first `used`
    /// that was lost: the ranks of the others stay where their caches are.
    pub fn healthy(&mut self, used: usize) -> Vec<RunHost> {
        let up = |host: &RunHost| !self.down.contains_key(&host.name);
        let used = used.min(self.hosts.len());
        for at in 0..used {
            if !up(&self.hosts[at])
                && let Some(spare) = (used..self.hosts.len()).find(|spare| up(&self.hosts[*spare]))
            {
                self.hosts.swap(at, spare);
            }
        }
        self.hosts.iter().filter(|host| up(host)).cloned().collect()
    }
}

/// Tells whether two names mean the same host; a name may have its domain behind it, an address has
/// none.
pub fn is_same_host(one: &str, other: &str) -> bool {
    let short = |name: &'_ str| name.split('.').next().unwrap_or_default().to_owned();
    let is_name = |text: &str| text.contains(|c: char| !c.is_ascii_digit());
    one == other || (short(one) == short(other) && is_name(&short(one)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Result};
    use crate::operations::run::hosts::hostfile;
    use crate::operations::run::manager;
    use crate::params::Environment;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    /// A cluster in which some nodes do not answer.
    #[derive(Default)]
    struct Cluster {
        dead: Mutex<BTreeSet<String>>,
        asked: Mutex<Vec<String>>,
    }

    impl Commands for Cluster {
        fn output(&self, words: &[String], _: Duration) -> Result<String> {
            self.asked.lock().unwrap().push(words.join(" "));
            match words.iter().any(|word| self.dead.lock().unwrap().contains(word)) {
                true => Err(Error::Process("no route".to_owned())),
                false => Ok(String::new()),
            }
        }
    }

    /// These hosts, each reached by ssh, and no test of them.
    fn nodes<'a>(
        hosts: &str,
        manager: &'a dyn manager::Manager,
        commands: &'a dyn Commands,
    ) -> RunNodes<'a> {
        RunNodes {
            hosts: hostfile(hosts),
            manager,
            shell: Shell::remote("ssh"),
            commands,
            here: String::new(),
            tests: Vec::new(),
            tries: 1,
            down: BTreeMap::new(),
        }
    }

    #[test]
    fn a_spare_node_stands_in_where_one_was_lost() {
        let manager = manager::find(&Environment::new(), None);
        let cluster = Cluster::default();
        let mut nodes = nodes("n[1-6]", &*manager, &cluster);
        let mut up_without = |host: &str| {
            nodes.mark(host, "lost");
            nodes.healthy(4).into_iter().map(|host| host.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(up_without("n2"), "n1 n5 n3 n4 n6");
        assert_eq!(up_without("n6"), "n1 n5 n3 n4");
        assert_eq!(up_without("n1"), "n5 n3 n4");
    }

    #[test]
    fn the_resource_managers_word_counts_whether_it_names_the_domain_or_not() {
        struct Knows;
        impl manager::Manager for Knows {
            fn name(&self) -> &'static str {
                "PBS"
            }
            fn hosts(&self, _: &dyn Commands) -> Result<Vec<RunHost>> {
                Ok(Vec::new())
            }
            fn down(&self, _: &dyn Commands, _: &[RunHost]) -> Vec<String> {
                vec!["n2".to_owned()]
            }
        }
        let cluster = Cluster::default();
        let mut nodes = nodes("n1.site\nn2.site", &Knows, &cluster);
        assert_eq!(nodes.look(), [("n2.site".to_owned(), "PBS says so".to_owned())]);
        assert!(!is_same_host("10.1.0.1", "10.1.0.2"));
    }

    #[test]
    fn a_node_that_was_down_once_stays_out() {
        let cluster = Cluster::default();
        let manager = manager::find(&Environment::new(), None);
        let limit = Duration::from_secs(1);
        let mut nodes = RunNodes {
            here: "n1.site".to_owned(),
            tests: vec![Test::ping(limit), Test::echo(limit)],
            tries: 2,
            ..nodes("n[1-4]", &*manager, &cluster)
        };
        nodes.mark("n4", "it is excluded");
        assert_eq!(nodes.look(), []);
        cluster.dead.lock().unwrap().insert("n3".to_owned());
        assert_eq!(nodes.look(), [("n3".to_owned(), "ping gets no answer (no route)".to_owned())]);
        cluster.dead.lock().unwrap().clear();
        assert_eq!(nodes.look(), []);
        let healthy: Vec<String> = nodes.healthy(4).into_iter().map(|host| host.name).collect();
        assert_eq!(healthy, ["n1", "n2"]);
        let asked = cluster.asked.lock().unwrap();
        let times = |line: &str| asked.iter().filter(|asked| *asked == line).count();
        // This node is not asked by ssh, one that is out is not asked at all, a test is repeated.
        assert_eq!((times("echo up"), times("ssh n2 echo up")), (3, 3));
        assert_eq!((times("ping -c 1 -w 2 n4"), times("ping -c 1 -w 2 n3")), (0, 3));
    }
}
