//! Names that want to be more than names, very many sites, very deep trees, and nothing at all.

use serde_json::Value;

use crate::browser::act;
use crate::files::pprof;
use crate::scene::{MAKE, SHELL, Scene, in_script, site};

const NAMES: [&str; 9] = [
    "</script><img src=x onerror=\"window.hacked=1\">",
    "<!--<script>window.hacked=1</script>",
    "\u{1b}[2J\u{1b}]0;owned\u{7}\r\n\t\u{0}",
    "{{data}}{{script}}$&$1",
    "\u{202e}gnp.exe\u{200b}",
    "\"'`,;=cmd|' /C calc'!A0",
    "a\u{2028}b\u{2029}c",
    "ファイル 🌲 größe",
    "not \u{fffd}\u{fffd} UTF-8",
];

/// Every name in every place where there may be one.
fn odd() -> Scene {
    let mut scene = Scene::default();
    scene.name(MAKE, &format!("/bin/{}", NAMES[0]));
    let make = scene.command(MAKE);
    for (number, name) in (0..).zip(NAMES) {
        let (program, module, script) = (100 + number, 200 + number, 300 + number);
        scene.name(program, &format!("/odd/{number}/{name}"));
        scene.name(module, &format!("/lib/{name}"));
        scene.profile.name_script(script, format!("/src/{name}"));
        scene.profile.name_script(u64::MAX - number, name.to_owned());
        for site in [
            site(program, &[(module, 0x10)]),
            in_script(program, script, 7),
            in_script(program, script, u64::MAX - number),
        ] {
            let child = scene.create(make, site, &[program, program]);
            scene.end(child, 1000, None);
        }
    }
    scene
}

fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
}

#[test]
fn names_stay_names_in_every_file() {
    let report = odd().report(NAMES[0]);
    assert_eq!(report.sites.len(), 3 * NAMES.len());
    for site in &report.sites {
        assert!(!site.place.chars().chain(site.child.chars()).any(is_obeyed), "{site:?}");
    }
    let json: Value = serde_json::from_slice(&report.to_json().unwrap()).unwrap();
    assert_eq!(json["title"], NAMES[0]);
    let programs: Vec<&str> = report.sites.iter().map(|site| site.programs[0].as_str()).collect();
    assert!(
        NAMES.iter().all(|name| programs.iter().any(|path| path.ends_with(name))),
        "JSON and CSV have them as they are"
    );
    let bytes = report.to_csv().unwrap();
    let mut csv = csv::Reader::from_reader(&*bytes);
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), report.sites.len());
    assert!(rows.iter().zip(&report.sites).all(|(row, site)| row[0] == site.parent && row[7] == site.child));
    let raw = pprof(&report, &["-raw"]);
    assert!(raw.contains("Samples:"), "{raw}");
}

#[test]
fn names_stay_names_in_a_browser() {
    let html = odd().report(NAMES[0]).to_html().unwrap();
    let script = r"
        results.hacked = String(window.hacked);
        results.images = document.images.length;
        results.title = document.title;
        results.heading = document.getElementById('title').textContent;
        document.querySelectorAll('#sites tbody tr').forEach((row) => row.click());
        results.rows = document.querySelectorAll('#sites tbody tr').length;
        results.text = document.getElementById('sites').textContent;
        document.querySelectorAll('.box').forEach((box) => box.dispatchEvent(new MouseEvent('mousemove', { bubbles: true })));
        results.boxes = document.querySelectorAll('.box').length;
    ";
    let results = act(&html, script);
    assert_eq!((results["hacked"].as_str(), results["images"].as_u64()), (Some("undefined"), Some(0)));
    assert_eq!(results["title"], format!("Process creations: {}", NAMES[0]));
    assert_eq!(results["heading"], NAMES[0]);
    assert_eq!((results["rows"].as_u64(), results["boxes"].as_u64()), (Some(27), Some(29)));
    let text = results["text"].as_str().unwrap();
    assert!(!text.chars().any(|character| is_obeyed(character) && character != '\n'), "{text:?}");
    for visible in ["onerror=", "{{data}}{{script}}$&$1", "\\x1b[2J", "\\u{202e}", "ファイル 🌲 größe"]
    {
        assert!(text.contains(visible), "{visible} in {text}");
    }
}

