//! A fiber: a function that can wait in the middle, with a stack of its own.
//!
//! ```text
//!   resume(input) ──────────> function(&Suspender, input)
//!   Yielded(output) <──────── suspender.suspend(output)
//!   resume(input) ──────────> … its result
//!   Returned(value) <──────── the function's end
//! ```
//!
//! After Smith's letter "How light weight can a process get?": a process without an address space of its own, of which nothing is left but a
//! stack and a position on it. What goes over a switch goes in registers when it is no larger than one.
//!
//! A message that is marked is not the usual one. To a fiber: it is dropped, and unwinds. From a fiber: not an output, but the [end](Ended).
//!
//! Invariants: a `Fiber` has the position at which its function waits, or none when it has ended; a `Suspender` that of whoever has resumed it.
//! Both are handed over in a register, and stay in one where the compiler sees all. A fiber never leaves its thread: what its function has on its
//! stack may belong to that thread, and no type says so.

#![allow(unsafe_code, reason = "values go from stack to stack by address, and functions begin on new stacks")]

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::arch::{self, Position, Word};
use crate::control::Control;
use crate::error::StackError;
use crate::stack::{DEFAULT_STACK_BYTES, Stack};

/// Captures of more bytes than this are boxed, so that they leave room on the smallest stack.
const MOST_CAPTURED_BYTES: usize = 1024;
/// How often a fiber that is dropped may catch its unwinding and wait again, before it is left as it is.
const MOST_CAUGHT: usize = 100;

/// What a resume comes back with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<Out, Ret> {
    /// The function waits.
    Yielded(Out),
    /// The function has returned.
    Returned(Ret),
}

/// A function on a stack of its own. `In` goes in with each [`resume`](Fiber::resume), `Out` comes out when the function waits, `Ret` when it returns.
///
/// A panic of the function goes on in whoever resumes it. A fiber that waits and is dropped unwinds: all that its function has is dropped. Where
/// panics abort, its stack is left as it is instead.
///
/// It is neither `Send` nor `Sync`; see [`Runtime`](crate::Runtime) for fibers on more than one processor.
pub struct Fiber<In: 'static, Out: 'static, Ret: 'static> {
    /// Live as long as this.
    control: NonNull<Control>,
    /// Where its function waits; never marked.
    position: Position,
    /// The function has come to its end; what is resumed then says so.
    has_ended: bool,
    types: PhantomData<fn(In) -> (Out, Ret)>,
    stays: PhantomData<*mut ()>,
}

/// How a fiber is made.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    name: Option<Arc<str>>,
    stack_bytes: Option<usize>,
    is_measured: bool,
}

impl Builder {
    /// A fiber without a name on a stack of [`DEFAULT_STACK_BYTES`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its name, which a message about it has.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The size of its stack, guard page included; the next power of two counts.
    #[must_use]
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Its stack has no page at the beginning, so that [`Fiber::high_water`] is of this fiber alone. It costs a system call.
    #[must_use]
    pub fn measured(mut self) -> Self {
        self.is_measured = true;
        self
    }

    /// Name and size.
    pub(crate) fn into_parts(self) -> (Option<Arc<str>>, usize) {
        (self.name, self.stack_bytes.unwrap_or(DEFAULT_STACK_BYTES))
    }

    /// A fiber that begins its function with the first input.
    ///
    /// # Errors
    /// A [`StackError`] says why there is no stack.
    pub fn build<In, Out, Ret>(
        self,
        function: impl FnOnce(&Suspender<In, Out>, In) -> Ret + 'static,
    ) -> Result<Fiber<In, Out, Ret>, StackError> {
        let Self { name, stack_bytes, is_measured } = self;
        let bytes = stack_bytes.unwrap_or(DEFAULT_STACK_BYTES);
        let stack = if is_measured { Stack::take_clear(bytes, name)? } else { Stack::take(bytes, name)? };
        Ok(Fiber::on(stack, function))
    }
}

