//! One way to start a piece of work, from a state machine to a program of its own: a *ladder*, on which the user picks how much process a work gets.
//!
//! ```
//! use regrow::work::{Weight, spawn};
//!
//! # fn main() -> Result<(), regrow::work::Died> {
//! for weight in [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork] {
//!     let work = spawn(weight, || (1..=10_u64).product::<u64>());
//!     assert_eq!(work.join()?, 3_628_800);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A function that is marked by [`fresh`](crate::fresh) runs in a fresh process of the program as well: recycled, as all processes of Regrow are, with
//! the program initialised up to where it calls [`ready()`]. It sees its arguments, and nothing that an earlier call or its caller has in memory.
//!
//! ```no_run
//! use regrow::work::{Died, Weight, ready, spawn};
//!
//! #[regrow::fresh]
//! fn decode(picture: Vec<u8>) -> Result<(u32, u32), String> {
//!     picture.first().map(|&width| (width.into(), 1)).ok_or_else(|| "no picture".to_owned())
//! }
//!
//! fn main() {
//!     ready();
//!     match spawn(Weight::Fresh, decode::call(b"not a picture".to_vec())).join() {
//!         Ok(Ok((width, height))) => println!("{width} x {height}"),
//!         Ok(Err(error)) => println!("malformed: {error}"),
//!         Err(Died::Signal { signal }) => println!("the decoder crashed with signal {signal}"),
//!         Err(died) => println!("{died}"),
//!     }
//! }
//! ```
//!
//! What each weight isolates ([`Weight::isolation`]; the guide has the table, and each entry is a test), and what a work may be for it:
//!
//! | weight | closure | call of a marked function | [`Steps`] | [`Command`] |
//! |---|---|---|---|---|
//! | [`Weight::Step`], [`Weight::Fiber`], [`Weight::Thread`], [`Weight::Fork`] | yes | yes | yes | |
//! | [`Weight::Fresh`] | | yes | | |
//! | [`Weight::Program`] | | | | yes |
//!
//! ```text
//!   handle                    waits for a work, ends it, says how it ended
//!   light  fork  fresh  program        how each weight is started
//!   process  printed  waiting        the end of a process, and what it has printed
//!   ready  function  limit    the side of the process
//!   exchange  handover        what goes from one to the other
//!   channel  shared  ring     values, while works run
//!   weight  died              names
//! ```

mod channel;
mod died;
mod exchange;
mod fork;
mod fresh;
mod function;
mod handle;
mod handover;
mod light;
mod limit;
mod printed;
mod process;
mod program;
mod ready;
mod ring;
mod shared;
mod waiting;
mod weight;

use std::time::Duration;

use regrow_fiber::Step;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use channel::{ChannelError, Receiver, Sender, channel, shared_channel};
pub use died::{Died, StartError};
pub use function::Call;
pub use handle::Handle;
pub use light::is_cancelled;
pub use ready::{ready, renew_in_each};
pub use weight::{Isolation, UnknownWeight, Weight};

use crate::{Command, Output, Point, Pool, PrepareError};
use handle::{Kind, Started};
use light::Thread;

/// Starts a work.
///
/// What goes wrong is told by [`Handle::join`].
pub fn spawn<W: Work>(weight: Weight, work: W) -> Handle<W::Output> {
    Builder::new(weight).spawn(work)
}

/// Does a work, and waits for its result: `spawn(weight, work).join()`, and with [`Weight::Fresh`] quicker, because nobody need know when it has begun.
///
/// # Errors
/// How the work ended without a result.
pub fn run<W: Work>(weight: Weight, work: W) -> Result<W::Output, Died> {
    Builder::new(weight).run(work)
}

/// Makes the image of this program in which fresh processes begin, ahead of the first one. Without it, the first calls execute the program
/// anew, until the image is there.
///
/// # Errors
/// Why there is no such image. Fresh processes execute the program anew then, each time.
pub fn prepare() -> Result<Point, PrepareError> {
    fresh::prepare(Pool::global())
}

/// Starts works with limits.
///
/// ```
/// use std::time::Duration;
/// use regrow::work::{Builder, Died, Weight};
///
/// let endless = Builder::new(Weight::Fork).deadline(Duration::from_millis(20)).spawn(|| -> u32 { loop {} });
/// assert!(matches!(endless.join(), Err(Died::TimedOut(_))));
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    weight: Weight,
    deadline: Option<Duration>,
    memory: u64,
    pool: Option<Pool>,
}

impl Builder {
    /// Works of this weight, without limits.
    #[must_use]
    pub fn new(weight: Weight) -> Self {
        Self { weight, deadline: None, memory: 0, pool: None }
    }

    /// A work is ended so long after its start. A process is killed; a task ends at its next wait; a thread is only asked, and its handle waits no longer.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// A process may use so many bytes of memory more than it begins with ([`Weight::Program`]: in all). It concerns processes alone.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Fresh processes come out of this pool, in place of that of the process ([`Pool::global`]).
    #[must_use]
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    /// The pool that fresh processes come out of.
    fn own_pool(&self) -> &Pool {
        self.pool.as_ref().unwrap_or_else(|| Pool::global())
    }

    /// Makes the image in which fresh processes begin, in their pool: see [`prepare`].
    ///
    /// # Errors
    /// As [`prepare`].
    pub fn prepare(&self) -> Result<Point, PrepareError> {
        fresh::prepare(self.own_pool())
    }

    /// Starts a work: see [`spawn`].
    pub fn spawn<W: Work>(&self, work: W) -> Handle<W::Output> {
        Handle::new(self.weight, work.start(self), self.deadline).watched()
    }