fn crowd(count: u64) -> Scene {
    let mut scene = Scene::default();
    scene.name(MAKE, "/bin/make");
    let make = scene.command(MAKE);
    for number in 0..count {
        scene.name(1000 + number, &format!("/bin/program-{number}"));
        let child = scene.create(make, site(MAKE, &[(MAKE, 0x1000 + number)]), &[1000 + number]);
        scene.end(child, 100 + number, Some(50));
    }
    scene
}

#[test]
fn ten_thousand_sites_are_shown() {
    let report = crowd(10_000).report("many");
    assert_eq!(report.sites.len(), 10_000);
    assert_eq!(report.to_csv().unwrap().iter().filter(|&&byte| byte == b'\n').count(), 10_001);
    let top = pprof(&report, &["-top", "-sample_index=cpu", "-nodefraction=0", "-nodecount=30000"]);
    assert!(top.contains("program-9999"), "{top}");
    let script = r"
        const rows = () => document.querySelectorAll('#sites tbody tr').length;
        results.first = rows();
        results.boxes = document.querySelectorAll('.box').length;
        results.note = document.getElementById('flame-note').textContent;
        document.getElementById('all').click();
        results.all = rows();
        const search = document.getElementById('search');
        search.value = 'program-777';
        search.dispatchEvent(new Event('input'));
        results.found = rows();
    ";
    let results = act(&report.to_html().unwrap(), script);
    assert_eq!((results["first"].as_u64(), results["all"].as_u64()), (Some(300), Some(10_000)));
    assert_eq!(results["found"], 11, "777 and 7770 to 7779");
    assert!(
        results["boxes"].as_u64().unwrap() < 1500
            && results["note"].as_str().unwrap().contains("Too small to draw"),
        "{results}"
    );
}

#[test]
fn a_chain_of_a_thousand_processes_is_shown() {
    let mut scene = Scene::default();
    scene.name(SHELL, "/bin/sh");
    let mut process = scene.command(SHELL);
    let mut chain = vec![process];
    for depth in 0..1000 {
        process = scene.create(process, in_script(SHELL, 1, depth + 1), &[SHELL]);
        chain.push(process);
    }
    chain.into_iter().rev().for_each(|process| scene.end(process, 1000, Some(400)));
    scene.profile.name_script(1, "/src/again.sh".to_owned());
    let report = scene.report("deep");
    assert_eq!(report.nodes.len(), 1001);
    let json: Value = serde_json::from_slice(&report.to_json().unwrap()).expect("no depth of its own");
    assert_eq!(json["nodes"][1000]["parent"], 999);
    let traces = pprof(&report, &["-traces", "-sample_index=processes"]);
    let longest = traces.split("-----------+").map(|trace| trace.lines().count()).max();
    assert!(longest.is_some_and(|lines| lines > 2000), "{longest:?}");
    let script = r"
        const boxes = document.querySelectorAll('.box');
        results.boxes = boxes.length;
        results.last = boxes[boxes.length - 1].textContent;
        results.scrolls = document.getElementById('flame').scrollHeight > 1000 * 20;
        boxes[1000].click();
        results.zoomed = document.querySelectorAll('.box').length;
    ";
    let results = act(&report.to_html().unwrap(), script);
    assert_eq!((results["boxes"].as_u64(), results["scrolls"].as_bool()), (Some(1002), Some(true)));
    assert_eq!((results["last"].as_str(), results["zoomed"].as_u64()), (Some("shagain.sh:1000"), Some(1002)));
}

#[test]
fn nothing_is_shown_as_nothing() {
    let results = act(
        &Scene::default().report("nothing").to_html().unwrap(),
        "results.boxes = document.querySelectorAll('.box').length; results.note = document.getElementById('flame-note').textContent;
         results.shown = document.getElementById('shown').textContent;",
    );
    assert_eq!((results["boxes"].as_u64(), results["shown"].as_str()), (Some(0), Some("0 of 0 sites")));
    assert_eq!(results["note"], "Nothing to draw by this measure.");
    let top = pprof(&Scene::default().report("nothing"), &["-top"]);
    assert!(top.contains("Type: processes"), "{top}");
}
