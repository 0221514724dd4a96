//! `regrow top`: the state of the daemon's pool and of the pools of programs, live.

use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use regrow_bench::table::Alignment;
use regrow_daemon::wire::Question;
use serde_json::Value;

use crate::cli::daemon::TopArgs;
use crate::error::CliError;
use crate::pools::{self, COLUMNS, cells};
use crate::status::{ask, describe, program_of};
use crate::values::{plain, sum};

/// How many rates the graph shows.
const HISTORY: usize = 240;
/// Lines of the summary at the top.
const SUMMARY_LINES: u16 = 6;
/// Lines of the graph.
const GRAPH_LINES: u16 = 5;
/// Lines of a table that are no rows.
const FRAME_LINES: u16 = 3;

/// What is shown.
#[derive(Debug, Default)]
struct View {
    status: Value,
    error: Option<String>,
    /// The pools of programs.
    pools: Vec<Value>,
    /// Creations in each interval, oldest first.
    rates: Vec<u64>,
    total: Option<u64>,
}

impl View {
    /// Asks the daemon, and looks for pools.
    fn look(&mut self) {
        self.take(ask(Question::Status));
        self.pools = pools::read();
    }

    /// Takes the daemon's answer in.
    fn take(&mut self, answer: Result<Value, CliError>) {
        match answer {
            Ok(status) => {
                let creations = &status["pool"]["creations"];
                let kinds = ["recycled", "forked_body", "exec"];
                let total = kinds.iter().map(|kind| sum(&creations[*kind])).sum();
                // The first answer, and that of another daemon, have nothing to be compared with.
                let rate = self.total.and_then(|before| u64::checked_sub(total, before));
                self.rates.extend(rate);
                if self.rates.len() > HISTORY {
                    self.rates.remove(0);
                }
                self.total = Some(total);
                self.status = status;
                self.error = None;
            }
            Err(error) => {
                self.error = Some(crate::message::chain(&error));
                self.total = None;
            }
        }
    }

    /// How high the parts are: of the pools up to half of what there is, where there is a daemon; else they have it all.
    fn heights(&self, height: u16) -> [Constraint; 5] {
        let rows = u16::try_from(self.pools.len()).unwrap_or(u16::MAX);
        let pools = if rows == 0 { 0 } else { rows.saturating_add(FRAME_LINES).min(height / 2) };
        let keys = Constraint::Length(1);
        if self.error.is_some() {
            let nothing = Constraint::Length(0);
            return [Constraint::Length(1), nothing, Constraint::Min(0), nothing, keys];
        }
        let (summary, graph) = (Constraint::Length(SUMMARY_LINES), Constraint::Length(GRAPH_LINES));
        [summary, graph, Constraint::Length(pools), Constraint::Min(3), keys]
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [summary, graph, pools, images, keys] =
            Layout::vertical(self.heights(frame.area().height)).areas(frame.area());
        let text = match &self.error {
            Some(error) => error.clone(),
            None if self.status.is_null() => String::new(),
            None => describe(&self.status, usize::from(summary.width)),
        };
        let lines: Vec<Line<'_>> = text.lines().take(SUMMARY_LINES.into()).map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines), summary);
        let title = format!("creations in an interval: {}", self.rates.last().copied().unwrap_or(0));
        let shown = self.rates.len().saturating_sub(graph.width.saturating_sub(2).into());
        let data = self.rates.get(shown..).unwrap_or_default();
        frame.render_widget(Sparkline::default().block(Block::bordered().title(title)).data(data), graph);
        if !self.pools.is_empty() {
            frame.render_widget(self.pools(), pools);
        }
        frame.render_widget(self.images(), images);
        frame.render_widget(Paragraph::new("q quits"), keys);
    }

