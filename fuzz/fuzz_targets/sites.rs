//! A model of creation sites is read from any bytes: they are refused, or taken as a model that keeps to its memory, says what makes sense, and is
//! written and read again as it is. Bytes that are sealed with the right length and checksum come past the first checks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use regrow_sites::model::{LEAST_BUDGET_BYTES, Model};
use regrow_sites::site::{Frame, ImageId, Script, Site};
use regrow_sites::{Arguments, Event, ProcessKey, Usage};

/// Bytes before the payload.
const HEADER: usize = 20;

fn site(number: u64) -> Site {
    Site {
        image: ImageId(number % 3),
        frames: [Some(Frame { module: ImageId(1), offset: number % 5 }), None, None],
        script: number.is_multiple_of(2).then_some(Script { file: 1, line: number % 7 }),
        child: (!number.is_multiple_of(4)).then_some(ImageId(number % 4)),
    }
}

/// The payload with the header that it should have.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Model::new(0).encode()[..HEADER - 8].to_vec();
    bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[8..]);
    hasher.update(payload);
    bytes.extend(hasher.finalize().to_le_bytes());
    bytes.extend(payload);
    bytes
}

fn check(bytes: &[u8]) {
    let Ok(mut model) = Model::decode_within(bytes, LEAST_BUDGET_BYTES) else { return };
    let written = model.encode();
    let again =
        Model::decode_within(&written, LEAST_BUDGET_BYTES).expect("what was taken can be written and read");
    for number in 0..40 {
        let prediction = model.predict_call(&site(number), Some(Arguments { magnitude: 1, class: 2 }));
        let figures = prediction.cpu_us.quantiles();
        assert!(figures.p50 <= figures.p90 && figures.p90 <= figures.p99);
        assert!((0.0..=1.0).contains(&prediction.confidence));
        assert_eq!(again.predict(&site(number)).level, model.predict(&site(number)).level);
    }
    for number in 0..40_u32 {
        let process = ProcessKey { pid: number, created_us: 1 };
        let parent = ProcessKey { pid: number / 2, created_us: 1 };
        model.observe(&Event::Created { time_us: 1, process, parent, site: site(u64::from(number)) });
        model.observe(&Event::Executed { time_us: 2, process, image: ImageId(u64::from(number % 4)) });
        let arguments = Arguments { magnitude: 1, class: number };
        model.observe(&Event::Arguments { process, arguments, hash: 0 });
        model.observe(&Event::Outlived { time_us: 3, process, cpu_us: u64::MAX });
        model.observe(&Event::Ended { time_us: 3, process, usage: Usage::default() });
    }
    model.merge(&again);
    assert!(model.memory_bytes() <= model.budget_bytes());
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&sealed(bytes));
});
