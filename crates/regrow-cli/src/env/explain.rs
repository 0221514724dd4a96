//! `regrow env --explain`: which programs go which way, and why.

use std::fmt::Write as _;

use regrow_bench::table::{Alignment, TextTable};

use super::choice::Choice;
use super::compilers::compilers;
use super::folder::choices;
use super::learned::{Learned, Price};
use super::place::{EnvError, EnvPlace};
use crate::error::CliError;
use crate::output;

/// The reasons are not cut off before so many characters.
const WIDTH: usize = 200;

/// Prints the table.
pub(super) fn explain(all: bool) -> Result<u8, CliError> {
    let place = EnvPlace::of_user()?;
    let path = std::env::var_os("PATH").ok_or(EnvError::NoPath)?;
    let path = place.without_ours(&path);
    let folder = place.for_path(&path, all);
    let learned = if all { Learned::default() } else { Learned::read(&place.learned()) };
    let mut text = format!("launchers  {}\n", folder.launchers().display());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "price      {}\n", learned.price.map_or("not known yet".to_owned(), told));
    let mut choices = choices(&path, &learned);
    choices.extend(compilers(&path, &learned).into_iter().map(|compiler| compiler.choice));
    text += &table(&choices, regrow_bench::table::output_width().max(WIDTH));
    output::print(&text)?;
    Ok(0)
}

fn told(price: Price) -> String {
    let Price { by_exec_us, by_launcher_us, start_us: _ } = price;
    format!("the smallest program takes {by_launcher_us:.0} µs by a launcher, {by_exec_us:.0} µs by exec")
}

fn table(choices: &[Choice], width: usize) -> String {
    let mut table = TextTable::new(&[
        ("name", Alignment::Left),
        ("way", Alignment::Left),
        ("program", Alignment::Text),
        ("why", Alignment::Text),
    ]);
    for choice in choices {
        let file = choice.file.as_ref().map_or("-".to_owned(), |file| file.display().to_string());
        let (way, why) = match &choice.alone {
            None => ("launcher", "-".to_owned()),
            Some(why) => ("as always", why.to_string()),
        };
        table.row([choice.name.to_owned(), way.to_owned(), file, why]);
    }
    table.render(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::choice::Alone;

    #[test]
    fn each_program_has_a_row_with_its_way_and_the_reason() {
        let choice = |name, alone| Choice { name, file: Some(format!("/bin/{name}").into()), alone };
        let loses = Alone::Loses { costs_us: 600.4, saves_us: 0.0 };
        let text = table(&[choice("sed", None), choice("cat", Some(loses))], WIDTH);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["sed", "launcher", "/bin/sed", "-"]), "{text}");
        assert!(text.contains("a launcher costs 600 µs more than exec, and saves 0 µs"), "{text}");
    }
}
