//! `regrow man`: what the definition of the command line ([`crate::cli`]) says, as `man` reads it.

use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::cli::Cli;
use crate::cli::setup::ManArgs;
use crate::error::CliError;
use crate::own_file::OWN_NAME;

/// Headings in the text after a help that become sections of a manual page.
const SECTIONS: [(&str, &str); 3] =
    [("Exit status:", "EXIT STATUS"), ("Examples:", "EXAMPLES"), ("Environment:", "ENVIRONMENT")];

/// Writes the manual pages.
pub(crate) fn man(args: &ManArgs) -> Result<u8, CliError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CliError::Write { path, source }
    };
    std::fs::create_dir_all(&args.dir).map_err(failed(&args.dir))?;
    for (name, text) in pages().map_err(CliError::Print)? {
        let path = args.dir.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(0)
}

/// Every page with the name of its file.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let each = whole.get_subcommands().chain([&whole]);
    each.map(|command| {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        Ok((format!("{name}.1"), page(command)?))
    })
    .collect()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let source = format!("{OWN_NAME} {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Regrow");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(after) = command.get_after_help() {
        after_help(&after.to_string()).to_writer(&mut text)?;
    }
    Ok(text)
}

/// The synopsis: options, then words, each with its value, and with dots where it may repeat.
fn synopsis(command: &Command) -> Roff {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = vec![bold(name)];
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    for argument in shown().filter(|argument| !argument.is_positional()) {
        let (open, close) = brackets(argument.is_required_set());
        line.push(roman(format!(" {open}")));
        let short = argument.get_short().map(|short| format!("-{short}"));
        let long = argument.get_long().map(|long| format!("--{long}"));
        line.extend(short.iter().map(bold));
        if short.is_some() && long.is_some() {
            line.push(roman("|"));
        }
        line.extend(long.iter().map(bold));
        if argument.get_action().takes_values() {
            line.extend([roman(" "), italic(value_name(argument))]);
        }
        line.push(roman(close));
    }
    for argument in shown().filter(|argument| argument.is_positional()) {
        let (open, close) = brackets(argument.is_required_set());
        let is_list = matches!(argument.get_action(), ArgAction::Append);
        let dots = if is_list { "..." } else { "" };
        line.extend([
            roman(format!(" {open}")),
            italic(value_name(argument)),
            roman(format!("{close}{dots}")),
        ]);
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text(line);
    roff
}

/// What stands around an argument.
fn brackets(is_required: bool) -> (&'static str, &'static str) {
    if is_required { ("", "") } else { ("[", "]") }
}

fn value_name(argument: &Arg) -> String {
    match argument.get_value_names() {
        Some(names) => names.join(" "),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

/// The text after the help: a section for each of [`SECTIONS`], and one for the rest. Indented lines stay lines.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut has_notes = false;
    for paragraph in text.split("\n\n") {
        let section = SECTIONS.iter().find_map(|(head, title)| Some((*title, paragraph.strip_prefix(head)?)));
        let paragraph = match section {
            Some((title, rest)) => {
                roff.control("SH", [title]);
                sentence(rest.trim_start_matches('\n'))
            }
            None if !has_notes => {
                has_notes = true;
                roff.control("SH", ["NOTES"]);
                paragraph.to_owned()
            }
            None => {
                roff.control("PP", []);
                paragraph.to_owned()
            }
        };
        lines(&mut roff, &paragraph);
    }
    roff
}

/// The text that follows a heading and a colon in one line, as a sentence. A list stays as it is.
fn sentence(text: &str) -> String {
    let mut rest = text.strip_prefix(' ').filter(|rest| !rest.starts_with(' ')).unwrap_or(text).chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

fn lines(roff: &mut Roff, paragraph: &str) {
    let mut filled = true;
    for line in paragraph.lines() {
        let fill = !line.starts_with(' ');
        if fill != filled {
            roff.control(if fill { "fi" } else { "nf" }, []);
            filled = fill;
        }
        roff.text([roman(line)]);
    }
    if !filled {
        roff.control("fi", []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_has_a_page_with_its_examples() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"regrow.1") && names.contains(&"regrow-run.1"), "{names:?}");
        assert_eq!(names.len(), Cli::command().get_subcommands().count() + 1);
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            for section in [".SH NAME\n", ".SH SYNOPSIS\n", ".SH EXAMPLES\n.nf\n"] {
                assert!(text.contains(section), "{name}: {section}\n{text}");
            }
        }
    }

    #[test]
    fn the_synopsis_has_values_and_dots() {
        let pages = pages().unwrap();
        let synopsis = |wanted: &str| {
            let (_, text) = pages.iter().find(|(name, _)| name == wanted).unwrap();
            let text = String::from_utf8_lossy(text).replace("\\fB", "").replace("\\fI", "");
            let text = text.replace("\\fR", "").replace("\\-", "-");
            text.split_once(".SH SYNOPSIS\n").unwrap().1.lines().next().unwrap().to_owned()
        };
        let run = synopsis("regrow-run.1");
        for part in ["regrow run [", " [--no-tty] ", " [--repeat N] ", "[-h|--help] PROG [ARGS]..."] {
            assert!(run.contains(part), "{part}: {run}");
        }
        let record = synopsis("regrow-record.1");
        assert!(record.contains(" -o|--output FILE "), "{record}");
        let link = synopsis("regrow-link.1");
        assert!(link.ends_with(" NAME..."), "{link}");
        let whole = synopsis("regrow.1");
        assert!(whole.starts_with("regrow [") && whole.ends_with(" COMMAND"), "{whole}");
    }

    #[test]
    fn the_exit_status_has_a_section() {
        let text = after_help("Exit status: that of\nthe run.\n\nExamples:\n  regrow x").to_roff();
        assert!(
            text.contains(".SH \"EXIT STATUS\"\nThat of\nthe run.\n.SH EXAMPLES\n.nf\n  regrow x\n"),
            "{text}"
        );
    }

    #[test]
    fn indented_lines_stay_lines() {
        let text = after_help("One\ntwo.\n  a\n  b\nthree.\n\nFour.\n\nExamples:\n  regrow x").to_roff();
        let (_, text) = text.split_once(".SH NOTES\n").unwrap();
        let wanted =
            "One\ntwo.\n.nf\n  a\n  b\n.fi\nthree.\n.PP\nFour.\n.SH EXAMPLES\n.nf\n  regrow x\n.fi\n";
        assert_eq!(text, wanted);
    }
}
