//! A worker: runs tasks on one thread, one at a time, and switches from one to the next without going through anything else.
//!
//! ```text
//!   task ──waits, yields, ends──> next ── else ──> ready ── else ──> loop (on the thread's own stack)
//!                                                                     posts · timers · descriptors · fresh tasks · sleep
//! ```
//!
//! *next* is the task that was woken last: what it was woken for is still in the caches. After [`TURNS`] switches the loop has its turn, so that
//! nothing waits for ever. All that a switch needs stands in the function of the task: a return behind a switch goes elsewhere than the processor
//! expects, by what was called last, and takes ten times as long. A task that has begun stays with its worker: what stands on its stack may belong to the thread. Workers take *fresh* tasks
//! from one another.
//!
//! Invariant: who is switched to is told who has left, and notes its position, or takes its stack back when it has ended: the switch is marked then.

#![allow(unsafe_code, reason = "stacks are left for others, and tasks are known by their address")]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_sync::{AtomicBool, OnceLock, Ordering, fence, thread};

use crate::arch::{self, Position, Word};
use crate::control::{Control, ControlAddress};
use crate::error::StackError;
use crate::post::{Message as Posted, Post};
use crate::queues::{Deque, Steal, Stealer};
use crate::stack::Stack;
use crate::task::{Task, Woken};
use crate::timers::Timers;

/// After how many switches the loop has its turn, and after how many where tasks wait for descriptors.
const TURNS: u32 = 256;
const TURNS_BESIDE_DESCRIPTORS: u32 = 32;
/// How far ahead in the queue of tasks the memory of one is fetched.
const AHEAD: usize = 6;
/// How often the tasks of a runtime that ends are told to, before they are left as they are, and how long at a time others have to end what these
/// wait for.
const MOST_TOLD: usize = 2000;
const PATIENCE: Duration = Duration::from_millis(1);

regrow_sync::thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// What a task runs: it has no result, and does not panic.
pub(crate) type Function = Box<dyn FnOnce()>;

/// A task that has not begun.
pub(crate) struct Fresh {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) stack_bytes: usize,
    pub(crate) function: Box<dyn Start>,
}

/// What a fresh task becomes.
pub(crate) trait Start {
    /// It runs, at this address.
    fn begin(self: Box<Self>, control: ControlAddress, birth: u64, post: &'static Post) -> Function;
    /// It will not run: there is no stack.
    fn refuse(self: Box<Self>, error: StackError);
}

/// A task without a stack.
pub(crate) trait Machine {
    /// Does its next step; whether that was the last one. It does not panic.
    fn step(&mut self) -> bool;
}

/// A fresh task that may go to another thread.
pub(crate) struct FreshSend(Fresh);

// SAFETY: made of functions that may go to other threads alone: see `FreshSend::new`.
unsafe impl Send for FreshSend {}

impl FreshSend {
    pub(crate) fn new(name: Option<Arc<str>>, stack_bytes: usize, function: Box<dyn Start + Send>) -> Self {
        Self(Fresh { name, stack_bytes, function })
    }
}

/// What the workers of a runtime share.
#[derive(Debug)]
pub(crate) struct Colleagues {
    pub(crate) stealers: Vec<Stealer<FreshSend>>,
    pub(crate) posts: Vec<OnceLock<&'static Post>>,
    pub(crate) is_over: AtomicBool,
}

/// Tasks in the order in which they run.
struct Queue(UnsafeCell<VecDeque<NonNull<Task>>>);

/// See the module.
pub(crate) struct Worker {
    /// The task that runs: `own` when the loop does.
    current: Cell<*const Task>,
    own: Task,
    next: Cell<*const Task>,
    ready: Queue,
    /// Those that are expected to run long, behind all others.
    long: Queue,
    turns: Cell<u32>,
    numbers: Cell<u64>,
    timers: RefCell<Timers>,
    /// Fresh tasks that stay here, and those that others may take.
    staying: RefCell<VecDeque<Fresh>>,
    fresh: Deque<FreshSend>,
    machines: RefCell<VecDeque<Box<dyn Machine>>>,
    /// All tasks that have begun.
    tasks: RefCell<Vec<NonNull<Control>>>,
    /// Some of them are cancelled, and were not told: see `cancel`.
    has_untold: Cell<bool>,
    /// It is run by a destructor of a thread that unwinds.
    is_panicking: bool,
    number: usize,
    colleagues: Arc<Colleagues>,
    post: &'static Post,
}

/// The worker of this thread, when it is in a task or in the worker's loop.
#[inline]
pub(crate) fn here<'a>() -> Option<&'a Worker> {
    let worker = WORKER.get();
    // SAFETY: it is there as long as its address stands in this thread's storage, which is longer than any task on this thread runs.
    unsafe { worker.as_ref() }
}

/// Has this thread be no worker: see [`forget_runtime`](crate::forget_runtime).
pub(crate) fn forget() {
    WORKER.set(std::ptr::null());
}

impl Queue {
    const fn new() -> Self {
        Self(UnsafeCell::new(VecDeque::new()))
    }