impl<In: 'static, Out: 'static, Ret: 'static> Fiber<In, Out, Ret> {
    /// A fiber on a stack of the usual size.
    ///
    /// # Errors
    /// A [`StackError`] says why there is no stack.
    #[inline]
    pub fn new(function: impl FnOnce(&Suspender<In, Out>, In) -> Ret + 'static) -> Result<Self, StackError> {
        Ok(Self::on(Stack::take(DEFAULT_STACK_BYTES, None)?, function))
    }

    #[inline]
    fn on<F>(stack: Stack, function: F) -> Self
    where
        F: FnOnce(&Suspender<In, Out>, In) -> Ret + 'static,
    {
        let (control, position) = if size_of::<F>() > MOST_CAPTURED_BYTES || align_of::<F>() > 64 {
            let boxed = Box::new(function);
            let function = move |suspender: &Suspender<In, Out>, input: In| boxed(suspender, input);
            Self::lay_out(stack, function)
        } else {
            Self::lay_out(stack, function)
        };
        Self { control, position, has_ended: false, types: PhantomData, stays: PhantomData }
    }

    #[inline]
    fn lay_out<F>(stack: Stack, function: F) -> (NonNull<Control>, Position)
    where
        F: FnOnce(&Suspender<In, Out>, In) -> Ret + 'static,
    {
        Control::lay_out(stack, function, main::<In, Out, Ret, F>)
    }

    /// Lets the function run until it waits or returns.
    ///
    /// # Panics
    /// When the function panics, with its panic. When it has ended before.
    #[inline]
    pub fn resume(&mut self, input: In) -> State<Out, Ret> {
        let input = ManuallyDrop::new(input);
        // SAFETY: the position is the fiber's own, which waits there for a message; the input stays where it is until the fiber has read it,
        // which is the first that it does. The mark says what the answer is, and the fiber that has it on its stack does not run.
        unsafe {
            let (position, answer) = arch::switch::<0>(self.position, pack(&input));
            self.position = position;
            if !position.is_marked() {
                return State::Yielded(unpack(answer));
            }
            self.position = position.unmarked();
            self.has_ended = true;
            match Ended::read(answer) {
                Ended::Returned(value) => State::Returned(value),
                Ended::Panicked(payload) => resume_unwind(payload),
                Ended::Before => {
                    drop(ManuallyDrop::into_inner(input));
                    ended_before()
                }
            }
        }
    }

    /// Has the top of its stack fetched into the caches: for who resumes many in turn, some resumes ahead.
    #[inline]
    pub fn fetch(&self) {
        arch::fetch(self.position.stack);
    }

    /// Whether the function has returned or panicked.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.control().stack().name()
    }

    /// How much of its stack was used, in bytes: by this fiber and those that had the stack before, unless it was built as
    /// [measured](Builder::measured). [`suggested_stack_bytes`](crate::suggested_stack_bytes) makes a size of it.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.control().stack().high_water()
    }

    /// The size of its stack, in bytes.
    #[must_use]
    pub fn stack_bytes(&self) -> usize {
        self.control().stack().bytes()
    }

    fn control(&self) -> &Control {
        // SAFETY: the control block is live as long as this. While the fiber runs, it writes its cells alone.
        unsafe { self.control.as_ref() }
    }
}

/// Unwinds a function that waits; whether it has come to its end.
#[cold]
fn unwind<Out, Ret>(mut position: Position) -> bool {
    if cfg!(panic = "abort") {
        return false;
    }
    for _ in 0..MOST_CAUGHT {
        // SAFETY: as in `Fiber::resume`; what comes back is read once, by its type.
        unsafe {
            let (next, answer) = arch::switch::<1>(position, MaybeUninit::uninit());
            if next.is_marked() {
                drop(Ended::<Ret>::read(answer));
                return true;
            }
            drop(unpack::<Out>(answer));
            position = next;
        }
    }
    false
}

impl<In, Out, Ret> Drop for Fiber<In, Out, Ret> {
    #[inline]
    fn drop(&mut self) {
        // By their values: where the compiler sees all, they never stand in memory.
        let (control, position) = (self.control, self.position);
        if self.has_ended || unwind::<Out, Ret>(position) {
            // SAFETY: it has ended: nothing runs on its stack, and nobody has the control block but this.
            unsafe { Control::end(control) };
        }
    }
}

impl<In, Out, Ret> fmt::Debug for Fiber<In, Out, Ret> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Fiber");
        shown.field("name", &self.name()).field("stack_bytes", &self.stack_bytes());
        shown.field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

/// What a fiber's function waits with.
pub struct Suspender<In, Out> {
    /// Where whoever has resumed the fiber waits for a message.
    other: Cell<Position>,
    types: PhantomData<fn(Out) -> In>,
    stays: PhantomData<*mut ()>,
}

