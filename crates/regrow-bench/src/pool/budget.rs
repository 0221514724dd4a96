//! A budget that is lowered while runs go on.

use std::path::Path;
use std::time::{Duration, Instant};

use regrow::Pool;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::quiet;

/// Lowers the budget while runs go on: how long the pool takes to keep to it, and how many runs fail.
pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let pool = Pool::new();
    let programs =
        ["/bin/true", "/bin/cat", "/bin/ls", "/usr/bin/perl", "/bin/sh", "/usr/bin/env"].map(Path::new);
    for program in programs.into_iter().filter(|program| program.is_file()) {
        let _ = pool.prepare(&pool.command(program));
    }
    let before = pool.idle_keepers().len();
    if before == 0 {
        let what = "keeps nothing that it could give back".to_owned();
        return Err(BenchError::WrongRun { program: "the pool".to_owned(), what });
    }
    let began = Instant::now();
    pool.set_budget(1);
    let mut failed = 0u32;
    let within = loop {
        failed += u32::from(quiet::run(&pool, Path::new("/bin/true")).is_err());
        if pool.idle_keepers().is_empty() || began.elapsed() > Duration::from_secs(10) {
            break began.elapsed();
        }
    };
    let name =
        format!("budget lowered to nothing with {before} processes that hold bodies: until it is kept to");
    Ok(vec![
        Figure::at_most(&name, within.as_secs_f64() * 1e3, 1000.0, "ms"),
        Figure::at_most("the same: runs that failed meanwhile", f64::from(failed), 0.0, "runs"),
    ])
}
