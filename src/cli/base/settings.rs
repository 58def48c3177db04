//! The prefix and the settings that a tool works with.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use scr_core::error::{Error, Result};
use scr_core::operations::lines_of_program;
use scr_core::params::{Environment, Inputs, SYSTEM_FILE, Settings, keys, load, read_environment};
use scr_core::records::Zone;

pub fn prefix_or_default(given: Option<&Path>) -> PathBuf {
    let set = || std::env::var_os("SCR_PREFIX").filter(|value| !value.is_empty());
    given.map(Path::to_path_buf).or_else(|| set().map(PathBuf::from)).unwrap_or_else(|| ".".into())
}

/// Makes sure that a prefix is there: a name with a slip in it is not one that has had no run.
pub fn existing(prefix: &Path) -> Result<()> {
    let why = match std::fs::metadata(prefix) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "it is no directory".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => "it is not there".to_owned(),
        Err(error) => return Err(Error::io("cannot look at the prefix", prefix, error)),
    };
    Err(Error::Missing(format!("cannot use the prefix {}: {why}", prefix.display())))
}

/// Loads the settings of a run in `prefix`, SCR_PREFIX or the working directory.
pub fn load_settings(prefix: Option<&str>) -> Result<(Settings, Environment)> {
    let (mut environment, mut problems) = read_environment(std::env::vars_os());
    if !problems.is_empty() {
        return Err(problems.swap_remove(0));
    }
    if let Some(prefix) = prefix {
        environment.insert("SCR_PREFIX".into(), prefix.to_owned());
    }
    Ok((settings_of(&environment)?, environment))
}

/// Returns the time zone of whoever has called, for times in tables.
pub fn zone() -> Zone {
    Zone::new(&read_environment(std::env::vars_os()).0)
}

/// Loads the settings that an environment has which a tool has changed.
pub fn settings_of(environment: &Environment) -> Result<Settings> {
    let working_directory = std::env::current_dir()
        .map_err(|error| Error::io("cannot find", "the working directory", error))?;
    let inputs = Inputs {
        environment,
        working_directory: &working_directory,
        system_file: Path::new(SYSTEM_FILE),
        program: &[],
    };
    let settings = load(&inputs)?;
    let program = lines_of_program(&settings.get(keys::PREFIX));
    match program.is_empty() {
        true => Ok(settings),
        false => Ok(load(&Inputs { program: &program, ..inputs })?),
    }
}

/// Loads the settings of a run whose control directory is `control`, as the manuals' commands are
/// told it (`<base>/<user>/scr.<job>`), with `more` settings; see [`load_settings`].
pub fn load_settings_in(
    prefix: Option<&str>,
    control: Option<&Path>,
    more: &[(&str, String)],
) -> Result<(Settings, Environment)> {
    let mut wanted = more.to_vec();
    if let Some(control) = control {
        let wrong = || {
            let path = control.display();
            Error::Refused(format!("{path} is no control directory: <base>/<user>/scr.<job>"))
        };
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let absolute = std::path::absolute(control).map_err(|_| wrong())?;
        let job = name(&absolute).and_then(|name| Some(name.strip_prefix("scr.")?.to_owned()));
        let user = absolute.parent().and_then(name);
        let base = absolute.parent().and_then(Path::parent).and_then(Path::to_str);
        let parts = [("SCR_JOB_ID", job), ("SCR_USER_NAME", user)];
        for (key, value) in parts {
            wanted.push((key, value.ok_or_else(wrong)?));
        }
        wanted.push(("SCR_CNTL_BASE", base.ok_or_else(wrong)?.to_owned()));
    }
    let (settings, mut environment) = load_settings(prefix)?;
    if wanted.is_empty() {
        return Ok((settings, environment));
    }
    environment.extend(wanted.into_iter().map(|(key, value)| (key.to_owned(), value)));
    Ok((settings_of(&environment)?, environment))
}
