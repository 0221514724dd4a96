//! A worker: runs tasks on one thread, one at a time, and switches from one to the next without going through anything else.
//!
//! ```text
//!   task ──waits, yields, ends──> next ── else ──> ready ── else ──> loop (on the thread's own stack)
//!                                                                     posts · timers · descriptors · fresh tasks · sleep
//!                                                                     those that are looked at · long ones
//! ```
//!
//! *next* is the task that was woken last: what it was woken for is still in the caches. After [`TURNS`] switches the loop has its turn, so that
//! nothing waits for ever. All that a switch needs stands in the function of the task: a return behind a switch goes elsewhere than the processor
//! expects, by what was called last, and takes ten times as long. A task that has begun stays with its worker: what stands on its stack may belong to the thread. Workers take *fresh* tasks
//! from one another.
//!
//! Tasks that are *looked at*, and *long* ones, run from the loop alone, which takes the time and comes back when they leave: no other switch knows
//! of them. A long one has its turn when no other task can run, and after [`LONG_WAITS`] in any case.
//!
//! Invariant: who is switched to is told who has left, and notes its position, or takes its stack back when it has ended: the switch is marked then.

#![allow(unsafe_code, reason = "stacks are left for others, and tasks are known by their address")]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_sync::{AtomicBool, OnceLock, Ordering, fence, thread};

use crate::arch::{self, Position, Word};
use crate::control::{Control, ControlAddress};
use crate::fresh::{Fresh, FreshQueues, FreshSend, FreshStealers, Function};
use crate::hand::Place;
use crate::look::{Left, LookNumber};
use crate::post::{Message as Posted, Post};
use crate::predictions::Predictions;
use crate::sites::{Prediction, SiteNumber};
use crate::stack::Stack;
use crate::task::{Marks, Task, Woken};
use crate::timers::Timers;

/// After how many switches the loop has its turn, and after how many where tasks wait for descriptors.
const TURNS: u32 = 256;
const TURNS_BESIDE_DESCRIPTORS: u32 = 32;
/// How many switches a turn is taken for that was cut short.
const SWITCHES_WHEN_CUT: u32 = 4;
/// How long a long task waits for a turn while others run, at least, and for the next one to begin.
const LONG_WAITS: Duration = Duration::from_millis(10);
/// How far ahead in the queue of tasks the memory of one is fetched.
const AHEAD: usize = 6;
/// How often the tasks of a runtime that ends are told to, before they are left as they are, and how long at a time others have to end what these
/// wait for.
const MOST_TOLD: usize = 2000;
const PATIENCE: Duration = Duration::from_millis(1);

regrow_sync::thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// A task without a stack.
pub(crate) trait Machine {
    /// Does its next step; whether that was the last one. It does not panic.
    fn step(&mut self) -> bool;
}

/// A task without a stack that is looked at.
struct Stepped {
    machine: Box<dyn Machine>,
    marks: Marks,
    look: LookNumber,
}

/// What the workers of a runtime share.
#[derive(Debug)]
pub(crate) struct Colleagues {
    pub(crate) stealers: Vec<FreshStealers>,
    pub(crate) posts: Vec<OnceLock<&'static Post>>,
    pub(crate) is_over: AtomicBool,
}

/// Tasks in the order in which they run.
struct Queue(UnsafeCell<VecDeque<NonNull<Task>>>);

/// See the module. What each switch touches stands in one line of the cache.
#[repr(C, align(64))]
pub(crate) struct Worker {
    /// The task that runs: `own` when the loop does.
    current: Cell<*const Task>,
    next: Cell<*const Task>,
    turns: Cell<u32>,
    numbers: Cell<u64>,
    post: &'static Post,
    ready: Queue,
    /// Those that are expected to run long, behind all others; those that are looked at; and one of both that gives way just now.
    long: Queue,
    looked_at: Queue,
    giving_way: Cell<*const Task>,
    /// There may be something that is long or looked at.
    has_aside: Cell<bool>,
    /// When a long task had a turn last, and when one has begun.
    last_long: Cell<Instant>,
    last_long_begin: Cell<Instant>,
    predictions: Option<UnsafeCell<Predictions>>,
    /// Some of the turns were taken away.
    is_cut: Cell<bool>,
    /// Switches in this round.
    switched: Cell<u32>,
    own: Task,
    timers: RefCell<Timers>,
    /// Fresh tasks that stay here, and those that others may take.
    staying: RefCell<VecDeque<Fresh>>,
    fresh: FreshQueues,
    machines: RefCell<VecDeque<Box<dyn Machine>>>,
    looked_at_machines: RefCell<VecDeque<Stepped>>,
    long_machines: RefCell<VecDeque<Stepped>>,
    /// All tasks that have begun.
    tasks: RefCell<Vec<NonNull<Control>>>,
    /// Some of them are cancelled, and were not told: see `cancel`.
    has_untold: Cell<bool>,
    /// It is run by a destructor of a thread that unwinds.
    is_panicking: bool,
    number: usize,
    colleagues: Arc<Colleagues>,
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

