//! Sources of settings: their order, their mistakes, and the journey to other ranks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scr_core::params::{Environment, Inputs, LineKind, Settings, Source, keys, load, template};
use tempfile::TempDir;

/// A prefix with config files, an environment, and what the program said.
struct Site {
    directory: TempDir,
    environment: Environment,
    program: Vec<String>,
}

impl Site {
    fn new(user_file: &str, system_file: &str, environment: &[(&str, &str)]) -> Site {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).expect("a small file");
        };
        write(".scrconf", user_file);
        write("system.conf", system_file);
        let mut site = Site { directory, environment: Environment::new(), program: Vec::new() };
        site.set("SCR_PREFIX", &site.path(".").display().to_string());
        for (name, value) in environment {
            site.set(name, value);
        }
        site
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_string(), value.to_string());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn load(&self) -> Result<Settings, String> {
        let inputs = Inputs {
            environment: &self.environment,
            working_directory: Path::new("/start/here"),
            system_file: &self.path("system.conf"),
            program: &self.program,
        };
        load(&inputs).map_err(|problems| problems.to_string())
    }

    fn settings(&self) -> Settings {
        self.load().expect("a valid configuration")
    }

    fn problem(&self) -> String {
        self.load().expect_err("a mistake")
    }
}

#[test]
fn the_nearest_source_wins_and_remembers_what_it_beat() {
    let mut site = Site::new(
        "SCR_FLUSH=3\nSCR_DEBUG=1\n",
        "SCR_FLUSH=5\nSCR_CACHE_SIZE=4\nSCR_SET_SIZE=6\n",
        &[("SCR_FLUSH", "2")],
    );
    site.program = vec!["SCR_SET_SIZE=16".to_string(), "SCR_DEBUG=2".to_string()];
    let settings = site.settings();
    assert_eq!(settings.get(keys::FLUSH), 2);
    assert_eq!(settings.get(keys::DEBUG), 1);
    assert_eq!(settings.get(keys::SET_SIZE), 16);
    assert_eq!(settings.get(keys::CACHE_SIZE), 4);
    let flush = settings.setting("SCR_FLUSH").expect("a value");
    assert_eq!(flush.origin.place, "environment variable SCR_FLUSH");
    let beaten: Vec<_> =
        flush.overrode.iter().map(|origin| (origin.source, origin.text.as_str())).collect();
    let expected = [(Source::UserFile, "3"), (Source::SystemFile, "5"), (Source::Default, "10")];
    assert_eq!(beaten, expected);
    let file = settings.setting("SCR_CACHE_SIZE").expect("a value").origin.place.clone();
    assert_eq!(file, format!("{}:2", site.path("system.conf").display()));
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn defaults_of_ours_hold_without_any_source() {
    let settings = Settings::defaults(Path::new("/start/here"));
    assert!(!settings.get(keys::CACHE_BYPASS));
    assert_eq!(settings.get(keys::CACHE_SIZE), 2);
    assert!(settings.get(keys::LEARN));
    assert_eq!(settings.get(keys::UNSEALED_SECONDS), Duration::from_secs(60));
    assert_eq!(settings.get(keys::SETTLE_MILLISECONDS), Duration::from_millis(50));
    assert_eq!(settings.get(keys::FLUSH_ASYNC_USLEEP), Duration::from_millis(1));
    assert_eq!(settings.get(keys::PREFIX), Path::new("/start/here"));
    assert_eq!(settings.get_optional(keys::CURRENT), None);
    // Even a value that was never filled in has its default.
    assert_eq!(Settings::default().get(keys::FLUSH), 10);
}

#[test]
fn a_file_is_wrong_by_name_and_line_and_all_mistakes_at_once() {
    let site = Site::new(
        "SCR_FLUHS=1\nSCR_CACHE_SIZE=many\nSCR_FLUSH_TYPE=BBAPI\nCACHEDIR=/tmp\n\
         SCR_CONF_FILE=/x\nCHKPT=0\n",
        "",
        &[("SCR_DEBUG", "loud")],
    );
    let problem = site.problem();
    let file = site.path(".scrconf").display().to_string();
    for part in [
        "environment variable SCR_DEBUG: SCR_DEBUG=loud is wrong".to_string(),
        format!("{file}:1: SCR_FLUHS is not a parameter; did you mean SCR_FLUSH?"),
        format!("{file}:2: SCR_CACHE_SIZE=many is wrong: a whole number from 0 is needed"),
        format!("{file}:3: SCR_FLUSH_TYPE=BBAPI is not supported"),
        format!("{file}:4: CACHEDIR is a key of old versions"),
        format!("{file}:5: SCR_CONF_FILE can only be set in the environment"),
        format!("{file}:6: CHKPT is not a parameter; did you mean CKPT?"),
    ] {
        assert!(problem.contains(&part), "{part}\nnot in\n{problem}");
    }
    assert_eq!(problem.lines().count(), 7);
}

#[test]
fn an_unknown_variable_in_the_environment_only_warns() {
    let site =
        Site::new("", "", &[("SCR_CACHE_SISE", "3"), ("SCR_LAUNCH_NONCE", "ours"), ("OTHER", "'")]);
    let warnings = site.settings().warnings;
    assert_eq!(
        warnings,
        ["environment variable SCR_CACHE_SISE: not a parameter of SCR, ignored; did you mean \
         SCR_CACHE_SIZE?"]
    );
}

#[test]
fn the_user_file_is_the_one_named_or_the_one_in_the_prefix() {
    let mut site = Site::new("SCR_DEBUG=1\n", "", &[]);
    std::fs::write(site.path("mine.conf"), "SCR_DEBUG=2\n").expect("a small file");
    assert_eq!(site.settings().get(keys::DEBUG), 1);
    site.set("SCR_CONF_FILE", "$SCR_PREFIX/mine.conf");
    assert_eq!(site.settings().get(keys::DEBUG), 2);
    site.set("SCR_CONF_FILE", "/nowhere/scr.conf");
    assert_eq!(
        site.problem(),
        "environment variable SCR_CONF_FILE: there is no file /nowhere/scr.conf"
    );
    site.set("SCR_CONF_FILE", "");
    assert_eq!(site.settings().get(keys::DEBUG), 1);
    site.environment.remove("SCR_PREFIX");
    let system = format!("SCR_PREFIX={}\n", site.directory.path().display());
    std::fs::write(site.path("system.conf"), system).expect("a small file");
    assert_eq!(site.settings().get(keys::DEBUG), 1);
}

#[test]
fn aliases_empty_values_and_parameters_without_effect() {
    let site = Site::new(
        "SCR_HALT_ENABLED=1\nSCR_FLUSH=\nSCR_AXL_MKDIR=1\nSCR_DEBUG=1\nSCR_DEBUG=2\n",
        "",
        // What scr run sets for the programs that it starts is no mistake of anybody.
        &[
            ("SCR_CACHE_SIZE", ""),
            ("SCR_CHECKPOINT_DIR_PATTERN", "ckpt"),
            ("SCR_LATEST_NAME", "checkpoint.20"),
        ],
    );
    let settings = site.settings();
    assert!(settings.get(keys::HALT_EXIT));
    assert_eq!(settings.get(keys::FLUSH), 10);
    assert_eq!(settings.get(keys::CACHE_SIZE), 2);
    assert_eq!(settings.get(keys::DEBUG), 2);
    let file = site.path(".scrconf").display().to_string();
    assert_eq!(
        settings.warnings,
        [
            "environment variable SCR_CHECKPOINT_DIR_PATTERN: SCR_CHECKPOINT_DIR_PATTERN is \
             ignored: directories need no naming, they are made where they belong"
                .to_string(),
            format!("{file}:3: SCR_AXL_MKDIR is ignored: directories are always made"),
            format!("{file}:5: SCR_DEBUG was also set in {file}:4; this holds"),
        ]
    );
}

#[test]
fn bases_of_the_system_beat_the_users_with_one_message() {
    let user = "SCR_CNTL_BASE=/tmp/mine\nSTORE=/ssd COUNT=3\nSTORE=/mine\n";
    let system = "SCR_CNTL_BASE=/run/scr\nSTORE=/ssd GROUP=NODE COUNT=1\nSTORE=/ram\n";
    let site = Site::new(user, system, &[("SCR_CNTL_BASE", "/tmp/other")]);
    let settings = site.settings();
    assert_eq!(settings.get(keys::CNTL_BASE), Path::new("/run/scr"));
    let stores: Vec<_> = settings
        .lines(LineKind::Store)
        .map(|line| (line.subject.as_str(), line.fields.len()))
        .collect();
    assert_eq!(stores, [("/ssd", 2), ("/ram", 0)]);
    assert!(settings.store_bases_fixed);
    let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    for part in ["SCR_CNTL_BASE (environment", ".scrconf:1)", "STORE=/mine", "system.conf"] {
        assert!(warning.contains(part), "{warning}");
    }
    // Without such a system file, the user's word counts.
    let settings = Site::new(user, "", &[]).settings();
    assert_eq!(settings.get(keys::CNTL_BASE), Path::new("/tmp/mine"));
    assert_eq!(settings.lines(LineKind::Store).count(), 2);
}

#[test]
fn descriptor_lines_of_the_nearest_source_hold_together() {
    let site = Site::new("CKPT=0 TYPE=SINGLE\n", "CKPT=0 TYPE=XOR\nCKPT=1 INTERVAL=4\n", &[]);
    let settings = site.settings();
    let types: Vec<_> = settings.lines(LineKind::Checkpoint).map(|line| &line.fields).collect();
    assert_eq!(types, [&[("TYPE".to_string(), "SINGLE".to_string())]]);
}

#[test]
fn families_keep_their_numbers() {
    let site = Site::new(
        "SCR_CHECKPOINT_PATTERN_10=j\nSCR_CHECKPOINT_PATTERN_2=b, {id}\nSCR_CHECKPOINT_PATTERN=a\n",
        "",
        &[],
    );
    let family = site.settings().family(keys::CHECKPOINT_PATTERN);
    let expected = [
        ("SCR_CHECKPOINT_PATTERN", "a"),
        ("SCR_CHECKPOINT_PATTERN_2", "b, {id}"),
        ("SCR_CHECKPOINT_PATTERN_10", "j"),
    ];
    assert_eq!(family, expected.map(|(name, text)| (name.to_string(), text.to_string())));
}

#[test]
fn settings_travel_as_a_tree() {
    let site = Site::new(
        "SCR_FLUSH=3\nSCR_SETTLE_MILLISECONDS=7.5\nSCR_CHECKPOINT_PATTERN_2=a b\n\
         CKPT=0 TYPE=XOR GROUP=psu\nGROUPS=n1 psu='a b'\n",
        "SCR_FLUSH=4\nSCR_CACHE_BASE=/ram\n",
        &[("SCR_NOT_OURS", "x"), ("SCR_CURRENT", "")],
    );
    let settings = site.settings();
    assert_eq!(Settings::from_tree(&settings.to_tree()), Some(settings));
    let mut tree = site.settings().to_tree();
    tree.child_mut("SETTING").set_kv("SCR_NO_SUCH", 1);
    assert_eq!(Settings::from_tree(&tree), None);
    assert_eq!(Settings::from_tree(&Default::default()), None);
}

#[test]
fn a_rank_with_another_environment_is_noticed() {
    let mut site = Site::new("", "", &[("SCR_DEBUG", "1"), ("SCR_FLUSH", "2")]);
    let settings = site.settings();
    assert!(settings.environment_differences(&site.environment).is_empty());
    site.set("SCR_DEBUG", "2");
    site.set("SCR_LAUNCH_RANK", "7");
    site.set("HOME", "/elsewhere");
    site.environment.remove("SCR_FLUSH");
    assert_eq!(settings.environment_differences(&site.environment), ["SCR_DEBUG", "SCR_FLUSH"]);
}

#[test]
fn a_program_may_set_single_values() {
    let mut settings = Settings::defaults(Path::new("/start"));
    settings.set("SCR_FLUSH", "4").expect("a valid value");
    assert_eq!(settings.get(keys::FLUSH), 4);
    assert!(settings.set("SCR_FLUSH", "x").is_err());
    assert!(settings.set("SCR_NONE", "1").is_err());
}

/// The template, uncommented, has to be a valid config file that sets what the table says.
#[test]
fn the_template_is_a_valid_config_file() {
    let uncommented: String = template()
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(uncommented.lines().count() > 60);
    let site = Site::new(&uncommented, "", &[]);
    let settings = site.settings();
    assert_eq!(settings.get(keys::CACHE_SIZE), 2);
    assert_eq!(settings.setting("SCR_CACHE_SIZE").expect("set").origin.source, Source::UserFile);
}

/// `config/scr.conf` is made from the table; after a change: `scr config --template`.
#[test]
fn the_file_in_the_repository_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/scr.conf");
    let file = std::fs::read_to_string(path).expect("config/scr.conf");
    assert!(file == template(), "run: scr config --template > config/scr.conf");
    assert!(file.lines().all(|line| line.len() <= 100 && line.is_ascii()));
}
