//! What a user of tokio makes of a process: its pidfd in the runtime's own poller, its pipes as the runtime's. What tokio's own tests
//! check of its processes is checked of these.

#![allow(unsafe_code, reason = "tokio's poller takes a descriptor by an unsafe method")]

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use regrow::{Child, Command, Pool, Stdio};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};

/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits by the poller of the runtime that this is called in.
async fn ended(child: &mut Child) -> io::Result<ExitStatus> {
    // SAFETY: the descriptor is borrowed from the child, which keeps it open, and the borrow lasts longer than `polled`.
    let polled = unsafe { AsyncFd::register_with_interest(child.pidfd()?, Interest::READABLE) }?;
    polled.readable().await?.retain_ready();
    drop(polled);
    child.wait()
}

fn reader<P: Into<OwnedFd>>(end: Option<P>) -> pipe::Receiver {
    pipe::Receiver::from_owned_fd(end.expect("it is piped").into()).expect("it is a pipe's end")
}

fn writer<P: Into<OwnedFd>>(end: Option<P>) -> pipe::Sender {
    pipe::Sender::from_owned_fd(end.expect("it is piped").into()).expect("it is a pipe's end")
}

/// A pool that has an image of the program.
fn pool_of(program: &str) -> Pool {
    let pool = Pool::builder().max_bodies_per_program(8).build();
    pool.prepare(&pool.command(program)).expect("it is recycled");
    pool
}

fn sh(pool: &Pool, script: &str) -> Command {
    let mut command = pool.command("sh");
    command.args(["-c", script]);
    command
}

fn runs_in_bodies(pool: &Pool) -> u64 {
    pool.stats().recycled.total() + pool.stats().forked_body.total()
}

/// On one thread; and on two.
fn runtimes() -> [Runtime; 2] {
    let one = Builder::new_current_thread().enable_all().build();
    let two = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    [one.expect("a runtime"), two.expect("a runtime")]
}

fn run<T>(runtime: &Runtime, what: impl Future<Output = T>) -> T {
    runtime.block_on(async { tokio::time::timeout(LIMIT, what).await.expect("it ends within the limit") })
}

#[test]
fn many_children_that_end_at_once_are_each_seen() {
    const BATCHES: i32 = 10;
    const EACH: i32 = 10;
    for runtime in runtimes() {
        let pool = pool_of("sh");
        let statuses = run(&runtime, async {
            let batches: Vec<_> =
                (0..BATCHES).map(|batch| tokio::spawn(batch_of(pool.clone(), batch, EACH))).collect();
            let mut statuses = Vec::new();
            for batch in batches {
                statuses.extend(batch.await.expect("the task does not panic"));
            }
            statuses
        });
        let expected: Vec<_> = (0..BATCHES * EACH).map(|number| Some(number % 250)).collect();
        assert_eq!(statuses, expected);
        let stats = pool.stats();
        assert_eq!(stats.total(), u64::try_from(BATCHES * EACH).expect("it is positive"), "{stats:?}");
        assert!(runs_in_bodies(&pool) >= 8, "as many at once as there are bodies: {stats:?}");
    }
}

/// Starts so many, and then waits for them. Their statuses are their numbers.
async fn batch_of(pool: Pool, batch: i32, each: i32) -> Vec<Option<i32>> {
    let start = |number: i32| {
        let mut command = sh(&pool, "exit $0");
        command.arg((number % 250).to_string()).spawn().expect("it starts")
    };
    let mut children: Vec<_> = (batch * each..(batch + 1) * each).map(start).collect();
    tokio::task::yield_now().await;
    let mut statuses = Vec::new();
    for child in &mut children {
        statuses.push(ended(child).await.expect("its end").code());
    }
    statuses
}

