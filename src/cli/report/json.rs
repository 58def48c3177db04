//! The report for programs: times as ISO 8601 (UTC), durations in seconds.

use scr_core::operations::report::{Advice, Failure, Point, RunStory, RunsReport, waste};
use scr_core::records::RunPace;
use serde_json::{Value, json};

use crate::base::words::iso;

pub fn of(report: &RunsReport) -> Value {
    let nodes = report.paces().into_iter().map(|(host, paces)| node(host, paces));
    json!({
        "prefix": report.prefix.to_string_lossy(),
        "has_log": report.has_log,
        "running_seconds": report.running_seconds(),
        "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "failures": report.failures.iter().map(failure).collect::<Vec<_>>(),
        "interval": report.advice.as_ref().map(advice),
        "unreadable": report.unreadable.iter().map(|one| &one.text).collect::<Vec<_>>(),
    })
}

fn run(run: &RunStory) -> Value {
    let passed = run.passed.iter().map(|(reason, one)| {
        json!({
            "reason": reason, "files": one.files, "bytes": one.bytes, "example": one.example,
        })
    });
    let from = run.went_on_from.as_ref().map(|(id, name)| json!({ "id": id, "name": name }));
    let nodes = run.paces.iter().map(|(host, paces)| node(host, *paces));
    json!({
        "job": run.job,
        "user": run.user,
        "ranks": run.ranks,
        "nodes": run.nodes,
        "started": iso(run.started),
        "seen": iso(run.seen),
        "state": run.close.text(),
        "start_seconds": run.start_seconds,
        "went_on_from": from,
        "rebuilt": run.rebuilt,
        "bytes": run.bytes(),
        "cached_bytes": run.cached(),
        "datasets": run.points.iter().map(point).collect::<Vec<_>>(),
        "passed": passed.collect::<Vec<_>>(),
        "passed_of_all_ranks": run.passed_of_all,
        "nodes_moved": nodes.collect::<Vec<_>>(),
        "failed": run.failed.map(iso),
        "troubles": run.troubles,
    })
}

fn node(host: &str, [sealed, flushed]: [RunPace; 2]) -> Value {
    json!({
        "node": host,
        "sealed_bytes": sealed.bytes,
        "seal_seconds": sealed.seconds(),
        "flushed_bytes": flushed.bytes,
        "flush_seconds": flushed.seconds(),
    })
}

fn point(point: &Point) -> Value {
    json!({
        "id": point.id,
        "name": point.name,
        "sealed": iso(point.sealed),
        "files": point.files,
        "bytes": point.bytes,
        "cached_bytes": point.cached,
        "cost_seconds": point.cost_seconds,
        "exposed_seconds": point.exposed_seconds,
        "seal_seconds": point.seal_seconds,
        "flush_seconds": point.flush_seconds,
        "flushed": point.flushed.map(iso),
        "spared": point.spared,
        "flush_failed": point.failed,
    })
}

fn failure(one: &Failure) -> Value {
    let from = one.went_on_from.as_ref().map(|(id, name)| json!({ "id": id, "name": name }));
    json!({
        "run": one.run,
        "last_seen": iso(one.seen),
        "failed": one.exact.then(|| iso(one.seen)),
        "next_run": one.next.map(iso),
        "went_on_from": from,
        "lost_seconds_at_least": one.lost_seconds,
        "saved_seconds": one.saved_seconds,
    })
}

fn advice(one: &Advice) -> Value {
    let costs = &one.costs;
    json!({
        "cost_seconds": costs.seconds,
        "cost_is_whole": costs.whole,
        "mtbf_seconds": costs.mtbf_seconds,
        "mtbf_given": costs.given,
        "failures": costs.failures,
        "young_seconds": one.young,
        "daly_seconds": one.daly,
        "used_seconds": one.used,
        "waste_used": one.used.map(|used| waste(used, costs)),
        "waste_advised": waste(one.daly, costs),
    })
}
