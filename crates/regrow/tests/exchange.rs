//! Orders and answers that go through memory which a body shares with its caller (`docs/warm.md`). The front end here is a script whose
//! orders are code.

use std::sync::Arc;

use regrow::{Child, Command, Point, Pool, PoolBuilder, Reuse, Stdio, Strings, Warm};

const PYTHON: &str = "/usr/bin/python3";
/// Offset of the order in the exchange, and the most bytes that either part takes.
const ORDER_AT: usize = 32 * 1024;
const MOST_ORDER: usize = 32 * 1024;
const MOST_ANSWER: usize = 32 * 1024 - 16;
/// What no run may find of another one.
const SECRET: &str = "nobody else's";

/// The front end: with `NAMES` in its first line it has an exchange.
const FRONT: &str = "
import ctypes, os, signal
word = (ctypes.c_uint64 * 1)()
if NAMES: os.write(63, b'exchange %d\\0' % ctypes.addressof(word))
os.kill(os.getpid(), signal.SIGSTOP)
area = word[0]
if area:
    head = (ctypes.c_uint32 * 4).from_address(area)
    order = ctypes.string_at(area + 32768, head[0])
    ctypes.memset(area + 32768, 0, head[0])
    head[0] = 0
else:
    order = b''.join(iter(lambda: os.read(63, 1 << 16), b''))
def begin_answer(data):
    head[1] = len(data)
    ctypes.memmove(area + 16, data, len(data))
def answer(data):
    begin_answer(data)
    head[2] = 1
exec(order)
os._exit(0)
";
/// What a run is that is not started in the image.
const PLAIN: &str = "import os\narea = 0\nexec(b''.join(iter(lambda: os.read(63, 1 << 16), b'')))";
/// Looks for the secret in the whole exchange, by its mapping and by the file of the process's memory.
const LOOK: &str = "
import os
with open('/proc/self/mem', 'rb') as memory:
    memory.seek(area)
    seen = memory.read(65536)
