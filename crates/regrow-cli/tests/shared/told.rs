//! What the daemon tells of itself is what was done: `status`, `ls`, `show` and `top` beside a count of the runs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use regrow_daemon::wire::VERSION;
use serde_json::Value;

use crate::service::{ATTEMPTS, LIMIT, Said, Service, eventually, text};

/// What the commands of a test have said of their runs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    recycled: u64,
    forked: u64,
    /// Those that the commands have executed, by the reason.
    executed: BTreeMap<String, u64>,
}

impl Tally {
    /// Runs a program and counts it.
    fn run(&mut self, service: &Service, program: &[&str]) -> Output {
        let output = service.regrow().args(["--log", "info", "run", "--"]).args(program).output().unwrap();
        self.add(&Said::read(&output.stderr));
        output
    }

    fn add(&mut self, said: &Said) {
        match (said.how.as_deref(), &said.why) {
            (Some("recycled"), None) => self.recycled += 1,
            (Some("forked_body"), None) => self.forked += 1,
            (None, Some(why)) => {
                let reason = why.strip_prefix("the daemon declines: ").unwrap().split(':').next().unwrap();
                *self.executed.entry(reason.to_owned()).or_default() += 1;
            }
            _ => panic!("{said:?}"),
        }
    }

    /// The same from the daemon's own counts.
    fn of(status: &Value) -> Tally {
        let creations = &status["pool"]["creations"];
        let sum = |kind: &str| creations[kind].as_object().unwrap().values().map(number).sum();
        let fallbacks = creations["fallbacks"].as_object().unwrap();
        let executed: BTreeMap<_, _> =
            fallbacks.iter().map(|(name, count)| (name.clone(), number(count))).collect();
        assert_eq!(number(&creations["exec"]), executed.values().sum::<u64>(), "{creations}");
        Tally { recycled: sum("recycled"), forked: sum("forked_body"), executed }
    }

