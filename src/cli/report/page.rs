//! The report as a page: one file that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use scr_core::operations::report::RunsReport;
use scr_core::records::Timestamp;

use super::charts::{self, Figure};
use super::plot::WIDTH;
use super::text::{
    FAILURE_HEADERS, NODE_HEADERS, PASSED_HEADERS, POINT_HEADERS, RUN_HEADERS, failure_cells,
    nodes, passed_cells, passed_of_all, point_cells, run_cells, summary,
};
use super::thinned;
use crate::halt::show;

/// Rows of a table; of a longer one every n-th is shown.
const ROWS: usize = 500;

const STYLE: &str = include_str!("page.css");

/// Writes the whole page.
pub fn of(report: &RunsReport) -> Markup {
    let title = format!("SCR report of {}", report.prefix.display());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Checkpoints of " span .path { (report.prefix.display()) } }
                    p .small { "written " (show(Timestamp::now().unix_seconds())) }
                }
                main {
                    (words(report))
                    div .charts {
                        @for (at, figure) in charts::all(report).iter().enumerate() {
                            (chart(figure, at))
                        }
                    }
                    (tables(report))
                }
            }
        }
    }
}

fn words(report: &RunsReport) -> Markup {
    html! {
        dl {
            @for (name, sentence) in summary(report).iter().skip(1) {
                dt { (name) }
                dd { (sentence) }
            }
        }
    }
}

fn chart(figure: &Figure, at: usize) -> Markup {
    let (title, say) = (format!("title{at}"), format!("say{at}"));
    html! {
        figure {
            figcaption { (figure.title) }
            svg role="img" aria-labelledby={ (title) " " (say) }
                viewBox={ "0 0 " (WIDTH) " " (figure.height) } {
                title id=(title) { (figure.title) }
                desc id=(say) { (figure.say) }
                (figure.picture)
            }
            ul .legend aria-label="Colours" {
                @for (name, colour) in &figure.legend {
                    li { span class={ "key c" (colour) } aria-hidden="true" {} (name) }
                }
            }
            p .small { (figure.say) }
        }
    }
}

fn tables(report: &RunsReport) -> Markup {
    let runs: Vec<_> = report.runs.iter().map(|one| run_cells(one).to_vec()).collect();
    let points: Vec<_> = report.points().map(|(_, one)| point_cells(one).to_vec()).collect();
    let failures: Vec<_> = report.failures.iter().map(|one| failure_cells(one).to_vec()).collect();
    let nodes: Vec<_> = nodes(report).iter().map(|one| one.to_vec()).collect();
    let sums = passed_of_all(report);
    let passed: Vec<_> = sums.iter().map(|(why, one)| passed_cells((why, one)).to_vec()).collect();
    let troubles: Vec<_> = report
        .runs
        .iter()
        .flat_map(|run| run.troubles.iter().map(|one| vec![show(run.started), one.clone()]))
        .collect();
    html! {
        (table("Runs", &RUN_HEADERS, runs))
        (table("Checkpoints", &POINT_HEADERS, points))
        (table("Failures", &FAILURE_HEADERS, failures))
        (table("Nodes, the slowest first", &NODE_HEADERS, nodes))
        (table("Straight to the prefix", &PASSED_HEADERS, passed))
        (table("Troubles", &["run of", "what"], troubles))
    }
}

fn table(title: &str, headers: &[&str], rows: Vec<Vec<String>>) -> Markup {
    let count = rows.len();
    html! {
        @if count > 0 {
            details {
                summary { (title) " (" (count) ")" }
                div .wide role="region" tabindex="0" aria-label=(title) {
                    table {
                        thead { tr { @for header in headers { th scope="col" { (header) } } } }
                        tbody {
                            @for row in thinned(rows, ROWS) {
                                tr { @for cell in row { td { (cell) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