    fn len(&self) -> usize {
        // SAFETY: as in `push`.
        unsafe { (*self.0.get()).len() }
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
        fresh: FreshQueues,
        colleagues: Arc<Colleagues>,
        long_from: Option<Duration>,
    ) -> Self {
        post.move_in();
        if let Some(slot) = colleagues.posts.get(number) {
            let _ = slot.set(post);
        }
        let own = Task::new();
        // The loop must never wait with its hand open: the check that keeps cancelled tasks from it keeps the loop from it as well.
        own.is_cancelled.set(true);
        Self {
            current: Cell::new(ptr::null()),
            own,
            next: Cell::new(ptr::null()),
            ready: Queue::new(),
            long: Queue::new(),
            looked_at: Queue::new(),
            giving_way: Cell::new(ptr::null()),
            has_aside: Cell::new(false),
            last_long: Cell::new(Instant::now()),
            last_long_begin: Cell::new(Instant::now()),
            predictions: long_from.map(|time| UnsafeCell::new(Predictions::new(time))),
            turns: Cell::new(0),
            is_cut: Cell::new(false),
            switched: Cell::new(0),
            numbers: Cell::new(post.first_number()),
            timers: RefCell::new(Timers::default()),
            staying: RefCell::new(VecDeque::new()),
            fresh,
            machines: RefCell::new(VecDeque::new()),
            looked_at_machines: RefCell::new(VecDeque::new()),
            long_machines: RefCell::new(VecDeque::new()),
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
    pub(crate) fn task<'a>(&self) -> &'a Task {
        // SAFETY: the present task is there, as is the loop's.
        unsafe { &*self.current.get() }
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
        self.come_after(1);
    }

    /// Has a task run by this worker, or by one that has nothing to do.
    pub(crate) fn put(&self, fresh: FreshSend) {
        self.fresh.put(fresh);
        self.come_after(1);
        self.wake_a_colleague();
    }

    /// Has another worker look for fresh tasks, if one sleeps.
    fn wake_a_colleague(&self) {
        // Who is about to sleep sees the task, or is seen here.
        fence(Ordering::SeqCst);
        for post in self.colleagues.posts.iter().filter_map(OnceLock::get) {
            // Somebody else may wake it first, for another task.
            if !ptr::eq(*post, self.post) && post.sleeps() && post.wake() {
                break;
            }
        }
    }

    /// Has the loop have its turn after so many switches.
    #[inline]
    fn come_after(&self, most: u32) {
        self.turns.set(self.turns.get().min(most));
        self.is_cut.set(true);
    }

    /// Has a task without a stack run.
    pub(crate) fn put_machine(&self, machine: Box<dyn Machine>, site: &'static Location<'static>) {
        let (site, prediction) = self.predict(site);
        match self.marks_of(site, prediction) {
            (Marks::NONE, _) => self.machines.borrow_mut().push_back(machine),
            (marks, look) => self.keep_machine(Stepped { machine, marks, look: LookNumber::of(look) }),
        }
        self.come_after(1);
    }

    fn keep_machine(&self, machine: Stepped) {
        if machine.marks.has(Marks::LONG) {
            self.note_long();
            self.long_machines.borrow_mut().push_back(machine);
        } else {
            self.has_aside.set(true);
            self.looked_at_machines.borrow_mut().push_back(machine);
        }
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

    /// A step of a machine that is looked at.
    fn look_at_step(&self, Stepped { mut machine, marks, look }: Stepped) {
        let begun = Instant::now();
        let has_ended = machine.step();
        let left = if has_ended { Left::Ended } else { Left::GaveWay };
        match self.ran(marks, look, begun.elapsed(), left) {
            _ if has_ended => {}
            (Marks::NONE, _) => self.machines.borrow_mut().push_back(machine),
            (marks, look) => self.keep_machine(Stepped { machine, marks, look: LookNumber::of(look) }),
        }
    }

    /// Ends the wait of a task of this worker, if that is the one that it is in. A wait with an open hand has the number of the task's birth.
    #[inline(always)]
    pub(crate) fn wake(&self, control: ControlAddress, wait: u64, why: Woken) {
        // SAFETY: a control block can be looked at for ever, see `Task`.
        let block = unsafe { &*control.0 };
        if wait != 0 && block.task.wait.load(Ordering::Relaxed) == wait {
            block.task.wait.store(0, Ordering::Relaxed);
            block.task.woken.set(why);
            self.make_next(&block.task);
        } else {
            self.disturb(block, wait, why);
        }
    }

    #[cold]
    fn disturb(&self, block: &Control, birth: u64, why: Woken) {
        if birth != 0 && block.birth.load(Ordering::Relaxed) == birth {
            self.close_hand(&block.task, why);
        }
    }

    /// Ends the wait of a task that waits with its hand open.
    #[cold]
    fn close_hand(&self, task: &Task, why: Woken) {
        if !task.hand.replace(ptr::null_mut()).is_null() {
            task.woken.set(if why == Woken::Happened { Woken::Disturbed } else { why });
            self.make_next(task);
        }
    }

    /// Puts a value into the hand of a task that waits so, and makes it the next one. The value comes back where its wait is over.
    ///
    /// # Safety
    /// The task has begun here, has not ended, and opens its hand for values of this type.
    #[inline(always)]
    pub(crate) unsafe fn give<T>(&self, control: ControlAddress, value: T) -> Option<T> {
        // SAFETY: the caller's promise: the place is on the task's stack, as long as it stands there.
        unsafe {
            let task = &(*control.0).task;
            let place = task.hand.replace(ptr::null_mut());
            if place.is_null() {
                return Some(value);
            }
            Place::put(place.cast(), value);
            self.make_next(task);
        }
        None
    }

    /// Puts a task before all others.
    #[inline(always)]
    fn make_next(&self, task: &Task) {
        let task = NonNull::from(task);
        // SAFETY: as in `task`.
        if unsafe { task.as_ref() }.marks.get().is_for_loop() {
            return self.put_aside(task);
        }
        if self.next.get().is_null() { self.next.set(task.as_ptr()) } else { self.ready.push(task) }
    }

    /// Lets all others run that can.
    #[inline(always)]
    pub(crate) fn give_way(&self) {
        let task = self.task();
        if task.marks.get().is_for_loop() {
            self.give_way_to_loop(task.into());
        } else {
            self.ready.push(task.into());
        }
        self.leave(task);
    }

    /// The present task leaves for the loop, which puts it where it belongs.
    #[cold]
    fn give_way_to_loop(&self, task: NonNull<Task>) {
        self.giving_way.set(task.as_ptr());
        self.come_after(0);
    }

    /// Puts a task where the loop alone takes it from.
    #[cold]
    fn put_aside(&self, task: NonNull<Task>) {
        // SAFETY: as in `task`.
        if unsafe { task.as_ref() }.marks.get().has(Marks::LONG) {
            self.note_long();
            self.long.push(task);
        } else {
            self.has_aside.set(true);
            self.looked_at.push(task);
            // After those that are before it.
            self.come_after(u32::try_from(self.ready.len() + 1).unwrap_or(TURNS));
        }
    }

    /// Something long is about to wait for its turn.
    fn note_long(&self) {
        if !self.has_long() {
            self.last_long.set(Instant::now());
        }
        self.has_aside.set(true);
    }

    fn has_long(&self) -> bool {
        self.long.len() > 0 || !self.long_machines.borrow().is_empty() || self.fresh.has_long()
    }

    /// The present task, which is this one, does not wait after all.
    #[cold]
    pub(crate) fn give_up_wait(&self, task: &Task) {
        if task.wait.load(Ordering::Relaxed) == 0 {
            // The task has ended its wait itself: it stands among those that are ready, and is taken out by its turn.
            self.leave(task);
            task.woken.set(Woken::Given);
        }
        task.wait.store(0, Ordering::Relaxed);
    }

    /// Has a wait of a task end at a time.
    #[cold]
    pub(crate) fn add_timer(&self, time: Instant, control: ControlAddress, wait: u64) {
        let is_over = |control: ControlAddress, wait| {
            // SAFETY: as in `wake`.
            let task = unsafe { &(*control.0).task };
            task.wait.load(Ordering::Relaxed) != wait
        };
        self.timers.borrow_mut().add(time, control, wait, &is_over);
        self.come_after(1);
    }

    /// Who runs next.
    #[inline(always)]
    fn pick(&self) -> *const Task {
        // Behind the last one the loop comes, which sets it anew.
        let (turns, is_over) = self.turns.get().overflowing_sub(1);
        self.turns.set(turns);
        if is_over {
            return &raw const self.own;
        }
        let next = self.next.replace(ptr::null());
        if !next.is_null() {
            return next;
        }
        self.ready.pop().map_or(&raw const self.own, |task| task.as_ptr())
    }

    /// Leaves the present task, which is this one, for the next one.
    #[inline(always)]
    pub(crate) fn leave(&self, left: &Task) {
        let left = ptr::from_ref(left);
        let next = self.pick();
        if ptr::eq(next, left) {
            return;
        }
        self.go(left, next);
    }

    /// Whether the task that has come back here has ended.
    #[inline(always)]
    fn go(&self, left: *const Task, next: *const Task) -> bool {
        self.current.set(next);
        // SAFETY: a task that is ready has left its stack by this function, or has not begun; its position is used once, until it leaves again.
        let (other, word) =
            unsafe { arch::switch::<0>((*next).position.get(), MaybeUninit::new(left.cast_mut().cast())) };
        self.arrived(other, word)
    }

    /// Notes who was left for the present task; whether that one has ended.
    #[inline(always)]
    fn arrived(&self, other: Position, word: Word) -> bool {
        // SAFETY: workers alone switch to tasks, and each says who has left.
        unsafe {
            let left = word.assume_init().cast::<Task>();
            if other.is_marked() {
                Self::take_stack(left);
                return true;
            }
            (*left).position.set(other);
            false
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

    /// Does something with the predictions, if there are any.
    #[inline(always)]
    fn with_predictions<T>(&self, act: impl FnOnce(&mut Predictions) -> T) -> Option<T> {
        // SAFETY: its worker's thread alone is here, and what is done with predictions does not come back here.
        self.predictions.as_ref().map(|predictions| act(unsafe { &mut *predictions.get() }))
    }

    /// What is predicted of a task that begins, and its site.
    #[inline(always)]
    fn predict(&self, site: &'static Location<'static>) -> (SiteNumber, Prediction) {
        self.with_predictions(|predictions| predictions.begins(site))
            .unwrap_or((SiteNumber::of(0), Prediction::Short))
    }

    /// The marks of a task that begins, and the number that it keeps.
    #[inline]
    fn marks_of(&self, site: SiteNumber, prediction: Prediction) -> (Marks, u32) {
        let marks = match prediction {
            Prediction::Short => return (Marks::NONE, site.number()),
            Prediction::Look => Marks::LOOKED_AT,
            Prediction::Long => Marks::LOOKED_AT.with(Marks::LONG),
        };
        let look = self.with_predictions(|predictions| predictions.look(site).number());
        look.map_or((Marks::NONE, site.number()), |look| (marks, look))
    }

    /// Begins a fresh task: it stands last of those that are like it.
    fn begin(&self, fresh: Fresh, site: SiteNumber, prediction: Prediction) {
        let Fresh { name, stack_bytes, function, .. } = fresh;
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
            let (marks, site) = self.marks_of(site, prediction);
            block.task.begin(position, marks, site);
            let mut tasks = self.tasks.borrow_mut();
            block.place.set(tasks.len());
            tasks.push(control);
            drop(tasks);
            let function = function.begin(ControlAddress(control.as_ptr()), birth, self.post);
            Control::captures_of::<Cell<Option<Function>>>(control).as_ref().set(Some(function));
            self.put_back(NonNull::from(&block.task));
        }
    }

    /// Puts a task behind those that are like it.
    #[inline]
    fn put_back(&self, task: NonNull<Task>) {
        // SAFETY: as in `task`.
        if unsafe { task.as_ref() }.marks.get().is_for_loop() {
            self.put_aside(task);
        } else {
            self.ready.push(task);
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
                self.begin_round();
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
        let most = self.look_at_descriptors();
        if self.has_aside.get() {
            is_busy |= self.run_aside();
        }
        self.turns.set(most);
        self.is_cut.set(false);
        let next = self.pick();
        if ptr::eq(next, &raw const self.own) {
            // Others may be able to run again.
            return is_busy || self.run_long();
        }
        self.enter(next);
        self.take_up();
        if self.predictions.is_some() {
            self.note_switches(most);
        }
        true
    }

    /// Lets tasks run, this one first, until the loop has its turn; whether the last one has ended.
    #[inline(always)]
    fn enter(&self, first: *const Task) -> bool {
        let has_ended = self.go(&raw const self.own, first);
        // What is next waits no longer than others.
        if let Some(next) = NonNull::new(self.next.replace(ptr::null()).cast_mut()) {
            self.ready.push(next);
        }
        has_ended
    }

    /// Puts back who has given way to the loop.
    fn take_up(&self) {
        if let Some(task) = NonNull::new(self.giving_way.get().cast_mut()) {
            self.giving_way.set(ptr::null());
            self.put_back(task);
        }
    }

    /// Lets those run that are looked at, and a long one that has waited long enough; whether there was any.
    #[cold]
    fn run_aside(&self) -> bool {
        let has_long = self.has_long();
        let (count, machines) = (self.looked_at.len(), self.looked_at_machines.borrow().len());
        let is_any = count + machines > 0;
        self.has_aside.set(has_long || is_any);
        let is_due = has_long && self.last_long.get().elapsed() >= LONG_WAITS;
        let has_run = is_due && self.run_long();
        for _ in 0..machines.min(TURNS as usize) {
            let machine = self.looked_at_machines.borrow_mut().pop_front();
            if let Some(machine) = machine {
                self.look_at_step(machine);
            }
        }
        for _ in 0..count.min(TURNS as usize) {
            if let Some(task) = self.looked_at.pop() {
                self.run_from_loop(task);
            }
        }
        has_run || is_any
    }

    /// Lets a long task run, and a long machine; whether there was any.
    #[cold]
    fn run_long(&self) -> bool {
        let machine = self.long_machines.borrow_mut().pop_front();
        let mut has_run = machine.is_some();
        if let Some(machine) = machine {
            self.look_at_step(machine);
        }
        if self.long.len() == 0 || self.last_long_begin.get().elapsed() >= LONG_WAITS {
            has_run |= self.begin_long();
        }
        if let Some(task) = self.long.pop() {
            self.run_from_loop(task);
            has_run = true;
        }
        if has_run {
            self.last_long.set(Instant::now());
        }
        has_run
    }

    /// Begins a task that is predicted to run long; whether there was one.
    fn begin_long(&self) -> bool {
        if self.predictions.is_none() {
            return false;
        }
        let Some(fresh) = self.fresh.next_long(self.number, &self.colleagues.stealers) else {
            return false;
        };
        self.last_long_begin.set(Instant::now());
        let site =
            self.with_predictions(|predictions| predictions.site(fresh.site())).unwrap_or(SiteNumber::of(0));
        self.begin(fresh.here(), site, Prediction::Long);
        true
    }

    /// Ends waits for descriptors that are over; after how many switches to look again.
    fn look_at_descriptors(&self) -> u32 {
        let Some(reactor) = self.post.awaited() else { return TURNS };
        reactor.look(&mut |control, wait| self.wake(control, wait, Woken::Happened));
        TURNS_BESIDE_DESCRIPTORS
    }

    /// Lets a task run until it leaves, and takes the time when it is looked at.
    fn run_from_loop(&self, task: NonNull<Task>) {
        // SAFETY: it is there until it has run.
        let (marks, site) = unsafe { (task.as_ref().marks.get(), task.as_ref().site.get()) };
        self.turns.set(0);
        let begun = Instant::now();
        let has_ended = self.enter(task.as_ptr());
        if marks.has(Marks::LOOKED_AT) {
            let time = begun.elapsed();
            let left = match (has_ended, self.giving_way.get().is_null()) {
                (true, _) => Left::Ended,
                (false, true) => Left::Waits,
                (false, false) => Left::GaveWay,
            };
            let look = LookNumber::of(site);
            if has_ended {
                self.ran(marks, look, time, left);
            } else {
                // SAFETY: it has not ended.
                let task = unsafe { task.as_ref() };
                let (marks, site) = self.ran(task.marks.get(), look, time, left);
                task.marks.set(marks);
                task.site.set(site);
            }
        }
        self.take_up();
    }

    /// A task that is looked at has run so long: its marks, and the number that it keeps.
    fn ran(&self, marks: Marks, look: LookNumber, time: Duration, left: Left) -> (Marks, u32) {
        self.with_predictions(|predictions| predictions.ran(marks, look, time, left))
            .unwrap_or((marks, look.number()))
    }

    /// Counts the switches of a turn; after as many as a turn has at most, a round is over.
    #[inline]
    fn note_switches(&self, most: u32) {
        let turn = if self.is_cut.get() { SWITCHES_WHEN_CUT } else { most.wrapping_sub(self.turns.get()) };
        let switched = self.switched.get() + turn;
        self.switched.set(switched);
        if switched >= TURNS {
            self.end_round();
        }
    }

    fn begin_round(&self) {
        self.switched.set(0);
        self.with_predictions(Predictions::begin_round);
    }

    /// After a slow round those are looked at that are there.
    #[cold]
    fn end_round(&self) {
        self.switched.set(0);
        if self.with_predictions(Predictions::end_round) == Some(true) {
            self.look_at_all();
        }
    }

    /// Looks at those that are ready.
    fn look_at_all(&self) {
        let look = |marks: Marks, site: u32| {
            let look = self.with_predictions(|predictions| predictions.look(SiteNumber::of(site)).number());
            look.map_or((marks, site), |look| (marks.with(Marks::LOOKED_AT), look))
        };
        for _ in 0..TURNS {
            let Some(task) = self.ready.pop() else { break };
            // SAFETY: as in `task`.
            let at = unsafe { task.as_ref() };
            if !at.marks.get().has(Marks::BY_HAND) {
                let (marks, site) = look(at.marks.get(), at.site.get());
                at.marks.set(marks);
                at.site.set(site);
            }
            self.looked_at.push(task);
            self.has_aside.set(true);
        }
        let mut machines = self.machines.borrow_mut();
        let count = machines.len().min(TURNS as usize);
        for machine in machines.drain(..count) {
            // Nobody has kept where it was created.
            let (marks, look) = look(Marks::NONE, SiteNumber::OTHERS.number());
            self.keep_machine(Stepped { machine, marks, look: LookNumber::of(look) });
        }
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
        match block.task.wait.load(Ordering::Relaxed) {
            0 => self.close_hand(&block.task, Woken::Cancelled),
            wait => self.wake(ControlAddress(block), wait, Woken::Cancelled),
        }
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

    /// Begins those that stay here, and one that others might take: of these the first that is not predicted to run long.
    fn begin_some(&self) {
        for _ in 0..TURNS {
            let staying = self.staying.borrow_mut().pop_front();
            let Some(fresh) = staying else { break };
            let (site, prediction) = self.predict(fresh.site);
            self.begin(fresh, site, prediction);
        }
        for _ in 0..TURNS {
            let Some(fresh) = self.fresh.next(self.number, &self.colleagues.stealers) else { break };
            let (site, prediction) = self.predict(fresh.site());
            if prediction != Prediction::Long {
                self.begin(fresh.here(), site, prediction);
                break;
            }
            self.note_long();
            self.fresh.put_long(fresh);
            self.wake_a_colleague();
        }
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
        let may_be_long = self.predictions.is_some();
        self.colleagues.stealers.iter().any(|theirs| theirs.has_any(may_be_long))
    }

    /// Cancels all tasks, and runs them to their end. One that does not let itself be ended is left as it is.
    fn end_all(&self) {
        // What they have may start others when it is dropped.
        let looked_at = (self.looked_at_machines.take(), self.long_machines.take());
        drop((self.staying.take(), self.machines.take(), looked_at));
        self.fresh.drop_all(self.predictions.is_some());
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
            block.task.hand.set(ptr::null_mut());
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
