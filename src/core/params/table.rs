//! The table of all parameters; each is declared here and nowhere else.
//!
//! A row reads `NAME: Type = "default", "unit", "meaning", extras...;` and yields the typed key
//! [`keys`]`::NAME` for the parameter `SCR_NAME`. Rows without a default give an optional key.

use super::param::{
    Bool, ByteSize, Choice, Count, Float, Integer, Level, Microseconds, Milliseconds, Path,
    Seconds, Text,
};
use super::param::{Key, OptionalKey, Param, ParamStatus, Typed};

macro_rules! key {
    ($kind:ident, $name:ident) => { OptionalKey<$kind> };
    ($kind:ident, $name:ident, $default:literal) => { Key<$kind> };
}

macro_rules! default {
    () => {
        None
    };
    ($default:literal) => {
        Some($default)
    };
}

macro_rules! new_key {
    ($name:ident) => {
        OptionalKey::new(&rows::$name)
    };
    ($name:ident, $default:literal) => {
        Key::new(&rows::$name)
    };
}

macro_rules! parameters {
    ($($section:literal {$(
        $name:ident: $kind:ident $(= $default:literal)?, $unit:literal, $meaning:literal
        $(, $extra:ident($($argument:expr),*))*;
    )*})*) => {
        mod rows {
            use super::*;
            $($(
                pub(super) static $name: Param = Param::new(
                    concat!("SCR_", stringify!($name)),
                    $section,
                    <$kind as Typed>::KIND,
                    default!($($default)?),
                    $unit,
                    $meaning,
                )$(.$extra($($argument),*))*;
            )*)*
        }

        /// One typed key for each parameter, named without `SCR_`.
        pub mod keys {
            use super::*;
            $($(
                #[doc = $meaning]
                #[allow(rustdoc::invalid_html_tags, reason = "the text is no Markdown")]
                pub const $name: key!($kind, $name $(, $default)?) = new_key!($name $(, $default)?);
            )*)*
        }

        /// Every parameter, in the order of listings.
        pub static PARAMS: &[&Param] = &[$($(&rows::$name,)*)*];
    };
}

const NO_BBAPI: (&str, &str) =
    ("BBAPI", "IBM's burst buffer interface is not built in; use PTHREAD (asynchronous) or SYNC");
const NO_DATAWARP: (&str, &str) =
    ("DATAWARP", "Cray's DataWarp interface is not built in; use PTHREAD (asynchronous) or SYNC");

const FOR_PROGRAMS: ParamStatus =
    ParamStatus::NoEffect("scr run sets it for the programs that it starts");

