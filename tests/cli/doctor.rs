//! `scr doctor` finds each planted fault, and says what to type; where nothing is wrong it finds
//! nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use scr_core::records::{
    FlushState, HaltFile, Location, Record as _, Refusal, RunDataset, RunEnd, RunFlush, RunPassed,
    RunRecord,
};
use serde_json::Value;

use super::status::record;
use super::{code, err, out, scr};

/// What is found on a machine: an installation, a node's directory, a prefix with settings.
struct Place {
    dir: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
    words: Vec<String>,
}

impl Place {
    /// Where nothing is wrong.
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["bin", "lib", "node", "run/.scr"] {
            fs::create_dir_all(dir.path().join(name)).expect("a directory");
        }
        let program = Path::new(env!("CARGO_BIN_EXE_scr"));
        let own = dir.path().join("bin/scr");
        if fs::hard_link(program, &own).is_err() {
            fs::copy(program, &own).expect("a copy");
        }
        let mut place = Place { dir, environment: Vec::new(), words: Vec::new() };
        for name in ["lib/libscr_preload.so", "lib/libscr.so"] {
            place.write(name, b"");
        }
        place.write("run/.scrconf", b"SCR_CHECKPOINT_PATTERN=ckpt_{id}/**\n");
        let node = place.path("node").display().to_string();
        place.set("SCR_CNTL_BASE", &node);
        place.set("SCR_CACHE_BASE", &node);
        place.set("SCR_USER_NAME", "me");
        place.set("SCR_JOB_ID", "7");
        let shim = place.path("lib/libscr_preload.so").display().to_string();
        place.set("LD_PRELOAD", &shim);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a file");
    }

    fn settings(&self, text: &str) {
        self.write("run/.scrconf", text.as_bytes());
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("a mode");
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.to_owned()));
    }

    fn command(&mut self, words: &[&str]) {
        self.words = words.iter().map(|word| (*word).to_owned()).collect();
    }

    /// What the last run has recorded.
    fn run(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut record = RunRecord {
            version: env!("CARGO_PKG_VERSION").into(),
            end: Some(RunEnd { how: "END".into(), time: 1_700_000_100 }),
            passed: [].into(),
            ..record()
        };
        change(&mut record);
        record.write(&self.path("run/.scr/run.scr")).expect("a record");
    }

    fn ask(&self, options: &[&str]) -> std::process::Output {
        let plain = scr(&self.path("run"), &[]);
        let mut command = Command::new(self.path("bin/scr"));
        command.current_dir(self.path("run")).arg("doctor").args(options);
        if !self.words.is_empty() {
            command.arg("--").args(&self.words);
        }
        for (name, _) in plain.get_envs().filter(|(_, value)| value.is_none()) {
            command.env_remove(name);
        }
        command.env_remove("LD_PRELOAD").envs(self.environment.iter().cloned());
        command.output().expect("it runs")
    }

    /// Exit status, and the findings: id, level, what, cure.
    fn findings(&self) -> (Option<i32>, Vec<[String; 4]>) {
        let output = self.ask(&["--json"]);
        let told: Value = serde_json::from_str(&out(&output))
            .unwrap_or_else(|_| panic!("{}{}", out(&output), err(&output)));
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let all = told["findings"].as_array().expect("a list").iter();
        let all = all.map(|one| ["id", "level", "what", "cure"].map(|key| text(one, key)));
        (code(&output), all.collect())
    }
}

/// A program without any loader: a bare head of an ELF file.
fn static_program() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    bytes[16] = 2; // can be executed
    bytes[18] = 62; // x86-64
    bytes[20] = 1;
    bytes[52] = 64; // bytes of this head
    bytes
}

