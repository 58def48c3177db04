//! How often to write a checkpoint.
//!
//! J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974);
//! J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
//! Future Generation Computer Systems 22 (2006).

use super::runs::Point;
use super::summary::{Advice, Costs, RunsReport};

/// Returns Young's interval from checkpoint to checkpoint, in seconds.
pub fn young(cost: f64, mtbf: f64) -> f64 {
    (2.0 * cost * mtbf).sqrt() + cost
}

/// Returns Daly's interval from checkpoint to checkpoint, in seconds.
pub fn daly(cost: f64, mtbf: f64) -> f64 {
    if cost >= 2.0 * mtbf {
        return mtbf + cost;
    }
    let part = cost / (2.0 * mtbf);
    (2.0 * cost * mtbf).sqrt() * (1.0 + part.sqrt() / 3.0 + part / 9.0)
}

/// Returns the part of the time, of 1, that checkpoints and repeated work take; to first order, so
/// it may exceed 1.
pub fn waste(interval: f64, costs: &Costs) -> f64 {
    if interval <= 0.0 {
        1.0
    } else {
        costs.seconds / interval + interval / (2.0 * costs.mtbf_seconds)
    }
}

pub(super) fn advice(report: &RunsReport, mtbf_seconds: Option<f64>) -> Option<Advice> {
    let costs_of = |of: fn(&Point) -> Option<f64>| {
        let all = report.points().filter_map(|(_, point)| of(point));
        median(all.filter(|seconds| *seconds > 0.0).collect())
    };
    let whole = costs_of(|point| point.cost_seconds);
    let seconds = whole.or_else(|| costs_of(|point| point.seal_seconds))?;
    let failures = report.failures.len();
    let ran = report.running_seconds() as f64;
    let measured = ran / failures.max(1) as f64;
    let mtbf = mtbf_seconds.unwrap_or(measured);
    if mtbf <= 0.0 {
        return None;
    }
    let given = mtbf_seconds.is_some();
    let costs = Costs { seconds, whole: whole.is_some(), mtbf_seconds: mtbf, failures, given };
    let (young, daly) = (young(seconds, mtbf), daly(seconds, mtbf));
    Some(Advice { costs, young, daly, used: used(report) })
}

fn used(report: &RunsReport) -> Option<f64> {
    let (mut seconds, mut steps) = (0, 0);
    for run in &report.runs {
        let mut seals: Vec<u64> = run.points.iter().map(|point| point.sealed).collect();
        seals.retain(|time| *time >= run.started);
        if let (Some(first), Some(last)) = (seals.iter().min(), seals.iter().max()) {
            seconds += last - first;
            steps += seals.len() as u64 - 1;
        }
    }
    (steps > 0 && seconds > 0).then(|| seconds as f64 / steps as f64)
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advised_interval_wastes_the_least() {
        let costs =
            Costs { seconds: 30.0, whole: true, mtbf_seconds: 86_400.0, failures: 1, given: false };
        let young = young(30.0, 86_400.0);
        assert!((young - 2306.8).abs() < 0.1, "{young}");
        let daly = daly(30.0, 86_400.0);
        assert!((daly - 2286.9).abs() < 0.1, "{daly}");
        let best = waste(young - 30.0, &costs);
        assert!(best < waste(600.0, &costs) && best < waste(9000.0, &costs));
        assert!((best - 0.02635).abs() < 1e-4, "{best}");
    }

    #[test]
    fn a_checkpoint_that_takes_longer_than_a_failure_does() {
        assert_eq!(daly(100.0, 40.0), 140.0);
        let costs =
            Costs { seconds: 1.0, whole: true, mtbf_seconds: 1.0, failures: 0, given: true };
        assert_eq!(waste(0.0, &costs), 1.0);
    }
}
