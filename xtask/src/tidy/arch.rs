//! The words of one processor's architecture stand only in folders named `arch`.
//!
//! Comments count. Victims and other sources of tests in C and assembly do not: they are programs for one machine.

use super::finding::Finding;
use crate::repo::TextFile;

/// The crates that have such a folder.
const CRATES: &[&str] = &[
    "agent/",
    "client/",
    "crates/regrow-abi/",
    "crates/regrow-fiber/",
    "crates/regrow-image/",
    "crates/regrow-machine/",
    "crates/regrow-sys/",
];

/// The folder.
const FOLDER: &str = "/src/arch/";

/// Words in small letters; what stands beside one in a text is no letter and no digit.
const WORDS: &[&str] = &[
    "x86",
    "x86_64",
    "eax",
    "ebx",
    "ecx",
    "edx",
    "esi",
    "edi",
    "ebp",
    "esp",
    "eip",
    "rax",
    "rbx",
    "rcx",
    "rdx",
    "rsi",
    "rdi",
    "rbp",
    "rsp",
    "rip",
    "r8",
    "r9",
    "r10",
    "r11",
    "r12",
    "r13",
    "r14",
    "r15",
    "orig_ax",
    "eflags",
    "rflags",
    "fs_base",
    "gs_base",
    "xsave",
    "xrstor",
    "xrstor64",
    "fxsave",
    "fxsave64",
    "fxrstor",
    "fxrstor64",
    "xstate",
    "mxcsr",
    "int3",
];

/// The files that may have such words elsewhere, and why they must.
const FILES: &[(&str, &str)] = &[("xtask/src/tidy/arch.rs", "the words stand here")];

/// Checks every Rust file.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let checked = files.iter().filter(|file| file.path.ends_with(".rs") && !may_have_words(&file.path));
    checked.flat_map(check_file).collect()
}

fn may_have_words(path: &str) -> bool {
    FILES.iter().any(|(file, _)| *file == path)
        || CRATES.iter().any(|folder| path.starts_with(folder)) && path.contains(FOLDER)
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let line = line.to_ascii_lowercase();
        let words: Vec<&str> = WORDS.iter().copied().filter(|word| has_word(&line, word)).collect();
        if !words.is_empty() {
            let message = format!("`{}`: outside of a folder named `arch`", words.join("`, `"));
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

/// Whether a word stands in a line by itself; `_` may join it to others.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::file;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&[file(path, text)]).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn words_of_a_machine_are_found_outside_of_arch() {
        let path = "crates/regrow-image/src/load.rs";
        for text in [
            "state.rip += 1;\n",
            "// The XSAVE area.\n",
            "set_rdi(1);\n",
            "\"x86-64\"\n",
            "arch_x86_64\n",
            "fs_base\n",
        ] {
            assert_eq!(lines(path, text), [1], "{text}");
        }
        assert!(lines(path, "strip(prefix); r16; ripe; four8; Rust; description\n").is_empty());
        assert_eq!(lines(path, "a\nlet rax = rbx;\n"), [2]);
    }

    #[test]
    fn a_folder_named_arch_of_some_crates_may_have_them() {
        assert!(lines("agent/src/arch/x86_64.rs", "rax\n").is_empty());
        assert!(lines("crates/regrow-sys/src/arch/x86_64/registers.rs", "rax\n").is_empty());
        assert_eq!(lines("crates/regrow-engine/src/arch/x86_64.rs", "rax\n"), [1]);
        assert_eq!(lines("agent/src/archive.rs", "rax\n"), [1]);
        assert!(lines("tests/victims/registers.c", "rax\n").is_empty());
    }
}
