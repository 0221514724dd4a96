//! Predictions against the kernel, over odd first lines.

use proptest::prelude::*;

use super::lab::{Lab, argv, has_no_format};
use super::*;

const ARGV: [&str; 3] = ["zero", "one two", ""];

/// Writes a script with `head` as its content and compares the prediction with what exec does.
fn check(lab: &Lab, head: &[u8]) {
    let script = lab.file("script", head, 0o755);
    check_path(lab, &script, head);
}

fn check_path(lab: &Lab, path: &Path, shown: &[u8]) {
    let shown = String::from_utf8_lossy(shown);
    let predicted = resolve_script_chain(path, &argv(&ARGV), Some(lab.dir()));
    match (predicted, lab.exec(path, &ARGV)) {
        (Ok(resolved), Ok(printed)) => {
            assert_eq!(lab.dir().join(resolved.program).canonicalize().expect("a program"), lab.path("p"));
            assert_eq!(resolved.argv, printed.argv, "{shown:?}");
            assert_eq!(printed.path, path, "{shown:?}");
        }
        (Err(error), Err(errno)) => {
            assert_eq!(error.errno(), Some(errno.raw_os_error()), "{shown:?}: {error}");
        }
        (Ok(resolved), Err(errno)) => {
            assert!(
                errno == Errno::NOEXEC && has_no_format(&lab.dir().join(&resolved.program)),
                "{shown:?}: {errno}"
            );
        }
        (Err(error), Ok(printed)) => panic!("{shown:?}: {error}, but exec gave {printed:?}"),
    }
}

#[test]
fn first_lines() {
    let lab = Lab::new();
    let lines: [&[u8]; 50] = [
        b"",
        b"#",
        b"#!",
        b"#!\n",
        b"#! \n",
        b"#! \t \t",
        b"#!\0",
        b"#!\0\n",
        b"#! \0 P\n",
        b"# !P\n",
        b" #!P\n",
        b"\n#!P\n",
        b"#P\n",
        b"echo plain text\n",
        b"#!P",
        b"#!P\n",
        b"#!P\r\n",
        b"#!P \r\n",
        b"#!P\nsecond line\n",
        b"#! P\n",
        b"#!\tP\n",
        b"#! \t P\n",
        b"#!P \n",
        b"#!P\t\n",
        b"#!P ",
        b"#!P  \t ",
        b"#!P  \0",
        b"#!P \0 x\n",
        b"#!P\0x\n",
        b"#!P\0 x\n",
        b"#!P\0\n",
        b"#!P x\0y\n",
        b"#!P x\0",
        b"#!P x",
        b"#!P x \t ",
        b"#!P x y \0",
        b"#!P x\n",
        b"#!P  x  \n",
        b"#!P\tx\ty\t\n",
        b"#!P -a -b  c \t d \n",
        b"#!P \"quoted arg\" 'x'\n",
        b"#!P #!P\n",
        b"#!P \x80\xff\n",
        b"#!P x\x0by\x0c\n",
        b"#!p\n",
        b"#!./p x\n",
        b"#!nowhere\n",
        b"#!/no/such/program\n",
        b"#!/tmp\n",
        b"#!P/under/a/file\n",
    ];
    for line in lines {
        check(&lab, &with_printer(&lab, line));
    }
}

/// Puts the printer's path for each `P`.
fn with_printer(lab: &Lab, line: &[u8]) -> Vec<u8> {
    let printer = lab.printer();
    let pieces: Vec<&[u8]> = line.split(|&byte| byte == b'P').collect();
    pieces.join(printer.as_bytes())
}

/// The printer's path made `length` bytes long.
fn long_printer(lab: &Lab, length: usize) -> String {
    let printer = lab.printer();
    let more = length.checked_sub(printer.len()).expect("a longer path");
    let slashes = "/".repeat(more);
    format!("{slashes}{printer}")
}

