//! Runs a program out of a pool with its standard descriptors on `/dev/null`, and checks that it succeeds.

use std::path::Path;

use regrow::{Command, Pool, Stdio};

use crate::error::BenchError;

/// A command without input or output.
pub(crate) fn command(pool: &Pool, program: &Path) -> Command {
    let mut command = pool.command(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a program, waits for its end, and checks its status.
pub(crate) fn run(pool: &Pool, program: &Path) -> Result<(), BenchError> {
    let name = || program.display().to_string();
    let status = command(pool, program).status();
    let status = status.map_err(|source| BenchError::Start { program: name(), by: "regrow", source })?;
    if status.success() {
        return Ok(());
    }
    Err(BenchError::WrongRun { program: name(), what: format!("ended with {status}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_an_error() {
        let pool = Pool::builder().recycle(false).build();
        run(&pool, Path::new("/bin/true")).unwrap();
        let error = run(&pool, Path::new("/bin/false")).unwrap_err();
        assert_eq!(error.to_string(), "/bin/false: ended with exit status: 1");
    }
}
