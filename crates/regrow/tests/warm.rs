//! Runs that start where a front end has stopped itself (`docs/warm.md`). The front ends here are shell scripts: a language needs
//! nothing but `kill -STOP $$`.

use std::sync::Arc;

use regrow::{Command, Creation, Point, Pool, Strings, Warm};

/// Prepares a variable, stops, and then says what its order holds.
const FRONT: &str = r#"
prepared=$((6 * 7))
kill -STOP $$
tr '\0' '\n' </dev/fd/63
echo "prepared $prepared"
echo "pid $$"
"#;

fn front(script: &str) -> Arc<Warm> {
    let mut args = Strings::new();
    args.push(&[b"-c"]).expect("no NUL");
    args.push(&[script.as_bytes()]).expect("no NUL");
    Arc::new(Warm { args, ..Warm::default() })
}

fn command(pool: &Pool, script: &str) -> Command {
    let mut command = pool.command("/bin/dash");
    command.args(["-c", "echo plain"]).env_clear().env("NAME", "value").warm(front(script));
    command
}

fn lines(output: &regrow::Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_run_starts_where_its_front_end_has_stopped() {
    let pool = Pool::new();
    let mut command = command(&pool, FRONT);
    assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
    for _ in 0..20 {
        let child = command.stdout(regrow::Stdio::piped()).spawn().expect("it starts");
        let (pid, creation) = (child.id(), child.creation().clone());
        assert_eq!(creation, Creation::Recycled { point: Point::Warm });
        let output = child.wait_with_output().expect("its end");
        assert!(output.status.success(), "{output:?}");
        let lines = lines(&output);
        assert_eq!(lines[..5], ["regrow 1 3 1 0", "/bin/dash", "-c", "echo plain", "NAME=value"]);
        assert_eq!(lines[5], "prepared 42");
        let _ = pid;
    }
}