#[test]
fn interpreters_at_the_end_of_the_buffer() {
    let lab = Lab::new();
    for length in 248..262 {
        let path = long_printer(&lab, length);
        for tail in ["", "\n", " ", "\t\n", " x", " x\n", "  long argument that goes on\n", "\0", "\0 x\n"] {
            check(&lab, format!("#!{path}{tail}").as_bytes());
            check(&lab, format!("#! \t{path}{tail}").as_bytes());
        }
    }
}

#[test]
fn arguments_at_the_end_of_the_buffer() {
    let lab = Lab::new();
    let printer = lab.printer();
    for length in 250..260 {
        for (fill, tail) in
            [("a", ""), ("a", "\n"), ("a", " b"), ("a ", "\n"), (" ", "x\n"), ("\t", ""), (" a", " ")]
        {
            let mut line = format!("#!{printer} ");
            while line.len() < length {
                line.push_str(fill);
            }
            line.push_str(tail);
            check(&lab, line.as_bytes());
        }
    }
}

#[test]
fn blanks_all_over_the_buffer() {
    let lab = Lab::new();
    for count in 250..260 {
        for tail in ["", "\n", "x", "x\n", "\0", "\0\n"] {
            check(&lab, format!("#!{}{tail}", " ".repeat(count)).as_bytes());
        }
    }
}

#[test]
fn script_is_passed_as_it_was_given() {
    let lab = Lab::new();
    lab.file("sub/script", format!("#!{}\n", lab.printer()).as_bytes(), 0o755);
    for path in ["sub/script", "./sub//script", "sub/../sub/script"] {
        check_path(&lab, Path::new(path), b"");
        let resolved =
            resolve_script_chain(Path::new(path), &argv(&["a"]), Some(lab.dir())).expect("a script");
        assert_eq!(resolved.files, [PathBuf::from(path)]);
        assert_eq!(resolved.argv, argv(&[&lab.printer(), path]));
    }
}

#[test]
fn program_keeps_its_arguments() {
    let lab = Lab::new();
    let resolved = resolve_script_chain(&lab.path("p"), &argv(&ARGV), None).expect("a program");
    assert_eq!((resolved.program, resolved.argv, resolved.files), (lab.path("p"), argv(&ARGV), vec![]));
    check_path(&lab, &lab.path("p"), b"");
}

#[test]
fn missing_argument_zero_is_nothing_to_drop() {
    let lab = Lab::new();
    let script = lab.file("script", b"#!p -x\n", 0o755);
    let resolved = resolve_script_chain(&script, &[], Some(lab.dir())).expect("a script");
    assert_eq!(resolved.argv, argv(&["p", "-x", script.to_str().expect("text")]));
}

#[test]
fn scripts_upon_scripts() {
    let lab = Lab::new();
    for depth in 1..=8 {
        for (last, works) in [("p", true), ("nowhere", false), ("text", false), ("none", false)] {
            lab.file("text", b"no format\n", 0o755);
            lab.file("none", b"#!\n", 0o755);
            for level in 0..depth {
                let next = if level + 1 == depth { last.to_owned() } else { format!("s{}", level + 1) };
                let line =
                    if level % 2 == 0 { format!("#!{next} a{level}\n") } else { format!("#!{next}\n") };
                lab.file(&format!("s{level}"), line.as_bytes(), 0o755);
            }
            let first = lab.path("s0");
            check_path(&lab, &first, format!("{depth} to {last}").as_bytes());
            let resolved = resolve_script_chain(&first, &argv(&ARGV), Some(lab.dir()));
            if works && depth <= MAX_SCRIPTS {
                assert_eq!(resolved.expect("a chain").files.len(), depth);
            } else if works {
                assert_eq!(resolved, Err(ResolveError::TooDeep { path: first }));
            }
        }
    }
    lab.file("self", b"#!self\n", 0o755);
    check_path(&lab, &lab.path("self"), b"itself");
}