    fn total(&self) -> u64 {
        self.recycled + self.forked + self.executed.values().sum::<u64>()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What a command prints, which must succeed.
fn printed(service: &Service, args: &[&str]) -> String {
    let output = service.regrow().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    assert_eq!(text(&output.stderr), "", "{args:?}");
    text(&output.stdout)
}

fn json(service: &Service, args: &[&str]) -> Value {
    serde_json::from_str(&printed(service, args)).unwrap()
}

fn status(service: &Service) -> Value {
    json(service, &["status", "--json"])
}

/// The names that `ls` prints.
fn names(service: &Service, path: &str) -> Vec<String> {
    let names: Vec<String> = printed(service, &["ls", path]).lines().map(str::to_owned).collect();
    assert_eq!(json(service, &["ls", "--json", path]), serde_json::json!(names), "{path}");
    names
}

/// A run that waits for its input.
fn waiting(service: &Service) -> Child {
    let mut command = service.regrow();
    command.args(["--log", "info", "run", "sh", "-c", "echo ready; read line; exit 7"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut ready = [0; 6];
    run.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    run
}

/// Runs a command with modules until Regrow says this of them in a recycled run; what it says before is nothing.
fn says_of_modules(service: &Service, args: &[&str], expected: &str) {
    for attempt in 0..ATTEMPTS {
        let output = service.regrow().args(["--log", "info", "run"]).args(args).output().unwrap();
        assert_eq!(text(&output.stdout), "done\n", "{args:?}: {output:?}");
        let all = text(&output.stderr);
        let said: Vec<&str> = all.lines().filter(|line| line.starts_with("regrow: ")).collect();
        // Where nothing is expected, some recycled runs show it: an image of a front end takes its time.
        if Said::read(&output.stderr).is_kept() && said == [expected] || expected.is_empty() && attempt == 40
        {
            return;
        }
        assert!(said.is_empty(), "{args:?}: {said:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{args:?}: {expected:?} is not said: {}", service.daemon_said());
}

#[test]
fn a_module_that_cannot_be_loaded_ahead_is_told() {
    let service = Service::start();
    let python = ["--", "/usr/bin/python3", "-c", "print('done')"];
    let no_module = "not loaded ahead: the program's state cannot be kept: ModuleNotFoundError: No module named 'nosuchmod'";
    let no_front_end = "not loaded ahead: there is no front end for this program with these arguments";
    let in_python = |modules: &str, says: &str| {
        says_of_modules(&service, &[&["--preload", modules], &python[..]].concat(), says);
    };
    in_python("json,nosuchmod", &format!("regrow: --preload json,nosuchmod: {no_module}"));
    in_python("json", "");
    in_python("perl:CGI", "");
    let in_sh = |modules: &str, says: &str| {
        says_of_modules(&service, &["--preload", modules, "--", "sh", "-c", "echo done"], says);
    };
    in_sh("json", &format!("regrow: --preload json: {no_front_end}"));
    in_sh("python:json", "");
    // The same from a pool of the command's own, once for all runs.
    let mut own = service.regrow();
    let own = own.args(["run", "--repeat", "2", "--preload", "nosuchmod"]).args(python).output().unwrap();
    assert_eq!(text(&own.stdout), "done\ndone\n");
    assert_eq!(
        text(&own.stderr).matches(&format!("regrow: --preload nosuchmod: {no_module}\n")).count(),
        1,
        "{own:?}"
    );
}

/// Every body has its reason; a budget of nothing is kept to at once, and runs go on.
#[test]
fn the_reasons_and_the_budget_of_the_daemon() {
    let service = Service::start();
    service.warm(&["sh"]);
    let why = printed(&service, &["status", "--why"]);
    assert!(why.starts_with("policy     adaptive; "), "{why}");
    assert!(why.contains("learned    /") && !why.contains("shell "), "the daemon keeps no shells: {why}");
    assert!(why.lines().any(|line| line.starts_with("body ") && line.contains(" needed ")), "{why}");
    assert_eq!(printed(&service, &["budget", "0"]), "");
    let told = status(&service);
    assert_eq!(
        (number(&told["pool"]["budget_bytes"]), number(&told["pool"]["idle_bytes"])),
        (0, 0),
        "{told}"
    );
    assert_eq!((number(&told["pool"]["images"]), number(&told["pool"]["shells"])), (0, 0), "{told}");
    let output = service.regrow().args(["run", "--no-tty", "sh", "-c", "echo right"]).output().unwrap();
    assert_eq!(text(&output.stdout), "right\n");
    assert_eq!(number(&status(&service)["pool"]["images"]), 0, "nothing is kept");
    printed(&service, &["budget", "64"]);
    service.warm(&["sh"]);
}

#[test]
fn the_status_counts_what_was_run() {
    let service = Service::start();
    let mut tally = Tally::default();
    assert_eq!(Tally::of(&status(&service)), tally, "nothing was run yet");
    while tally.recycled < 20 {
        let output = tally.run(&service, &["sh", "-c", "exit 3"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(tally.total() < 2000, "{tally:?}");
    }
    for _ in 0..3 {
        assert_eq!(tally.run(&service, &["/nonexistent/program"]).status.code(), Some(127));
    }
    let told = status(&service);
    assert_eq!(Tally::of(&told), tally, "{told}");
    let daemon = &told["daemon"];
    assert_eq!(number(&daemon["pid"]), u64::try_from(service.daemon()).unwrap());
    assert_eq!(number(&daemon["protocol"]), u64::from(VERSION));
    assert_eq!((number(&daemon["clients"]), number(&daemon["runs"])), (0, 0), "without the one that asks");
    assert_eq!(daemon["stopping"], false);
    let images = told["images"].as_array().unwrap();
    assert_eq!((images.len(), number(&told["pool"]["images"])), (1, 1), "{told}");
    assert!(images[0]["file"].as_str().unwrap().contains("sh"), "{told}");
    assert_eq!(number(&images[0]["runs"]), tally.recycled + tally.forked, "{told}");
    assert_eq!(images[0]["kept_bytes"], told["pool"]["kept_bytes"]);
    assert_eq!(number(&told["pool"]["to_main_us"]["count"]), tally.recycled + tally.forked);

    let words = printed(&service, &["status"]);
    for part in [
        format!("daemon     pid {} on ", service.daemon()),
        format!(", {} by exec\n", tally.executed.values().sum::<u64>()),
        format!("creations  {} recycled, {} in a forked body, ", tally.recycled, tally.forked),
        format!(", of {} runs\n", tally.recycled + tally.forked),
    ] {
        assert!(words.contains(&part), "{part:?} in\n{words}");
    }
    println!("status: {} runs, each counted: {tally:?}", tally.total());
}

#[test]
fn a_run_that_is_under_way_is_shown() {
    let service = Service::start();
    service.warm(&["sh"]);
    let mut run = waiting(&service);
    let told = status(&service);
    assert_eq!((number(&told["daemon"]["clients"]), number(&told["daemon"]["runs"])), (1, 1), "{told}");
    assert_eq!(number(&told["pool"]["bodies"]["running"]), 1, "{told}");
    let processes = names(&service, "/./process");
    assert_eq!(processes.len(), 1, "{processes:?}");
    let shown = json(&service, &["show", "--json", &format!("/./process/{}", processes[0])]);
    assert_eq!((shown["program"].as_str(), shown["point"].as_str()), (Some("sh"), Some("main")), "{shown}");
    let line = std::fs::read(format!("/proc/{}/cmdline", processes[0])).unwrap();
    assert!(line.starts_with(b"sh\0-c\0echo ready"), "{}", text(&line));
    let parent = regrow_testkit::left::children(service.daemon().cast_unsigned()).unwrap();
    assert!(parent.contains(&processes[0]), "{parent:?}");

    run.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(Said::read(&output.stderr).is_kept());
    let told = status(&service);
    assert_eq!((number(&told["daemon"]["clients"]), number(&told["daemon"]["runs"])), (0, 0), "{told}");
    assert_eq!(names(&service, "/./process"), [] as [&str; 0]);
}

#[test]
fn the_tree_holds_what_the_status_counts() {
    let service = Service::start();
    let mut tally = Tally::default();
    while tally.recycled < 5 {
        tally.run(&service, &["sh", "-c", "exit 3"]);
        assert!(tally.total() < 2000, "{tally:?}");
    }
    let hosts = names(&service, "/");
    assert_eq!(hosts.len(), 1);
    let host = format!("/{}", hosts[0]);
    assert_eq!(names(&service, &host), ["body", "creation", "image", "process", "shell"]);
    assert_eq!(names(&service, &host), names(&service, "/."));

    let images = names(&service, "/./image");
    assert_eq!(images.len(), 1);
    let bodies = names(&service, "/./body");
    let image = json(&service, &["show", "--json", &format!("{host}/image/{}", images[0])]);
    let mut listed: Vec<&str> = image["bodies"].as_str().unwrap().split(' ').collect();
    listed.sort_by_key(|id| id.parse::<u64>().unwrap());
    assert_eq!(bodies, listed);
    let mut runs = 0;
    for body in &bodies {
        let shown = json(&service, &["show", "--json", &format!("/./body/{body}")]);
        assert_eq!(shown["image"].to_string(), images[0]);
        let keeper = number(&shown["keeper"]);
        assert!(std::path::Path::new(&format!("/proc/{keeper}")).exists(), "{shown}");
        runs += number(&shown["runs"]);
    }
    assert_eq!(runs, tally.recycled + tally.forked);

    // Those that have ended; the one before them is not needed to be there first.
    let creations = names(&service, "/./creation");
    assert_eq!(creations.len() as u64, tally.total());
    let mut seen = Tally::default();
    for creation in &creations {
        let shown = json(&service, &["show", "--json", &format!("/./creation/{creation}")]);
        assert_eq!(shown["program"], "sh");
        match shown["how"].as_str().unwrap() {
            "recycled" => seen.recycled += 1,
            "forked_body" => seen.forked += 1,
            "exec" => *seen.executed.entry(shown["fallback"].as_str().unwrap().to_owned()).or_default() += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(seen, tally);

    // The same in words.
    let words = printed(&service, &["show", "/."]);
    let line = words.lines().find(|line| line.starts_with("creations.recycled.main ")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some(tally.recycled.to_string().as_str()));
    println!("tree: {} bodies, {} creations", bodies.len(), creations.len());
}

#[test]
fn what_is_not_there_is_told() {
    let service = Service::start();
    for (args, why) in [
        (["show", "/./body/999999"], "/./body/999999: there is no such resource"),
        (["ls", "/nowhere"], "/nowhere: there is no such resource"),
        (["show", "/./body/x"], "/./body/x: there is no such resource"),
    ] {
        let output = service.regrow().args(args).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
    let nobody = Service::empty();
    for args in [&["status"][..], &["ls"], &["show", "/."], &["stop"]] {
        let output = nobody.regrow().args(args).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{args:?}");
        assert!(text(&output.stderr).contains("there is no daemon"), "{args:?}: {}", text(&output.stderr));
    }
    assert!(nobody.everything().is_empty(), "no question starts a daemon");
}

/// On a terminal of its own, which `script` makes.
#[test]
fn top_shows_the_daemon_until_it_is_left() {
    let service = Service::start();
    service.warm(&["sh"]);
    let mut command = service.plain("script");
    let top = format!("stty rows 30 cols 120; exec {} top --interval-ms 50", env!("CARGO_BIN_EXE_regrow"));
    command.args(["--quiet", "--flush", "--return", "--command", &top, "/dev/null"]);
    command.env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut shown = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keys = shown.stdin.take().unwrap();
    let screen = reading(shown.stdout.take().unwrap());
    let mut all = String::new();
    let mut until = |part: &str| {
        let deadline = Instant::now() + LIMIT;
        while !all.contains(part) {
            assert!(Instant::now() < deadline, "{part:?} in {all:?}");
            all.extend(screen.recv_timeout(Duration::from_millis(100)));
        }
    };
    // Blanks are not drawn, so that words come one by one.
    until(&service.daemon().to_string());
    until("recycled");
    until("/sh");
    // What is run meanwhile is seen: another image.
    service.warm(&["perl", "-e", "1"]);
    until("perl");
    keys.write_all(b"q").unwrap();
    eventually("the end of top", || shown.try_wait().unwrap().is_some());
    assert!(shown.wait().unwrap().success());
}

fn reading(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(got @ 1..) = from.read(&mut buffer) {
            if sender.send(text(&buffer[..got])).is_err() {
                return;
            }
        }
    });
    receiver
}
