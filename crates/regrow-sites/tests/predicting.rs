//! What the model says of sites that it has seen, and of sites that it has not.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use common::{PARENT, Teller, child_of, cpu, image, is_close, line, place};
use proptest::prelude::*;
use regrow_sites::site::{Frame, ImageId, Site};
use regrow_sites::{After, Arguments, Event, Level, Model, PlaceId, ProcessKey, Usage};

fn median(model: &Model, site: &Site) -> u64 {
    model.predict(site).cpu_us.quantile(0.5)
}

#[test]
fn where_nothing_is_known_it_says_so_and_calls_nothing_short_or_long() {
    let prediction = Model::default().predict(&place("make", &[1, 2, 3]));
    assert_eq!((prediction.confidence, prediction.level, prediction.runs), (0.0, Level::Everything, 0));
    assert!((1_500..2_500).contains(&prediction.cpu_us.quantile(0.5)), "half use twice the least");
    assert!(!prediction.is_short(u64::MAX) && !prediction.is_long(0));
    assert_eq!((prediction.peak_kib, prediction.startup_share), (None, None));
}

#[test]
fn places_of_one_program_are_told_apart_and_a_third_is_like_both() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let (short, long, third) = (place("make", &[1]), place("make", &[2]), place("make", &[3]));
    teller.tell_often(&mut model, &place("other", &[9]), cpu(50), 100);
    for _ in 0..10 {
        teller.tell(&mut model, &short, cpu(300));
        teller.tell(&mut model, &long, cpu(900_000));
    }
    assert!(is_close(median(&model, &short), 300) && is_close(median(&model, &long), 900_000));
    let prediction = model.predict(&short);
    assert_eq!(prediction.level, Level::Frame1);
    assert!(prediction.confidence > 0.9 && prediction.runs >= 8, "{}", prediction.runs);
    assert!(prediction.is_short(1_000) && !prediction.is_long(100_000));
    assert!(model.predict(&long).is_long(100_000) && !model.predict(&long).is_short(100_000));
    // The third has never been seen: it is as one of the program's own, not as one of all.
    let prediction = model.predict(&third);
    assert_eq!(prediction.level, Level::Image);
    assert!(!prediction.is_short(1_000) && !prediction.is_long(100_000));
    assert!((0.35..0.65).contains(&prediction.cpu_us.share_within(10_000)));
    assert!(
        model.predict(&place("unseen", &[1])).is_short(u64::MAX) != (model.predict(&third).confidence > 0.5)
    );
}

#[test]
fn a_wrapper_is_told_apart_by_its_callers() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let sites = [place("app", &[5, 1, 1]), place("app", &[5, 2, 1]), place("app", &[5, 2, 2])];
    for _ in 0..6 {
        for (site, cpu_us) in sites.iter().zip([100, 10_000, 1_000_000]) {
            teller.tell(&mut model, site, cpu(cpu_us));
        }
    }
    for (site, wanted) in sites.iter().zip([100, 10_000, 1_000_000]) {
        assert!(is_close(median(&model, site), wanted), "{site:?}: {}", median(&model, site));
    }
}

#[test]
fn lines_of_a_script_and_calls_of_a_program_are_told_apart() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let call = |words: &str| Arguments::of(words.split(' ').map(str::as_bytes));
    let git = |at| child_of(line(at), "git");
    for round in 0..8 {
        for (words, cpu_us) in [("git status", 900), ("git gc --aggressive", 4_000_000)] {
            let (site, arguments) = (git(round), Some(call(words)));
            teller.events(&site, arguments, cpu(cpu_us)).iter().for_each(|event| model.observe(event));
        }
        teller.tell(&mut model, &child_of(line(100), "sed"), cpu(200));
    }
    let predict = |words| model.predict_call(&git(555), Some(call(words))).cpu_us.quantile(0.5);
    assert!(is_close(predict("git status"), 900) && is_close(predict("git gc --aggressive"), 4_000_000));
    assert!(is_close(median(&model, &line(100)), 200), "whatever it executes");
    assert!(is_close(median(&model, &child_of(line(100), "sed")), 200));
    // A place that was never seen, but a child that was.
    let elsewhere = model.predict(&child_of(place("perl", &[4]), "sed"));
    assert!(is_close(elsewhere.cpu_us.quantile(0.5), 200), "{}", elsewhere.cpu_us.quantile(0.5));
    assert!(elsewhere.level < Level::Image && elsewhere.confidence > 0.8, "{:?}", elsewhere.level);
}