parameters! {
    "What is a checkpoint" {
        ENABLE: Bool = "1", "", "0 switches SCR off: the program runs as if it were not there.";
        PREFIX: Path = ".", "",
            "Top directory of the program's checkpoints on the parallel file system; the directory \
             that the program is started in if not set. Relative patterns are below it.";
        CHECKPOINT_PATTERN: Text, "",
            "Names of a series of checkpoint files, separated by commas: *, **, ?, [..], {id}, \
             {rank}, {name}, re:<regular expression>; :own behind one is your word that no two \
             ranks share such a file. Further series: SCR_CHECKPOINT_PATTERN_2, _3, ...",
            family();
        OUTPUT_PATTERN: Text, "",
            "Names of a series of output files: cached like checkpoints, always flushed. Further \
             series: SCR_OUTPUT_PATTERN_2, _3, ...",
            family();
        IGNORE_PATTERN: Text, "",
            "Names of files that are never SCR's, whatever else matches. One without a slash \
             counts in every directory.",
            family();
        CHECKPOINT_PATTERN_TOKEN: Text = ",", "",
            "What separates the elements of a pattern list in the classic form 0-N:regex,...";
        CHECKPOINT_DIR_PATTERN: Text, "",
            "Directories whose mkdir belongs to a checkpoint (2013 interposer).",
            status(ParamStatus::NoEffect(
                "directories need no naming, they are made where they belong"
            ));
        LEARN: Bool = "1", "",
            "1: the first dataset of an unknown series goes to the parallel file system, watched, \
             and only what is safe is cached afterwards. 0: cache from the first on.";
        SHARED: Bool = "1", "",
            "0: who reads and writes which bytes of files of several nodes is not watched, and \
             collective calls of MPI-IO on files that all ranks have opened are no sync points.";
        SHARED_CACHE: Bool = "1", "",
            "1: of a file that ranks of several nodes write each node keeps its part in the cache, \
             where SCR has seen that this can be done. 0: such files stay on the parallel file \
             system.";
        CONF_FILE: Path, "",
            "The user's config file; <SCR_PREFIX>/.scrconf if not set.",
            status(ParamStatus::EnvironmentOnly);
    }
    "When a checkpoint is due and complete" {
        CHECKPOINT_INTERVAL: Count = "0", "calls",
            "SCR_Need_checkpoint says yes at every nth call (0: not by count).";
        CHECKPOINT_SECONDS: Seconds = "0", "seconds",
            "SCR_Need_checkpoint says yes when this long has passed since the last (0: not by \
             time).";
        CHECKPOINT_OVERHEAD: Float = "0", "percent",
            "SCR_Need_checkpoint says yes while checkpoints take less than this share of the run \
             time (0: not by cost).";
        SETTLE_MILLISECONDS: Milliseconds = "50", "milliseconds",
            "How long a dataset's files stay closed before it is taken for complete, where nothing \
             better is known.";
        UNSEALED_SECONDS: Seconds = "60", "seconds",
            "A closed file whose dataset is not sealed within this time (no collective call in \
             sight) is written to the parallel file system.";
    }
    "Cache" {
        CNTL_BASE: Path = "/dev/shm", "",
            "Base of the control directory, on storage of the node.", system_wins();
        CACHE_BASE: Path = "/dev/shm", "",
            "Base of the cache directory, on storage of the node.", system_wins();
        CACHE_SIZE: Count = "2", "checkpoints",
            "Checkpoints of each series kept in cache; there has to be room for one more.",
            at_least(1);
        CACHE_BYPASS: Bool = "0", "",
            "1: write straight to the parallel file system, cache nothing.";
        CACHE_REUSE: Bool = "1", "",
            "1: on a RAM disk with room to spare, a large file that the program writes from start \
             to end is written over one of a checkpoint that has left the cache, which costs half; \
             as much memory stays taken between checkpoints. 0: into new pages.";
        CACHE_PURGE: Bool = "0", "", "1: delete the cache at start.";
        CACHE_ADOPT: Bool = "0", "",
            "1, for one start: take back from the cache what does not count any more, since its \
             prefix was deleted and made anew, or somebody has deleted checkpoints from it.";
    }
    "Redundancy" {
        GROUP: Text = "NODE", "",
            "Failure group: processes with the same value fail together. NODE, WORLD, or a name \
             from a GROUPS line.";
        COPY_TYPE: Choice = "XOR", "",
            "Redundancy scheme; FILE: as the CKPT lines say.",
            choices(&["SINGLE", "PARTNER", "XOR", "RS", "FILE"]);
        SET_SIZE: Count = "8", "ranks",
            "Smallest number of ranks in a redundancy set; larger sets need less space.",
            at_least(1);
        SET_FAILURES: Count = "2", "ranks",
            "Losses that one set survives under RS; copies of each file under PARTNER (1 unless \
             set).",
            at_least(1);
        HOP_DISTANCE: Count = "1", "groups",
            "How many failure groups further on the partner is.", at_least(1);
        SEAL: Choice = "AUTO", "",
            "How redundancy data of a closed checkpoint is computed. BLOCKING: while the program \
             waits. BACKGROUND: by a thread of each rank, while the program goes on. AUTO: so, \
             where each rank has a processor to spare and 4 MiB or more.",
            choices(&["AUTO", "BLOCKING", "BACKGROUND"]);
        MPI_BUF_SIZE: ByteSize = "128KB", "bytes",
            "Size of the pieces in which redundancy data travels.", at_least(4096);
    }
    "Restart" {
        DISTRIBUTE: Bool = "1", "", "1: rebuild the cache at start. 0: publish and drop it.";
        FETCH: Bool = "1", "",
            "1: checkpoints on the parallel file system are checked at start, newest first, and \
             copied into the cache; damaged ones are hidden and noted in the index. 0: they are \
             left as they are.";
        FETCH_BYPASS: Bool = "0", "",
            "1: do not copy into the cache, read on the parallel file system; what is restarted \
             from is compared in full all the same.";
        FETCH_WIDTH: Count = "256", "processes", "Processes that fetch at the same time.",
            at_least(1);
        GLOBAL_RESTART: Bool = "0", "",
            "1: flush at start and restart from the parallel file system, for programs whose ranks \
             read each other's files.";
        CURRENT: Text, "", "Name of the checkpoint to restart from; newer ones are hidden.";
        DROP_AFTER_CURRENT: Bool = "0", "",
            "1: forget checkpoints newer than SCR_CURRENT in the index; their files stay.";
        RESTART_REQUIRED: Bool = "0", "",
            "1: end the program before it computes if a complete checkpoint was lost.";
        LATEST_NAME: Text, "", "Checkpoint that a relaunch restarts from.",
            status(FOR_PROGRAMS);
        LATEST_PATH: Path, "", "Where that checkpoint is.", status(FOR_PROGRAMS);
    }
    "Flush to the parallel file system" {
        FLUSH: Count = "10", "checkpoints",
            "Flush every nth checkpoint of a series (0: none but the last); the others are gone \
             when they leave the cache. The default holds for calls of SCR: under the shim, unless \
             it is set, all that the program does not delete by itself is flushed, in the \
             background.";
        FLUSH_ASYNC: Bool = "0", "", "1: flush in the background.";
        FLUSH_TYPE: Choice = "SYNC", "",
            "How a flush is done; PTHREAD: by a thread of each rank.",
            choices(&["SYNC", "PTHREAD"]), refused(&[NO_BBAPI, NO_DATAWARP]);
        FLUSH_WIDTH: Count = "256", "processes",
            "Processes that flush at the same time, together or in the background.",
            at_least(1);
        FLUSH_ON_RESTART: Bool = "0", "",
            "1: flush what is cached at start, for programs that restart by themselves.";
        FLUSH_POSTSTAGE: Bool = "0", "",
            "1: finish a flush in scr_poststage.",
            refused(&[("1", "it needs IBM's burst buffer interface; use SCR_FLUSH_ASYNC=1")]);
        FLUSH_ASYNC_BW: ByteSize = "200MB", "bytes/second",
            "Bandwidth that all background flushes of the job together may take (0: no limit).";
        FLUSH_ASYNC_PERCENT: Float = "0", "percent",
            "Share of the time that a background flush may work (0: no limit).", at_most(100);
        FLUSH_ASYNC_USLEEP: Microseconds = "1000", "microseconds",
            "Pause between two looks at a background flush.";
        FILE_BUF_SIZE: ByteSize = "1MB", "bytes", "Size of the pieces in which files are copied.",
            at_least(4096);
        PREFIX_SIZE: Count = "0", "checkpoints",
            "Checkpoints of a series kept on the parallel file system (0: all): after a flush \
             older ones are deleted there, files and records; output never is. Of a series \
             without {id} older ones are kept beside if it is 2 or more.";
        PREFIX_PURGE: Bool = "0", "",
            "1: delete all datasets on the parallel file system at start.";
        COPY_METADATA: Bool = "1", "", "1: a flush keeps mode, times and owner.",
            refused(&[("0", "by its times a flushed file is told from an older one of its name")]);
        AXL_MKDIR: Bool = "0", "", "1: let AXL make directories.",
            status(ParamStatus::NoEffect("directories are always made"));
        CRC_ON_COPY: Bool = "0", "", "1: check CRC32 when redundancy data is copied.",
            status(ParamStatus::NoEffect("redundancy data is always checked"));
        CRC_ON_FLUSH: Bool = "1", "",
            "1: compare CRC32 in a flush, and at a restart for files on the parallel file system; \
             set, not only by default: also of large ones that are not copied.";
        CRC_ON_DELETE: Bool = "0", "",
            "1: check CRC32 when a dataset leaves the cache: damage in node-local storage is told \
             of.";
    }
    "Halt" {
        HALT_SECONDS: Seconds = "0", "seconds",
            "Halt when less than this is left until SCR_END_TIME or ExitBefore in \
             <SCR_PREFIX>/.scr/halt.scr (0: never).";
        HALT_EXIT: Bool = "0", "",
            "A halt condition flushes the newest checkpoint, then ends the run. 0, if set: the run \
             goes on after the flush.";
        HALT_ENABLED: Bool, "", "Other name of SCR_HALT_EXIT.",
            status(ParamStatus::Alias("SCR_HALT_EXIT"));
        HALT_STATUS: Count = "0", "", "Exit status of a run that a halt condition ended.";
        WATCHDOG: Bool = "0", "",
            "1: scr run kills a run that completes no checkpoint for SCR_WATCHDOG_TIMEOUT, and \
             starts it again; giving that is enough.";
        WATCHDOG_TIMEOUT: Seconds, "seconds", "Time without a checkpoint before the run is killed.";
        WATCHDOG_TIMEOUT_PFS: Seconds, "seconds",
            "The same while a checkpoint is written to the parallel file system.";
    }
    "Job and nodes" {
        JOB_ID: Text, "",
            "Identity of the job; from the resource manager, else from user and prefix.";
        JOB_NAME: Text, "", "Name of the job, for the log.";
        USER_NAME: Text, "", "Name of the user; from the system if not set.";
        CLUSTER_NAME: Text, "", "Name of the cluster, for the log.";
        END_TIME: Count, "seconds since 1970",
            "When the allocation ends; from the resource manager (Slurm) if not set.";
        RUNS: Integer = "1", "runs",
            "Launches of scr run in one allocation (-1: no limit).", at_least(-1);
        MIN_NODES: Count, "nodes",
            "Healthy nodes that a launch of scr run needs; as many as the last one had if not set, \
             all of the allocation for the first.";
        EXCLUDE_NODES: Text, "", "Nodes that scr run avoids, as node[3,7-9].";
        NODELIST: Text, "",
            "Nodes of the allocation; from the resource manager if not set.";
        NODE_TESTS: Text, "",
            "Tests that a node has to pass before a launch of scr run, separated by commas: echo, \
             ping, directories (scr check-node), or a command that is run on it; if not set echo, \
             and directories if a STORE line has a CAPACITY.";
        RETRIES: Count = "0", "tries", "How often a failed test of a node is repeated.";
        REMOTE_SHELL: Text, "",
            "Command that runs another one on a node, as ssh, rsh or pdsh does; if not set, that \
             of the resource manager or of mpirun, else ssh.";
        SCAVENGE_ON_EXIT: Bool = "0", "",
            "1: when mpirun or srun ends with a failure, what only the nodes' caches have is \
             brought to the prefix (scr scavenge); 0: the command for it is told.";
    }
    "Messages and log" {
        DEBUG: Level = "0", "level", "1 or 2: say what is done.";
        LOG_ENABLE: Bool = "1", "",
            "1: log what happens to checkpoints, an event each, with times. By default to the \
             database alone; if you set it, to text and syslog, too. 0: no log.";
        LOG_TXT_ENABLE: Bool = "1", "",
            "1: log to <SCR_PREFIX>/.scr/log, if you set this or SCR_LOG_ENABLE, or if the \
             database cannot be written to.";
        LOG_SYSLOG_ENABLE: Bool = "1", "",
            "1: log to syslog, if you set this or SCR_LOG_ENABLE.";
        LOG_DB_ENABLE: Bool = "1", "", "1: log to an SQLite database, for scr report.";
        LOG_DB_DEBUG: Level = "0", "level",
            "1: say what is done with the database.";
        LOG_DB_NAME: Text, "",
            "SQLite database, below SCR_PREFIX if not absolute; .scr/log.sqlite if not set.";
        LOG_DB_HOST: Text, "", "Host of a database server.",
            status(ParamStatus::NoEffect("the database is an SQLite file, see SCR_LOG_DB_NAME"));
        LOG_DB_USER: Text, "", "User of a database server.",
            status(ParamStatus::NoEffect("the database is an SQLite file, see SCR_LOG_DB_NAME"));
        LOG_DB_PASS: Text, "", "Password for a database server.",
            status(ParamStatus::NoEffect("the database is an SQLite file; take it out of here"));
    }
}