impl<In, Out> Suspender<In, Out> {
    /// Hands an output to whoever has resumed the fiber, and waits for the next input.
    ///
    /// When the fiber is dropped meanwhile, this unwinds.
    #[inline]
    pub fn suspend(&self, output: Out) -> In {
        let output = ManuallyDrop::new(output);
        // SAFETY: whoever has resumed the fiber waits for a message as long as the function runs. The output stays where it is until that one
        // has read it.
        unsafe {
            let (other, answer) = arch::switch::<0>(self.other.get(), pack(&output));
            self.other.set(other);
            if other.is_marked() {
                self.other.set(other.unmarked());
                unwinding();
            }
            unpack(answer)
        }
    }
}

impl<In, Out> fmt::Debug for Suspender<In, Out> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Suspender").finish_non_exhaustive()
    }
}

/// What goes up the stack of a fiber that is dropped.
struct Dropped;

#[cold]
fn unwinding() -> ! {
    resume_unwind(Box::new(Dropped))
}

/// How a function has ended. It goes by its address, as it is larger than a word.
enum Ended<Ret> {
    Returned(Ret),
    Panicked(Payload),
    /// It had ended before, and nothing was done.
    Before,
}

type Payload = Box<dyn Any + Send>;

impl<Ret> Ended<Ret> {
    /// What a marked answer says.
    ///
    /// # Safety
    /// The answer is that of a fiber whose function returns this type, and was not read before.
    #[inline]
    unsafe fn read(answer: Word) -> Self {
        // SAFETY: the caller's promise.
        unsafe { answer.assume_init().cast::<Self>().read() }
    }
}

#[cold]
fn ended_before() -> ! {
    panic!("a fiber was resumed that has ended")
}

/// The first function on a fiber's stack. It never returns: who resumes a fiber that has ended is told so.
///
/// # Safety
/// It gets what [`Control::lay_out`] has laid out, with captures of this type.
unsafe extern "sysv64" fn main<In, Out, Ret, F>(
    control: *mut u8,
    word: Word,
    stack: *mut u8,
    _: usize,
    _: usize,
    code: usize,
) -> !
where
    F: FnOnce(&Suspender<In, Out>, In) -> Ret,
{
    // SAFETY: `Control::lay_out` has put a control block and captures of this type there; this is the only one who takes them. The first
    // message is an input, or the fiber is dropped before it has begun. At the end nothing is left on the stack to be dropped: what goes out
    // stands in `ended` until it is read, which is before the stack is anybody else's.
    unsafe {
        let function = Control::captures::<F>(NonNull::new_unchecked(control.cast()));
        let first = Position { stack, code };
        let suspender =
            Suspender { other: Cell::new(first.unmarked()), types: PhantomData, stays: PhantomData };
        let result = catch_unwind(AssertUnwindSafe(|| {
            if first.is_marked() {
                drop(function);
                unwinding();
            }
            function(&suspender, unpack(word))
        }));
        let mut ended = ManuallyDrop::new(match result {
            Ok(value) => Ended::Returned(value),
            Err(payload) => Ended::Panicked(payload),
        });
        let mut other = suspender.other.get();
        loop {
            other = arch::switch::<1>(other, MaybeUninit::new((&raw mut ended).cast())).0.unmarked();
            ended = ManuallyDrop::new(Ended::Before);
        }
    }
}

/// Whether a value goes in a register.
pub(crate) const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<*mut ()>() && align_of::<T>() <= align_of::<*mut ()>()
}

/// A value as a word, or its address.
#[inline]
pub(crate) fn pack<T>(value: &ManuallyDrop<T>) -> Word {
    if !fits::<T>() {
        return MaybeUninit::new(ptr::from_ref(value).cast_mut().cast());
    }
    let mut word = Word::uninit();
    // SAFETY: it is no larger than a word. Bytes that it does not have stay unwritten.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<T>(), word.as_mut_ptr().cast::<T>(), 1) };
    word
}

/// The value behind a word.
///
/// # Safety
/// The word was made by [`pack`] of a value of this type, which nobody else takes, and stands where it stood.
#[inline]
pub(crate) unsafe fn unpack<T>(word: Word) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        if fits::<T>() { word.as_ptr().cast::<T>().read() } else { word.assume_init().cast::<T>().read() }
    }
}