    #[inline]
    fn push(&self, task: NonNull<Task>) {
        // SAFETY: its worker's thread alone is here, and nothing below comes back here.
        unsafe { (*self.0.get()).push_back(task) }
    }

    /// Takes the first one, and has the memory of one behind it fetched.
    #[inline]
    fn pop(&self) -> Option<NonNull<Task>> {
        // SAFETY: as in `push`.
        let queue = unsafe { &mut *self.0.get() };
        let first = queue.pop_front()?;
        if let Some(ahead) = queue.get(AHEAD) {
            arch::fetch(ahead.as_ptr().cast());
        }
        Some(first)
    }
}

impl Worker {
    /// A worker on this thread.
    pub(crate) fn new(
        number: usize,
        post: &'static Post,
        fresh: Deque<FreshSend>,
        colleagues: Arc<Colleagues>,
    ) -> Self {
        post.move_in();
        if let Some(slot) = colleagues.posts.get(number) {
            let _ = slot.set(post);
        }
        Self {
            current: Cell::new(ptr::null()),
            own: Task::new(),
            next: Cell::new(ptr::null()),
            ready: Queue::new(),
            long: Queue::new(),
            turns: Cell::new(0),
            numbers: Cell::new(post.first_number()),
            timers: RefCell::new(Timers::default()),
            staying: RefCell::new(VecDeque::new()),
            fresh,
            machines: RefCell::new(VecDeque::new()),
            tasks: RefCell::new(Vec::new()),
            has_untold: Cell::new(false),
            is_panicking: std::thread::panicking(),
            number,
            colleagues,
            post,
        }
    }

    /// The post of this worker.
    #[inline]
    pub(crate) fn post(&self) -> &'static Post {
        self.post
    }

    /// Whether a task runs, not the loop.
    #[inline]
    pub(crate) fn is_in_task(&self) -> bool {
        !ptr::eq(self.current.get(), &raw const self.own)
    }

    /// The task that runs.
    #[inline]
    pub(crate) fn task(&self) -> &Task {
        // SAFETY: the present task is there, as is the loop's.
        unsafe { &*self.current.get() }
    }

    /// The control block of the task that runs.
    #[inline]
    pub(crate) fn control(&self) -> ControlAddress {
        ControlAddress(self.current.get().cast())
    }