    fn pools(&self) -> Table<'_> {
        let rows: Vec<[String; COLUMNS.len()]> = self.pools.iter().map(cells).collect();
        let longest = |at: usize| {
            let cells = rows.iter().map(|row| row[at].chars().count());
            let most = cells.chain([COLUMNS[at].0.chars().count()]).max().unwrap_or(0);
            u16::try_from(most).unwrap_or(u16::MAX)
        };
        let widths = COLUMNS.iter().enumerate().map(|(at, (_, alignment))| match alignment {
            Alignment::Right => Constraint::Length(longest(at)),
            // Both share what is left.
            Alignment::Text => Constraint::Fill(3),
            Alignment::Left | Alignment::Name => Constraint::Fill(2),
        });
        let cell = |(at, text): (usize, String)| {
            let is_number = matches!(COLUMNS[at].1, Alignment::Right);
            let text = Text::from(text);
            Cell::from(if is_number { text.right_aligned() } else { text })
        };
        let row = |cells: Vec<String>| Row::new(cells.into_iter().enumerate().map(cell));
        let heading = row(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect());
        let widths: Vec<Constraint> = widths.collect();
        Table::new(rows.into_iter().map(|cells| row(cells.into())), widths)
            .header(heading.style(Style::new().add_modifier(Modifier::BOLD)))
            .block(Block::bordered().title("pools of programs"))
    }

    fn images(&self) -> Table<'_> {
        let mut images: Vec<&Value> = self.status["images"].as_array().into_iter().flatten().collect();
        images.sort_by_key(|image| std::cmp::Reverse(image["runs"].as_u64()));
        let rows = images.into_iter().map(|image| {
            let bodies = image["bodies"].as_str().map_or(0, |bodies| bodies.split_whitespace().count());
            Row::new([
                program_of(image),
                plain(&image["point"]),
                bodies.to_string(),
                plain(&image["runs"]),
                image["kept_bytes"].as_u64().map_or("-".to_owned(), |bytes| (bytes >> 10).to_string()),
                plain(&image["state"]),
            ])
        });
        let widths = [
            Constraint::Fill(2),
            Constraint::Length(6),
            Constraint::Length(6),
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Fill(1),
        ];
        let heading = ["program", "point", "bodies", "runs", "KiB", "state"].map(Cell::from);
        Table::new(rows, widths)
            .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
            .block(Block::bordered().title("images"))
    }
}

/// Shows the state until a key ends it.
pub(crate) fn top(args: &TopArgs) -> Result<u8, CliError> {
    let mut view = View::default();
    view.look();
    let interval = Duration::from_millis(args.interval_ms.into());
    let failed = CliError::system("the terminal cannot be used");
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => return Err(failed(error)),
    };
    let shown = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match wait_for_key(interval) {
            Ok(true) => break Ok(()),
            Ok(false) => view.look(),
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    shown.map(|()| 0).map_err(CliError::system("the terminal cannot be used"))
}

/// Waits for one interval. True when a key ends the view.
fn wait_for_key(interval: Duration) -> std::io::Result<bool> {
    if !event::poll(interval)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let quits = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || interrupt;
    Ok(key.kind == KeyEventKind::Press && quits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn status(recycled: u64) -> Value {
        json!({
            "daemon": {"pid": 7, "clients": 1, "runs": 0, "stopping": false},
            "pool": {
                "host": "here", "uptime_s": 3, "images": 1, "shells": 0, "bodies": {"armed": 2},
                "kept_bytes": 4096, "budget_bytes": 8192,
                "creations": {"recycled": {"main": recycled}, "forked_body": {}, "exec": 1, "fallbacks": {}},
                "given_up": {}, "to_main_us": null,
            },
            "images": [{"file": "/usr/bin/git", "argv0": "git", "state": "kept", "point": "main",
                        "bodies": "1 2", "runs": recycled, "kept_bytes": 4096}],
        })
    }

    fn screen(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(90, 24)).expect("a screen in memory");
        terminal.draw(|frame| view.draw(frame)).expect("it can be drawn on");
        let buffer = terminal.backend().buffer();
        buffer
            .content()
            .chunks(90)
            .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>() + "\n")
            .collect()
    }

    #[test]
    fn the_screen_shows_counts_rates_and_images() {
        let mut view = View::default();
        view.take(Ok(status(10)));
        view.take(Ok(status(17)));
        let screen = screen(&view);
        for part in ["pid 7 on here", "17 recycled", "creations in an interval: 7", "/usr/bin/git", "q quits"]
        {
            assert!(screen.contains(part), "{part} in\n{screen}");
        }
    }

    #[test]
    fn the_screen_shows_the_pools_of_programs_with_a_daemon_and_without() {
        let pools = vec![crate::pools::tests::of_two_executors()];
        let mut view = View { pools, ..View::default() };
        view.take(Ok(status(10)));
        let with = screen(&view);
        view.take(Err(CliError::NoProgram { program: "x".into() }));
        let without = screen(&view);
        for screen in [&with, &without] {
            let row = screen.lines().find(|line| line.contains("12 python3")).expect("a row of the pool");
            let cells: Vec<&str> = row.trim_matches('│').split_whitespace().collect();
            assert_eq!(
                (cells[0], &cells[cells.len() - 8..]),
                ("12", &["5", "2", "5", "42", "4", "3", "1", "3.0"][..])
            );
        }
        assert!(with.contains("/usr/bin/git") && with.contains("pid 7 on here"), "{with}");
    }

    #[test]
    fn a_daemon_that_is_gone_is_told_and_another_one_starts_anew() {
        let mut view = View::default();
        view.take(Ok(status(10)));
        view.take(Err(CliError::NoProgram { program: "x".into() }));
        assert!(screen(&view).contains("no such program"));
        view.take(Ok(status(2)));
        assert_eq!(view.rates, [] as [u64; 0]);
        view.take(Ok(status(3)));
        assert_eq!(view.rates, [1]);
    }
}
