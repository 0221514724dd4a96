//! Where fresh processes begin: [`ready`].
//!
//! ```text
//!   the caller        main ── initialises ── ready() ── goes on
//!   the image         main ── initialises ── ready() ── stops
//!   each process                                └── renews ── waits for its order ── runs the function ── ends
//! ```

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use regrow_engine::run::request::Warm;
use regrow_front::{DESCRIPTOR, ORDER_VARIABLE, WARM_VARIABLE};
use regrow_sys::environ;
use regrow_sys::front_gate::{self, HashKeys};
use regrow_sys::strings::Strings;

use super::died::words_of;
use super::exchange::{Answer, Exchange, Header};
use super::function;

/// The variable that tells this program's fresh processes from others that a front end is.
pub(crate) const FRESH_VARIABLE: &str = "REGROW_FRESH";

/// How this program is started again.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its arguments, and the directory in which it was started.
    pub(crate) front_end: Arc<Warm>,
    /// Which file it is.
    pub(crate) file: u64,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// What is called in each fresh process.
static RENEWALS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Says that the program has initialised itself. A fresh process of it ([`Weight::Fresh`](super::Weight::Fresh)) begins here: what the program has done before is
/// done once, and there in each of them. It runs its function and ends, so that this returns in the program itself alone.
///
/// To be called by the main thread, before there are others: with more than one thread the program's fresh processes are executed anew each time.
/// The program is started a second time for it, with the same arguments, in the same directory. So what it does before this is to be what may be done twice.
pub fn ready() {
    let (is_fresh, is_warm) = (is_set(FRESH_VARIABLE), is_set(WARM_VARIABLE));
    if is_fresh && (is_warm || is_set(ORDER_VARIABLE)) {
        serve(is_warm);
    }
    // A program whose file is gone or that has odd arguments is not started again: see `program`.
    if let Ok(program) = Program::own() {
        let _ = PROGRAM.set(program);
    }
}

/// Has a function called at the beginning of each fresh process, to renew what two processes must not have in common: a random generator,
/// a cached number of the process. It may use memory and the random numbers of the kernel alone: no file, no variable, no output.
pub fn renew_in_each(renew: fn()) {
    RENEWALS.lock().unwrap_or_else(PoisonError::into_inner).push(renew);
}

/// How this program is started again; `None`: it has not said that it is ready.
pub(crate) fn program() -> Option<&'static Program> {
    PROGRAM.get()
}

impl Program {
    fn own() -> io::Result<Self> {
        let mut args = Strings::new();
        for argument in std::env::args_os().skip(1) {
            args.push(&[argument.as_bytes()])?;
        }
        let directory = std::env::current_dir()?;
        let directory = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
        let front_end = Arc::new(Warm {
            args,
            variables: vec![b"*".to_vec()],
            directory: Some(directory),
            ..Warm::default()
        });
        Ok(Self { path: std::env::current_exe()?, front_end, file: own_file()? })
    }
}

/// Which file the program is, as a number: another one that has taken its place has other functions.
pub(crate) fn own_file() -> io::Result<u64> {
    let facts = std::fs::metadata("/proc/self/exe")?;
    let mut hasher = DefaultHasher::new();
    (facts.dev(), facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()).hash(&mut hasher);
    Ok(hasher.finish())
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// The whole life of a fresh process.
fn serve(is_warm: bool) -> ! {
    let keys = HashKeys::find();
    let file = own_file();
    if is_warm {
        let _ = io::stdout().flush();
        if report().and_then(|()| front_gate::stop()).is_err() {
            std::process::exit(1);
        }
        renew(keys.as_ref());
        front_gate::pass();
    }
    // They are of this process, and not of what it starts.
    environ::remove(&[FRESH_VARIABLE, WARM_VARIABLE, ORDER_VARIABLE]);
    let taken = front_gate::descriptor_from_start(DESCRIPTOR).and_then(Exchange::take);
    let (Ok((exchange, header, arguments)), Ok(file)) = (taken, file) else {
        // Whoever has started it sees that there is no answer.
        std::process::exit(1);
    };
    let run = || perform(&exchange, header, file, &arguments);
    let answer = match keys {
        Some(_) => run(),
        // A thread of its own has hash keys of its own.
        None => std::thread::scope(|scope| scope.spawn(run).join())
            .unwrap_or_else(|payload| Answer::Panicked(words_of(payload.as_ref()))),
    };
    let _ = exchange.answer(&answer);
    std::process::exit(0)
}

/// Tells the engine what this front end is like: its image has all variables in it, and a gate.
fn report() -> io::Result<()> {
    let channel = front_gate::descriptor_from_start(DESCRIPTOR)?;
    rustix::io::write(&channel, format!("env *\0gate {}\0", front_gate::address()).as_bytes())?;
    // The engine looks at it when the process has stopped.
    std::mem::forget(channel);
    Ok(())
}

/// What no two processes have in common.
fn renew(keys: Option<&HashKeys>) {
    if let Some(keys) = keys {
        let mut random = [0; 16];
        if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).is_ok() {
            let halves = random.split_at(8);
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            keys.set([word(halves.0), word(halves.1)]);
        }
    }
    let renewals = RENEWALS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    renewals.into_iter().for_each(|renew| renew());
}

/// Runs the function of an order.
fn perform(exchange: &Exchange, header: Header, file: u64, arguments: &[u8]) -> Answer {
    if header.program != file {
        return Answer::Refused(
            "the file of the program is another one than when its caller began".to_owned(),
        );
    }
    let Some(function) = function::find(header.function) else {
        return Answer::Refused("this program has no such function".to_owned());
    };
    if let Err(error) = super::limit::apply(exchange, header.memory) {
        return Answer::Refused(format!("its memory cannot be limited: {error}"));
    }
    match catch_unwind(AssertUnwindSafe(|| (function.run)(arguments))) {
        Ok(Ok(bytes)) => Answer::Done(bytes),
        Ok(Err(why)) => Answer::Refused(why),
        Err(payload) => Answer::Panicked(words_of(payload.as_ref())),
    }
}
