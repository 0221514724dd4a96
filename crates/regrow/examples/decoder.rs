//! Decodes pictures of people whom nobody knows, each in a fresh process: whatever a file does to its decoder, the others are decoded.
//!
//! ```text
//! decoder FILE …        for each PNG file: its size and mean brightness, or how its decoder died
//! ```

use std::process::ExitCode;
use std::time::Duration;

use regrow::work::{Builder, Died, Weight, prepare, ready};

/// What is said of a picture.
#[derive(serde::Serialize, serde::Deserialize)]
struct Picture {
    width: u32,
    height: u32,
    brightness: u8,
}

/// What a decoder may use.
const MEMORY: u64 = 64 << 20;
const TIME: Duration = Duration::from_secs(10);

/// Decodes a picture. It trusts the file with all its memory and time, which the process that it runs in limits.
#[regrow::fresh]
fn decode(bytes: Vec<u8>) -> Result<Picture, String> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_limits(png::Limits { bytes: usize::MAX });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let size = reader.output_buffer_size().ok_or("its size cannot be")?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
    let sum: u64 = pixels.iter().map(|&byte| u64::from(byte)).sum();
    let brightness = u8::try_from(sum / u64::try_from(pixels.len().max(1)).unwrap_or(1)).unwrap_or(u8::MAX);
    Ok(Picture { width: info.width, height: info.height, brightness })
}

fn main() -> ExitCode {
    ready();
    if let Err(why) = prepare() {
        eprintln!("decoder: each picture takes longer: {why}");
    }
    let decoder = Builder::new(Weight::Fresh).memory_limit(MEMORY).deadline(TIME);
    let mut all_are_pictures = true;
    for path in std::env::args().skip(1) {
        let said = match std::fs::read(&path) {
            Err(error) => Err(error.to_string()),
            Ok(bytes) => match decoder.run(decode::call(bytes)) {
                Ok(Ok(Picture { width, height, brightness })) => {
                    Ok(format!("{width} x {height}, brightness {brightness}"))
                }
                Ok(Err(malformed)) => Err(format!("malformed: {malformed}")),
                Err(Died::MemoryLimit { .. }) => Err("a bomb: its decoder needs too much memory".to_owned()),
                Err(died) => Err(format!("its decoder died: {died}")),
            },
        };
        all_are_pictures &= said.is_ok();
        println!("{path}: {}", said.unwrap_or_else(|why| why));
    }
    if all_are_pictures { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
