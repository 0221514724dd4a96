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

use crate::arch::{self, Message, Position};
use crate::control::Control;
use crate::error::StackError;
use crate::stack::{DEFAULT_STACK_BYTES, Stack};

/// To a fiber: the input of a resume.
const VALUE: usize = 0;
/// To a fiber: it is dropped, and unwinds.
const UNWIND: usize = 1;
/// From a fiber: an output.
const YIELDED: usize = 2;
/// From a fiber: its function has returned.
const RETURNED: usize = 3;
/// From a fiber: its function has panicked.
const PANICKED: usize = 4;
/// From a fiber: it had ended before, and nothing was done.
const ENDED: usize = 5;

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

/// A fiber: see the [module](self). `In` goes in with each [`resume`](Fiber::resume), `Out` comes out when the function waits, `Ret` when it returns.
///
/// A panic of the function goes on in whoever resumes it. A fiber that waits and is dropped unwinds: all that its function has is dropped. Where
/// panics abort, its stack is left as it is instead.
///
/// It is neither `Send` nor `Sync`; see [`Runtime`](crate::Runtime) for fibers on more than one processor.
pub struct Fiber<In: 'static, Out: 'static, Ret: 'static> {
    /// Live as long as this.
    control: NonNull<Control>,
    /// Where its function waits.
    position: Position,
    /// The function has come to its end; what is resumed then says so.
    has_ended: bool,
    types: PhantomData<(fn(In) -> (Out, Ret), *mut ())>,
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
        let stack = Stack::take(stack_bytes.unwrap_or(DEFAULT_STACK_BYTES))?;
        if is_measured {
            stack.clear();
        }
        Ok(Fiber::on(stack, name, function))
    }
}

