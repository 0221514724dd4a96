//! A redis server, whose small blocks are jemalloc's: jemalloc has its extents by `mmap`, and so from the service.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Place, resident_kib, wait_until};

/// A server, which is ended with the test.
struct Server(Child);

impl Server {
    fn start(place: &Place, with_library: bool) -> Server {
        Server::start_with(place, with_library, &[])
    }

    fn start_with(place: &Place, with_library: bool, variables: &[(&str, &str)]) -> Server {
        let settings =
            ["--port", "0", "--unixsocket", "socket", "--save", "", "--enable-debug-command", "yes"];
        let mut command = place.command("redis-server", with_library);
        let server = Server(
            command
                .args(settings)
                .envs(variables.iter().copied())
                .stdout(Stdio::null())
                .spawn()
                .expect("it starts"),
        );
        let begun = Instant::now();
        while ask(place, &["ping"]).is_none_or(|answer| answer != "PONG") {
            assert!(begun.elapsed() < Duration::from_secs(30), "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the server answers; `None` where it does not.
fn ask(place: &Place, what: &[&str]) -> Option<String> {
    let mut command = place.command("redis-cli", false);
    let output = command.args(["-s", "socket"]).args(what).output().expect("it starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Fills a server, saves it in a copy of its process, and reads that again: the digest of all keys and values, before and after.
fn digests(with_library: bool) -> (String, String, Place) {
    let place = Place::new();
    let mut server = Server::start(&place, with_library);
    let must = |what: &[&str]| ask(&place, what).expect("the server answers");
    let bench = ["-s", "socket", "-n", "4000", "-d", "9000", "-c", "10", "-t", "set,get,lpush,hset", "-q"];
    place.run("redis-benchmark", &bench, false);
    let fill = "for i = 1, 2000 do redis.call('set', 'key' .. i, string.rep(tostring(i), i)) end \
                for i = 1, 2000, 3 do redis.call('del', 'key' .. i) end return redis.call('dbsize')";
    must(&["eval", fill, "0"]);
    let before = must(&["debug", "digest"]);
    assert_eq!(before.len(), 40);
    assert_eq!(must(&["bgsave"]), "Background saving started");
    let begun = Instant::now();
    while must(&["info", "persistence"]).contains("rdb_bgsave_in_progress:1") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the copy of the server does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(must(&["info", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    must(&["debug", "reload"]);
    let after = must(&["debug", "digest"]);
    let _ = ask(&place, &["shutdown", "nosave"]);
    let ended = server.0.wait().expect("it is a child");
    assert!(ended.success(), "{ended}");
    (before, after, place)
}

#[test]
fn redis_has_the_same_keys_and_values_and_saves_them_in_a_copy_of_its_process() {
    let (before, after, place) = digests(true);
    assert_eq!(before, after);
    let counts = place.counts();
    assert!(
        counts.of("malloc") > 10_000 && counts.of("free") > 10_000 && counts.of("mmap") > 0,
        "{counts:?}"
    );
    assert_eq!(digests(false).0, before, "as without the library");
}

#[test]
fn redis_gives_back_what_is_flushed_and_goes_on() {
    let place = Place::new();
    let periods = [("REGROW_MEMORY_T1_MS", "100"), ("REGROW_MEMORY_T2_MS", "300")];
    let mut server = Server::start_with(&place, true, &periods);
    let must = |what: &[&str]| ask(&place, what).expect("the server answers");
    let pid = server.0.id();
    for _ in 0..2 {
        let fill = "for i = 1, 6000 do redis.call('set', 'key' .. i, string.rep('x', 9000)) end return redis.call('dbsize')";
        assert_eq!(must(&["eval", fill, "0"]), "6000");
        let full = resident_kib(pid);
        assert_eq!(must(&["flushall", "sync"]), "OK");
        wait_until("what was flushed goes back", || resident_kib(pid) + (40 << 10) < full);
    }
    let _ = ask(&place, &["shutdown", "nosave"]);
    assert!(server.0.wait().expect("it is a child").success());
    let counts = place.counts();
    assert!(counts.of("malloc") > 12_000, "{counts:?}");
}
