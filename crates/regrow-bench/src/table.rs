//! Tables of text: columns aligned, headings of several lines, and long texts wrapped to the width of the terminal.
//!
//! ```text
//!   feature  since  with it                  left, left, text
//!   -------  -----  ---------------------
//!   clone3   5.5    A run starts with
//!                   default dispositions.    a text goes on in the next line
//! ```

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands between two columns.
const GAP: &str = "  ";
/// A column of text, or of names, is never narrower than this, however narrow the terminal.
const TEXT_WIDTH_MIN: usize = 24;
const NAME_WIDTH_MIN: usize = 12;
/// The width where there is no terminal.
const WIDTH_DEFAULT: usize = 120;

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// A word, flush left.
    Left,
    /// A number, flush right.
    Right,
    /// A sentence, flush left and wrapped where the table would be too wide.
    Text,
    /// A name, flush left, of which the middle is left out where the table would be too wide.
    Name,
}

#[derive(Debug)]
struct Column {
    heading: Vec<String>,
    alignment: Alignment,
}

/// A table that is being filled.
#[derive(Debug)]
pub struct TextTable {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table without rows. A heading may have several lines.
    pub fn new(columns: &[(&str, Alignment)]) -> Self {
        let columns = columns
            .iter()
            .map(|&(heading, alignment)| Column {
                heading: heading.lines().map(str::to_owned).collect(),
                alignment,
            })
            .collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row. Cells that are missing are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().take(self.columns.len()).collect());
    }

    /// The table, each line ended.
    pub fn render(&self, width: usize) -> String {
        let widths = self.widths(width);
        let mut text = String::new();
        let heading_lines = self.columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
        for line in 0..heading_lines {
            // Headings stand at the bottom of their field.
            let cells = self.columns.iter().map(|column| {
                let skipped = heading_lines - column.heading.len();
                line.checked_sub(skipped).and_then(|line| column.heading.get(line)).map_or("", String::as_str)
            });
            self.line(&mut text, &widths, cells);
        }
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.line(&mut text, &widths, rules.iter().map(String::as_str));
        for row in &self.rows {
            let shortened = row.iter().zip(&self.columns).zip(&widths).map(|((cell, column), width)| {
                if column.alignment == Alignment::Name { shorten(cell, *width) } else { cell.clone() }
            });
            self.wrapped_row(&mut text, &widths, &shortened.collect::<Vec<_>>());
        }
        text
    }

    fn wrapped_row(&self, text: &mut String, widths: &[usize], row: &[String]) {
        let cells: Vec<Vec<&str>> = row
            .iter()
            .zip(&self.columns)
            .zip(widths)
            .map(|((cell, column), width)| match column.alignment {
                Alignment::Text => wrap(cell, *width),
                Alignment::Left | Alignment::Right | Alignment::Name => vec![cell.as_str()],
            })
            .collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..lines {
            self.line(text, widths, cells.iter().map(|cell| cell.get(line).copied().unwrap_or("")));
        }
    }

    fn line<'a>(&self, text: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
        let start = text.len();
        for (index, ((cell, column), width)) in cells.zip(&self.columns).zip(widths).enumerate() {
            if index > 0 {
                text.push_str(GAP);
            }
            let padding = " ".repeat(width.saturating_sub(length(cell)));
            match column.alignment {
                Alignment::Right => text.extend([padding.as_str(), cell]),
                Alignment::Left | Alignment::Text | Alignment::Name => text.extend([cell, padding.as_str()]),
            }
        }
        let end = start + text.get(start..).map_or(0, |line| line.trim_end().len());
        text.truncate(end);
        text.push('\n');
    }

    /// The width of each column: what its cells need. Columns of text and of names share what the others leave.
    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.get(index));
                cells.chain(&column.heading).map(|cell| length(cell)).max().unwrap_or(0)
            })
            .collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut left = width.saturating_sub(gaps);
        let mut elastic: Vec<usize> = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            match column.alignment {
                Alignment::Text | Alignment::Name => elastic.push(index),
                Alignment::Left | Alignment::Right => left = left.saturating_sub(widths[index]),
            }
        }
        // What one does not need is left to the others.
        elastic.sort_by_key(|&index| widths[index]);
        for (done, &index) in elastic.iter().enumerate() {
            let share = left / (elastic.len() - done);
            let is_name = self.columns[index].alignment == Alignment::Name;
            let least = if is_name { NAME_WIDTH_MIN } else { TEXT_WIDTH_MIN };
            widths[index] = widths[index].min(share.max(least));
            left = left.saturating_sub(widths[index]);
        }
        widths
    }
}

