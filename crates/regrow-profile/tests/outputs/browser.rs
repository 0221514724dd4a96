//! Pages in headless Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What every page is asked at its end: whether it is as quiet as it is to be.
const WATCH: &str = r"
const results = { errors: [], refused: [] };
addEventListener('error', (event) => results.errors.push(String(event.message)));
document.addEventListener('securitypolicyviolation', (event) => results.refused.push(event.blockedURI + ' ' + event.violatedDirective));
";

fn chromium(page: &Path, options: &[&str]) -> Vec<u8> {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display())).args(options);
    let done = command
        .arg(format!("file://{}", page.display()))
        .env("HOME", profile.path())
        .output()
        .expect("Chromium is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&")
}

/// Shows a page, lets a script of a test act on it, and gives what that has put into `results`.
pub(crate) fn act(html: &str, script: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let before =
        html.replacen("<script id=\"data\"", &format!("<script>{WATCH}</script><script id=\"data\""), 1);
    let end = format!(
        "<script>{script}
        results.requests = performance.getEntriesByType('resource').map((entry) => entry.name);
        results.scripts = document.scripts.length;
        const told = document.body.appendChild(document.createElement('pre'));
        told.id = 'results';
        told.textContent = JSON.stringify(results);
        </script></body>"
    );
    fs::write(&page, before.replacen("</body>", &end, 1)).unwrap();
    let dom = String::from_utf8(chromium(&page, &["--window-size=1280,900", "--dump-dom"])).unwrap();
    let told = dom.split_once("<pre id=\"results\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let told = unescaped(
        told.unwrap_or_else(|| panic!("the script has not ended:\n{}", dom.get(..3000).unwrap_or(&dom))).0,
    );
    let results: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(results["errors"], Value::Array(vec![]), "{results}");
    assert_eq!(results["refused"], Value::Array(vec![]), "{results}");
    assert_eq!(results["requests"], Value::Array(vec![]), "a page asks for nothing: {results}");
    assert_eq!(results["scripts"], 4, "the page's two, and the test's");
    results
}

/// A screenshot of a page, for a person to look at.
pub(crate) fn picture(name: &str, html: &str, options: &[&str]) {
    let folder = std::env::var_os("REGROW_PICTURES")
        .map_or(std::env::temp_dir().join("regrow-profile-pictures"), PathBuf::from);
    fs::create_dir_all(&folder).unwrap();
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("page.html");
    fs::write(&page, html).unwrap();
    let picture = folder.join(format!("{name}.png"));
    let _ = fs::remove_file(&picture);
    let target = format!("--screenshot={}", picture.display());
    chromium(&page, &[&["--window-size=1280,900", target.as_str()], options].concat());
    let head = fs::read(&picture).unwrap();
    assert!(
        head.starts_with(b"\x89PNG\r\n") && head[16..24] == [0, 0, 5, 0, 0, 0, 3, 0x84],
        "1280 by 900 points"
    );
}
