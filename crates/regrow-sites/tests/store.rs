//! What a model has learned outlives it: it is written and read, damage is told, and two models become one.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use common::{PARENT, Teller, child_of, cpu, image, is_close, line, place};
use proptest::prelude::*;
use regrow_sites::model::{DecodeError, LEAST_BUDGET_BYTES};
use regrow_sites::site::{Frame, Site};
use regrow_sites::{After, Arguments, Event, Model, PlaceId, ProcessKey};

/// Bytes before the payload.
const HEADER: usize = 20;

fn sites() -> Vec<Site> {
    let scripts = (0..6).map(|at| child_of(line(at), ["sed", "cat"][usize::try_from(at % 2).unwrap()]));
    let places =
        (0..12).map(|at| place(["make", "git", "ld"][usize::try_from(at % 3).unwrap()], &[at, 1, at % 2]));
    scripts.chain(places).collect()
}

/// A model that knows these sites, each with its own processor time, and names.
fn learned(sites: &[Site], factor: u64) -> Model {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    model.observe(&Event::Named { image: image("make"), path: "/usr/bin/make".to_owned() });
    let frame = Frame { module: image("make"), offset: 3 };
    model.observe(&Event::Symbol { frame, name: "job_exec".to_owned() });
    for _ in 0..5 {
        for (number, site) in (1..).zip(sites) {
            let arguments = Some(Arguments { magnitude: 2, class: number });
            let usage = cpu(u64::from(number) * factor);
            teller.events(site, arguments, usage).iter().for_each(|event| model.observe(event));
        }
    }
    model
}

fn medians(model: &Model, sites: &[Site]) -> Vec<u64> {
    sites.iter().map(|site| model.predict(site).cpu_us.quantile(0.5)).collect()
}

#[test]
fn what_is_read_says_what_was_written() {
    let sites = sites();
    let model = learned(&sites, 1_000);
    let bytes = model.encode();
    let read = Model::decode(&bytes).unwrap();
    for site in &sites {
        assert_eq!(read.predict(site), model.predict(site), "{site:?}");
        let after = After::Place(PlaceId::of(site));
        assert_eq!(read.next(after), model.next(after));
    }
    assert!(sites.iter().any(|site| read.next(After::Place(PlaceId::of(site))).is_some()));
    assert_eq!(read.counts().keys, model.counts().keys);
    // What it learns from then on is told apart as before.
    let (mut read, mut teller) = (read, Teller::at(1 << 40));
    teller.tell_often(&mut read, &sites[0], cpu(9_000_000), 12);
    assert!(is_close(read.predict(&sites[0]).cpu_us.quantile(0.5), 9_000_000));
    assert_eq!(read.predict(&sites[9]).cpu_us.quantile(0.5), model.predict(&sites[9]).cpu_us.quantile(0.5));
    assert_eq!(Model::decode(&Model::default().encode()).unwrap().counts().keys, 0);
}

#[test]
fn processes_that_live_are_not_kept() {
    let mut model = Model::default();
    let process = ProcessKey { pid: 5, created_us: 1 };
    model.observe(&Event::Created { time_us: 1, process, parent: PARENT, site: place("a", &[1]) });
    let mut read = Model::decode(&model.encode()).unwrap();
    read.observe(&Event::Ended { time_us: 9, process, usage: cpu(4) });
    assert_eq!(read.counts().runs, 0);
}

#[test]
fn each_damaged_byte_is_noticed() {
    let bytes = learned(&sites(), 1_000).encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = Model::decode(&damaged).expect_err("it is damaged");
        match at {
            0..8 => assert_eq!(error, DecodeError::NotAModel),
            8..12 => assert!(matches!(error, DecodeError::Version { .. }), "{at}: {error}"),
            12..16 => assert!(matches!(error, DecodeError::Length { .. }), "{at}: {error}"),
            _ => assert!(matches!(error, DecodeError::Checksum { .. }), "{at}: {error}"),
        }
    }
}

#[test]
fn what_is_cut_off_or_longer_is_noticed() {
    let mut bytes = learned(&sites(), 1_000).encode();
    for length in 0..bytes.len() {
        let error = Model::decode(&bytes[..length]).expect_err("it is cut off");
        let is_known = matches!(error, DecodeError::NotAModel | DecodeError::Length { .. });
        assert!(is_known && (length < 8) == (error == DecodeError::NotAModel), "{length}: {error}");
    }
    bytes.push(0);
    assert!(matches!(Model::decode(&bytes), Err(DecodeError::Length { .. })));
    assert_eq!(Model::decode(b"").unwrap_err(), DecodeError::NotAModel);
    assert_eq!(Model::decode(&[0; 4096]).unwrap_err(), DecodeError::NotAModel);
}

#[test]
fn another_version_is_told() {
    let mut bytes = Model::default().encode();
    bytes[8] = 2;
    let error = Model::decode(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "it is of version 2; this is version 1");
}