#[test]
fn a_changed_binary_starts_anew_and_inherits_by_symbol() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let build = |build: &str, offset: u64| Site {
        image: image(build),
        frames: [Some(Frame { module: image(build), offset }), None, None],
        ..place("", &[])
    };
    let name = |model: &mut Model, name: &str, first: u64, second: u64| {
        model.observe(&Event::Named { image: image(name), path: "/usr/bin/make".to_owned() });
        for (offset, symbol) in [(first, "func_shell"), (second, "job_exec")] {
            let frame = Frame { module: image(name), offset };
            model.observe(&Event::Symbol { frame, name: symbol.to_owned() });
        }
    };
    name(&mut model, "make 4.3", 0x100, 0x200);
    for _ in 0..20 {
        teller.tell(&mut model, &build("make 4.3", 0x100), cpu(500));
        teller.tell(&mut model, &build("make 4.3", 0x200), cpu(80_000));
    }
    // Before its names are told the changed one is a stranger; then it is known at first sight.
    assert_eq!(model.predict(&build("make 4.4", 0x180)).level, Level::Everything);
    name(&mut model, "make 4.4", 0x180, 0x280);
    assert!(is_close(median(&model, &build("make 4.4", 0x180)), 500));
    assert!(is_close(median(&model, &build("make 4.4", 0x280)), 80_000));
    // It behaves otherwise: a few runs of its own count more than many of the one before, which stays known.
    teller.tell_often(&mut model, &build("make 4.4", 0x180), cpu(20_000), 3);
    assert!(is_close(median(&model, &build("make 4.4", 0x180)), 20_000));
    teller.tell_often(&mut model, &build("make 4.3", 0x100), cpu(500), 3);
    assert!(is_close(median(&model, &build("make 4.3", 0x100)), 500));
    assert!(is_close(median(&model, &build("make 4.4", 0x180)), 20_000));
}

#[test]
fn an_image_that_is_named_late_keeps_what_was_learned() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let site = place("tool", &[1]);
    teller.tell_often(&mut model, &site, cpu(7_000), 5);
    teller.tell_often(&mut model, &place("tool", &[2]), cpu(10), 5);
    model.observe(&Event::Named { image: image("tool"), path: "/bin/tool".to_owned() });
    assert!(is_close(median(&model, &site), 7_000));
    teller.tell(&mut model, &site, cpu(7_000));
    let prediction = model.predict(&site);
    assert!(prediction.runs >= 5 && is_close(prediction.cpu_us.quantile(0.5), 7_000), "{prediction:?}");
}

#[test]
fn what_a_child_uses_counts_to_what_it_executed_first_and_last() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let site = place("sh", &[1]);
    for _ in 0..10 {
        // env executes sort in its own place, after 1,000 µs of 101,000.
        let process = teller.process();
        let at = |us| teller.now_us + us;
        let usage = Usage { cpu_us: 50_500, life_us: 101_000, peak_kib: 0, startup_us: None };
        model.observe(&Event::Created { time_us: at(0), process, parent: PARENT, site });
        model.observe(&Event::Executed { time_us: at(0), process, image: image("env") });
        model.observe(&Event::Executed { time_us: at(1_000), process, image: image("sort") });
        model.observe(&Event::Ended { time_us: at(101_000), process, usage });
        // And a copy of the shell, which executes nothing.
        teller.tell(&mut model, &site, cpu(70));
    }
    assert!(is_close(median(&model, &child_of(site, "env")), 50_500), "it and what it becomes");
    assert!(
        is_close(median(&model, &child_of(site, "sort")), 50_000),
        "{}",
        median(&model, &child_of(site, "sort"))
    );
    let prediction = model.predict(&site);
    assert!((0.35..0.65).contains(&prediction.cpu_us.share_within(1_000)), "half of them are copies");
    assert_eq!(model.counts().runs, 20, "a process counts once");
}

#[test]
fn a_wrong_guess_is_seen_by_what_it_has_used() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let site = place("app", &[1]);
    for run in 0..100 {
        teller.tell(&mut model, &site, cpu(if run % 20 == 0 { 3_000_000 } else { 1_000 }));
    }
    let prediction = model.predict(&site);
    assert!(prediction.is_short(2_000));
    assert!(is_close(prediction.cpu_us.quantile(0.5), 1_000));
    let left = prediction.cpu_us.left(20_000);
    assert!(is_close(left.p50, 3_000_000 - 20_000), "it is one of the long ones: {left:?}");
    let left = prediction.cpu_us.left(60_000_000);
    assert!(is_close(left.p50, 60_000_000), "longer than any: as much again: {left:?}");
}