#[test]
fn permissions_of_scripts_and_interpreters() {
    let lab = Lab::new();
    let script = lab.file("script", b"#!p\n", 0o644);
    check_path(&lab, &script, b"not executable");
    lab.file("plain", b"\x7fELF", 0o644);
    check(&lab, b"#!plain\n");
    check(&lab, b"#!.\n");
    check(&lab, b"#!script/under\n");
    check_path(&lab, lab.dir(), b"a directory");
    check_path(&lab, &lab.path("nowhere"), b"missing");
    std::os::unix::fs::symlink("loop", lab.path("loop")).expect("a link");
    check_path(&lab, &lab.path("loop"), b"a loop");
    check(&lab, b"#!loop\n");
    let setuid = lab.file("setuid", b"#!p\n", 0o6755);
    check_path(&lab, &setuid, b"set-id script");
}

#[test]
fn errors_name_what_they_speak_of() {
    let lab = Lab::new();
    let script = lab.file("script", b"#!nowhere\n", 0o755);
    let error = resolve_script_chain(&script, &[], Some(lab.dir())).expect_err("no interpreter");
    let text = error.to_string();
    assert!(text.contains("nowhere") && text.contains(script.to_str().expect("text")), "{text}");
    let error = resolve_script_chain(Path::new("a\0b"), &[], None).expect_err("a NUL");
    assert_eq!(
        (error.errno(), error.to_io_error().map(|error| error.kind())),
        (None, Some(std::io::ErrorKind::InvalidInput))
    );
    let gone = lab.path("gone");
    let error = resolve_script_chain(&script, &[], Some(&gone)).expect_err("no directory");
    assert_eq!(error, ResolveError::WorkingDirectory { path: gone, errno: Errno::NOENT });
}

#[test]
fn bytes_beyond_the_buffer_do_not_count() {
    let mut head = format!("#!/bin/sh {}", "x".repeat(400)).into_bytes();
    let short = parse_head(&head);
    head.truncate(HEAD_BYTES);
    assert_eq!(parse_head(&head), short);
    let argument = Some("x".repeat(HEAD_BYTES - 1 - 10).into_bytes());
    assert_eq!(short, ScriptHead::Script(FirstLine { interpreter: b"/bin/sh".to_vec(), argument }));
}

/// A piece of a first line; `P` stands for the printer.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => Just(b"P".to_vec()),
        4 => Just(b" ".to_vec()),
        2 => Just(b"\t".to_vec()),
        2 => Just(b"\n".to_vec()),
        1 => Just(b"\0".to_vec()),
        1 => Just(b"p".to_vec()),
        1 => Just(b"#!".to_vec()),
        2 => "[a-c/\"-]{1,3}".prop_map(String::into_bytes),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => (1_usize..260).prop_map(|count| vec![b' '; count]),
        1 => (1_usize..260).prop_map(|count| vec![b'x'; count]),
        1 => (1_usize..260).prop_map(|count| vec![b'/'; count]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_first_lines(
        magic in prop_oneof![9 => Just(&b"#!"[..]), 1 => Just(&b""[..])],
        pieces in proptest::collection::vec(piece(), 0..7),
    ) {
        let lab = Lab::new();
        let line = [magic, &pieces.concat()].concat();
        check(&lab, &with_printer(&lab, &line));
    }

    #[test]
    fn head_is_a_function_of_the_first_bytes(head in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut padded = head.clone();
        padded.resize(HEAD_BYTES, 0);
        prop_assert_eq!(parse_head(&head), parse_head(&padded));
        if let ScriptHead::Script(line) = parse_head(&head) {
            prop_assert!(!line.interpreter.iter().any(|byte| b" \t\n\0".contains(byte)));
            let argument = line.argument.unwrap_or_default();
            prop_assert!(!argument.iter().any(|byte| b"\n\0".contains(byte)));
            prop_assert!(!argument.first().is_some_and(is_blank));
        }
    }
}