/// These bytes with a length and a checksum that are right.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(bytes.len() - HEADER).unwrap();
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[8..16]);
    hasher.update(&bytes[HEADER..]);
    let checksum = hasher.finalize();
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn a_payload_that_is_sealed_and_wrong_is_refused_or_makes_sense() {
    let sites = sites();
    let bytes = learned(&sites, 1_000).encode();
    assert_eq!(sealed(bytes.clone()), bytes);
    let (mut refused, mut taken) = (0, 0);
    for at in HEADER..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut wrong = bytes.clone();
            wrong[at] ^= change;
            match Model::decode(&sealed(wrong)) {
                Ok(model) => {
                    taken += 1;
                    assert!(model.memory_bytes() <= model.budget_bytes());
                    let again =
                        Model::decode(&model.encode()).expect("what is taken can be written and read");
                    assert_eq!(medians(&again, &sites), medians(&model, &sites));
                }
                Err(_) => refused += 1,
            }
        }
    }
    println!("{refused} refused, {taken} taken");
    assert!(refused > 100 && taken > 100);
}

#[test]
fn two_models_become_one() {
    let sites = sites();
    let (first, second) = sites.split_at(8);
    let mut model = learned(first, 1_000);
    model.merge(&learned(second, 50_000));
    for (number, median) in (1..).zip(medians(&model, first)) {
        assert!(is_close(median, number * 1_000), "{number}: {median}");
    }
    let merged = medians(&model, second);
    for (number, median) in (1..).zip(merged) {
        assert!(is_close(median, number * 50_000), "{number}: {median}");
    }
}

#[test]
fn what_is_taken_in_again_counts_once() {
    let sites = sites();
    let mut model = learned(&sites, 1_000);
    let bytes = model.encode();
    let same = Model::decode(&bytes).unwrap();
    (0..3).for_each(|_| model.merge(&same));
    for site in &sites {
        assert_eq!(model.predict(site).runs, same.predict(site).runs);
        assert_eq!(model.predict(site), same.predict(site));
    }
}

#[test]
fn two_that_went_on_from_one_know_what_both_have_learned() {
    let sites = sites();
    let common = learned(&sites[..6], 1_000).encode();
    let mut left = Model::decode(&common).unwrap();
    let mut right = Model::decode(&common).unwrap();
    let mut teller = Teller::at(1 << 40);
    teller.tell_often(&mut left, &sites[7], cpu(333), 5);
    teller.tell_often(&mut left, &sites[0], cpu(8_000_000), 20);
    teller.tell_often(&mut right, &sites[8], cpu(66_000), 5);
    left.merge(&right);
    let median = |site| left.predict(site).cpu_us.quantile(0.5);
    assert!(is_close(median(&sites[7]), 333) && is_close(median(&sites[8]), 66_000));
    assert!(is_close(median(&sites[0]), 8_000_000), "{}", median(&sites[0]));
    assert!(is_close(median(&sites[3]), 4_000));
    assert!(left.predict(&sites[3]).runs <= 5, "what both had is not counted twice");
}

#[test]
fn a_large_model_is_read_into_a_small_budget() {
    let (mut model, mut teller) = (Model::new(4 << 20), Teller::default());
    let sites: Vec<Site> = (0..20_000_u64).map(|at| place(&(at % 500).to_string(), &[at / 500])).collect();
    for (number, site) in (1..).zip(&sites) {
        teller.tell(&mut model, site, cpu(number));
    }
    assert!(model.counts().keys > 19_000);
    let read = Model::decode_within(&model.encode(), LEAST_BUDGET_BYTES).unwrap();
    assert!(read.memory_bytes() <= LEAST_BUDGET_BYTES && read.counts().keys > 300);
    assert!(is_close(
        read.predict(&place("unseen", &[])).cpu_us.quantile(0.5),
        model.predict(&place("unseen", &[])).cpu_us.quantile(0.5)
    ));
    let read = Model::decode_within(&model.encode(), 4 << 20).unwrap();
    assert_eq!(medians(&read, &sites), medians(&model, &sites));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_was_told_is_written_and_read_and_taken_in(
        runs in prop::collection::vec((0_u64..5, 0_u64..5, 0_usize..4, 1_u64..1 << 30), 0..300),
        others in prop::collection::vec((0_u64..5, 0_u64..5, 0_usize..4, 1_u64..1 << 30), 0..100),
        budget in LEAST_BUDGET_BYTES..80_000,
    ) {
        let names = ["", "x", "y", "z"];
        let tell = |runs: &[(u64, u64, usize, u64)]| {
            let (mut model, mut teller) = (Model::new(budget), Teller::default());
            for &(program, at, child, cpu_us) in runs {
                let place = place(&program.to_string(), &[at, at / 2]);
                let site = if child == 0 { place } else { child_of(place, names[child]) };
                teller.tell(&mut model, &site, cpu(cpu_us));
            }
            model
        };
        let mut model = tell(&runs);
        let read = Model::decode_within(&model.encode(), budget).unwrap();
        let sites: Vec<Site> = (0..25).map(|at| place(&(at % 5).to_string(), &[at / 5, at / 10])).collect();
        prop_assert_eq!(medians(&read, &sites), medians(&model, &sites));
        prop_assert_eq!(Model::decode_within(&read.encode(), budget).unwrap().encode(), read.encode());
        let keys = model.counts().keys;
        model.merge(&tell(&others));
        prop_assert!(model.counts().keys >= keys && model.memory_bytes() <= model.budget_bytes());
    }
}
