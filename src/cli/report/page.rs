//! The report as a page: one file that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use scr_core::operations::report::RunsReport;
use scr_core::records::Timestamp;

use super::charts::{self, Figure};
use super::plot::{WIDTH, thinned};
use super::tables::{self, ReportTable};
use super::text::summary;
use crate::base::words::show;

/// Rows of a table; of a longer one every n-th is shown.
const ROWS: usize = 500;

const STYLE: &str = include_str!("page.css");

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
                    @for one in tables::all(report) { (table(one)) }
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

fn table(one: ReportTable) -> Markup {
    let ReportTable { title, headers, rows, .. } = one;
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
