//! The example that decodes pictures in fresh processes: malformed files do nothing to those behind them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A picture of one brightness.
fn png_of(width: u32, height: u32, brightness: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().expect("a header");
    let pixels = vec![brightness; usize::try_from(width * height).expect("small")];
    writer.write_image_data(&pixels).expect("its pixels");
    writer.finish().expect("its end");
    bytes
}

/// The same with a header that says it is as large as can be.
fn bomb() -> Vec<u8> {
    let mut bytes = png_of(8, 8, 5);
    bytes[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let sum = crc32fast::hash(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn decoder(files: &[PathBuf]) -> Output {
    let own = std::env::current_exe().expect("this test");
    let folder = own.parent().and_then(Path::parent).expect("a folder");
    Command::new(folder.join("examples/decoder")).args(files).output().expect("it starts")
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn malformed_pictures_do_nothing_to_those_behind_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = png_of(120, 80, 77);
    let mut files = Vec::new();
    let mut expected = Vec::new();
    for round in 0..3 {
        let name = |what: &str| format!("{round}-{what}");
        for (what, bytes, says) in [
            ("good", good.clone(), "120 x 80, brightness 77"),
            ("truncated", good[..good.len() / 2].to_vec(), "malformed: "),
            ("bomb", bomb(), "a bomb: its decoder needs too much memory"),
            ("text", b"no picture at all".to_vec(), "malformed: "),
            ("empty", Vec::new(), "malformed: "),
            ("last", png_of(3, 4, 200), "3 x 4, brightness 200"),
        ] {
            files.push(written(folder.path(), &name(what), &bytes));
            expected.push(says);
        }
    }
    let output = decoder(&files);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), files.len(), "{text}");
    for ((line, file), says) in text.lines().zip(&files).zip(expected) {
        let rest = line.strip_prefix(&format!("{}: ", file.display()));
        assert!(rest.is_some_and(|rest| rest.starts_with(says)), "{line}: {says}");
    }
}

#[test]
fn whatever_stands_in_a_file_each_has_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = png_of(60, 40, 9);
    let files: Vec<PathBuf> = (0..150_usize)
        .map(|number| {
            let mut bytes = good.clone();
            for change in 0..=number % 5 {
                let at = (number * 7919 + change * 104_729) % bytes.len();
                bytes[at] ^= u8::try_from(1 + number * 31 % 255).expect("a byte");
            }
            written(folder.path(), &format!("{number}"), &bytes)
        })
        .chain([written(folder.path(), "good", &good)])
        .collect();
    let output = decoder(&files);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 151, "{text}");
    assert!(text.ends_with("good: 60 x 40, brightness 9\n"), "{text}");
}
