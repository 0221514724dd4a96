//! Tests of the probe on the kernel that runs them. What a sandbox does to it is in `tests/probe_filtered.rs`.

use super::*;

#[test]
fn what_recycling_needs_works_here() {
    let kernel = Kernel::probe(&FeatureSet::EMPTY);
    let missing: Vec<String> =
        kernel.missing_required().map(|feature| format!("{feature} {}", kernel.state(feature))).collect();
    assert!(kernel.can_recycle(), "{missing:?}");
    // Every kernel that has the required features has these too, unless a sandbox forbids them.
    for feature in [Feature::ShareCheck, Feature::Inotify, Feature::Rseq] {
        assert!(kernel.works(feature), "{feature} {}", kernel.state(feature));
    }
}

#[test]
fn every_trial_comes_to_its_end_and_does_what_the_kernel_documents() {
    let kernel = Kernel::probe(&FeatureSet::EMPTY);
    for feature in Feature::all() {
        let state = kernel.state(feature);
        assert!(matches!(state, FeatureState::Works | FeatureState::Missing { .. }), "{feature}: {state}");
    }
}

#[test]
fn a_disabled_feature_is_not_used_and_the_others_are() {
    let disabled = FeatureSet::parse("clone3,pkeys,cgroup2,share_check").unwrap();
    let kernel = Kernel::probe(&disabled);
    for feature in Feature::all() {
        assert_eq!(kernel.state(feature) == FeatureState::Disabled, disabled.contains(feature), "{feature}");
    }
    assert!(kernel.missing_required().eq([Feature::Clone3, Feature::ShareCheck]));
    assert!(!kernel.can_recycle() && kernel.works(Feature::Pidfd));
}

#[test]
fn with_everything_disabled_nothing_is_tried() {
    let kernel = Kernel::probe(&Feature::all().collect());
    assert!(Feature::all().all(|feature| kernel.state(feature) == FeatureState::Disabled));
}

#[test]
fn the_facts_are_those_of_the_machine() {
    let kernel = Kernel::probe(&FeatureSet::EMPTY);
    let facts = kernel.facts();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(facts.release, release.trim());
    assert_eq!(facts.architecture, std::env::consts::ARCH);
    assert!(facts.cores >= 1 && facts.page_bytes.is_power_of_two() && facts.page_bytes >= 4096);
    assert_eq!(facts.extended_state.bytes.is_some(), kernel.works(Feature::ExtendedState));
    if let Some(bytes) = facts.extended_state.bytes {
        // The legacy area and the header are always there.
        assert!(bytes >= 512 + 64, "{bytes}");
    }
}

#[test]
fn a_row_says_what_happens_here() {
    let works = FeatureRow::new(Feature::PagemapScan, FeatureState::Works);
    assert_eq!((works.state, works.errno, works.reason), ("works", None, None));
    assert_eq!(works.here, Feature::PagemapScan.with());

    let missing = FeatureRow::new(Feature::PagemapScan, FeatureState::Missing { errno: libc::ENOTTY });
    assert_eq!((missing.state, missing.errno), ("missing", Some(libc::ENOTTY)));
    assert!(missing.reason.unwrap().starts_with("missing: Inappropriate ioctl"));
    assert_eq!(missing.here, Feature::PagemapScan.without());

    let ended = FeatureState::NotTried { why: NotTried::Ended { signal: Some(libc::SIGSYS) } };
    let ended = FeatureRow::new(Feature::Kcmp, ended);
    assert_eq!(ended.state, "not_tried");
    assert_eq!(ended.reason.unwrap(), "not tried: the trial was ended by signal 31");
    let disabled = FeatureRow::new(Feature::Kcmp, FeatureState::Disabled);
    assert_eq!(disabled.reason.unwrap(), "disabled by REGROW_DISABLE");
}

#[test]
fn the_report_is_json_with_a_row_for_each_feature() {
    let kernel = Kernel::probe(&FeatureSet::parse("kcmp").unwrap());
    let json = serde_json::to_value(kernel.report()).unwrap();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), Feature::COUNT);
    let row = rows.iter().find(|row| row["feature"] == "kcmp").unwrap();
    assert_eq!(row["since"], "3.5");
    assert_eq!(row["need"], "optional");
    assert_eq!(row["state"], "disabled");
    assert_eq!(row["errno"], serde_json::Value::Null);
    assert_eq!(row["here"], row["without"]);
    let facts = serde_json::to_value(kernel.facts()).unwrap();
    assert_eq!(facts["page_bytes"], kernel.facts().page_bytes);
}
