//! `regrow web` as its users start it: scripts by HTTP and by FastCGI, functions, Python applications, and its end.
//!
//! What real web servers make of the same scripts, and what hostile clients do, is tested in `tests/web`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// How long what is to come about may take. Nothing is measured by it.
const LIMIT: Duration = Duration::from_secs(60);

/// A gateway of a test's own.
struct Web {
    folder: tempfile::TempDir,
    gateway: Option<Child>,
    http: String,
    metrics: String,
}

impl Web {
    /// Writes scripts (name, text) and serves their folder, or what `args` say.
    fn start(scripts: &[(&str, &str)], args: &[&str]) -> Web {
        Web::start_with(scripts, args, &[])
    }

    fn start_with(scripts: &[(&str, &str)], args: &[&str], variables: &[(&str, &str)]) -> Web {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let cgi = folder.path().join("cgi");
        fs::create_dir(&cgi).unwrap();
        for (name, text) in scripts {
            regrow_testkit::program::write(&cgi.join(name), text.as_bytes()).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
        command.args(["web", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--access-log"]);
        command.arg(folder.path().join("access.log")).args(args).current_dir(&cgi);
        if args.iter().all(|arg| !["--function", "--wsgi", "--asgi", "--program"].contains(arg)) {
            command.arg(&cgi);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        // What says that a function is in health is of this gateway alone.
        command.env("TMPDIR", folder.path()).envs(variables.iter().copied());
        let mut gateway = command.spawn().unwrap();
        let mut lines = BufReader::new(gateway.stderr.take().unwrap()).lines();
        let mut address = |before: &str| {
            let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains(before)).unwrap();
            line.split(before).nth(1).unwrap().split('/').next().unwrap().to_owned()
        };
        let (http, metrics) = (address("serving http://"), address("metrics at http://"));
        // What scripts write to their standard error is the gateway's log.
        std::thread::spawn(move || lines.for_each(drop));
        Web { folder, gateway: Some(gateway), http, metrics }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A request, and the reply to it: status and body.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        read_reply(&mut stream)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.0\r\nHost: test\r\n\r\n"))
    }

    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        self.ask(&format!("POST {path} HTTP/1.0\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}"))
    }

    /// How many processes were made in a way that the labels say.
    fn runs(&self, labels: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let lines =
            text.lines().filter(|line| line.starts_with("regrow_web_runs_total{") && line.contains(labels));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Asks until a process is made in a way, and gives the last reply.
    fn until(&self, how: &str, ask: impl Fn(&Web) -> (u16, String)) -> (u16, String) {
        let labels = format!("how=\"{how}\"");
        let mut last = None;
        eventually(how, || {
            let before = self.runs(&labels);
            last = Some(ask(self));
            self.runs(&labels) > before
        });
        last.unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.gateway.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Ends it as a service manager does.
    fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.gateway.take().unwrap().wait().unwrap()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            let _ = gateway.kill();
            let _ = gateway.wait();
        }
    }
}

fn read_reply(stream: &mut impl Read) -> (u16, String) {
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    (head.split(' ').nth(1).unwrap_or("0").parse().unwrap(), body.to_owned())
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "{what} has not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const PERL: &str = "#!/usr/bin/perl\nuse strict;\nuse warnings;\nmy $body = join '', <STDIN>;\n\
    print \"Content-Type: text/plain\\n\\n$ENV{REQUEST_METHOD} $ENV{QUERY_STRING} $body $0\";\n";
const SHELL: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nprintf '%s ' \"$PATH_INFO\" \"$PWD\"\ncat\n";

#[test]
fn a_request_is_answered_by_a_recycled_process() {
    let web = Web::start(&[("a.pl", PERL), ("b.sh", SHELL)], &[]);
    let script = web.path("cgi/a.pl").canonicalize().unwrap();
    for number in 0..5 {
        let (status, body) = web.until("warm", |web| web.post(&format!("/a.pl?n={number}"), "x=1"));
        assert_eq!((status, body), (200, format!("POST n={number} x=1 {}", script.display())));
        let (status, body) = web.until("main", |web| web.post("/b.sh/in%20fo", "body"));
        assert_eq!((status, body), (200, format!("/in fo {} body", script.parent().unwrap().display())));
    }
    assert_eq!(web.get("/none").0, 404);
    let log = fs::read_to_string(web.path("access.log")).unwrap();
    assert!(
        log.contains("] \"POST /a.pl?n=4 HTTP/1.0\" 200 ") && log.contains("\"GET /none HTTP/1.0\" 404 14\n"),
        "{log}"
    );
}

/// Says the number of its process, and stays for a moment.
const STAYS: &str = "#!/usr/bin/python3\nimport os, time\nbody = str(os.getpid())\n\
    print(f'Content-Type: text/plain\\nContent-Length: {len(body)}\\n\\n{body}', end='', flush=True)\n\
    time.sleep(0.05)\n";

/// The keeper whose memory the process of a request has. One that is not in a body is followed by the next request.
fn keeper_of(web: &Web, script: &str) -> (i32, u64) {
    let gateway = i32::try_from(web.gateway.as_ref().unwrap().id()).unwrap();
    let mut found = None;
    eventually("a request in a body", || {
        let (status, pid) = web.get(script);
        assert_eq!(status, 200);
        let run: i32 = pid.parse().unwrap();
        let others =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut others = others.filter(|&pid: &i32| pid != run && pid != gateway);
        let keeper = others.find(|&pid| regrow_sys::raw::share_memory(pid, run) == Some(true));
        found = keeper.and_then(|pid| Some((pid, began(pid)?)));
        eventually("its end", || began(run).is_none());
        found.is_some()
    });
    found.unwrap()
}

/// When a process began, by which it is told from another of the same number.
fn began(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split(' ').nth(20)?.parse().ok()
}

#[test]
fn requests_share_bodies_as_far_as_they_are_told_to() {
    let scripts = [("a.py", STAYS), ("b.py", STAYS)];
    let shared = |reuse: &str| {
        let web = Web::start(&scripts, &["--reuse", reuse]);
        let mut keepers = [Vec::new(), Vec::new()];
        // In turn: a body can be made anew at any time, and has another keeper then.
        for _ in 0..12 {
            keepers[0].push(keeper_of(&web, "/a.py"));
            keepers[1].push(keeper_of(&web, "/b.py"));
        }
        let distinct = keepers.map(HashSet::<_>::from_iter);
        (24 - distinct[0].len() - distinct[1].len(), distinct[0].intersection(&distinct[1]).count())
    };
    let (again, common) = shared("always");
    assert!(again > 12 && common > 0, "{again}, {common}");
    let (again, common) = shared("script");
    assert!(again > 12 && common == 0, "{again}, {common}");
    assert_eq!(shared("never"), (0, 0));
}

#[test]
fn a_script_that_is_compiled_ahead_is_new_when_it_changes() {
    let web = Web::start(&[("a.pl", PERL)], &["--warm-script"]);
    assert_eq!(web.until("warm", |web| web.get("/a.pl?x")).0, 200);
    regrow_testkit::program::write(
        &web.path("cgi/a.pl"),
        b"#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\nanother\";\n",
    )
    .unwrap();
    assert_eq!(web.get("/a.pl"), (200, "another".to_owned()));
    assert_eq!(web.until("warm", |web| web.get("/a.pl")), (200, "another".to_owned()));
}

#[test]
fn a_gateway_that_is_told_to_stop_answers_what_it_was_asked() {
    let slow = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ntouch \"$DOCUMENT_ROOT/../begun\"\n\
        while [ ! -e \"$DOCUMENT_ROOT/../go\" ]; do sleep 0.02; done\nprintf done\n";
    let web = Web::start(&[("slow.sh", slow), ("b.sh", SHELL)], &[]);
    let mut stream = TcpStream::connect(&web.http).unwrap();
    stream.write_all(b"GET /slow.sh HTTP/1.0\r\n\r\n").unwrap();
    eventually("the start", || web.path("begun").exists());
    fs::rename(web.path("access.log"), web.path("access.log.1")).unwrap();
    web.signal(Signal::HUP);
    eventually("the new log", || web.path("access.log").exists());
    web.signal(Signal::TERM);
    eventually("no further connections", || TcpStream::connect(&web.http).is_err());
    fs::write(web.path("go"), "").unwrap();
    assert_eq!(read_reply(&mut stream), (200, "done".to_owned()));
    assert!(web.stop().success());
}

#[test]
fn a_reply_whose_length_is_said_does_not_wait_for_its_script_which_goes_on() {
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Length: %s\\n\\n%s' \"${#QUERY_STRING}\" \"$QUERY_STRING\"\n\
        while [ ! -e \"$DOCUMENT_ROOT/../seen\" ]; do sleep 0.02; done\ndate\necho end > \"$DOCUMENT_ROOT/../end-$QUERY_STRING\"\n";
    let web = Web::start(&[("a.sh", script)], &[]);
    for text in ["", "hello"] {
        assert_eq!(web.get(&format!("/a.sh?{text}")), (200, text.to_owned()));
        assert!(!web.path(&format!("end-{text}")).exists());
        fs::write(web.path("seen"), "").unwrap();
        eventually("the script's own end", || web.path(&format!("end-{text}")).exists());
        fs::remove_file(web.path("seen")).unwrap();
    }
}

#[test]
fn a_client_that_goes_takes_its_process_along() {
    let endless = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\necho $$ > \"$DOCUMENT_ROOT/../pid\"\nwhile :; do sleep 60; done\n";
    let web = Web::start(&[("endless.sh", endless)], &[]);
    let mut stream = TcpStream::connect(&web.http).unwrap();
    stream.write_all(b"GET /endless.sh HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let pid = || {
        fs::read_to_string(web.path("pid"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .and_then(Pid::from_raw)
    };
    eventually("the start", || pid().is_some());
    drop(stream);
    eventually("the end", || test_kill_process(pid().unwrap()).is_err());
}

#[test]
fn a_function_gets_the_body_and_gives_the_reply() {
    let web = Web::start(&[], &["--function", "--", "/bin/cat"]);
    assert_eq!(web.until("main", |web| web.post("/", "hello")), (200, "hello".to_owned()));
    let variables = Web::start(&[], &["--function", "--", "/usr/bin/env"]);
    let (status, body) = variables.ask("GET /a%20b?b=c HTTP/1.0\r\nX-One-Two: 3\r\nX-One-Two: 4\r\n\r\n");
    assert_eq!(status, 200);
    let lines = ["Http_X_One_Two=3", "Http_Method=GET", "Http_Path=/a b", "Http_Query=b=c"];
    for line in lines.into_iter().chain(["Http_ContentLength=0", "Http_Content_Length=0"]) {
        assert!(body.lines().any(|known| known == line), "{line} in {body}");
    }
    assert!(!variables.get("/a").1.contains("Http_Query"));
}

#[test]
fn a_function_that_fails_or_is_asked_wrongly_is_as_the_watchdog_has_it() {
    let program = "case $Http_Path in /sleeps) sleep 1000;; /closes) exec >&- 2>&-; sleep 1000;; /noise) echo aside >&2; echo out;; *) echo no; exit 3;; esac";
    let function = ["--function", "--", "/bin/sh", "-c", program];
    let brief = Web::start_with(&[], &function, &[("exec_timeout", "1"), ("combine_output", "false")]);
    assert_eq!(brief.get("/sleeps"), (408, "Killed process.\n".to_owned()));
    assert_eq!(brief.get("/closes"), (408, "Killed process.\n".to_owned()));
    // These have the time that they take.
    let web = Web::start_with(&[], &function, &[("combine_output", "false")]);
    assert_eq!(web.get("/"), (500, "exit status 3\nno\n".to_owned()));
    assert_eq!(web.get("/noise"), (200, "out\n".to_owned()));
    assert_eq!(web.ask("OPTIONS / HTTP/1.0\r\n\r\n").0, 405);
    assert_eq!(web.get("/_/health"), (200, "OK".to_owned()));
    assert_eq!(web.post("/_/health", "").0, 405);
    fs::remove_file(web.path(".lock")).unwrap();
    assert_eq!(web.get("/_/health").0, 503);

    let combined = Web::start_with(&[], &function, &[("max_inflight", "1")]);
    assert_eq!(combined.get("/noise"), (200, "aside\nout\n".to_owned()));
    let mut first = TcpStream::connect(&combined.http).unwrap();
    first.write_all(b"GET /sleeps HTTP/1.0\r\n\r\n").unwrap();
    eventually("another one is too much", || combined.get("/noise").0 == 429);
    let lock = combined.path(".lock");
    assert!(lock.exists());
    drop(first);
    combined.signal(Signal::TERM);
    eventually("nothing may come any more", || !lock.exists());
    assert!(combined.stop().success());
    let own = Web::start_with(&[], &function, &[("suppress_lock", "true")]);
    assert_eq!((own.get("/_/health").0, own.path(".lock").exists()), (503, false));
}

#[test]
fn a_python_application_is_imported_once_and_fresh_for_every_request() {
    let application = "import json\nNUMBER = 0\n\
        def wsgi(environ, start_response):\n    global NUMBER\n    NUMBER += 1\n    body = environ['wsgi.input'].read()\n\
        \x20   start_response('200 OK', [('Content-Type', 'text/plain')])\n    return [b'%d %s %s' % (NUMBER, environ['PATH_INFO'].encode(), body)]\n\
        async def asgi(scope, receive, send):\n    global NUMBER\n    if scope['type'] != 'http': raise NotImplementedError\n    NUMBER += 1\n\
        \x20   body = (await receive())['body']\n    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n\
        \x20   await send({'type': 'http.response.body', 'body': b'%d %s %s' % (NUMBER, scope['path'].encode(), body)})\n";
    for interface in ["wsgi", "asgi"] {
        let web =
            Web::start(&[("app.py", application)], &[&format!("--{interface}"), &format!("app:{interface}")]);
        for _ in 0..5 {
            let reply = web.until("warm", |web| web.post("/some/path", "body"));
            assert_eq!(reply, (200, "1 /some/path body".to_owned()), "{interface}");
        }
        // An order that no pipe has room for.
        let path = format!("/{}", "long".repeat(2000));
        assert_eq!(web.post(&path, "body"), (200, format!("1 {path} body")), "{interface}");
        let option = format!("--{interface}");
        let by_exec =
            Web::start(&[("app.py", application)], &["--no-recycle", &option, &format!("app:{interface}")]);
        assert_eq!(by_exec.post("/some/path", "body"), (200, "1 /some/path body".to_owned()), "{interface}");
    }
}

/// One record of FastCGI.
fn record(kind: u8, id: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, id, length[0], length[1], 0, 0][..], content].concat()
}

fn pairs(variables: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    variables
        .iter()
        .flat_map(|(name, value)| {
            [&[length(name), length(value)][..], name.as_bytes(), value.as_bytes()].concat()
        })
        .collect()
}

/// The records of a request that keeps the connection.
fn request(script: &Path, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let variables = pairs(&[
        ("SCRIPT_FILENAME", script.to_str().unwrap()),
        ("REQUEST_METHOD", "POST"),
        ("QUERY_STRING", "q"),
        ("CONTENT_LENGTH", &length),
        ("HTTP_PROXY", "http://evil/"),
    ]);
    [
        record(1, 1, &[0, 1, 1, 0, 0, 0, 0, 0]),
        record(4, 1, &variables),
        record(4, 1, b""),
        record(5, 1, body),
        record(5, 1, b""),
    ]
    .concat()
}

/// Reads records until the end of a request: what was written to standard output, and how the request ended.
fn answer(stream: &mut UnixStream) -> (Vec<u8>, u8) {
    let mut output = Vec::new();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).unwrap();
        let mut content = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]])) + usize::from(head[6])];
        stream.read_exact(&mut content).unwrap();
        match head[1] {
            6 => output.extend(content),
            3 => return (output, content[4]),
            kind => panic!("record {kind}"),
        }
    }
}

