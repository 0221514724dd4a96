//! `regrow completions`: what the definition of the command line ([`crate::cli`]) says, as a shell reads it.
//!
//! The generators for bash and fish do not know that a program follows `regrow run` and its flags, and the program's own words
//! follow that. This file adds it. The generator for zsh knows.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::cli::setup::{CompletionsArgs, ShellArg};
use crate::error::CliError;
use crate::own_file::OWN_NAME;

/// For bash. `FLAGS` stands for the flags of `regrow run` that have a value.
const BASH: &str = r#"
_regrow_programs() {
    local at=2 flags=1
    case ${COMP_WORDS[1]} in
        link) COMPREPLY=($(compgen -c -- "$2")); [[ $2 != -* ]] && return ;;
        run)
            while ((flags && at < COMP_CWORD)); do
                case ${COMP_WORDS[at]} in
                    --) flags=0 ;;
                    FLAGS) ((at++)) ;;
                    -*) ;;
                    *) break ;;
                esac
                ((at++))
            done
            if ((at == COMP_CWORD)) && [[ $flags = 0 || $2 != -* ]]; then
                COMPREPLY=($(compgen -c -- "$2"))
                return
            elif ((at < COMP_CWORD)); then
                COMPREPLY=()
                ! declare -F _command_offset >/dev/null || _command_offset "$at"
                return
            fi ;;
    esac
    _regrow "$@"
}
complete -F _regrow_programs -o bashdefault -o default regrow
"#;

/// For fish. `FLAGS` stands for the same; the function takes them after a word that is no long flag.
const FISH: &str = r#"
complete -c regrow -n '__fish_regrow_using_subcommand run' -f -a '(__fish_complete_subcommand --fcs-skip=2 - FLAGS)'
complete -c regrow -n '__fish_regrow_using_subcommand link' -f -a '(__fish_complete_command)'
complete -c regrow -n '__fish_regrow_using_subcommand completions' -f -a 'SHELLS'
"#;

impl From<ShellArg> for Shell {
    fn from(shell: ShellArg) -> Self {
        match shell {
            ShellArg::Bash => Self::Bash,
            ShellArg::Zsh => Self::Zsh,
            ShellArg::Fish => Self::Fish,
        }
    }
}

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, CliError> {
    io::stdout().write_all(text(args.shell).as_bytes()).map_err(CliError::Print)?;
    Ok(0)
}

fn text(shell: ShellArg) -> String {
    let mut command = Cli::command();
    let mut bytes = Vec::new();
    clap_complete::generate(Shell::from(shell), &mut command, OWN_NAME, &mut bytes);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let added = match shell {
        ShellArg::Bash => BASH.replace("FLAGS", &flags_of_run(&command).join(" | ")),
        ShellArg::Fish => {
            FISH.replace("FLAGS", &flags_of_run(&command).join(" ")).replace("SHELLS", "bash zsh fish")
        }
        ShellArg::Zsh => String::new(),
    };
    // Writing to a string cannot fail.
    let _ = text.write_str(&added);
    text
}

/// The flags of `regrow run` whose value is the next word.
fn flags_of_run(command: &clap::Command) -> Vec<String> {
    let run = command.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    let with_value = run.filter(|flag| flag.get_action().takes_values() && !flag.is_require_equals_set());
    with_value.filter_map(|flag| flag.get_long()).map(|name| format!("--{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_that_have_a_value_are_those_of_the_definition() {
        let mut command = Cli::command();
        command.build();
        let mut flags = flags_of_run(&command);
        flags.sort();
        assert_eq!(flags, ["--log", "--point", "--preload", "--repeat", "--report"]);
        let text = text(ShellArg::Bash);
        for flag in flags {
            assert!(
                text.lines().any(|line| line.ends_with(") ((at++)) ;;") && line.contains(&flag)),
                "{flag}"
            );
        }
    }
}