/// A parameter's name, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The row.
    pub param: &'static Param,
    /// Which member of a family: 1 for the plain name, 2 for `NAME_2`.
    pub number: u32,
}

/// Finds the parameter called `name`; `None` if there is none.
#[must_use]
pub fn find(name: &str) -> Option<Named> {
    if let Some(param) = PARAMS.iter().find(|param| param.name == name) {
        return Some(Named { param, number: 1 });
    }
    let (stem, digits) = name.rsplit_once('_')?;
    let param = PARAMS.iter().find(|param| param.family && param.name == stem)?;
    let number: u32 = digits.parse().ok()?;
    // NAME_1 and NAME_02 would be second names of the same series.
    (number >= 2 && digits == number.to_string()).then_some(Named { param, number })
}

impl Named {
    /// Returns the name as it is written.
    #[must_use]
    pub fn name(&self) -> String {
        match self.number {
            1 => self.param.name.to_string(),
            number => format!("{}_{number}", self.param.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_sound() {
        let names: BTreeSet<_> = PARAMS.iter().map(|param| param.name).collect();
        assert_eq!(names.len(), PARAMS.len(), "a name is declared twice");
        for param in PARAMS {
            if let Some(default) = param.default {
                assert!(param.parse(default).is_ok(), "default of {}", param.name);
            }
            assert!(param.meaning.ends_with('.'), "{}", param.name);
            assert!(!param.meaning.contains("  "), "{}", param.name);
            if let ParamStatus::Alias(other) = param.status {
                assert!(names.contains(other), "{}", param.name);
            }
        }
    }

    #[test]
    fn families_number_from_two() {
        assert!(find("SCR_CHECKPOINT_PATTERN").is_some_and(|named| named.number == 1));
        assert!(find("SCR_CHECKPOINT_PATTERN_12").is_some_and(|named| named.number == 12));
        for name in ["SCR_CHECKPOINT_PATTERN_1", "SCR_CHECKPOINT_PATTERN_02", "SCR_FLUSH_2", "X"] {
            assert!(find(name).is_none(), "{name}");
        }
        assert_eq!(
            find("SCR_OUTPUT_PATTERN_3").map(|named| named.name()).as_deref(),
            Some("SCR_OUTPUT_PATTERN_3")
        );
    }

    #[test]
    fn values_out_of_range_and_unsupported_ones_are_refused_by_name() {
        let message = |name: &str, text: &str| {
            find(name).map(|named| named.param.parse(text)).and_then(Result::err)
        };
        assert_eq!(
            message("SCR_CACHE_SIZE", "0").as_deref(),
            Some("SCR_CACHE_SIZE=0 is wrong: at least 1 is needed")
        );
        assert_eq!(
            message("SCR_FLUSH_ASYNC_PERCENT", "100.5").as_deref(),
            Some("SCR_FLUSH_ASYNC_PERCENT=100.5 is wrong: at most 100 is possible")
        );
        assert_eq!(message("SCR_FLUSH_ASYNC_PERCENT", "100"), None);
        assert!(message("SCR_FLUSH_TYPE", "bbapi").is_some_and(|text| text.contains("PTHREAD")));
        assert!(message("SCR_COPY_TYPE", "RAID").is_some_and(|text| text.contains("PARTNER")));
        assert!(message("SCR_FLUSH", "1 SCR_DEBUG=2").is_some_and(|t| t.contains("a line")));
    }
}