    /// Does a work, and waits for its result: see [`run`].
    ///
    /// # Errors
    /// How the work ended without a result.
    pub fn run<W: Work>(&self, work: W) -> Result<W::Output, Died> {
        work.run(self)
    }
}

/// What can be done by some weight of process: a closure, a [`Call`], [`Steps`], a [`Command`].
pub trait Work: sealed::Startable {}

mod sealed {
    use super::{Builder, Died, Handle, Started};

    /// How a work is started.
    pub trait Startable: Sized {
        /// Its result.
        type Output: Send + 'static;

        /// Starts it.
        fn start(self, how: &Builder) -> Result<Started<Self::Output>, Died>;

        /// Does it, and waits.
        fn run(self, how: &Builder) -> Result<Self::Output, Died> {
            Handle::new(how.weight, self.start(how), how.deadline).join()
        }
    }
}

/// A result that can go from process to process.
trait Passable: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Passable for T {}

/// Starts a closure by any weight that copies at most.
fn start_closure<T: Passable>(
    how: &Builder,
    work: impl FnOnce() -> T + Send + 'static,
    name: &'static str,
) -> Result<Started<T>, Died> {
    let kind = match how.weight {
        Weight::Step => light::once(work).map(Kind::Task),
        Weight::Fiber => light::fiber(work).map(Kind::Task),
        Weight::Thread => Thread::start(work).map(Kind::Thread),
        Weight::Fork => fork::start(work, how.memory).map(of_process),
        Weight::Fresh | Weight::Program => {
            let source = StartError::Weight { work: name, fits: "a step, a fiber, a thread or a fork" };
            Err(Died::NotStarted { weight: how.weight, source })
        }
    };
    kind.map(Started)
}

fn of_process<T: Send + 'static>(process: process::Process<T>) -> Kind<T> {
    Kind::Process(Box::new(process))
}

impl<F, T> Work for F
where
    F: FnOnce() -> T + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
}

impl<F, T> sealed::Startable for F
where
    F: FnOnce() -> T + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    type Output = T;

    fn start(self, how: &Builder) -> Result<Started<T>, Died> {
        start_closure(how, self, "a closure")
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Work for Call<T> {}

impl<T: Serialize + DeserializeOwned + Send + 'static> sealed::Startable for Call<T> {
    type Output = T;

    fn start(self, how: &Builder) -> Result<Started<T>, Died> {
        if how.weight == Weight::Fresh {
            return fresh::start(how.own_pool(), &self, how.memory).map(of_process).map(Started);
        }
        if how.weight == Weight::Program {
            let source = StartError::Weight { work: "a call", fits: "anything but a program" };
            return Err(Died::NotStarted { weight: how.weight, source });
        }
        start_closure(how, move || self.call(), "a call")
    }

    fn run(self, how: &Builder) -> Result<T, Died> {
        if how.weight != Weight::Fresh {
            return Handle::new(how.weight, self.start(how), how.deadline).join();
        }
        let end = how.deadline.and_then(|limit| std::time::Instant::now().checked_add(limit));
        match fresh::run(how.own_pool(), &self, how.memory, end)? {
            fresh::Ran::Over(result) => result,
            fresh::Ran::GoesOn(mut process) => {
                process
                    .task
                    .kill()
                    .and_then(|()| process.task.end())
                    .map_err(|error| process::lost(&error))?;
                Err(Died::TimedOut(how.deadline.unwrap_or_default()))
            }
        }
    }
}

/// A state machine ([`Step`]) as a work. Each weight but the first runs its steps one behind the other.
#[derive(Debug, Clone)]
pub struct Steps<S>(pub S);

impl<S> Work for Steps<S>
where
    S: Step + Send + 'static,
    S::Output: Serialize + DeserializeOwned + Send + 'static,
{
}

impl<S> sealed::Startable for Steps<S>
where
    S: Step + Send + 'static,
    S::Output: Serialize + DeserializeOwned + Send + 'static,
{
    type Output = S::Output;

    fn start(self, how: &Builder) -> Result<Started<S::Output>, Died> {
        if how.weight == Weight::Step {
            return light::step(self.0).map(Kind::Task).map(Started);
        }
        start_closure(how, move || self.0.finish(), "a state machine")
    }
}

impl Work for Command {}

impl sealed::Startable for Command {
    type Output = Output;

    fn start(self, how: &Builder) -> Result<Started<Output>, Died> {
        if how.weight != Weight::Program {
            let source = StartError::Weight { work: "a command", fits: "a program" };
            return Err(Died::NotStarted { weight: how.weight, source });
        }
        program::start(self, how.memory).map(of_process).map(Started)
    }
}

/// What the attribute [`fresh`](crate::fresh) writes down. Not for others.
#[doc(hidden)]
pub mod private {
    pub use linkme::{self, distributed_slice};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    pub use super::function::{FUNCTIONS, Function};
    use super::{Call, function};

    /// See [`Call`].
    pub fn call<A: Serialize + Send + 'static, T: 'static>(
        function: &'static Function,
        arguments: A,
        run: fn(A) -> T,
    ) -> Call<T> {
        Call::new(function, arguments, run)
    }

    /// Calls a function with arguments in bytes.
    ///
    /// # Errors
    /// In words, where arguments or result cannot be passed on.
    pub fn run<A: DeserializeOwned, T: Serialize>(
        arguments: &[u8],
        function: fn(A) -> T,
    ) -> Result<Vec<u8>, String> {
        function::run(arguments, function)
    }
}