#[test]
fn processes_that_never_end_teach_as_they_outlive_the_limit() {
    let (mut model, mut teller) = (Model::default(), Teller::at(1_000));
    let site = place("server", &[10]);
    let mut outlive = |model: &mut Model, cpu_us| {
        let events = teller.events(&site, None, cpu(0));
        let process = events.iter().find_map(|event| match event {
            Event::Created { process, .. } => Some(*process),
            _ => None,
        });
        let process = process.expect("it was created");
        // Its end is never told.
        events
            .iter()
            .filter(|event| !matches!(event, Event::Ended { .. }))
            .for_each(|event| model.observe(event));
        let time_us = process.created_us + 2 * cpu_us;
        model.observe(&Event::Outlived { time_us, process, cpu_us });
    };
    for _ in 0..4 {
        outlive(&mut model, 30_000);
    }
    let prediction = model.predict(&site);
    assert!(prediction.is_long(20_000));
    assert!(is_close(median(&model, &site), 60_000), "as much again: {}", median(&model, &site));
    // One that nobody was told of teaches nothing.
    let unknown = ProcessKey { pid: 99, created_us: 5 };
    let before = model.counts().runs;
    model.observe(&Event::Outlived { time_us: 9, process: unknown, cpu_us: 9 });
    assert_eq!(model.counts().runs, before);
}

#[test]
fn a_child_that_sleeps_and_then_computes_is_not_taken_for_a_short_one() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let site = place("app", &[1]);
    let sleeper = Usage { cpu_us: 2_000_000, life_us: 5_000_000, peak_kib: 10, startup_us: Some(100) };
    teller.tell_often(&mut model, &site, sleeper, 4);
    // While it sleeps it has used nothing; what is to come is said to be much.
    let prediction = model.predict(&site);
    assert!(prediction.is_long(1_000_000));
    assert!(is_close(prediction.cpu_us.left(50).p50, 2_000_000));
    assert!(is_close(prediction.life_us.left(3_000_000).p50, 2_000_000));
    // Those that are asleep have not ended: they do not make the site look short.
    for _ in 0..50 {
        let process = teller.process();
        model.observe(&Event::Created { time_us: teller.now_us, process, parent: PARENT, site });
    }
    assert!(model.predict(&site).is_long(1_000_000));
}

#[test]
fn memory_and_start_up_are_told() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let site = place("app", &[1]);
    let usage = Usage { cpu_us: 90, life_us: 1_000, peak_kib: 40_000, startup_us: Some(750) };
    teller.tell_often(&mut model, &site, usage, 6);
    teller.tell_often(&mut model, &site, Usage { peak_kib: 0, startup_us: None, ..usage }, 6);
    let prediction = model.predict(&site);
    assert!(is_close(prediction.peak_kib.unwrap().quantile(0.5), 40_000));
    assert!((prediction.startup_share.unwrap() - 0.75).abs() < 0.02);
    assert!(is_close(prediction.life_us.quantiles().mean, 1_000) || prediction.confidence < 0.95);
}

#[test]
fn what_comes_next_is_learned_from_a_script() {
    let mut model = Model::default();
    let mut now_us = 0;
    for number in 0..30 {
        // sh runs dirname at line 1 after 2 ms, then two cats at line 2 at once after 5 ms.
        let shell = ProcessKey { pid: 100 + number, created_us: now_us };
        model.observe(&Event::Created {
            time_us: now_us,
            process: shell,
            parent: PARENT,
            site: place("web", &[1]),
        });
        model.observe(&Event::Executed { time_us: now_us, process: shell, image: image("sh") });
        let mut child = |now_us: u64, pid: u32, at: u64, name: &str| {
            let process = ProcessKey { pid, created_us: now_us };
            model.observe(&Event::Created { time_us: now_us, process, parent: shell, site: line(at) });
            model.observe(&Event::Executed { time_us: now_us + 100, process, image: image(name) });
            process
        };
        let dirname = child(now_us + 2_000, 1_000, 1, "dirname");
        let cats = [child(now_us + 7_000, 1_001, 2, "cat"), child(now_us + 7_000, 1_002, 2, "cat")];
        now_us += 50_000;
        for process in [dirname, cats[0], cats[1], shell] {
            model.observe(&Event::Ended { time_us: now_us, process, usage: cpu(500) });
        }
    }
    let first = model.next(After::Executed(image("sh"))).unwrap();
    let next = first.next[0].unwrap();
    assert_eq!((next.image, next.place), (image("dirname"), PlaceId::of(&line(1))));
    assert!(next.chance > 0.8 && next.from_us <= 2_000 && 2_000 <= next.until_us, "{next:?}");
    assert_eq!(first.next[1], None);
    let then = model.next(After::Place(next.place)).unwrap().next[0].unwrap();
    assert_eq!(then.image, image("cat"));
    assert!(then.from_us <= 5_000 && 5_000 <= then.until_us, "{then:?}");
    let cats = model.next(After::Place(then.place)).unwrap();
    assert_eq!(cats.most_at_a_time, 2);
    assert!(cats.next[0].unwrap().chance < 0.7, "after the second nothing follows: {cats:?}");
    assert_eq!(model.next(After::Executed(image("dirname"))).and_then(|expected| expected.next[0]), None);
    assert_eq!(model.next(After::Executed(image("unseen"))), None);
}

