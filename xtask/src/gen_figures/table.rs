//! A table in Markdown, and numbers as its cells have them.

/// A table that is being filled. Its first column stands left, the others right.
pub(super) struct Markdown(String);

impl Markdown {
    /// A table without rows.
    pub(super) fn new(headings: &[&str]) -> Self {
        let rule = "---:|".repeat(headings.len().saturating_sub(1));
        Self(format!("| {} |\n|---|{rule}\n", headings.join(" | ")))
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.0.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// Whether a row begins with this cell.
    pub(super) fn has(&self, first: &str) -> bool {
        self.0.lines().any(|line| line.starts_with(&format!("| {first} |")))
    }

    /// The table, each line ended.
    pub(super) fn text(self) -> String {
        self.0
    }
}

/// A number as short as it can be, from a thousand on without a fraction and with commas.
pub(super) fn number(value: f64) -> String {
    if value.abs() < 1000.0 {
        return format!("{value}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 7.5, 999.25, 1000.4, 60197.0, 1_234_567.0, -1500.0].map(number);
        assert_eq!(texts, ["0", "7.5", "999.25", "1,000", "60,197", "1,234,567", "-1,500"]);
    }
}
