//! The commented config file with every parameter, made from the table.

use super::param::{Param, ParamStatus};
use super::table::PARAMS;

const COLUMNS: usize = 100;

const HEAD: &str = "\
# Configuration of SCR: every parameter, with its default. Made by `scr config --template`.
#
# SCR reads <SCR_PREFIX>/.scrconf, or the file that the environment variable SCR_CONF_FILE names.
# What the environment says wins over this file; this file wins over the system's.
#
# KEY=VALUE, one a line; remove the `#` before a line to set it. `#` begins a comment at the line's
# start or after white space. Single quotes take everything as it is; $VAR and ${VAR} are replaced
# outside them; \\ takes the meaning from the character behind it. `scr config --explain` shows
# which values hold, and why.
";

const DESCRIPTORS: &str = "
# --- Groups, stores and schemes -----------------------------------------------------------------
# Lines of several KEY=VALUE. Groups NODE and WORLD and the store SCR_CACHE_BASE are always there.
# Hosts with the same value fail together:
#GROUPS=node1 SWITCH=a
#GROUPS=node2 SWITCH=b
# A cache directory: whose processes share it (GROUP), checkpoints in it (COUNT), whether it may be
# used (ENABLED), whether it can have directories (MKDIR), how it is flushed (FLUSH):
#STORE=/dev/shm GROUP=NODE COUNT=2 ENABLED=1 MKDIR=1 FLUSH=SYNC
# Schemes, used with SCR_COPY_TYPE=FILE: the largest INTERVAL that divides the checkpoint's number
# wins; numbered from 0, one with INTERVAL=1:
#CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=8
#CKPT=1 INTERVAL=8 GROUP=SWITCH STORE=/dev/shm TYPE=PARTNER
";

/// Returns the text of the commented config file, made from the table.
#[must_use]
pub fn template() -> String {
    let mut text = HEAD.to_string();
    let mut section = "";
    for param in PARAMS {
        // What somebody else sets has no place in a file.
        if param.status == ParamStatus::EnvironmentOnly {
            continue;
        }
        if section != param.section {
            section = param.section;
            let rule = "-".repeat(COLUMNS.saturating_sub(8 + section.len()));
            text.push_str(&format!("\n# --- {section} {rule}\n"));
        }
        text.push_str(&entry(param));
    }
    text + DESCRIPTORS
}

fn entry(param: &Param) -> String {
    let mut text = String::new();
    for line in wrap(&description(param), COLUMNS - 2) {
        text.push_str(&format!("# {line}\n"));
    }
    text.push_str(&format!("#{}={}\n", param.name, param.default.unwrap_or_default()));
    text
}

/// One paragraph: meaning, permitted values and status.
fn description(param: &Param) -> String {
    let mut text = param.meaning.to_string();
    if !param.choices.is_empty() {
        text.push_str(&format!(" One of {}.", param.choices.join(", ")));
    }
    for (value, reason) in param.refused {
        text.push_str(&format!(" {value} is not supported: {reason}."));
    }
    match param.status {
        ParamStatus::NoEffect(reason) => text.push_str(&format!(" Ignored: {reason}.")),
        ParamStatus::Works | ParamStatus::Alias(_) | ParamStatus::EnvironmentOnly => {}
    }
    let unit = param.unit;
    if unit.is_empty() { text } else { format!("{text} [{unit}]") }
}

fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}
