//! `regrow completions` and `regrow man`: each names every subcommand that the help names.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{output, regrow, stderr, stdout};

/// The subcommands, as the help lists them.
fn subcommands() -> Vec<String> {
    let help = stdout(&output(["--help"]));
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let rows = list.lines().take_while(|row| !row.is_empty());
    // A row that is indented further is the rest of the one above.
    let names =
        rows.filter_map(|row| row.strip_prefix("  ")?.split_once(' ').map(|(name, _)| name.to_owned()));
    let names: Vec<String> = names.filter(|name| !name.is_empty() && name != "help").collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

#[test]
fn completions_name_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let output = output(["completions", shell]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        let text = stdout(&output);
        for name in subcommands() {
            let quoted = [format!("{name}\""), format!("'{name}:"), format!(" {name} "), format!("{name})")];
            assert!(quoted.iter().any(|word| text.contains(word)), "{shell}: {name}");
        }
        assert!(text.contains("no-tty"), "{shell}: a flag of regrow run");
    }
}

#[test]
fn bash_completes_subcommands_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("regrow");
    fs::write(&file, output(["completions", "bash"]).stdout).unwrap();
    let complete = |words: &str| {
        let script = format!(
            "source {}\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _regrow_programs regrow \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\necho \"${{COMPREPLY[*]}}\"",
            file.display()
        );
        let output = Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(stderr(&output), "", "{words}");
        stdout(&output).trim().to_owned()
    };
    assert_eq!(complete("regrow unl"), "unlink");
    assert_eq!(complete("regrow run --no-t"), "--no-tty");
    assert_eq!(complete("regrow completions f"), "fish");
    // A program stands behind the flags and their values.
    for before in ["run", "run --", "run --no-tty", "run --repeat 3 --verify", "run --point main --", "link"]
    {
        let found = complete(&format!("regrow {before} dpkg-quer"));
        assert_eq!(found.split_whitespace().next(), Some("dpkg-query"), "{before}");
    }
    assert_eq!(complete("regrow run --point m"), "main");
    assert_eq!(complete("regrow run dpkg-query dpkg-quer"), "");
}

#[test]
fn manual_pages_name_every_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let output = regrow().arg("man").arg(&pages).output().unwrap();
    assert_eq!(
        (output.status.code(), stdout(&output), stderr(&output)),
        (Some(0), String::new(), String::new())
    );
    let page = |name: &str| fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
    let whole = page("regrow");
    for name in subcommands() {
        assert!(whole.contains(&format!("regrow\\-{name}(1)")), "{name}: {whole}");
        let own = page(&format!("regrow-{name}"));
        assert!(own.starts_with(".ie"), "{own}");
        assert!(own.contains(&format!("regrow\\-{name} \\- ")), "{own}");
    }
    assert_eq!(pages.read_dir().unwrap().count(), subcommands().len() + 1);
}

#[test]
fn what_cannot_be_written_is_told() {
    let output = regrow().args(["man", "/dev/null/man1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.starts_with("regrow: /dev/null/man1: cannot be written: "), "{text}");
    let full = Path::new("/dev/full");
    let full = fs::File::options().write(true).open(full).unwrap();
    let output = regrow().args(["completions", "zsh"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).starts_with("regrow: standard output: cannot be written: "),
        "{}",
        stderr(&output)
    );
}
