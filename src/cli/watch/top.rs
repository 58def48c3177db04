//! `scr top`: what `scr status` shows, on a terminal, as it changes.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::HumanBytes;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use scr_core::log::messages;
use scr_core::operations::{PrefixStatus, read_status};
use scr_core::records::RunRecord;

use crate::base::say;
use crate::base::settings::prefix_or_default;
use crate::base::words::{show, speed, took};
use crate::watch::halt::describe;
use crate::watch::status::{life, place, restart};

/// Width of a bar that shows how much a node's cache holds.
const BAR: u64 = 24;
/// Lines around a table: its title and its header.
const AROUND: u16 = 2;
/// A list takes no more of the screen than this part of it.
const PART: u16 = 3;

#[derive(clap::Args)]
#[command(after_help = "\
Shows what the run publishes in its prefix, on any node that sees it; the run does not notice. \
Nodes whose caches hold most come first. q, Esc or Ctrl-C ends it. The exit status is 0; 1 if the \
terminal fails; 2 if there is none: scr status is for files and scripts. Example:\n
    scr top --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Seconds between two looks.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

pub fn run(args: &Args) -> ExitCode {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let text = "there is no terminal; scr status prints the same";
        say::tell("top", messages::REFUSED, text);
        return ExitCode::from(2);
    }
    let prefix = prefix_or_default(args.prefix.as_deref());
    let prefix = std::path::absolute(&prefix).unwrap_or(prefix);
    let outcome = ratatui::try_init().and_then(|mut terminal| {
        let outcome = follow(&mut terminal, &prefix, Duration::from_secs(args.interval));
        ratatui::restore();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::tell("top", messages::SYSTEM_REFUSED, &format!("the terminal fails: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn follow(terminal: &mut DefaultTerminal, prefix: &Path, period: Duration) -> io::Result<()> {
    loop {
        let status = read_status(prefix);
        terminal.draw(|frame| draw(frame, prefix, &status))?;
        let next = Instant::now() + period;
        while event::poll(next.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if ends(key) => return Ok(()),
                Event::Resize(..) => {
                    terminal.draw(|frame| draw(frame, prefix, &status))?;
                }
                _ => {}
            }
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    let is_control_c =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let is_quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind == KeyEventKind::Press && (is_quit || is_control_c)
}

fn draw(frame: &mut Frame, prefix: &Path, status: &PrefixStatus) {
    let head = head(prefix, status);
    let none = RunRecord::default();
    let run = status.run.as_ref().unwrap_or(&none);
    let most = frame.area().height / PART;
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(AROUND);
    let [top, nodes, datasets, events, foot] = Layout::vertical([
        Constraint::Length(head.len() as u16),
        Constraint::Length(rows(run.nodes.len()).min(most)),
        Constraint::Length(rows(run.datasets.len()).min(most)),
        Constraint::Min(AROUND),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    draw_nodes(frame, nodes, run);
    draw_datasets(frame, datasets, run, status);
    draw_events(frame, events, run);
    frame.render_widget(Line::from("q: end").dim(), foot);
}

fn head(prefix: &Path, status: &PrefixStatus) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(format!("scr top - {}", prefix.display())).bold()];
    match &status.run {
        None => lines.push(Line::from("no run has been started here")),
        Some(run) => {
            lines.push(Line::from(life(run, status)));
            let bytes = run.nodes.values().fold(0, |sum: u64, node| sum.saturating_add(node.bytes));
            let (nodes, job) = (run.nodes.len(), &run.job);
            lines.push(Line::from(format!(
                "job {job}: {} ranks on {nodes} nodes, {} in caches",
                run.ranks,
                HumanBytes(bytes)
            )));
        }
    }
    lines.push(Line::from(format!("restart {}", restart(status))));
    lines.push(Line::from(describe(&status.halt)));
    lines.extend(status.unreadable.iter().map(|what| Line::from(what.text.clone()).bold()));
    lines.push(Line::default());
    lines
}

fn table<'a, const N: usize>(
    title: String,
    headers: [&'a str; N],
    widths: [Constraint; N],
    rows: Vec<Row<'a>>,
) -> Table<'a> {
    Table::new(rows, widths)
        .header(Row::new(headers).style(Style::new().dim()))
        .block(Block::new().borders(Borders::NONE).title(Line::from(title).bold()))
}

fn draw_nodes(frame: &mut Frame, area: Rect, run: &RunRecord) {
    let mut all: Vec<_> = run.nodes.iter().collect();
    all.sort_by_key(|(_, node)| std::cmp::Reverse(node.bytes));
    let most = all.first().map_or(0, |(_, node)| node.bytes);
    let rows = all.iter().map(|(host, node)| {
        let bar = "=".repeat(bar_length(node.bytes, most));
        let bytes = HumanBytes(node.bytes).to_string();
        let [seal, flush] =
            [node.sealed, node.flushed].map(|pace| speed(pace.bytes, Some(pace.seconds())));
        let (ranks, files) = (node.ranks.to_string(), node.files.to_string());
        Row::new([(*host).clone(), ranks, files, bytes, seal, flush, bar])
    });
    let widths = [
        Constraint::Min(10),
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(12),
        Constraint::Length(14),
        Constraint::Length(14),
        Constraint::Length(BAR as u16),
    ];
    let title = format!("Nodes ({})", all.len());
    let headers = ["node", "ranks", "files", "in cache", "seal rate", "flush rate", ""];
    frame.render_widget(table(title, headers, widths, rows.collect()), area);
}

/// Of the node that holds most the bar is full.
fn bar_length(bytes: u64, most: u64) -> usize {
    let length = u128::from(bytes) * u128::from(BAR) / u128::from(most.max(1));
    usize::try_from(length).unwrap_or(0)
}

fn draw_datasets(frame: &mut Frame, area: Rect, run: &RunRecord, status: &PrefixStatus) {
    let rows = run.datasets.iter().rev().map(|(id, one)| {
        Row::new([
            id.to_string(),
            one.name.clone(),
            if one.complete { "complete" } else { "sealed" }.to_owned(),
            place(*id, one, status),
            HumanBytes(one.bytes).to_string(),
            took(one.seal_seconds),
            took(one.flush.seconds),
        ])
    });
    let widths = [
        Constraint::Length(7),
        Constraint::Min(16),
        Constraint::Length(8),
        Constraint::Min(24),
        Constraint::Length(12),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let title = format!("Datasets ({})", run.datasets.len());
    let headers = ["dataset", "name", "state", "where", "bytes", "seal", "flush"];
    frame.render_widget(table(title, headers, widths, rows.collect()), area);
}

fn draw_events(frame: &mut Frame, area: Rect, run: &RunRecord) {
    let rows =
        run.events.iter().rev().map(|event| {
            Row::new([show(event.time as u64), event.what.clone(), event.text.clone()])
        });
    let widths = [Constraint::Length(24), Constraint::Length(16), Constraint::Min(20)];
    let title = "Last events".to_owned();
    frame.render_widget(table(title, ["time", "event", "what"], widths, rows.collect()), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use scr_core::operations::Life;
    use scr_core::records::{RunDataset, RunEvent, RunNode};

    use super::*;

    fn screen(status: &PrefixStatus, size: [u16; 2]) -> String {
        let [width, height] = size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw(frame, Path::new("/p"), status)).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let symbols: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let lines = symbols.chunks(usize::from(width)).map(|line| line.concat());
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    fn status() -> PrefixStatus {
        let node = |bytes| RunNode { ranks: 2, files: 1, bytes, ..RunNode::default() };
        let dataset =
            RunDataset { name: "checkpoint 30".into(), in_cache: true, ..RunDataset::default() };
        let event = RunEvent { time: 0.0, what: "SEALED".into(), text: "checkpoint 30".into() };
        let run = RunRecord {
            ranks: 4,
            nodes: [("n1".to_owned(), node(1 << 20)), ("n2".to_owned(), node(2 << 20))].into(),
            datasets: [(3, dataset)].into(),
            events: vec![event],
            ..RunRecord::default()
        };
        PrefixStatus { run: Some(run), life: Life::Runs, ..PrefixStatus::default() }
    }

    #[test]
    fn the_screen_has_nodes_datasets_and_events() {
        let text = screen(&status(), [120, 30]);
        for part in ["scr top - /p", "3.00 MiB in caches", "Nodes (2)", "checkpoint 30", "SEALED"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let at = |host: &str| text.find(host).unwrap_or_else(|| panic!("{host}: {text}"));
        assert!(at("n2") < at("n1"), "the fullest comes first: {text}");
    }

    #[test]
    fn any_screen_will_do() {
        for size in [[1, 1], [20, 5], [80, 24], [300, 100]] {
            screen(&status(), size);
            screen(&PrefixStatus::default(), size);
        }
        assert_eq!((bar_length(0, 0), bar_length(5, 5)), (0, 24));
        assert_eq!(bar_length(u64::MAX, u64::MAX), 24);
    }
}
