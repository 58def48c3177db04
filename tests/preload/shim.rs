//! An installed shim in a directory of its own: library, engine, prefix, cache, log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::programs::compile;

/// Two MPIs whose compilers are there.
pub const FLAVOURS: [&str; 2] = ["openmpi", "mpich"];

/// Directory of the programs' sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/preload/programs")
}

/// What all tests share: library, engine, fake MPI. Below the target directory, made anew by each
/// run of the tests.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload-shim");
        let _ = fs::remove_dir_all(&directory);
        let lib = directory.join("lib");
        fs::create_dir_all(&lib).unwrap();
        let own = std::env::current_exe().unwrap();
        let library = own.parent().unwrap().join("libscr_preload.so");
        fs::copy(&library, lib.join("libscr_preload.so"))
            .unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        let shared = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
        let one = |source: &str, to: &Path| {
            let source = sources().join(source);
            let arguments = shared.iter().map(|word| word.to_string());
            compile("cc", arguments.chain([source.to_str().unwrap().to_owned()]), to)
        };
        one("fake_engine.c", &lib.join("libscr.so"));
        one("fake_mpi.c", &directory.join("libfakempi.so"));
        directory
    };
    BUILT.get_or_init(make)
}

/// The installed library.
pub fn library() -> PathBuf {
    built().join("lib/libscr_preload.so")
}

/// A program of `programs/`, linked with the fake MPI.
pub fn program(name: &str) -> PathBuf {
    let top = built();
    let source = sources().join(format!("{name}.c"));
    let words = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", source.to_str().unwrap()];
    let link = [format!("-L{}", top.display()), format!("-Wl,-rpath,{}", top.display())];
    // A name of its own for each caller: tests run at the same time.
    let output = tempfile::Builder::new().prefix(name).tempfile_in(top).unwrap().into_temp_path();
    let output = output.keep().unwrap();
    let words = words.iter().map(|word| word.to_string()).chain(link);
    compile("cc", words.chain(["-lfakempi".into(), "-ldl".into()]), &output)
}

/// A prefix, a cache and a log for one run.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("prefix")).unwrap();
        fs::create_dir_all(directory.path().join("cache")).unwrap();
        Self { directory }
    }

    /// The program's working directory; names in it that begin with `c` are cached.
    pub fn prefix(&self) -> PathBuf {
        self.directory.path().join("prefix")
    }

    pub fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    pub fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// `program` in the prefix with the environment of a run under the shim, LD_PRELOAD excepted.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.prefix())
            .env("FAKE_PREFIX", self.prefix())
            .env("FAKE_CACHE", self.cache())
            .env("FAKE_LOG", self.log())
            .env_remove("LD_PRELOAD");
        command
    }

    /// `program` under the shim.
    pub fn preloaded(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.command(program);
        command.env("LD_PRELOAD", library());
        command
    }

    /// The engine's log; paths without the prefix.
    pub fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let prefix = format!("{}/", self.prefix().canonicalize().unwrap().display());
        text.lines().map(|line| line.replace(&prefix, "")).collect()
    }

    /// Events of one kind.
    pub fn events_of(&self, kind: &str) -> Vec<String> {
        let head = format!("{kind} ");
        self.events().into_iter().filter(|line| line.starts_with(&head)).collect()
    }
}
