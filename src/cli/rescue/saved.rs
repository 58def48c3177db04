//! What has come of a scavenge, in words, in JSON, and as an exit status.

use std::process::ExitCode;

use scr_core::error::Result;
use scr_core::log::messages::{self, Id};
use scr_core::operations::Scavenged;
use serde_json::{Value, json};

use crate::base::say;

pub fn exit(tool: &str, outcome: Result<Scavenged>, as_json: bool) -> ExitCode {
    let saved = outcome.as_ref().is_ok_and(is_saved);
    let text = outcome.map(|done| match as_json {
        true => format!("{:#}\n", in_json(&done)),
        false => lines(&done).iter().map(|line| format!("{}\n", line.closed())).collect(),
    });
    let printed = say::finish(tool, text);
    if saved { printed } else { ExitCode::FAILURE }
}

fn in_json(done: &Scavenged) -> Value {
    let with_reason = |of: &[(String, String)], what: &str| -> Vec<Value> {
        of.iter().map(|(name, why)| json!({ what: name, "reason": why })).collect()
    };
    json!({
        "saved": is_saved(done),
        "published": done.published,
        "lost": with_reason(&done.lost, "name"),
        "silent": with_reason(&done.silent, "node"),
        "left_out": done.unknown,
        "had_cache": done.had_cache,
    })
}

/// Tells whether the newest of everything is on the prefix.
pub fn is_saved(done: &Scavenged) -> bool {
    let nothing_lost = done.lost.is_empty() && done.unknown.is_empty();
    nothing_lost && (!done.published.is_empty() || (done.had_cache && done.on_prefix))
}

pub struct Line {
    /// The message that explains it, if something went wrong.
    pub id: Option<Id>,
    pub text: String,
}

impl Line {
    fn closed(&self) -> String {
        self.id.map_or_else(|| self.text.clone(), |id| id.close(&self.text))
    }
}

pub fn lines(done: &Scavenged) -> Vec<Line> {
    let good = |text: String| Line { id: None, text };
    let bad = |id: Id, text: String| Line { id: Some(id), text };
    let mut lines = Vec::new();
    for (node, why) in &done.silent {
        lines.push(bad(messages::NODE_SILENT, format!("nothing comes from {node}: {why}")));
    }
    lines.extend(done.published.iter().map(|name| good(format!("{name} is on the prefix now"))));
    for (name, why) in &done.lost {
        lines.push(bad(messages::NOT_RECOVERED, format!("{name} is lost: {why}")));
    }
    lines.extend(done.unknown.iter().map(|text| bad(messages::NOT_RECOVERED, text.clone())));
    if done.published.is_empty() && done.lost.is_empty() {
        let none = |text: &str| bad(messages::NOTHING_SAVED, text.to_owned());
        lines.push(match (done.had_cache, done.on_prefix) {
            (true, true) => good("the prefix has all that is complete already".to_owned()),
            (true, false) => none("the caches have no complete checkpoint"),
            (false, _) => none("no node has a cache of this run"),
        });
    }
    lines
}
