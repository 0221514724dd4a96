//! Many runs of one program at a time, and many threads that start runs.

use std::collections::BTreeMap;
use std::io::Write;

use regrow::{Pool, PoolBuilder, Stdio};

use crate::scene::{
    Scene, assert_no_reason_but_busy, assert_right, eventually, prepare_sh, run_right, scene, with_pool,
};

/// How many run at a time.
const CROWD: usize = 50;
/// How many bodies a program may have by default.
const BODIES: usize = 8;

pub(crate) fn scenes() -> Vec<Scene> {
    vec![
        scene("fifty-at-a-time", || with_pool(keep_all().build(), |pool| fifty(pool, BODIES))),
        scene("fifty-at-a-time-with-fifty-bodies", || {
            with_pool(keep_all().max_bodies_per_program(CROWD).build(), |pool| fifty(pool, CROWD));
        }),
        scene("fifty-at-a-time-verified", || {
            with_pool(keep_all().verify(true).build(), |pool| fifty(pool, BODIES));
        }),
        scene("many-threads", || with_pool(Pool::new(), many_threads)),
    ]
}

/// A pool that keeps every body, and nothing else.
fn keep_all() -> PoolBuilder {
    Pool::builder().policy("recycle".parse().expect("it is a policy"))
}

/// Those beyond the limit are started by exec; all are right.
fn fifty(pool: &Pool, bodies: usize) {
    prepare_sh(pool);
    let (mut full, mut round) = (0, 0);
    // A body that is put back at that moment is busy as well: three rounds are to find all of them ready.
    eventually("three rounds that find every body ready", || {
        let mut ways: BTreeMap<String, usize> = BTreeMap::new();
        let mut runs = Vec::new();
        for _ in 0..CROWD {
            let mut command = pool.command("sh");
            command.args(["-c", "read word; printf '%s.' \"$word\"; exit 7"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().expect("it starts");
            let way =
                child.creation().fallback().map_or_else(|| "kept".to_owned(), |why| why.name().to_owned());
            *ways.entry(way).or_default() += 1;
            runs.push(child);
        }
        for (number, mut run) in runs.into_iter().enumerate() {
            let word = format!("{round}-{number}");
            let mut stdin = run.stdin.take().expect("a pipe");
            writeln!(stdin, "{word}").expect("it reads");
            drop(stdin);
            let creation = run.creation().clone();
            assert_right(&run.wait_with_output().expect("its end"), &word, &creation);
        }
        let kept = ways.get("kept").copied().unwrap_or(0);
        let busy = ways.get("all_busy").copied().unwrap_or(0);
        assert!(kept <= bodies && kept + busy == CROWD, "round {round}: {ways:?}");
        full += usize::from(kept == bodies);
        round += 1;
        full == 3
    });
    eventually("a recycled run", || run_right(pool, "after").is_recycled());
    assert!(pool.keepers().len() <= bodies + 1, "{:?}", pool.keepers());
}

fn many_threads(pool: &Pool) {
    prepare_sh(pool);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..40 {
                    run_right(pool, &format!("{thread}-{round}"));
                }
            });
        }
    });
    let stats = pool.stats();
    assert_eq!(stats.total(), 320);
    assert_no_reason_but_busy(pool);
}
