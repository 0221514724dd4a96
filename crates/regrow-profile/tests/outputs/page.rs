//! The page as a person uses it.

use crate::browser::{act, picture};
use crate::scene::build;

/// What a person does with it, one after the other, and what is there then.
const STEPS: &str = r"
const one = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const boxes = () => all('.box').map((box) => box.textContent);
const click = (target) => target.dispatchEvent(new MouseEvent('click', { bubbles: true }));
const rows = () => all('#sites tbody tr').map((row) => [...row.cells].map((cell) => cell.firstElementChild ? cell.firstElementChild.textContent : cell.textContent));
const box = (name) => all('.box').find((each) => each.firstChild.textContent === name);
const change = (id, event, value) => { one(id).value = value; one(id).dispatchEvent(new Event(event, { bubbles: true })); };

results.summary = all('#summary li').map((card) => card.textContent);
results.title = one('#title').textContent;
results.boxes = boxes();
results.rows = rows();
results.by = one('#by').value;
results.basis = one('#basis').textContent;

box('gcc').dispatchEvent(new MouseEvent('mousemove', { bubbles: true, clientX: 200, clientY: 200 }));
results.tip = one('#tip').innerText;
results.tipShown = !one('#tip').hidden;

const before = box('cc1').getBoundingClientRect().width;
click(box('gcc'));
results.zoomed = { boxes: boxes(), wider: box('cc1').getBoundingClientRect().width / before, out: !one('#out').hidden, hash: location.hash };
click(one('#out'));
results.zoomedOut = boxes().length;

change('#search', 'input', 'CHECK.SH');
results.searched = { found: one('#found').textContent, boxes: all('.box.found').map((each) => each.firstChild.textContent), rows: rows().length, shown: one('#shown').textContent };
change('#search', 'input', '');

change('#by', 'change', 'count');
results.byCount = box('cc1').getBoundingClientRect().width / one('#flame').clientWidth;

const head = (key) => one(`th[data-sort=${key}]`);
click(head('cpu'));
results.sortedByCpu = { first: rows()[0][1], aria: head('cpu').getAttribute('aria-sort') };
click(head('cpu'));
results.sortedAscending = { first: rows()[0][1], aria: head('cpu').getAttribute('aria-sort') };
click(head('child'));
results.sortedByChild = rows().map((row) => row[1]);

click(one('#sites tbody tr'));
results.opened = all('#sites .frames li').map((line) => line.textContent);
click(one('#sites tbody tr'));
results.closed = all('#sites .frames').length;

const colour = () => getComputedStyle(document.body).backgroundColor;
results.light = colour();
click(one('#theme'));
results.dark = colour();
";

#[test]
fn the_page_shows_what_happened_and_does_what_it_is_asked() {
    let html = build().report("make -j2").to_html().unwrap();
    let results = act(&html, STEPS);
    let texts = |name: &str| -> Vec<String> {
        results[name].as_array().unwrap().iter().map(|each| each.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((results["title"].as_str(), results["by"].as_str()), (Some("make -j2"), Some("cpu")));
    assert!(
        texts("summary")[0].starts_with("47processes")
            && texts("summary")[4].ends_with("Regrow would have saved, about")
    );
    let boxes = texts("boxes");
    assert_eq!(boxes[..3], ["all", "make", "gccmake+0x1a40"]);
    assert!(boxes.contains(&"sudocheck.sh:20".to_owned()), "{boxes:?}");
    assert!(results["basis"].as_str().unwrap().contains("600 µs (by a benchmark: /bin/true takes 700 µs"));
    assert_eq!(results["tipShown"], true);
    let tip = results["tip"].as_str().unwrap();
    assert!(
        tip.starts_with("gcc\nmake+0x1a40")
            && tip.contains("of /nowhere/bin/make")
            && tip.contains("36 (76.6 %)"),
        "{tip}"
    );
    let zoomed = &results["zoomed"];
    assert!(zoomed["wider"].as_f64().unwrap() > 1.05, "{zoomed}");
    assert_eq!(
        (&zoomed["out"], zoomed["hash"].as_str().unwrap().contains("zoom=1")),
        (&true.into(), true),
        "{zoomed}"
    );
    assert_eq!(zoomed["boxes"].as_array().unwrap().len(), 5, "all, make, gcc and its two");
    assert_eq!(results["zoomedOut"], boxes.len());
    let searched = &results["searched"];
    assert_eq!(searched["found"], "found: 8 processes, 17.0 %");
    assert_eq!(searched["boxes"], serde_json::json!(["sed", "sudo", "(fork)", "dash → sed"]));
    assert_eq!((&searched["rows"], searched["shown"].as_str()), (&4.into(), Some("4 of 9 sites")));
    assert!((results["byCount"].as_f64().unwrap() - 12.0 / 47.0).abs() < 0.01);
    assert_eq!(results["sortedByCpu"], serde_json::json!({"first": "cc1", "aria": "descending"}));
    assert_eq!(results["sortedAscending"]["aria"], "ascending");
    assert_ne!(results["sortedAscending"]["first"], "cc1");
    let by_child = texts("sortedByChild");
    assert!(by_child.is_sorted_by_key(|name| name.to_lowercase()), "{by_child:?}");
    assert!(texts("opened").contains(&"/nowhere/bin/dash".to_owned()), "{results}");
    assert_eq!(results["closed"], 0);
    assert_eq!(
        (results["light"].as_str(), results["dark"].as_str()),
        (Some("rgb(251, 251, 250)"), Some("rgb(20, 22, 21)"))
    );
    assert_eq!(results["rows"].as_array().unwrap().len(), 9);
    assert_eq!(results["rows"][0][2], "12");
}

#[test]
fn pictures_of_the_page_are_taken() {
    let html = build().report("make -j2").to_html().unwrap();
    picture("light", &html, &[]);
    picture("dark", &html.replacen("<html lang=\"en\">", "<html lang=\"en\" data-theme=\"dark\">", 1), &[]);
}
