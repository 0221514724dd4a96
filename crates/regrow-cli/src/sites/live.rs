//! The table of sites while a command runs, in a terminal.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};
use regrow_profile::report::{Order, SiteRow};
use regrow_profile::text::{plain, time};
use regrow_profile::{Profile, Report, Savings, Symbols};
use rustix::process::Signal;

use super::estimate;
use super::spool::Spool;
use super::table::{self, SiteColumn};
use crate::cli::sites::OutputArgs;
use crate::error::CliError;

/// Most sites that a screen has room for.
const MOST_ROWS: usize = 200;
/// Lines of the command's output that are shown.
const OUTPUT_LINES: u16 = 7;
/// Bytes that these have at most.
const OUTPUT_BYTES: u64 = 4096;

/// What is on the screen.
#[derive(Debug)]
struct View {
    title: String,
    began: Instant,
    order: Order,
    report: Option<Report>,
    alive: usize,
    output: String,
}

impl View {
    fn draw(&self, frame: &mut Frame<'_>) {
        let heights = [
            Constraint::Length(2),
            Constraint::Min(4),
            Constraint::Length(OUTPUT_LINES),
            Constraint::Length(1),
        ];
        let [summary, sites, output, keys] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(self.summary()), summary);
        frame.render_widget(self.sites(sites.width), sites);
        let room = usize::from(output.height.saturating_sub(2));
        let lines: Vec<Line<'_>> = self.output.lines().map(|line| Line::from(plain(line))).collect();
        let last = lines.get(lines.len().saturating_sub(room)..).unwrap_or_default().to_vec();
        frame.render_widget(
            Paragraph::new(last).block(Block::bordered().title("output, in full at the end")),
            output,
        );
        frame.render_widget(
            Paragraph::new("order: n number  c cpu  l life  s saved      q quits the view      Ctrl-C interrupts the command"),
            keys,
        );
    }

    fn summary(&self) -> Vec<Line<'_>> {
        let seconds = self.began.elapsed().as_secs();
        let (created, sites, saved) = self
            .report
            .as_ref()
            .map_or((0, 0, 0.0), |report| (report.counts.created, report.sites.len(), report.saved_us));
        let figures = format!(
            "{seconds} s: {created} processes at {sites} sites, {} alive; recycled starts would have saved about {}",
            self.alive,
            time(saved)
        );
        vec![Line::from(plain(&self.title)), Line::from(figures)]
    }

    fn sites(&self, width: u16) -> Table<'_> {
        let columns = table::columns(width.into());
        let aligned = |column: &SiteColumn, text: String| {
            let line = Line::from(text);
            Cell::from(if column.width.is_some() { line.right_aligned() } else { line })
        };
        let rows: &[SiteRow] = self.report.as_ref().map_or(&[], |report| &report.sites);
        let rows: Vec<Row<'_>> = rows
            .iter()
            .take(MOST_ROWS)
            .map(|site| Row::new(columns.iter().map(|column| aligned(column, (column.cell)(site)))))
            .collect();
        let widths =
            columns.iter().map(|column| column.width.map_or(Constraint::Fill(1), Constraint::Length));
        let heading = columns.iter().map(|column| aligned(column, column.title.to_owned()));
        Table::new(rows, widths)
            .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
            .block(Block::bordered().title("creation sites"))
    }
}

/// The terminal while it shows the view.
pub(super) struct Live {
    /// `None` once the view was left: the output is copied from then on.
    terminal: Option<Terminal<CrosstermBackend<File>>>,
    spool: Spool,
    view: View,
    symbols: Symbols,
    savings: Savings<'static>,
}

impl Live {
    /// Takes the terminal; `None` where standard input, output and error are not all terminals.
    pub(super) fn start(title: &str, how: &OutputArgs) -> Result<Option<Live>, CliError> {
        let is_terminal = std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal();
        let uses_stdout = [&how.json, &how.csv].into_iter().flatten().any(|path| path.as_os_str() == "-");
        if !is_terminal || uses_stdout {
            return Ok(None);
        }
        let failed = || CliError::system("the terminal cannot be used");
        let mut tty = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(failed())?;
        let spool = Spool::start().map_err(CliError::system("the command's output cannot be kept"))?;
        let view = View {
            title: title.to_owned(),
            began: Instant::now(),
            order: how.sort.into(),
            report: None,
            alive: 0,
            output: String::new(),
        };
        let (symbols, savings) = (Symbols::default(), estimate::savings());
        enable_raw_mode().map_err(failed())?;
        execute!(tty, EnterAlternateScreen).map_err(failed())?;
        let terminal = Some(Terminal::new(CrosstermBackend::new(tty)).map_err(failed())?);
        Ok(Some(Live { terminal, spool, view, symbols, savings }))
    }

