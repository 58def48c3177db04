//! Every parameter of the existing implementation is known, and what the table does not refuse or
//! explain away is read by something.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scr_core::params::{PARAMS, ParamStatus, find};

/// All of today's SCR (3.1), and what is ours beside them.
const KNOWN: &str = "
    DEBUG CHECKPOINT_INTERVAL CHECKPOINT_SECONDS CHECKPOINT_OVERHEAD CNTL_BASE HALT_EXIT
    HALT_SECONDS GROUP COPY_TYPE CACHE_BASE CACHE_SIZE CACHE_BYPASS CACHE_PURGE SET_SIZE
    SET_FAILURES PREFIX PREFIX_SIZE PREFIX_PURGE CURRENT DISTRIBUTE FETCH FETCH_BYPASS FETCH_WIDTH
    FLUSH FLUSH_ASYNC FLUSH_POSTSTAGE FLUSH_TYPE FLUSH_WIDTH FLUSH_ON_RESTART GLOBAL_RESTART RUNS
    MIN_NODES EXCLUDE_NODES LOG_ENABLE LOG_TXT_ENABLE LOG_SYSLOG_ENABLE LOG_DB_ENABLE LOG_DB_DEBUG
    LOG_DB_HOST LOG_DB_NAME LOG_DB_USER LOG_DB_PASS MPI_BUF_SIZE FILE_BUF_SIZE WATCHDOG_TIMEOUT
    WATCHDOG_TIMEOUT_PFS CRC_ON_COPY CRC_ON_DELETE CRC_ON_FLUSH ENABLE HOP_DISTANCE CONF_FILE
    JOB_ID JOB_NAME USER_NAME CLUSTER_NAME END_TIME NODELIST NODE_TESTS RETRIES WATCHDOG
    DROP_AFTER_CURRENT COPY_METADATA AXL_MKDIR FLUSH_ASYNC_BW FLUSH_ASYNC_PERCENT
    FLUSH_ASYNC_USLEEP CHECKPOINT_PATTERN CHECKPOINT_PATTERN_2 OUTPUT_PATTERN OUTPUT_PATTERN_2
    IGNORE_PATTERN CHECKPOINT_PATTERN_TOKEN CHECKPOINT_DIR_PATTERN RESTART_REQUIRED HALT_ENABLED
    LATEST_NAME LATEST_PATH CACHE_ADOPT";

#[test]
fn every_known_parameter_is_in_the_table() {
    let missing: Vec<&str> =
        KNOWN.split_whitespace().filter(|name| find(&format!("SCR_{name}")).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The text of all sources but those of the table itself.
fn sources(dir: &Path, text: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("params") {
            sources(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn what_the_table_says_works_is_read_by_something() {
    let mut text = String::new();
    sources(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
    // `keys::NAME.param` ends at the dot.
    let words: BTreeSet<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').collect();
    let is_read = |name: &str| words.contains(format!("keys::{name}").as_str());
    for param in PARAMS {
        let name = param.name.trim_start_matches("SCR_");
        match param.status {
            // Of a yes or no whose other value is refused nothing is left to read.
            ParamStatus::Works if !param.refused.is_empty() => {}
            ParamStatus::Works => assert!(is_read(name), "nothing reads {}", param.name),
            ParamStatus::NoEffect(why) => {
                assert!(!is_read(name), "{} is said to have no effect: {why}", param.name);
                assert!(why.len() > 20, "{}: no reason", param.name);
            }
            ParamStatus::Alias(_) | ParamStatus::EnvironmentOnly => {}
        }
    }
}