#[test]
fn children_outlive_the_runtime_that_waits_for_them() {
    let pool = pool_of("cat");
    for runtime in runtimes() {
        let before = runs_in_bodies(&pool);
        let mut children: Vec<_> = (0..5)
            .map(|_| {
                pool.command("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts")
            })
            .collect();
        run(&runtime, async {
            // Each has begun to be waited for when the runtime ends.
            for child in &mut children {
                let mut waiting = pin!(ended(child));
                assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
        });
        drop(runtime);
        for child in &mut children {
            assert!(child.try_wait().expect("it can be asked").is_none());
        }
        let [_, other] = runtimes();
        run(&other, async {
            for child in &mut children {
                drop(child.stdin.take());
                assert!(ended(child).await.expect("its end").success());
            }
        });
        assert!(runs_in_bodies(&pool) >= before + 5, "{:?}", pool.stats());
    }
}

#[test]
fn a_task_that_ends_with_its_runtime_leaves_its_child_alone() {
    let pool = pool_of("sh");
    for runtime in runtimes() {
        let mut command = sh(&pool, "echo begun; read line; echo \"went on: $line\"");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (mut to, mut from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        // The child is the task's, and goes with it.
        let waits = runtime.spawn(async move { ended(&mut child).await });
        let mut begun = [0; 6];
        io::Read::read_exact(&mut from, &mut begun).expect("it says so");
        assert!(!waits.is_finished());
        drop(runtime);
        io::Write::write_all(&mut to, b"a word\n").expect("it reads");
        assert_eq!(io::read_to_string(from).expect("text"), "went on: a word\n");
    }
    assert_eq!(runs_in_bodies(&pool), 2);
}

#[test]
fn a_child_is_started_outside_of_a_runtime_and_waited_for_in_another() {
    let pool = pool_of("true");
    let [one, two] = runtimes();
    let mut outside = pool.command("true").spawn().expect("it starts");
    let mut within =
        run(&one, async { pool.command("true").stdin(Stdio::piped()).spawn().expect("it starts") });
    drop(one);
    let statuses = run(&two, async { [ended(&mut outside).await, ended(&mut within).await] });
    assert!(statuses.into_iter().all(|status| status.expect("its end").success()));
    assert_eq!(runs_in_bodies(&pool), 2);
}

#[test]
fn the_status_is_known_from_then_on() {
    let pool = pool_of("sh");
    for runtime in runtimes() {
        run(&runtime, async {
            let mut child = sh(&pool, "exit 2").spawn().expect("it starts");
            let id = child.id();
            assert!(id > 0);
            assert_eq!(ended(&mut child).await.expect("its end").code(), Some(2));
            assert_eq!(child.wait().expect("it is known").code(), Some(2));
            assert_eq!(child.wait_async().await.expect("it is known").code(), Some(2));
            // Its number may be another process's from here on: nothing is signalled by it.
            child.kill().expect("there is no error after the end");
            assert!(child.pidfd().is_ok(), "the descriptor that was opened before stays the process's");
        });
    }
    assert_eq!(runs_in_bodies(&pool), 2);
}

#[test]
fn a_child_is_killed_and_then_waited_for() {
    let pool = pool_of("sleep");
    for runtime in runtimes() {
        run(&runtime, async {
            let mut child = pool.command("sleep").arg("600").spawn().expect("it starts");
            {
                let mut waiting = pin!(ended(&mut child));
                assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            child.kill().expect("it goes on");
            assert_eq!(ended(&mut child).await.expect("its end").signal(), Some(9));
            child.kill().expect("there is no error after the end");
        });
    }
    assert_eq!(runs_in_bodies(&pool), 2);
}

/// What a user writes where a process is to end with the future that has it.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Its end comes at once: the wait leaves no zombie.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_guard_kills_its_own_child_and_no_other() {
    let pool = pool_of("sh");
    for runtime in runtimes() {
        run(&runtime, async {
            let (gate, mut to_gate) = io::pipe().expect("a pipe");
            // A process of the program's own, which is not the guard's.
            let script = "(read word <&7; echo \"other: $word\") & echo ready; read forever; echo never";
            let mut command = sh(&pool, script);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).fd(gate, 7);
            let mut guarded = KilledOnDrop(command.spawn().expect("it starts"));
            let pidfd = guarded.0.pidfd().and_then(|fd| fd.try_clone_to_owned()).expect("its descriptor");
            let mut from = reader(guarded.0.stdout.take());
            let mut ready = [0; 6];
            from.read_exact(&mut ready).await.expect("it is ready");
            let future = async move {
                let _guarded = guarded;
                std::future::pending::<()>().await;
            };
            {
                let mut future = Box::pin(future);
                assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            let gone = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::CONT);
            assert_eq!(gone, Err(rustix::io::Errno::SRCH), "it was killed and waited for");
            io::Write::write_all(&mut to_gate, b"goes on\n").expect("it reads");
            let mut rest = String::new();
            from.read_to_string(&mut rest).await.expect("text");
            assert_eq!(rest, "other: goes on\n");
        });
    }
    assert_eq!(runs_in_bodies(&pool), 2);
}

#[test]
fn output_comes_piece_by_piece_while_the_program_runs() {
    let pool = pool_of("sh");
    for runtime in runtimes() {
        for to in ["1", "2"] {
            run(&runtime, async {
                let script = format!("for n in one two three; do echo $n >&{to}; read gate; done");
                let mut command = sh(&pool, &script);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn().expect("it starts");
                let mut gate = writer(child.stdin.take());
                let mut from = match to {
                    "1" => reader(child.stdout.take()),
                    _ => reader(child.stderr.take()),
                };
                for piece in ["one\n", "two\n", "three\n"] {
                    let mut read = vec![0; piece.len()];
                    from.read_exact(&mut read).await.expect("there is more");
                    assert_eq!(read, piece.as_bytes());
                    // The program waits, so there is no more.
                    let mut more = [0];
                    let more = pin!(from.read(&mut more));
                    assert!(more.poll(&mut Context::from_waker(Waker::noop())).is_pending());
                    gate.write_all(b"\n").await.expect("it reads");
                }
                assert_eq!(from.read(&mut [0]).await.expect("the end"), 0);
                assert!(ended(&mut child).await.expect("its end").success());
            });
        }
    }
    assert_eq!(runs_in_bodies(&pool), 4);
}

/// Writes until the pipe is full: how much that was.
async fn fill(to: &mut pipe::Sender) -> usize {
    let mut written = 0;
    loop {
        let wrote = {
            let mut writes = pin!(tokio::task::unconstrained(to.write(&[b'x'; 8192])));
            writes.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        match wrote {
            Poll::Ready(bytes) => written += bytes.expect("there is a reader"),
            // The runtime may not have seen yet that there is room.
            Poll::Pending if written == 0 => to.writable().await.expect("there is a reader"),
            Poll::Pending => return written,
        }
    }
}

#[test]
fn input_goes_on_when_a_full_pipe_has_room() {
    let pool = pool_of("sh");
    for runtime in runtimes() {
        run(&runtime, async {
            let (gate, mut to_gate) = io::pipe().expect("a pipe");
            let mut command = sh(&pool, "read gate <&7; wc -c");
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).fd(gate, 7);
            let mut child = command.spawn().expect("it starts");
            let mut to = writer(child.stdin.take());
            let written = fill(&mut to).await;
            io::Write::write_all(&mut to_gate, b"\n").expect("it reads");
            to.write_all(b"xyz").await.expect("it reads");
            drop(to);
            let mut counted = String::new();
            reader(child.stdout.take()).read_to_string(&mut counted).await.expect("text");
            assert_eq!(counted.trim(), (written + 3).to_string());
            assert!(ended(&mut child).await.expect("its end").success());
        });
    }
    assert_eq!(runs_in_bodies(&pool), 2);
}

#[test]
fn a_writer_learns_that_its_reader_was_killed() {
    let pool = pool_of("sleep");
    for runtime in runtimes() {
        let failed = run(&runtime, async {
            let mut command = pool.command("sleep");
            let mut child = command.arg("600").stdin(Stdio::piped()).spawn().expect("it starts");
            let mut to = writer(child.stdin.take());
            let filled = fill(&mut to).await;
            assert!(filled > 0);
            let writes = tokio::spawn(async move { to.write_all(&[0; 8192]).await });
            tokio::task::yield_now().await;
            assert!(!writes.is_finished());
            child.kill().expect("it goes on");
            assert_eq!(ended(&mut child).await.expect("its end").signal(), Some(9));
            writes.await.expect("the task does not panic")
        });
        assert_eq!(failed.expect_err("nobody reads").kind(), io::ErrorKind::BrokenPipe);
    }
    assert_eq!(runs_in_bodies(&pool), 2);
}

#[test]
fn argument_zero_is_what_it_is_set_to() {
    let pool = Pool::new();
    let [one, _] = runtimes();
    let mut command = pool.command("sh");
    pool.prepare(command.arg0("another-name")).expect("it is recycled");
    let text = run(&one, async {
        let mut child = command
            .arg0("another-name")
            .args(["-c", "echo $0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut text = String::new();
        reader(child.stdout.take()).read_to_string(&mut text).await.expect("text");
        assert!(ended(&mut child).await.expect("its end").success());
        text
    });
    assert_eq!((text.as_str(), runs_in_bodies(&pool)), ("another-name\n", 1));
}