#[test]
fn a_web_server_keeps_its_connection_and_gets_what_the_script_writes() {
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("socket");
    let web = Web::start(&[("a.pl", PERL)], &["--fastcgi", &format!("unix:{}", socket.display())]);
    let script = web.path("cgi/a.pl").canonicalize().unwrap();
    let mut stream = UnixStream::connect(&socket).unwrap();
    for number in 0..5 {
        let body = "x".repeat(number * 15_000);
        let wanted =
            format!("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nPOST q {body} {}", script.display());
        stream.write_all(&request(&script, body.as_bytes())).unwrap();
        assert_eq!(answer(&mut stream), (wanted.into_bytes(), 0), "{number}");
    }
    eventually("runs in warm images", || {
        stream.write_all(&request(&script, b"")).unwrap();
        assert_eq!(answer(&mut stream).1, 0);
        web.runs("how=\"warm\"") >= 3
    });
    // Below a file is its path info; outside the folder is nothing.
    stream.write_all(&request(&web.path("access.log"), b"")).unwrap();
    assert!(answer(&mut stream).0.starts_with(b"Status: 403 Forbidden\r\n"));
    // A role that it has not.
    stream.write_all(&record(1, 2, &[0, 2, 1, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(answer(&mut stream), (Vec::new(), 3));
    assert!(web.stop().success());
    assert!(!socket.exists());
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    for (args, says) in [
        (&["web"][..], "name a folder of scripts"),
        (&["web", "/nothing/there"], "/nothing/there: there is no such folder"),
        (&["web", "--fastcgi", "9000", "/tmp"], "unix:PATH or ADDR:PORT"),
        (&["web", "--wsgi", "app"], "MODULE:NAME"),
        (&["web", "--function"], "fprocess"),
        (&["web", "--http", "192.0.2.1:1", "/tmp/"], "192.0.2.1:1 cannot be listened at"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_regrow")).args(args).env_remove("fprocess").output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(says), "{args:?}: {error}");
    }
}