/// A name of at most `width` columns: of a longer one the end and some of the beginning, which tell most.
fn shorten(name: &str, width: usize) -> String {
    if length(name) <= width {
        return name.to_owned();
    }
    let room = width.saturating_sub(1);
    let taken = |characters: &mut dyn Iterator<Item = char>, room: usize| {
        let mut used = 0;
        let fits = |each: &char| {
            used += each.width().unwrap_or(0);
            used <= room
        };
        characters.take_while(fits).collect::<Vec<char>>()
    };
    let begin = taken(&mut name.chars(), room / 3);
    let begin_width: usize = begin.iter().map(|each| each.width().unwrap_or(0)).sum();
    let end = taken(&mut name.chars().rev(), room - begin_width);
    begin.iter().chain(&['…']).chain(end.iter().rev()).collect()
}

/// How many columns a line takes on the terminal.
fn length(text: &str) -> usize {
    text.width()
}

/// Breaks a text at its blanks into lines of at most `width`; a longer word has a line of its own.
fn wrap(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while length(rest) > width {
        let fits = rest.char_indices().nth(width).map_or(rest.len(), |(index, _)| index);
        let is_break = |index: &usize| rest.is_char_boundary(*index) && rest[*index..].starts_with(' ');
        let before = (1..=fits).rev().find(is_break);
        let Some(end) = before.or_else(|| (fits..rest.len()).find(is_break)) else { break };
        let (line, following) = rest.split_at(end);
        lines.push(line.trim_end());
        rest = following.trim_start();
    }
    lines.push(rest);
    lines
}

/// The width of the terminal that standard output is, or a width that is good to read.
pub fn output_width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return WIDTH_DEFAULT;
    }
    match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => WIDTH_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = TextTable::new(&[("program", Alignment::Left), ("p50\nµs", Alignment::Right)]);
        table.row(["/bin/true".to_owned(), "21.3".to_owned()]);
        table.row(["sh".to_owned(), "133.0".to_owned()]);
        let expected =
            "             p50\nprogram       µs\n---------  -----\n/bin/true   21.3\nsh         133.0\n";
        assert_eq!(table.render(80), expected);
    }

    #[test]
    fn texts_share_the_width_that_is_left() {
        let mut table = TextTable::new(&[("name", Alignment::Left), ("what", Alignment::Text)]);
        table.row(["a".to_owned(), "one two three four five six seven".to_owned()]);
        table.row(["b".to_owned(), "short".to_owned()]);
        let expected = "name  what\n----  ------------------------\na     one two three four five\n      six seven\nb     short\n";
        assert_eq!(table.render(10), expected);
        assert_eq!(table.render(200).lines().count(), 4);
    }

    #[test]
    fn names_lose_their_middle_and_wide_characters_count_twice() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghijkl", 10), "abc…ghijkl");
        assert_eq!(shorten("ファイルの名前.c", 9), "フ…名前.c");
        assert!(
            ["", "a", "ファ"]
                .iter()
                .all(|name| (0..4).all(|width| length(&shorten(name, width)) <= width.max(1)))
        );
        let mut table = TextTable::new(&[("name", Alignment::Name), ("n", Alignment::Right)]);
        table.row(["/a/folder/of/which/the/name/is/long/file.c:12".to_owned(), "1".to_owned()]);
        table.row(["ファイル".to_owned(), "2".to_owned()]);
        let text = table.render(27);
        assert!(text.lines().all(|line| length(line) == 27), "{text}");
        assert!(text.contains("/a/fold…s/long/file.c:12  1\n"), "{text}");
    }

    #[test]
    fn a_text_breaks_at_blanks_and_keeps_every_word() {
        assert_eq!(wrap("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrap("ab cd ef", 4), ["ab", "cd", "ef"]);
        assert_eq!(wrap("abcdefgh ij", 4), ["abcdefgh", "ij"]);
        assert_eq!(wrap("µµµ µµµ", 3), ["µµµ", "µµµ"]);
        assert_eq!(wrap("abcdefgh", 4), ["abcdefgh"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
