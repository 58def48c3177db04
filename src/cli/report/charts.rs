//! The charts of a report.

use indicatif::HumanBytes;
use maud::{Markup, html};
use scr_core::operations::report::{Close, Point, RunStory, RunsReport, waste};

use super::plot::{
    Bar, Chart, HEIGHT, Marker, Scale, Series, WIDTH, bars, bars_height, px, thinned,
};
use super::tables::{pace_rate, passed_of_all, slowest_first};
use crate::base::words::{counted, lasted, rate};

const POINTS: usize = 400;
/// Runs that the time line has at most; the newest are shown.
const LANES: usize = 16;
/// The newest failures are drawn.
const FAILURES: usize = 12;
/// The slowest nodes are drawn.
const NODES: usize = 6;

pub struct Figure {
    pub title: &'static str,
    pub say: String,
    pub height: f64,
    pub picture: Markup,
    pub legend: Vec<(&'static str, usize)>,
}

pub fn all(report: &RunsReport) -> Vec<Figure> {
    let figures = [
        time_line(report),
        seconds(report),
        rates(report),
        bytes(report),
        failures(report),
        interval(report),
        nodes(report),
    ];
    figures.into_iter().flatten().collect()
}

fn time_line(report: &RunsReport) -> Option<Figure> {
    let skip = report.runs.len().saturating_sub(LANES);
    let runs = &report.runs[skip..];
    let longest = runs.iter().map(lived).fold(1.0, f64::max);
    let across = Scale::across(0.0, longest);
    let height = runs.len() as f64 * 24.0 + 44.0;
    let picture = html! {
        @for (at, run) in runs.iter().enumerate() { (lane(run, skip + at, at, &across)) }
        @for part in 0..=4 {
            @let x = across.place(longest * f64::from(part) / 4.0);
            text .tick x=(px(x)) y=(height - 22.0) text-anchor="middle" {
                (lasted(longest * f64::from(part) / 4.0))
            }
        }
        text .name x=(WIDTH / 2.0) y=(height - 6.0) text-anchor="middle" { "time since its start" }
    };
    let died = runs.iter().filter(|run| run.close == Close::Killed).count();
    let say = format!("{}, of which {died} died.", counted(runs.len(), "run"));
    let legend = vec![("sealed", 1), ("on the prefix, too", 2), ("died", 4)];
    Some(Figure { title: "Checkpoints over time", say, height, picture, legend })
        .filter(|_| !runs.is_empty())
}

fn lived(run: &RunStory) -> f64 {
    run.seen.saturating_sub(run.started) as f64
}

fn lane(run: &RunStory, number: usize, at: usize, across: &Scale) -> Markup {
    let (y, end) = (at as f64 * 24.0 + 16.0, across.place(lived(run)));
    let points = thinned(run.points.iter().collect(), POINTS);
    let place = |point: &&Point| across.place(point.sealed.saturating_sub(run.started) as f64);
    html! {
        text .tick x="4" y=(px(y + 4.0)) { "run " (number + 1) }
        line .lane x1=(px(across.place(0.0))) x2=(px(end)) y1=(px(y)) y2=(px(y)) {}
        @for point in points {
            @let colour = if point.flushed.is_some() { 2 } else { 1 };
            circle class={ "dot c" (colour) } cx=(px(place(&point))) cy=(px(y)) r="4" {
                title { (point.name) ": " (HumanBytes(point.bytes)) }
            }
        }
        @if run.close == Close::Killed {
            path class="cross c4"
                d={ "M" (px(end - 5.0)) " " (px(y - 6.0)) "l10 12m0 -12l-10 12" } {
                title { "died" }
            }
        }
    }
}

/// Values of the checkpoints by their number, counted from 1.
fn values(report: &RunsReport, of: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let all = report.points().enumerate();
    let known = all.filter_map(|(at, (_, point))| Some((at as f64 + 1.0, of(point)?)));
    thinned(known.collect(), POINTS)
}

fn by_number(
    report: &RunsReport,
    title: &'static str,
    series: Vec<Series>,
    y: &dyn Fn(f64) -> String,
) -> Option<Figure> {
    let series: Vec<Series> = series.into_iter().filter(|one| !one.points.is_empty()).collect();
    let mean = |one: &Series| {
        let sum: f64 = one.points.iter().map(|(_, y)| y).sum();
        let most = one.points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        let mean = sum / one.points.len() as f64;
        format!("{}: {} on average, {} at most.", one.name, y(mean), y(most))
    };
    let say: Vec<String> = series.iter().map(mean).collect();
    let count = report.points().count().max(2);
    let chart = Chart {
        x_scale: Scale::across(1.0, count as f64),
        x: &|at| format!("{at:.0}"),
        y,
        x_name: "checkpoint",
        series: &series,
        markers: &[],
        y_max: None,
    };
    let picture = chart.draw();
    let legend = series.iter().map(|one| (one.name, one.colour)).collect();
    (!series.is_empty()).then(|| Figure {
        title,
        say: say.join(" "),
        height: HEIGHT,
        picture,
        legend,
    })
}

fn line(
    report: &RunsReport,
    name: &'static str,
    colour: usize,
    of: fn(&Point) -> Option<f64>,
) -> Series {
    Series { name, colour, points: values(report, of) }
}

fn seconds(report: &RunsReport) -> Option<Figure> {
    let series = vec![
        line(report, "Write and seal", 3, |point| point.cost_seconds),
        line(report, "Seal", 1, |point| point.seal_seconds),
        line(report, "Flush", 2, |point| point.flush_seconds),
    ];
    by_number(report, "What a checkpoint takes", series, &lasted)
}

fn rates(report: &RunsReport) -> Option<Figure> {
    let series = vec![
        line(report, "Seal", 1, |point| {
            rate(point.cached, point.seal_seconds).filter(|one| *one > 0.0)
        }),
        line(report, "Flush", 2, |point| rate(point.bytes, point.flush_seconds)),
    ];
    by_number(report, "Bandwidth, all nodes together", series, &speed)
}

/// Bytes in a second, in powers of 1000 as the lines of a chart are.
fn speed(per_second: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let power = (per_second.max(1.0).log10() / 3.0) as usize;
    let unit = power.min(units.len() - 1);
    let number = per_second / 1000_f64.powi(unit as i32);
    let digits = usize::from(number < 10.0 && number.fract() > 0.01);
    format!("{number:.digits$} {}/s", units[unit])
}

fn nodes(report: &RunsReport) -> Option<Figure> {
    let slowest = slowest_first(report);
    let bars_of = slowest.iter().take(NODES).flat_map(|(host, [sealed, flushed])| {
        let bar = |what: &str, pace, colour| {
            let value = pace_rate(pace)?;
            Some(Bar { label: format!("{host}: {what}"), value, text: speed(value), colour })
        };
        [bar("seal", sealed, 1), bar("flush", flushed, 2)].into_iter().flatten()
    });
    let all: Vec<Bar> = bars_of.collect();
    let count = slowest.len();
    let say = match count > NODES {
        true => {
            format!("The {NODES} slowest of {count} nodes; what a node's ranks moved together.")
        }
        false => "The slowest node first; what its ranks moved together.".to_owned(),
    };
    (!all.is_empty()).then(|| Figure {
        title: "Bandwidth by node",
        say,
        height: bars_height(all.len()),
        picture: bars(&all),
        legend: vec![("seal, with redundancy", 1), ("flush", 2)],
    })
}

fn bytes(report: &RunsReport) -> Option<Figure> {
    let cached: u64 = report.runs.iter().map(RunStory::cached).sum();
    let bar = |label: &str, bytes: u64, colour| Bar {
        label: label.to_owned(),
        value: bytes as f64,
        text: HumanBytes(bytes).to_string(),
        colour,
    };
    let mut all = vec![bar("cached and sealed", cached, 1)];
    let passed = passed_of_all(report);
    all.extend(passed.iter().map(|(reason, one)| bar(reason, one.bytes, 3)));
    let say = match passed.len() {
        0 => "No file is known to have gone straight to the prefix.".to_owned(),
        _ => "What went straight to the prefix, and why, below what was cached.".to_owned(),
    };
    Some(Figure {
        title: "Bytes cached, and bytes that went past",
        say,
        height: bars_height(all.len()),
        picture: bars(&all),
        legend: vec![("cached", 1), ("straight to the prefix", 3)],
    })
    .filter(|_| cached > 0 || !passed.is_empty())
}

fn failures(report: &RunsReport) -> Option<Figure> {
    let skip = report.failures.len().saturating_sub(FAILURES);
    let bars_of = report.failures[skip..].iter().flat_map(|one| {
        let bar = |what: &str, seconds: u64, colour| Bar {
            label: format!("run {}: {what}", one.run + 1),
            value: seconds as f64,
            text: lasted(seconds as f64),
            colour,
        };
        let lost = if one.exact { "lost" } else { "lost, at least" };
        [bar(lost, one.lost_seconds, 4), bar("saved", one.saved_seconds, 2)]
    });
    let all: Vec<Bar> = bars_of.collect();
    let died = counted(report.failures.len(), "run");
    let say = format!("{died} died; the newest {FAILURES} are drawn, if there are more.");
    (!all.is_empty()).then(|| Figure {
        title: "Work lost and work saved by the caches",
        say,
        height: bars_height(all.len()),
        picture: bars(&all),
        legend: vec![("lost", 4), ("saved", 2)],
    })
}

fn interval(report: &RunsReport) -> Option<Figure> {
    let advice = report.advice?;
    let costs = &advice.costs;
    let ends = [advice.daly, advice.used.unwrap_or(advice.daly)];
    let low = (ends[0].min(ends[1]) / 10.0).max(costs.seconds);
    let high = ends[0].max(ends[1]) * 10.0;
    let at = |part: usize| low * (high / low).powf(part as f64 / 240.0);
    let mut markers = vec![
        Marker { name: "Daly", colour: 2, x: advice.daly },
        Marker { name: "Young", colour: 5, x: advice.young },
    ];
    markers.extend(advice.used.map(|used| Marker { name: "used", colour: 4, x: used }));
    let most = markers.iter().map(|one| waste(one.x, costs)).fold(0.0, f64::max);
    let y_max = (most * 2.0).clamp(0.001, 1.0);
    let points = (0..=240).map(|part| (at(part), waste(at(part), costs)));
    let points = points.filter(|(_, part)| *part <= y_max).collect();
    let curve = Series { name: "time wasted", colour: 1, points };
    let chart = Chart {
        x_scale: Scale::across(low, high).in_factors(),
        x: &lasted,
        y: &|part| format!("{:.1} %", 100.0 * part),
        x_name: "from checkpoint to checkpoint",
        series: &[curve],
        markers: &markers,
        y_max: Some(y_max),
    };
    Some(Figure {
        title: "The interval that wastes least",
        say: super::text::interval(&advice).join("; ") + ".",
        height: HEIGHT,
        picture: chart.draw(),
        legend: vec![("time for checkpoints and lost work", 1)],
    })
}