#[test]
fn where_no_line_is_told_what_the_parent_was_called_with_and_its_creations_stand_for_it() {
    let mut model = Model::default();
    let site = place("gcc", &[1]);
    let mut now_us = 0;
    let children = |number: usize| if number == 0 { [80_000, 3_000, 9_000] } else { [200_000, 30_000, 700] };
    let classes = [Arguments { magnitude: 2, class: 7 }, Arguments { magnitude: 2, class: 8 }];
    let mut driver = |model: &mut Model, arguments, children: &[u64]| {
        now_us += 1_000_000;
        let driver = ProcessKey { pid: 5, created_us: now_us };
        model.observe(&Event::Created {
            time_us: now_us,
            process: driver,
            parent: PARENT,
            site: place("make", &[1]),
        });
        model.observe(&Event::Executed { time_us: now_us, process: driver, image: image("gcc") });
        model.observe(&Event::Arguments { process: driver, arguments, hash: 0 });
        let mut asked = Vec::new();
        for (number, &cpu_us) in (6..).zip(children) {
            asked.push(median(model, &model.completed(driver, &site)));
            let process = ProcessKey { pid: number, created_us: now_us };
            model.observe(&Event::Created { time_us: now_us, process, parent: driver, site });
            model.observe(&Event::Ended { time_us: now_us, process, usage: cpu(cpu_us) });
        }
        model.observe(&Event::Ended { time_us: now_us, process: driver, usage: cpu(1_000) });
        asked
    };
    for _ in 0..6 {
        for (number, &arguments) in classes.iter().enumerate() {
            driver(&mut model, arguments, &children(number));
        }
    }
    for (number, &arguments) in classes.iter().enumerate() {
        let asked = driver(&mut model, arguments, &children(number));
        for (median, wanted) in asked.into_iter().zip(children(number)) {
            assert!(is_close(median, wanted), "{number}: {median}, {wanted}");
        }
    }
    // A line that is told counts, and a parent that nothing is known of adds nothing.
    assert_eq!(model.completed(PARENT, &line(3)), line(3));
    assert_eq!(model.completed(ProcessKey { pid: 99, created_us: 1 }, &site), site);
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let mut model = Model::default();
    let (first, second) = (place("a", &[1]), place("b", &[1]));
    for round in 0..20_u64 {
        let [old, new] = [0, 1].map(|step| ProcessKey { pid: 7, created_us: round * 10 + step });
        model.observe(&Event::Created { time_us: old.created_us, process: old, parent: PARENT, site: first });
        model.observe(&Event::Created {
            time_us: new.created_us,
            process: new,
            parent: PARENT,
            site: second,
        });
        model.observe(&Event::Ended { time_us: new.created_us, process: new, usage: cpu(100) });
        model.observe(&Event::Ended { time_us: new.created_us, process: old, usage: cpu(70_000) });
    }
    assert!(is_close(median(&model, &first), 70_000) && is_close(median(&model, &second), 100));
}