/// Id of the finding, a part of what it says, a part of the line to type, and how it is planted.
type Planted = (&'static str, &'static str, &'static str, fn(&mut Place));

const OF_SETTINGS: [Planted; 11] = [
    ("config-missing", "there is no file /no/such/file", "unset SCR_CONF_FILE", |place| {
        place.set("SCR_CONF_FILE", "/no/such/file");
    }),
    ("config-open", "anyone may write to it", "chmod o-w", |place| {
        place.mode("run/.scrconf", 0o666);
    }),
    ("setting-wrong", "SCR_FLUSH", "+2 ", |place| {
        place.settings("SCR_CHECKPOINT_PATTERN=a_{id}\nSCR_FLUSH=often\n");
    }),
    ("setting-wrong", "SCR_FLUSH", "+1 ", |place| place.settings("SCR_FLSH=1\n")),
    ("setting-wrong", "XRO", "+3 ", |place| {
        place.settings("SCR_CHECKPOINT_PATTERN=a_{id}\nSCR_COPY_TYPE=FILE\nCKPT=0 TYPE=XRO\n");
    }),
    (
        "variable-unknown",
        "SCR_CHEKPOINT_PATTERN",
        "export SCR_CHECKPOINT_PATTERN='a_{id}'",
        |place| place.set("SCR_CHEKPOINT_PATTERN", "a_{id}"),
    ),
    ("no-pattern", "no pattern says which files", ".scrconf", |place| place.settings("")),
    ("switched-off", "SCR_ENABLE=0", "unset SCR_ENABLE", |place| place.set("SCR_ENABLE", "0")),
    ("pattern-placeholder", "%d", "+1 ", |place| {
        place.settings("SCR_CHECKPOINT_PATTERN=ckpt_%d\n");
    }),
    ("setting-wrong", "SCR_CHECKPOINT_PATTERN", ".scrconf", |place| {
        place.settings("SCR_CHECKPOINT_PATTERN=re:(\n");
    }),
    ("prefix-missing", "/no/such/directory", "mkdir -p /no/such/directory", |place| {
        place.set("SCR_PREFIX", "/no/such/directory");
    }),
];

const OF_THE_MACHINE: [Planted; 12] = [
    ("store-unusable", "there is no directory /no/such/store", "SCR_CACHE_BASE", |place| {
        place.set("SCR_CACHE_BASE", "/no/such/store");
    }),
    ("store-unsafe", "sticky bit", "ls -ld", |place| place.mode("node", 0o777)),
    ("store-unsafe", "make it 0700", "ls -ld", |place| {
        fs::create_dir(place.path("node/me")).expect("a directory");
        place.mode("node/me", 0o777);
    }),
    ("shim-missing", "libscr_preload.so", "make install", |place| {
        fs::remove_file(place.path("lib/libscr_preload.so")).expect("it was there");
        place.environment.retain(|(name, _)| *name != "LD_PRELOAD");
    }),
    ("engine-missing", "lib/libscr.so", "make install", |place| {
        fs::remove_file(place.path("lib/libscr.so")).expect("it was there");
    }),
    ("preload-missing", "/no/such/libscr_preload.so", "export LD_PRELOAD=", |place| {
        place.set("LD_PRELOAD", "/no/such/libscr_preload.so");
    }),
    ("not-preloaded", "runs without SCR", "libscr_preload.so sh", |place| {
        place.environment.retain(|(name, _)| *name != "LD_PRELOAD");
        place.command(&["sh"]);
    }),
    ("program-missing", "./none", "ls -l ./none", |place| place.command(&["./none"])),
    ("program-missing", "is a program that can be run", "ls -l ./none", |place| {
        place.command(&["srun", "-n", "4", "./none"]);
    }),
    ("program-static", "statically linked", "ldd ./app", |place| {
        place.write("run/app", &static_program());
        place.mode("run/app", 0o755);
        place.command(&["./app"]);
    }),
    ("program-without-mpi", "MPI_Init", "grep -i mpi", |place| place.command(&["/bin/true"])),
    ("program-setuid", "setuid", "chmod ug-s ./app", |place| {
        fs::copy("/bin/true", place.path("run/app")).expect("a copy");
        place.mode("run/app", 0o4755);
        place.command(&["./app"]);
    }),
];

const OF_RUNS: [Planted; 9] = [
    ("refused", "node b has no shim", "scr doctor -- ", |place| {
        let why = "node b has no shim".to_owned();
        let refusal = Refusal { time: 1_700_000_000, why };
        refusal.write(&place.path("run/.scr/refused.scr")).expect("a file");
    }),
    ("halt-due", "maintenance", "scr halt --unset all", |place| {
        let reason = Some("maintenance".to_owned());
        let file = HaltFile { exit_reason: reason, ..HaltFile::default() };
        file.write(&place.path("run/.scr/halt.scr")).expect("a file");
    }),
    ("unsaved", "checkpoint.20", "scr scavenge --prefix", |place| {
        let mut flush = FlushState::default();
        flush.set(2, Location::Cache);
        flush.set_name(2, "checkpoint.20");
        flush.write(&place.path("run/.scr/flush.scr")).expect("a file");
    }),
    ("nothing-matched", "a/1 was written", ".scrconf", |place| {
        place.run(|run| run.unmatched = Some("a/1 was written; pattern b/{id}".into()));
    }),
    ("nothing-written", "SCR_PREFIX", "export SCR_PREFIX", |place| {
        place.run(|run| run.unmatched = Some(String::new()));
    }),
    ("nothing-sealed", "no checkpoint was sealed", "scr status", |place| {
        place.run(|run| run.datasets.clear());
    }),
    ("straight-to-prefix", "3 files (as ckpt_1/a), 30 bytes", "scr config CACHE", |place| {
        place.run(|run| {
            let passed = RunPassed { files: 3, bytes: 30, example: "ckpt_1/a".into() };
            run.passed = [("the store had no room".to_owned(), passed)].into();
        });
    }),
    ("flush-failed", "checkpoint 30 (dataset 3) failed: quota", "df -h", |place| {
        place.run(|run| {
            let name = "checkpoint 30".to_owned();
            let failed = Some("quota".to_owned());
            let flush = RunFlush { failed, ..RunFlush::default() };
            run.datasets.insert(3, RunDataset { name, flush, ..RunDataset::default() });
        });
    }),
    ("record-unreadable", "run.scr is damaged", "scr index verify", |place| {
        place.write("run/.scr/run.scr", b"text");
    }),
];

#[test]
fn a_program_that_may_load_an_mpi_is_not_at_fault() {
    let mut place = Place::new();
    fs::copy("/bin/bash", place.path("run/app")).expect("a copy");
    place.command(&["./app"]);
    let (status, all) = place.findings();
    let told = all.iter().find(|one| one[0] == "program-without-mpi").expect("it is told");
    assert_eq!((status, &*told[1]), (Some(0), "advice"), "{told:?}");
    assert!(told[2].contains("takes MPI_Init from it"), "{told:?}");
}

#[test]
fn where_nothing_is_wrong_no_fault_is_found() {
    let mut place = Place::new();
    let faults = |place: &Place| {
        let (status, all) = place.findings();
        let faults: Vec<_> = all.into_iter().filter(|one| one[1] == "fault").collect();
        assert_eq!(status, Some(0), "{faults:?}");
        assert!(faults.is_empty(), "{faults:?}");
    };
    faults(&place);
    place.run(|_| ());
    place.command(&["sh", "-c", "true"]);
    faults(&place);
    // What a person reads, too; and nothing stays where it was looked.
    let output = place.ask(&[]);
    assert_eq!(code(&output), Some(0), "{}", out(&output));
    let names = fs::read_dir(place.path("run/.scr")).expect("a directory");
    assert_eq!(names.count(), 1);
    assert_eq!(fs::read_dir(place.path("node")).expect("a directory").count(), 0);
}

#[test]
fn each_planted_fault_is_found() {
    let all = OF_SETTINGS.iter().chain(&OF_THE_MACHINE).chain(&OF_RUNS);
    for (id, what, cure, plant) in all {
        let mut place = Place::new();
        plant(&mut place);
        let (status, found) = place.findings();
        assert_eq!(status, Some(1), "{id}: {found:?}");
        let is_it = |one: &&[String; 4]| {
            one[0] == *id && one[1] == "fault" && one[2].contains(what) && one[3].contains(cure)
        };
        assert!(found.iter().any(|one| is_it(&one)), "{id} {what} {cure}: {found:#?}");
        let text = out(&place.ask(&[]));
        assert!(text.contains(&format!("fault ({id}): ")), "{text}");
    }
}

#[test]
fn advice_alone_is_no_fault() {
    let place = Place::new();
    fs::create_dir_all(place.path("run/ckpt_5/more")).expect("a directory");
    place.settings("SCR_CHECKPOINT_PATTERN=Ckpt_{id}/*\n");
    place.write("run/ckpt_5/a", b"1");
    let (status, found) = place.findings();
    assert_eq!(status, Some(0), "{found:?}");
    let one = found.iter().find(|one| one[0] == "pattern-matches-nothing");
    let one = one.unwrap_or_else(|| panic!("{found:?}"));
    assert!(one[2].contains("ckpt_5/a: pattern Ckpt_{id}/*"), "{one:?}");
    assert!(one[2].contains("upper and lower case"), "{one:?}");
}