    /// A number that was not used before.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        number
    }

    /// Has a task run as soon as this worker comes to it.
    pub(crate) fn put_here(&self, fresh: Fresh) {
        self.staying.borrow_mut().push_back(fresh);
        self.turns.set(self.turns.get().min(1));
    }

    /// Has a task run by this worker, or by one that has nothing to do.
    pub(crate) fn put(&self, fresh: FreshSend) {
        self.fresh.push(fresh);
        self.turns.set(self.turns.get().min(1));
        // Who is about to sleep sees the task, or is seen here.
        fence(Ordering::SeqCst);
        for post in self.colleagues.posts.iter().filter_map(OnceLock::get) {
            // Somebody else may wake it first, for another task.
            if !ptr::eq(*post, self.post) && post.sleeps() && post.wake() {
                break;
            }
        }
    }

    /// Has a task without a stack run.
    pub(crate) fn put_machine(&self, machine: Box<dyn Machine>) {
        self.machines.borrow_mut().push_back(machine);
        self.turns.set(self.turns.get().min(1));
    }

    /// A step of each task without a stack, or of the first ones; whether there was any.
    fn step_machines(&self) -> bool {
        let count = self.machines.borrow().len();
        for _ in 0..count.min(TURNS as usize) {
            // It may start others while it runs.
            let machine = self.machines.borrow_mut().pop_front();
            if let Some(mut machine) = machine
                && !machine.step()
            {
                self.machines.borrow_mut().push_back(machine);
            }
        }
        count > 0
    }

    /// Ends the wait of a task of this worker, if that is the one that it is in.
    #[inline(always)]
    pub(crate) fn wake(&self, control: ControlAddress, wait: u64, why: Woken) {
        // SAFETY: a control block can be looked at for ever, see `Task`.
        let task = unsafe { &(*control.0).task };
        if wait != 0 && task.wait.load(Ordering::Relaxed) == wait {
            task.wait.store(0, Ordering::Relaxed);
            task.woken.set(why);
            self.make_next(task);
        }
    }

    /// Puts a task before all others.
    #[inline(always)]
    fn make_next(&self, task: &Task) {
        let task = NonNull::from(task);
        // SAFETY: as in `task`.
        if unsafe { task.as_ref() }.is_long.get() {
            return self.long.push(task);
        }
        if self.next.get().is_null() { self.next.set(task.as_ptr()) } else { self.ready.push(task) }
    }

    /// Lets all others run that can.
    #[inline(always)]
    pub(crate) fn give_way(&self) {
        let task = NonNull::from(self.task());
        // SAFETY: as in `task`.
        if unsafe { task.as_ref() }.is_long.get() {
            self.long.push(task);
        } else {
            self.ready.push(task);
        }
        self.leave();
    }

    /// Waits: comes back when the wait of this number is over, which stands in the task.
    #[inline(always)]
    pub(crate) fn wait(&self, deadline: Option<(Instant, u64)>) -> Woken {
        if let Some((time, wait)) = deadline {
            self.add_timer(time, wait);
        }
        self.leave();
        self.task().woken.get()
    }

    /// Does not wait after all.
    #[cold]
    pub(crate) fn give_up_wait(&self) {
        if self.task().wait.load(Ordering::Relaxed) == 0 {
            // The task has ended its wait itself: it stands among those that are ready, and is taken out by its turn.
            self.leave();
        }
        self.task().wait.store(0, Ordering::Relaxed);
    }

    #[cold]
    fn add_timer(&self, time: Instant, wait: u64) {
        let is_over = |control: ControlAddress, wait| {
            // SAFETY: as in `wake`.
            let task = unsafe { &(*control.0).task };
            task.wait.load(Ordering::Relaxed) != wait
        };
        self.timers.borrow_mut().add(time, self.control(), wait, &is_over);
        self.turns.set(self.turns.get().min(1));
    }

    /// Who runs next.
    #[inline(always)]
    fn pick(&self) -> *const Task {
        let turns = self.turns.get();
        if turns == 0 {
            return &raw const self.own;
        }
        self.turns.set(turns - 1);
        let next = self.next.replace(ptr::null());
        if !next.is_null() {
            return next;
        }
        self.ready.pop().map_or(&raw const self.own, |task| task.as_ptr())
    }

    /// Leaves the present task for the next one.
    #[inline(always)]
    fn leave(&self) {
        let left = self.current.get();
        let next = self.pick();
        if ptr::eq(next, left) {
            return;
        }
        self.go(left, next);
    }

    #[inline(always)]
    fn go(&self, left: *const Task, next: *const Task) {
        self.current.set(next);
        // SAFETY: a task that is ready has left its stack by this function, or has not begun; its position is used once, until it leaves again.
        let (other, word) =
            unsafe { arch::switch::<0>((*next).position.get(), MaybeUninit::new(left.cast_mut().cast())) };
        self.arrived(other, word);
    }

    /// Notes who was left for the present task.
    #[inline(always)]
    fn arrived(&self, other: Position, word: Word) {
        // SAFETY: workers alone switch to tasks, and each says who has left.
        unsafe {
            let left = word.assume_init().cast::<Task>();
            if other.is_marked() {
                return Self::take_stack(left);
            }
            (*left).position.set(other);
        }
    }

    /// Takes the stack of a task back that has ended.
    #[cold]
    fn take_stack(task: *mut Task) {
        // SAFETY: it has left its stack for good, and says so itself.
        unsafe { Control::end(NonNull::new_unchecked(task.cast())) };
    }

    /// Leaves the present task for good.
    fn end(&self) -> ! {
        let left = self.current.get();
        self.strike(left);
        let next = self.pick();
        self.current.set(next);
        // SAFETY: as in `go`; nothing is left on this stack that has to be dropped, and nobody comes back.
        unsafe { arch::switch::<1>((*next).position.get(), MaybeUninit::new(left.cast_mut().cast())) };
        std::process::abort()
    }

    /// Takes a task out of the list.
    fn strike(&self, task: *const Task) {
        let mut tasks = self.tasks.borrow_mut();
        // SAFETY: all of them are there.
        unsafe {
            let place = (*task.cast::<Control>()).place.get();
            tasks.swap_remove(place);
            if let Some(moved) = tasks.get(place) {
                moved.as_ref().place.set(place);
            }
        }
    }

    /// Begins a fresh task: it stands last of those that are ready.
    fn begin(&self, fresh: Fresh) {
        let Fresh { name, stack_bytes, function } = fresh;
        let stack = match Stack::take(stack_bytes, name) {
            Ok(stack) => stack,
            Err(error) => return function.refuse(error),
        };
        let (control, position) = Control::lay_out(stack, Cell::new(None::<Function>), main);
        // SAFETY: the control block is there as long as its task. The captures are a cell, which is filled before the task runs.
        unsafe {
            let birth = self.number();
            let block = control.as_ref();
            block.birth.store(birth, Ordering::Relaxed);
            block.task.begin(position);
            let mut tasks = self.tasks.borrow_mut();
            block.place.set(tasks.len());
            tasks.push(control);
            drop(tasks);
            let function = function.begin(ControlAddress(control.as_ptr()), birth, self.post);
            Control::captures_of::<Cell<Option<Function>>>(control).as_ref().set(Some(function));
            self.ready.push(NonNull::from(&block.task));
        }
    }

    /// Runs tasks on this thread until `is_over` says so, and then ends those that are left.
    pub(crate) fn run(&self, is_over: &dyn Fn() -> bool) {
        let before = WORKER.replace(ptr::from_ref(self));
        self.current.set(&raw const self.own);
        while !is_over() {
            let is_busy = self.turn();
            if !is_busy {
                self.sleep(is_over);
            }
        }
        self.end_all();
        WORKER.set(before);
    }

    /// One turn of the loop: looks at all that is outside, and lets tasks run; whether there was anything.
    fn turn(&self) -> bool {
        let mut is_busy = self.step_machines();
        while let Some(message) = self.post.next() {
            self.take(message);
            is_busy = true;
        }
        if self.has_untold.get() {
            self.tell_the_untold();
        }
        self.timers.borrow_mut().take_over(&mut |control, wait| self.wake(control, wait, Woken::TimedOut));
        self.begin_some();
        self.turns.set(self.look_at_descriptors());
        let mut next = self.pick();
        if ptr::eq(next, &raw const self.own) {
            let Some(long) = self.long.pop() else { return is_busy };
            next = long.as_ptr();
        }
        self.go(&raw const self.own, next);
        // What is next waits no longer than others.
        if let Some(next) = NonNull::new(self.next.replace(ptr::null()).cast_mut()) {
            self.ready.push(next);
        }
        true
    }

    /// Ends waits for descriptors that are over; after how many switches to look again.
    fn look_at_descriptors(&self) -> u32 {
        let Some(reactor) = self.post.awaited() else { return TURNS };
        reactor.look(&mut |control, wait| self.wake(control, wait, Woken::Happened));
        TURNS_BESIDE_DESCRIPTORS
    }

    fn take(&self, message: Posted) {
        match message {
            Posted::Wake { control, wait } => self.wake(control, wait, Woken::Happened),
            Posted::Cancel { control, birth } => {
                // SAFETY: as in `wake`.
                let block = unsafe { &*control.0 };
                if block.birth.load(Ordering::Relaxed) == birth {
                    self.cancel(block);
                }
            }
        }
    }

    /// Has a task end at its next wait, or at the present one. While a task of this thread waits in a destructor, none is told: which one it is cannot be
    /// known, and that one would unwind a second time. They are told behind it.
    fn cancel(&self, block: &Control) {
        block.task.is_cancelled.set(true);
        if self.is_unwinding() {
            return self.has_untold.set(true);
        }
        self.wake(ControlAddress(block), block.task.wait.load(Ordering::Relaxed), Woken::Cancelled);
    }

    /// Whether a task of this thread unwinds.
    fn is_unwinding(&self) -> bool {
        std::thread::panicking() && !self.is_panicking
    }

    /// Whether the present task ends at this wait.
    #[inline(always)]
    pub(crate) fn ends_here(&self) -> bool {
        self.task().is_cancelled.get() && self.is_to_end()
    }

    #[cold]
    fn is_to_end(&self) -> bool {
        let is_unwinding = self.is_unwinding();
        self.has_untold.set(self.has_untold.get() || is_unwinding);
        !is_unwinding
    }

    /// Tells those that were cancelled while another one unwound.
    #[cold]
    fn tell_the_untold(&self) {
        if !self.is_unwinding() {
            self.has_untold.set(false);
            self.tell_all(|block| block.task.is_cancelled.get());
        }
    }

    /// Cancels some of the tasks.
    fn tell_all(&self, is_to_end: impl Fn(&Control) -> bool) {
        let tasks: Vec<NonNull<Control>> = self.tasks.borrow().clone();
        for task in tasks {
            // SAFETY: none of them runs meanwhile.
            let block = unsafe { task.as_ref() };
            if is_to_end(block) {
                self.cancel(block);
            }
        }
    }

    /// Begins those that stay here, and one that others might take.
    fn begin_some(&self) {
        for _ in 0..TURNS {
            let staying = self.staying.borrow_mut().pop_front();
            let Some(fresh) = staying else { break };
            self.begin(fresh);
        }
        if let Some(fresh) = self.next_fresh() {
            self.begin(fresh);
        }
    }

    fn next_fresh(&self) -> Option<Fresh> {
        if let Some(fresh) = self.fresh.pop() {
            return Some(fresh.0);
        }
        let count = self.colleagues.stealers.len();
        (1..count).find_map(|step| {
            let stealer = &self.colleagues.stealers[(self.number + step) % count];
            loop {
                match stealer.steal_batch_and_pop(&self.fresh) {
                    Steal::Success(fresh) => return Some(fresh.0),
                    Steal::Empty => return None,
                    Steal::Retry => {}
                }
            }
        })
    }

    /// Sleeps until something is posted, or a time is over.
    fn sleep(&self, is_over: &dyn Fn() -> bool) {
        if self.post.fall_asleep() {
            // Who puts a task, or ends the runtime, sees that this worker sleeps, or is seen here.
            if self.next_fresh_is_there() || is_over() {
                self.post.wake_up();
                return;
            }
            let timeout =
                self.timers.borrow().next().map(|time| time.saturating_duration_since(Instant::now()));
            self.post.sleep(timeout, &mut |control, wait| self.wake(control, wait, Woken::Happened));
        }
    }

    /// A task that came while this worker was about to sleep.
    fn next_fresh_is_there(&self) -> bool {
        self.colleagues.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    /// Cancels all tasks, and runs them to their end. One that does not let itself be ended is left as it is.
    fn end_all(&self) {
        // What they have may start others when it is dropped.
        let (staying, machines) = (self.staying.take(), self.machines.take());
        drop((staying, machines));
        while self.fresh.pop().is_some() {}
        for _ in 0..MOST_TOLD {
            self.tell_all(|_| true);
            let turns = self.tasks.borrow().len() + 1;
            if !(0..turns).any(|_| !self.turn()) {
                continue;
            }
            if self.tasks.borrow().is_empty() {
                return;
            }
            thread::sleep(PATIENCE);
        }
        self.forget_all();
    }

    /// Leaves the tasks that have not ended as they are. Nobody can wake them: a later worker has this post, on another thread.
    fn forget_all(&self) {
        for task in self.tasks.take() {
            // SAFETY: its stack is there for ever, as nobody takes it back.
            let block = unsafe { task.as_ref() };
            block.birth.store(0, Ordering::Relaxed);
            block.task.wait.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.post.give_back(self.numbers.get());
    }
}

/// The first function of a task's stack.
///
/// # Safety
/// It gets what [`Worker::begin`] has laid out.
unsafe extern "sysv64" fn main(
    control: *mut u8,
    word: Word,
    stack: *mut u8,
    _: usize,
    _: usize,
    code: usize,
) -> ! {
    // SAFETY: a worker has laid this out, and switches here alone. The function is taken before it is called, and dropped by that.
    unsafe {
        let control = NonNull::new_unchecked(control.cast::<Control>());
        let Some(worker) = here() else { std::process::abort() };
        worker.arrived(Position { stack, code }, word);
        if let Some(function) = Control::captures::<Cell<Option<Function>>>(control).take() {
            function();
        }
        worker.end()
    }
}