    /// Takes the keys that were pressed. Whether the view must be drawn for them.
    pub(super) fn has_new_keys(&mut self) -> bool {
        let mut is_changed = false;
        while self.terminal.is_some() && event::poll(Duration::ZERO).unwrap_or(false) {
            match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    self.press(key.code, key.modifiers.contains(KeyModifiers::CONTROL));
                    is_changed = true;
                }
                Ok(Event::Resize(..)) => is_changed = true,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        is_changed
    }

    fn press(&mut self, key: KeyCode, with_control: bool) {
        match key {
            // The terminal is raw: it makes no signal of it. This process ignores it, as that of the keyboard.
            KeyCode::Char('c') if with_control => {
                let _ = rustix::process::kill_current_process_group(Signal::INT);
            }
            KeyCode::Char('q') | KeyCode::Esc => self.leave(),
            KeyCode::Char('n') => self.view.order = Order::Count,
            KeyCode::Char('c') => self.view.order = Order::Cpu,
            KeyCode::Char('l') => self.view.order = Order::Life,
            KeyCode::Char('s') => self.view.order = Order::Saved,
            _ => {}
        }
    }

    /// Draws what is known.
    pub(super) fn draw(&mut self, profile: &Profile) {
        let Some(terminal) = &mut self.terminal else {
            // What cannot be written is written at the end, or fails there.
            let _ = self.spool.copy();
            return;
        };
        let report =
            Report::new(&self.view.title, profile, &mut self.symbols, &self.savings, self.view.order);
        self.view.report = Some(report);
        self.view.alive = profile.alive();
        self.view.output = self.spool.tail(OUTPUT_BYTES);
        // A terminal that is gone shows nothing; the command goes on.
        let _ = terminal.draw(|frame| self.view.draw(frame));
    }

    /// Gives the terminal back; the command's output follows.
    fn leave(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            let _ = disable_raw_mode();
            let _ = execute!(terminal.backend_mut(), LeaveAlternateScreen);
            let _ = terminal.show_cursor();
        }
    }

    /// Gives the terminal back, and writes what the command has written.
    pub(super) fn end(mut self) -> Result<(), CliError> {
        self.leave();
        self.spool.end().map_err(CliError::Print)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;
    use regrow_profile::savings::Basis;
    use regrow_sites::{Event, ImageId, ProcessKey, Site};

    fn view(order: Order) -> View {
        let mut profile = Profile::new();
        let parent = ProcessKey { pid: 1, created_us: 0 };
        for (image, path) in [(1, "/usr/bin/make"), (2, "/usr/bin/gcc\x1b[2J"), (3, "/bin/sh")] {
            profile.take(Event::Named { image: ImageId(image), path: path.to_owned() });
        }
        let site = Site { image: ImageId(1), frames: [None; 3], script: None, child: None };
        for (pid, image) in [(2, 2), (3, 2), (4, 3)] {
            let process = ProcessKey { pid, created_us: pid.into() };
            profile.take(Event::Created { time_us: pid.into(), process, parent, site });
            profile.take(Event::Executed { time_us: 10, process, image: ImageId(image) });
        }
        profile.finish();
        let basis = Basis { base_us: 600.0, from: "a test".to_owned(), smallest_start_us: None };
        let savings = Savings::new(basis, |_| Default::default());
        let report = Report::new("make", &profile, &mut Symbols::default(), &savings, order);
        let output = "one\ntwo\nthree\nfour\nfive\nsix \x1b[31mred".to_owned();
        View {
            title: "make \x1b]0;x".to_owned(),
            began: Instant::now(),
            order,
            report: Some(report),
            alive: 3,
            output,
        }
    }

    fn screen(view: &View, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 20)).expect("a screen in memory");
        terminal.draw(|frame| view.draw(frame)).expect("it can be drawn on");
        let cells = terminal.backend().buffer().content();
        let rows = cells.chunks(width.into());
        rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>() + "\n").collect()
    }

    #[test]
    fn the_screen_has_sites_the_end_of_the_output_and_keys() {
        let wide = screen(&view(Order::Count), 130);
        for part in [
            "3 processes at 2 sites, 3 alive",
            "about 1.80 ms",
            "created at",
            "cpu p99",
            "gcc\\x1b[2J",
            "q quits",
        ] {
            assert!(wide.contains(part), "{part} in\n{wide}");
        }
        assert!(
            wide.contains("│two") && wide.contains("│six \\x1b[31mred") && !wide.contains("│one"),
            "{wide}"
        );
        let narrow = screen(&view(Order::Count), 80);
        assert!(
            narrow.contains("cpu mean") && narrow.contains("saved") && !narrow.contains("p99"),
            "{narrow}"
        );
        assert!(!wide.contains('\x1b') && !narrow.contains('\x1b'));
    }

    #[test]
    fn a_screen_of_nothing_and_a_small_one_are_drawn() {
        let nothing = View { report: None, output: String::new(), ..view(Order::Count) };
        assert!(screen(&nothing, 80).contains("0 processes at 0 sites"));
        for width in [1, 7, 30] {
            screen(&view(Order::Saved), width);
        }
    }
}