#[test]
fn a_clock_that_jumps_changes_no_prediction() {
    let mut model = Model::default();
    let site = child_of(place("app", &[1]), "tool");
    for round in 0..60_u64 {
        // It goes forth by years, back to the beginning, and stands still.
        let time_us = [1_000, u64::MAX - 5, 0, 1 << 50, 1_000_000][usize::try_from(round % 5).unwrap()];
        let process = ProcessKey { pid: u32::try_from(round).unwrap(), created_us: time_us };
        model.observe(&Event::Created { time_us, process, parent: PARENT, site: place("app", &[1]) });
        model.observe(&Event::Executed { time_us: u64::MAX - time_us, process, image: image("tool") });
        model.observe(&Event::Executed { time_us: time_us / 2, process, image: image("other") });
        model.observe(&Event::Ended { time_us: time_us / 3, process, usage: cpu(4_000) });
    }
    assert_eq!(model.counts().runs, 60);
    assert!(is_close(median(&model, &site), 4_000), "{}", median(&model, &site));
    assert!(is_close(model.predict(&site).life_us.quantile(0.5), 8_000));
    let next = model.next(After::Place(PlaceId::of(&place("app", &[1]))));
    let gaps = next.iter().flat_map(|expected| expected.next.iter().flatten());
    assert!(gaps.into_iter().all(|next| next.until_us < 700_000_000), "{next:?}");
}

#[test]
fn what_nothing_is_known_of_makes_no_key() {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let nothing = Site { image: ImageId::UNKNOWN, ..place("", &[]) };
    teller.tell_often(&mut model, &nothing, cpu(500), 10);
    assert!(is_close(median(&model, &nothing), 500));
    model.observe(&Event::Ended { time_us: 1, process: PARENT, usage: Usage::default() });
    assert_eq!(model.counts().runs, 10);
}

/// Processes whose events are told in some order, some of them twice.
fn told(order: &[usize], again: &[usize]) -> Model {
    let (mut model, mut teller) = (Model::default(), Teller::default());
    let sites = [child_of(place("a", &[1]), "x"), child_of(place("a", &[2]), "y"), place("b", &[1])];
    let events: Vec<Event> = (0..30)
        .flat_map(|run| teller.events(&sites[run % 3], None, cpu([300, 9_000, 400_000][run % 3])))
        .collect();
    let in_order = order.iter().map(|&index| index % events.len());
    let mut left: Vec<usize> = (0..events.len()).collect();
    for index in in_order {
        if let Some(at) = left.iter().position(|&other| other == index) {
            model.observe(&events[left.remove(at)]);
        }
        again.iter().filter(|&&again| again % 50 == index).for_each(|_| model.observe(&events[index]));
    }
    left.into_iter().for_each(|index| model.observe(&events[index]));
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events_may_come_in_any_order_and_twice(
        order in prop::collection::vec(0_usize..1_000, 0..200),
        again in prop::collection::vec(0_usize..50, 0..30),
    ) {
        let model = told(&order, &again);
        prop_assert_eq!(model.counts().runs, 30);
        prop_assert_eq!(model.counts().lost, 0);
        for (site, wanted) in [(place("a", &[1]), 300), (place("a", &[2]), 9_000), (place("b", &[1]), 400_000)] {
            prop_assert!(is_close(median(&model, &site), wanted), "{}: {}", wanted, median(&model, &site));
        }
    }

    #[test]
    fn whatever_is_told_what_is_said_makes_sense(
        runs in prop::collection::vec((0_u64..6, 0_u64..4, 0_usize..4, any::<u64>(), any::<u64>(), any::<u64>()), 1..200),
        asked in (0_u64..7, 0_u64..5, 0_usize..5),
        used in any::<u64>(),
    ) {
        let (mut model, mut teller) = (Model::new(0), Teller::default());
        let names = ["a", "b", "c", "d", "e"];
        let site = |program: u64, offset, child: usize| {
            let place = place(&program.to_string(), &[offset, 1]);
            if child == 0 { place } else { child_of(place, names[child]) }
        };
        for (program, offset, child, cpu_us, life_us, other) in runs {
            let usage = Usage { cpu_us, life_us, peak_kib: other, startup_us: Some(other) };
            teller.tell(&mut model, &site(program, offset, child), usage);
        }
        let prediction = model.predict(&site(asked.0, asked.1, asked.2));
        for distribution in [&prediction.cpu_us, &prediction.life_us].into_iter().chain(&prediction.peak_kib) {
            let figures = distribution.quantiles();
            prop_assert!(figures.p50 <= figures.p90 && figures.p90 <= figures.p99 && figures.p99 <= 1 << 34);
            prop_assert!((0.0..=1.0).contains(&distribution.share_within(used)));
            let left = distribution.left(used);
            prop_assert!(left.p50 <= left.p90 && left.p90 <= left.p99, "{:?}", left);
        }
        prop_assert!((0.0..=1.0).contains(&prediction.confidence));
        prop_assert!(prediction.startup_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
        prop_assert!(model.memory_bytes() <= model.budget_bytes());
    }
}