seen += ctypes.string_at(area, 65536)
answer(b'seen' if b\"nobody else's\" in seen or seen.strip(b'\\0') else b'nothing')
";

fn front(has_exchange: bool) -> Arc<Warm> {
    let mut args = Strings::new();
    args.push(&[b"-c"]).expect("no NUL");
    let names = if has_exchange { "NAMES = True" } else { "NAMES = False" };
    args.push(&[names.as_bytes(), FRONT.as_bytes()]).expect("no NUL");
    Arc::new(Warm { args, ..Warm::default() })
}

fn command(pool: &Pool, has_exchange: bool, order: &str) -> Command {
    let mut command = pool.command(PYTHON);
    command.args(["-c", PLAIN]).env_clear().warm(front(has_exchange)).order(order.as_bytes().to_vec());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// A pool of one body, with the image of the front end.
fn prepared(builder: PoolBuilder) -> Pool {
    let pool = builder.max_bodies_per_program(1).build();
    assert_eq!(pool.prepare(&command(&pool, true, "")).expect("an image"), Point::Warm);
    pool
}

/// A run in the image. It is asked for again where the image is made anew (somebody has compiled a module meanwhile), or its one body is
/// not back yet.
fn begin(pool: &Pool, order: &str) -> Child {
    for _ in 0..20 {
        let mut child = command(pool, true, order).spawn().expect("it starts");
        if child.creation().point() == Some(Point::Warm) {
            return child;
        }
        println!("once more: {}", child.creation());
        child.wait().expect("its end");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(pool.prepare(&command(pool, true, "")).expect("an image"), Point::Warm);
    }
    panic!("no run is in the image")
}

/// The answer of a run, and whether it has ended as it should.
fn ended(mut child: Child) -> (Option<Vec<u8>>, bool) {
    let status = child.wait().expect("its end");
    let answer = child.take_answer();
    assert_eq!(child.take_answer(), None, "an answer is taken once");
    (answer, status.success())
}

/// The answer of a run in the image.
fn answer(pool: &Pool, order: &str) -> Option<Vec<u8>> {
    let (answer, has_succeeded) = ended(begin(pool, order));
    assert!(has_succeeded, "{order}");
    answer
}

fn printed(command: &mut Command) -> String {
    let output = command.spawn().and_then(Child::wait_with_output).expect("its end");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Pools that put bodies back in different ways, by name.
fn pools() -> [(&'static str, Pool); 3] {
    [
        ("in use", prepared(Pool::builder())),
        ("verified", prepared(Pool::builder().verify(true))),
        ("trusting", prepared(Pool::builder().trusts_runs(true))),
    ]
}

fn assert_nothing_is_left(name: &str, pool: &Pool, what: &str) {
    let seen = answer(pool, LOOK);
    assert_eq!(seen.as_deref(), Some(&b"nothing"[..]), "{name}: {what}");
    let differences = pool.reports().differences;
    assert!(differences.is_empty(), "{name}: {what}: {differences:?}");
}

#[test]
fn an_order_and_its_answer_need_no_descriptor() {
    let pool = prepared(Pool::builder());
    let order = "answer(b' '.join(number.encode() for number in sorted(os.listdir('/proc/self/fd'))))";
    for _ in 0..20 {
        let numbers = answer(&pool, order).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&numbers), "0 1 2 3", "and the one that lists them");
    }
}

#[test]
fn what_does_not_fit_goes_another_way() {
    let pool = prepared(Pool::builder());
    let padded = |order: &str, length: usize| format!("{order}{}", " ".repeat(length - order.len()));
    let whole = answer(&pool, &padded("answer(order)", MOST_ORDER));
    assert_eq!(whole, None, "the answer would be longer than its room: it is not one");
    let longest = format!("answer(order[:{MOST_ANSWER}])");
    let whole = answer(&pool, &padded(&longest, MOST_ORDER)).expect("an answer");
    assert_eq!(whole.len(), MOST_ANSWER);
    let print = padded("print(len(order), area, flush=True)", MOST_ORDER + 1);
    assert_eq!(printed(&mut command(&pool, true, &print)), format!("{} 0\n", MOST_ORDER + 1));
    assert_nothing_is_left("in use", &pool, "long ones");
}

#[test]
fn a_front_end_without_an_exchange_and_a_plain_program_have_the_order_in_a_file() {
    let pool = prepared(Pool::builder());
    let print = "print(area, os.fstat(63).st_size, flush=True)";
    let expected = format!("0 {}\n", print.len());
    let mut without = command(&pool, false, print);
    pool.prepare(&without).expect("an image");
    let mut child = without.spawn().expect("it starts");
    assert_eq!(child.creation().point(), Some(Point::Warm));
    assert!(child.wait().expect("its end").success());
    assert_eq!((child.take_answer(), printed(&mut without)), (None, expected.clone()));
    for pool in [Pool::builder().recycle(false).build(), Pool::builder().max_bodies_per_program(0).build()] {
        assert_eq!(printed(&mut command(&pool, true, print)), expected);
    }
}

#[test]
fn no_run_finds_what_another_one_was_told_or_has_said() {
    for (name, pool) in pools() {
        let told = answer(&pool, &format!("answer(b\"{SECRET}\" * 100)"));
        assert_eq!(told, Some(SECRET.repeat(100).into_bytes()), "{name}");
        assert_nothing_is_left(name, &pool, "an answer");
        assert_eq!(answer(&pool, &format!("begin_answer(b\"{SECRET}\" * 200)")), None);
        assert_nothing_is_left(name, &pool, "an answer that is not whole");
        let killed = begin(&pool, &format!("begin_answer(b\"{SECRET}\")\nos.kill(os.getpid(), 9)"));
        assert_eq!(ended(killed), (None, false));
        assert_nothing_is_left(name, &pool, "a killed run");
        let file = format!("print(\"{SECRET}\", flush=True){}", " ".repeat(MOST_ORDER));
        assert_eq!(printed(&mut command(&pool, true, &file)).trim(), SECRET);
        assert_nothing_is_left(name, &pool, "an order in a file");
    }
}

#[test]
fn an_answer_is_kept_for_whoever_waits_late() {
    let pool = prepared(Pool::builder());
    let mut late: Vec<Child> = Vec::new();
    for number in 0..5 {
        let mut child = begin(&pool, &format!("answer(b'{number}')"));
        // It is seen to end, and not waited for: the body is put back by itself, and has the next run.
        let _ = std::io::copy(&mut child.stdout.take().expect("a pipe"), &mut std::io::sink());
        late.push(child);
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    for (number, child) in late.into_iter().enumerate() {
        assert_eq!(ended(child), (Some(number.to_string().into_bytes()), true));
    }
}

#[test]
fn a_run_that_goes_on_is_not_disturbed() {
    let pool = prepared(Pool::builder());
    let mut asked = command(&pool, true, "os.read(0, 1)\nanswer(b'at last')");
    let mut child = asked.stdin(Stdio::piped()).spawn().expect("it starts");
    assert_eq!(child.take_answer(), None);
    assert!(child.wait().expect("its end").success());
    assert_eq!(child.take_answer().as_deref(), Some(&b"at last"[..]));
}

#[test]
fn a_body_for_one_run_has_an_exchange_too() {
    let pool = prepared(Pool::builder().reuse(Reuse::Never));
    for _ in 0..3 {
        let told = answer(&pool, &format!("answer(b\"{SECRET}\")"));
        assert_eq!(told.as_deref(), Some(SECRET.as_bytes()));
        assert_nothing_is_left("single use", &pool, "another body");
    }
}

#[test]
fn lengths_that_a_run_invents_are_no_answer() {
    let pool = prepared(Pool::builder());
    for (bytes, is_answered) in [(0_u32, 1_u32), (u32::MAX, 1), (32 * 1024 - 15, 1), (10, 2), (10, u32::MAX)]
    {
        let lie = format!("head[:] = ({bytes}, {bytes}, {is_answered}, 7)");
        assert_eq!(answer(&pool, &lie), None, "{lie}");
        assert_nothing_is_left("in use", &pool, &lie);
    }
    let all = format!("ctypes.memset(area, 0xa5, {})", ORDER_AT + MOST_ORDER);
    assert_eq!(answer(&pool, &all), None);
    assert_nothing_is_left("in use", &pool, &all);
    assert_eq!(answer(&pool, "answer(b'still here')").as_deref(), Some(&b"still here"[..]));
}

#[test]
fn what_a_run_leaves_beside_its_answer_is_found_in_verify_mode() {
    let pool = prepared(Pool::builder().trusts_runs(true).verify(true));
    assert_eq!(answer(&pool, "ctypes.memset(area + 60000, 1, 1)"), None);
    let seen = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        pool.reports().differences.iter().any(|difference| difference.contains("exchange"))
    });
    assert!(seen);
    assert_nothing_is_left_in_a_new_body(&pool);
}

/// With production settings: nobody looks at the body but its next run.
#[test]
fn what_a_run_puts_beside_its_answer_is_gone_in_the_next_run() {
    let pool = prepared(Pool::builder());
    for place in [20_000, 40_000, 65_000] {
        let told = answer(&pool, &format!("ctypes.memset(area + {place}, 1, 8)\nanswer(b'as usual')"));
        assert_eq!(told.as_deref(), Some(&b"as usual"[..]));
        assert_nothing_is_left_in_a_new_body(&pool);
    }
}

fn assert_nothing_is_left_in_a_new_body(pool: &Pool) {
    assert_eq!(answer(pool, LOOK).as_deref(), Some(&b"nothing"[..]));
}

#[test]
fn children_of_a_run_have_no_exchange() {
    let pool = prepared(Pool::builder());
    let order = "
child = os.fork()
if child == 0:
    begin_answer(b'the child')
    os._exit(0)
status = os.waitpid(child, 0)[1]
answer(str(status).encode())
";
    assert_eq!(answer(&pool, order).as_deref(), Some(&b"11"[..]), "it dies of SIGSEGV");
}

#[test]
fn a_run_ahead_waits_until_it_is_let_go() {
    for (name, pool) in pools() {
        let order = "
import time
while head[3] == os.getppid():
    time.sleep(0.001)
answer(b'begun')";
        for turn in 0..5 {
            let mut command = command(&pool, true, order);
            let mut child = loop {
                match command.ahead(true).spawn() {
                    Ok(child) => break child,
                    // The body is not back yet, or the image is made anew: nothing has been started.
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{name}"),
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
                let _ = pool.prepare(&command);
            };
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(child.try_wait().expect("a child"), None, "{name}, {turn}: it waits");
            child.let_go();
            assert_eq!(ended(child), (Some(b"begun".to_vec()), true), "{name}, {turn}");
        }
        assert_nothing_is_left(name, &pool, "the gate");
    }
}

#[test]
fn a_run_that_is_killed_while_it_is_ahead_leaves_nothing() {
    for (name, pool) in pools() {
        drop(begin(&pool, "").wait());
        let mut child = loop {
            if let Ok(child) = command(&pool, true, "while head[3]: pass").ahead(true).spawn() {
                break child;
            }
            let _ = pool.prepare(&command(&pool, true, ""));
        };
        child.kill().expect("it is there");
        child.wait().expect("its end");
        child.let_go();
        assert_nothing_is_left(name, &pool, "a gate that nobody has opened");
    }
}

#[test]
fn a_run_cannot_close_the_gate_of_the_next_one() {
    for (name, pool) in pools() {
        for order in ["head[3] = os.getppid()", "head[3] = 0xffffffff\nos.kill(os.getpid(), 9)"] {
            drop(begin(&pool, order).wait());
            assert_eq!(answer(&pool, "answer(b'%d' % head[3])").as_deref(), Some(&b"0"[..]), "{name}");
            assert_nothing_is_left(name, &pool, order);
        }
    }
}

#[test]
fn nothing_is_started_ahead_that_could_not_wait() {
    let pool = prepared(Pool::builder());
    let mark = std::env::temp_dir().join(format!("regrow-ahead-{}", std::process::id()));
    let order = format!("open({:?}, 'w').close()", mark.display().to_string());
    let long = format!("{order}#{}", "x".repeat(MOST_ORDER));
    // The order goes through a file, or its front end has no exchange, or there is no image at all.
    let none = Pool::builder().recycle(false).build();
    for (pool, has_exchange, order) in [(&pool, true, &long), (&pool, false, &order), (&none, true, &order)] {
        let refused = command(pool, has_exchange, order).ahead(true).spawn().map(|child| child.id());
        assert_eq!(refused.map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!mark.exists());
}