impl<In: 'static, Out: 'static, Ret: 'static> Fiber<In, Out, Ret> {
    /// A fiber on a stack of the usual size.
    ///
    /// # Errors
    /// A [`StackError`] says why there is no stack.
    #[inline]
    pub fn new(function: impl FnOnce(&Suspender<In, Out>, In) -> Ret + 'static) -> Result<Self, StackError> {
        Ok(Self::on(Stack::take(DEFAULT_STACK_BYTES)?, None, function))
    }

    #[inline]
    fn on<F>(stack: Stack, name: Option<Arc<str>>, function: F) -> Self
    where
        F: FnOnce(&Suspender<In, Out>, In) -> Ret + 'static,
    {
        let (control, position) = if size_of::<F>() > MOST_CAPTURED_BYTES || align_of::<F>() > 64 {
            let boxed = Box::new(function);
            let function = move |suspender: &Suspender<In, Out>, input: In| boxed(suspender, input);
            Self::lay_out(stack, name, function)
        } else {
            Self::lay_out(stack, name, function)
        };
        Self { control, position, has_ended: false, types: PhantomData }
    }

    #[inline]
    fn lay_out<F>(stack: Stack, name: Option<Arc<str>>, function: F) -> (NonNull<Control>, Position)
    where
        F: FnOnce(&Suspender<In, Out>, In) -> Ret + 'static,
    {
        Control::lay_out(stack, name, function, main::<In, Out, Ret, F>)
    }

    /// Lets the function run until it waits or returns.
    ///
    /// # Panics
    /// When the function panics, with its panic. When it has ended before.
    #[inline]
    pub fn resume(&mut self, input: In) -> State<Out, Ret> {
        let input = ManuallyDrop::new(input);
        // SAFETY: the position is the fiber's own, which waits there for a message; the input stays where it is until the fiber has read it,
        // which is the first that it does. The tag says what the answer's word is, and the fiber that has it on its stack does not run.
        unsafe {
            let (position, answer) = arch::switch(self.position, Message { word: pack(&input), tag: VALUE });
            self.position = position;
            if answer.tag == YIELDED {
                return State::Yielded(unpack(answer.word));
            }
            if answer.tag == ENDED {
                drop(ManuallyDrop::into_inner(input));
            }
            self.has_ended = true;
            State::Returned(returned(answer))
        }
    }

    /// Has the top of its stack fetched into the caches: for who resumes many in turn, some resumes ahead.
    #[inline]
    pub fn fetch(&self) {
        arch::fetch(self.position);
    }

    /// Whether the function has returned or panicked.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.control().name()
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
        let message = Message { word: MaybeUninit::uninit(), tag: UNWIND };
        // SAFETY: as in `Fiber::resume`; what comes back is read once, by its type.
        unsafe {
            let (next, answer) = arch::switch(position, message);
            match answer.tag {
                YIELDED => drop(unpack::<Out>(answer.word)),
                RETURNED => drop(unpack::<Ret>(answer.word)),
                _ => drop(payload(answer)),
            }
            if answer.tag != YIELDED {
                return true;
            }
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
    types: PhantomData<(fn(Out) -> In, *mut ())>,
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
            let message = Message { word: pack(&output), tag: YIELDED };
            let (other, answer) = arch::switch(self.other.get(), message);
            self.other.set(other);
            if answer.tag == UNWIND {
                unwinding();
            }
            unpack(answer.word)
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

/// The first function on a fiber's stack. It never returns: who resumes a fiber that has ended is told so.
unsafe extern "sysv64" fn main<In, Out, Ret, F>(
    control: *mut u8,
    word: MaybeUninit<*mut ()>,
    other: Position,
    tag: usize,
) -> !
where
    F: FnOnce(&Suspender<In, Out>, In) -> Ret,
{
    // SAFETY: `Control::lay_out` has put a control block and captures of this type there; this is the only one who takes them. The first
    // message is an input, or the fiber is dropped before it has begun. At the end nothing is left on the stack to be dropped: what goes out
    // stands in `ended` until it is read, which is before the stack is anybody else's.
    unsafe {
        let function = Control::captures::<F>(NonNull::new_unchecked(control.cast()));
        let suspender = Suspender { other: Cell::new(other), types: PhantomData };
        let ended = ManuallyDrop::new(catch_unwind(AssertUnwindSafe(|| {
            if tag == UNWIND {
                drop(function);
                unwinding();
            }
            function(&suspender, unpack(word))
        })));
        let message = match &*ended {
            Ok(value) => Message { word: pack_reference(value), tag: RETURNED },
            Err(payload) => {
                Message { word: MaybeUninit::new(ptr::from_ref(payload).cast_mut().cast()), tag: PANICKED }
            }
        };
        let mut other = arch::switch(suspender.other.get(), message).0;
        loop {
            other = arch::switch(other, Message { word: MaybeUninit::uninit(), tag: ENDED }).0;
        }
    }
}

type Payload = Box<dyn Any + Send>;

/// What a fiber has panicked with.
///
/// # Safety
/// The answer has the tag [`PANICKED`], and was not asked before.
unsafe fn payload(answer: Message) -> Payload {
    // SAFETY: the caller's promise: the word is the payload's address.
    unsafe { answer.word.assume_init().cast::<Payload>().read() }
}

/// The result of a function that has ended, or its panic.
///
/// # Safety
/// The answer is that of a fiber whose function returns this type, and is not [`YIELDED`]; it was not asked before.
#[cold]
unsafe fn returned<Ret>(answer: Message) -> Ret {
    // SAFETY: the caller's promise.
    unsafe {
        match answer.tag {
            RETURNED => unpack(answer.word),
            PANICKED => resume_unwind(payload(answer)),
            _ => panic!("a fiber was resumed that has ended"),
        }
    }
}

/// Whether a value goes in a register.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<*mut ()>() && align_of::<T>() <= align_of::<*mut ()>()
}

/// A value as a word, or its address.
#[inline]
fn pack<T>(value: &ManuallyDrop<T>) -> MaybeUninit<*mut ()> {
    pack_reference(&**value)
}

#[inline]
fn pack_reference<T>(value: &T) -> MaybeUninit<*mut ()> {
    if !fits::<T>() {
        return MaybeUninit::new(ptr::from_ref(value).cast_mut().cast());
    }
    let mut word = MaybeUninit::<*mut ()>::uninit();
    // SAFETY: it is no larger than a word. Bytes that it does not have stay unwritten.
    unsafe { ptr::copy_nonoverlapping(value, word.as_mut_ptr().cast::<T>(), 1) };
    word
}

/// The value behind a word.
///
/// # Safety
/// The word was made by [`pack`] of a value of this type, which nobody else takes, and stands where it stood.
#[inline]
unsafe fn unpack<T>(word: MaybeUninit<*mut ()>) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        if fits::<T>() { word.as_ptr().cast::<T>().read() } else { word.assume_init().cast::<T>().read() }
    }
}
