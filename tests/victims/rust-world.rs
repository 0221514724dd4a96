//! A Rust program: arguments, environment, statics, thread-locals, threads and locks are fresh. The
//! run ends with threads still busy; the argument `exit` ends it by `process::exit(4)`, `panic` by
//! a panic of the main thread, `abort` by `process::abort`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, mpsc};
use std::{env, fs, process, thread, time::Duration};

static NUMBER: AtomicU64 = AtomicU64::new(42);
static TICKS: AtomicU64 = AtomicU64::new(0);
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ONCE: OnceLock<u64> = OnceLock::new();
static TABLE: LazyLock<Mutex<BTreeMap<u32, u32>>> =
    LazyLock::new(|| Mutex::new((0..100).map(|i| (i, i * i)).collect()));
static ZERO: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

thread_local! {
    static PLAIN: Cell<u32> = const { Cell::new(5) };
    static LAZY: RefCell<Vec<u32>> = RefCell::new(vec![1, 2, 3]);
}

fn require(good: bool, what: &str) {
    if !good {
        eprintln!("victim rust-world: {what}");
        process::exit(1);
    }
}

/// The strings, each ended by NUL, as the kernel shows them.
fn joined(strings: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    strings
        .flat_map(|mut s| {
            s.push(0);
            s
        })
        .collect()
}

fn check_given() {
    let line = fs::read("/proc/self/cmdline").unwrap_or_default();
    let arguments = joined(env::args_os().map(OsStringExt::into_vec));
    require(line == arguments, "the arguments are not the kernel's");
    let kernel = fs::read("/proc/self/environ").unwrap_or_default();
    let own = joined(env::vars_os().map(|(k, v)| [k.into_vec(), v.into_vec()].join(&b'=')));
    require(kernel == own, "the environment is not the kernel's");
    let pid = fs::read_link("/proc/self").unwrap_or_default();
    require(pid.to_str() == Some(&process::id().to_string()), "the pid is not the kernel's");
    if let (Ok(want), Ok(got)) = (env::var("EXPECT_CWD"), env::current_dir()) {
        require(got.to_str() == Some(&want), "the directory is not the given one");
    }
}

fn check() {
    check_given();
    require(NUMBER.load(Ordering::Relaxed) == 42, "a static number differs");
    require(TICKS.load(Ordering::Relaxed) == 0, "a thread of an earlier run has ticked");
    require(ZERO.iter().all(|z| z.load(Ordering::Relaxed) == 0), "zero statics are not zero");
    require(NAMES.try_lock().is_ok_and(|n| n.is_empty()), "a static list is not empty or not free");
    require(ONCE.get().is_none(), "a once cell is full");
    require(*ONCE.get_or_init(|| 7) == 7, "a once cell gives something else");
    require(TABLE.lock().is_ok_and(|t| t.len() == 100 && t[&9] == 81), "a lazy table differs");
    require(PLAIN.get() == 5, "a thread-local number differs");
    require(LAZY.with_borrow(|v| v == &[1, 2, 3]), "a thread-local list differs");
    require(thread::current().name() == Some("main"), "the main thread has another name");
    let (sender, receiver) = mpsc::channel();
    for i in 0..8_u32 {
        let sender = sender.clone();
        thread::spawn(move || {
            require(PLAIN.get() == 5, "a thread-local number differs in a thread");
            PLAIN.set(6);
            require(sender.send(i).is_ok(), "a channel is closed");
        });
    }
    drop(sender);
    require(receiver.iter().sum::<u32>() == 28, "threads give something else");
    let caught = std::panic::catch_unwind(|| std::hint::black_box(PLAIN.get()) == 5);
    require(caught.is_ok_and(|good| good), "catch_unwind catches what is not there");
    require(!thread::panicking(), "the thread is panicking");
}

fn dirty() {
    NUMBER.store(7, Ordering::Relaxed);
    ZERO.iter().for_each(|z| z.store(0xdead, Ordering::Relaxed));
    PLAIN.set(99);
    LAZY.with_borrow_mut(|v| v.push(99));
    TABLE.lock().unwrap().clear();
    NAMES.lock().unwrap().push("stale".into());
    let _ = env::set_current_dir("/");
    for _ in 0..3 {
        thread::spawn(|| {
            let _held = NAMES.lock();
            loop {
                TICKS.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while TICKS.load(Ordering::Relaxed) < 10 {
        thread::sleep(Duration::from_micros(50));
    }
}

fn main() {
    check();
    dirty();
    if env::var_os("VICTIM_PRETEND_STALE").is_some() {
        return check();
    }
    match env::args().nth(1).as_deref() {
        Some("exit") => process::exit(4),
        Some("panic") => panic!("nobody catches this"),
        Some("abort") => process::abort(),
        _ => {}
    }
}
