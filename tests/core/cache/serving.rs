//! The process that waits on a node for flushes that runs have left (manual 1.1, section 9.7): what
//! COMMAND makes it do, and how it goes on from what a killed one has left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use scr_core::cache::Address;
use scr_core::operations::{Finished, serve_transfers};
use scr_core::params::{Environment, Inputs, Settings, load};
use scr_core::records::{Record, Transfer, TransferCommand, TransferFile};
use scr_core::transfer::{self, Options};

use super::background::left_unfinished;
use super::cluster::{Cluster, check_files, content, run_and_seal};
use super::flush::files_below;

/// A node that a run has left with a flush under way, and the settings by which a command finds it.
struct Node {
    cluster: Cluster,
    settings: Settings,
    environment: Environment,
}

impl Node {
    fn new() -> Node {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "aa", &[1], "SINGLE");
        left_unfinished(&cluster, "aa", &[1]);
        let base = cluster.prefix().join("base");
        let own: PathBuf = Address::new("me", "7", &cluster.prefix()).names().iter().collect();
        let own = base.join(own);
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        let control = cluster.layout("a").control_dir;
        std::os::unix::fs::symlink(control, own).unwrap();
        let mut environment = Environment::new();
        for (name, value) in [
            ("SCR_PREFIX", cluster.prefix().display().to_string()),
            ("SCR_CNTL_BASE", base.display().to_string()),
            ("SCR_USER_NAME", "me".to_owned()),
            ("SCR_JOB_ID", "7".to_owned()),
        ] {
            environment.insert(name.to_owned(), value);
        }
        let settings = load(&Inputs {
            environment: &environment,
            working_directory: Path::new("/"),
            system_file: Path::new("/no/such/file"),
            program: &[],
        });
        let node = Node { cluster, settings: settings.unwrap(), environment };
        // The run was slow, so that nothing was copied; what follows is not.
        node.change(|file| file.bandwidth = 0.0);
        node
    }

    fn file(&self) -> TransferFile {
        TransferFile::read(&self.path()).unwrap().unwrap()
    }

    fn path(&self) -> std::path::PathBuf {
        self.cluster.layout("a").control_dir.join(TransferFile::NAME)
    }

    fn change(&self, change: impl FnOnce(&mut TransferFile)) {
        let mut file = self.file();
        change(&mut file);
        file.write(&self.path()).unwrap();
    }

    fn command(&self, command: TransferCommand) {
        let control = self.cluster.layout("a").control_dir;
        assert!(transfer::set_transfer_command(&control, command).unwrap());
    }

    /// Whether the file says so.
    fn says(&self, key: &str, value: &str) -> bool {
        self.file().to_tree().get_value(key) == Some(value)
    }

    /// Runs the process while `body` does, then ends it; returns what it told.
    fn serve(&self, body: impl FnOnce(&AtomicUsize)) -> Vec<String> {
        let (looks, mut told) = (AtomicUsize::new(0), Vec::new());
        std::thread::scope(|scope| {
            let served = scope.spawn(|| {
                let mut tell = |outcome: Result<&Finished, &str>| {
                    looks.fetch_add(1, Ordering::SeqCst);
                    told.push(format!("{outcome:?}"));
                };
                let pause = Duration::from_millis(5);
                serve_transfers(&self.settings, &self.environment, pause, &mut tell)
            });
            // It has to end also if the body fails.
            let body = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&looks)));
            self.command(TransferCommand::Exit);
            served.join().unwrap().unwrap();
            body.unwrap();
        });
        told
    }

    fn is_done(&self) -> bool {
        self.file().files.is_empty()
    }

    fn check(&self) {
        (0..2).for_each(|rank| check_files(&self.cluster.prefix(), &content(10, rank)));
        assert!(files_below(&self.cluster.prefix().join(".scr/journal")).is_empty());
        assert!(self.says("STATE", "STOPPED") && self.says("FLAG", "DONE"));
    }
}

fn wait_for(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn stop_holds_it_run_lets_it_go_on_exit_ends_it() {
    let node = Node::new();
    node.command(TransferCommand::Stop);
    assert!(node.says("COMMAND", "STOP") && node.says("STATE", "STOPPED"));
    let before = node.file().files;
    let told = node.serve(|_| std::thread::sleep(Duration::from_millis(200)));
    assert_eq!((told, node.file().files), (Vec::new(), before));
    // An EXIT of before it began is none of its business.
    assert!(node.says("COMMAND", "EXIT"));
    let told = node.serve(|_| wait_for(|| node.is_done()));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("done: [\""), "{told:?}");
    node.check();
}

#[test]
fn it_is_held_in_the_middle_of_a_file_and_goes_on_from_there() {
    let node = Node::new();
    let largest = node.file().files.values().map(|one| one.size).max().unwrap();
    // The largest alone takes an hour: not all can be there when it is told to stop.
    node.change(|file| file.bandwidth = largest as f64 / 3600.0);
    assert!(node.says("STATE", "RUNNING"));
    // What the run has left of it.
    node.file().files.values().for_each(|one| fs::remove_file(&one.destination).unwrap());
    node.serve(|looks| {
        let begun = |one: &Transfer| fs::metadata(&one.destination).is_ok_and(|at| at.len() > 0);
        wait_for(|| node.file().files.values().any(begun));
        node.command(TransferCommand::Stop);
        // It says what it has come to.
        wait_for(|| looks.load(Ordering::SeqCst) > 0);
        let then = node.file().files;
        node.change(|file| file.bandwidth = 0.0);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(node.file().files, then);
        assert!(!node.is_done());
        node.command(TransferCommand::Run);
        wait_for(|| node.is_done());
    });
    node.check();
}

/// A process that is killed leaves a staged file of which no more is known than WRITTEN says: what
/// is behind that may be anything.
#[test]
fn what_a_killed_one_has_left_is_gone_on_from() {
    let node = Node::new();
    let control = node.cluster.layout("a").control_dir;
    let staged =
        transfer::stage_node(&node.cluster.prefix(), &control, &Options::default(), false).unwrap();
    assert!(staged.files > 0);
    node.change(|file| {
        for (at, one) in file.files.values_mut().enumerate() {
            let half = one.size / 2;
            let mut bytes = fs::read(&one.destination).unwrap();
            bytes.truncate(half as usize);
            bytes.extend(std::iter::repeat_n(0xee, (at + 3) * 7));
            fs::write(&one.destination, bytes).unwrap();
            one.written = Some(half);
        }
    });
    node.serve(|_| wait_for(|| node.is_done()));
    node.check();
}

#[test]
fn a_damaged_transfer_file_is_told_once_and_left_to_the_next_run() {
    let node = Node::new();
    fs::write(node.path(), "no transfer file").unwrap();
    let told = node.serve(|looks| {
        wait_for(|| looks.load(Ordering::SeqCst) > 0);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(fs::read(node.path()).unwrap(), b"no transfer file");
    });
    assert!(told.len() == 1 && told[0].contains("transfer.scrinfo"), "{told:?}");
}
