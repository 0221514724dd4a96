//! Fibers by their public face: what goes in and out, and every way in which one can end.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use regrow_fiber::{Builder, Fiber, StackError, State, suggested_stack_bytes};

/// Counts how often it is dropped.
#[derive(Clone)]
struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn counted() -> (Counted, Rc<Cell<usize>>) {
    let count = Rc::new(Cell::new(0));
    (Counted(count.clone()), count)
}

#[test]
fn values_of_every_size_go_both_ways() {
    fn there_and_back<T: Clone + PartialEq + std::fmt::Debug + 'static>(values: [T; 3]) {
        let mut fiber = Fiber::new(|suspender, mut value: T| {
            for _ in 0..2 {
                value = suspender.suspend(value);
            }
            value
        })
        .unwrap();
        let [first, second, third] = values;
        assert_eq!(fiber.resume(first.clone()), State::Yielded(first));
        assert_eq!(fiber.resume(second.clone()), State::Yielded(second));
        assert_eq!(fiber.resume(third.clone()), State::Returned(third));
        assert!(fiber.has_ended());
    }
    there_and_back([(); 3]);
    there_and_back([1_u8, 2, 255]);
    there_and_back([Some(1_u32), None, Some(u32::MAX)]);
    there_and_back([1.5_f64, f64::MIN, 0.0]);
    there_and_back([1_u128, u128::MAX, 0]);
    there_and_back([[7_u64; 100], [8; 100], [9; 100]]);
    there_and_back(["a".to_owned(), "b".repeat(1000), String::new()]);
    there_and_back([Box::new(1), Box::new(2), Box::new(3)]);
    there_and_back([vec![String::from("x")], Vec::new(), vec![String::from("y"); 50]]);
}

#[test]
fn captures_of_every_size_and_alignment_arrive() {
    #[repr(align(256))]
    struct Aligned(u8);
    let (small, large, aligned) = ([3_u8; 5], [4_u64; 1000], Aligned(5));
    let mut fiber = Fiber::new(move |_, ()| {
        let aligned = &aligned;
        assert_eq!(std::ptr::from_ref(aligned) as usize % 256, 0);
        small.iter().map(|&byte| u64::from(byte)).sum::<u64>()
            + large.iter().sum::<u64>()
            + u64::from(aligned.0)
    });
    let result: State<(), u64> = fiber.as_mut().unwrap().resume(());
    assert_eq!(result, State::Returned(15 + 4000 + 5));
}

#[test]
fn a_panic_goes_on_in_whoever_resumes() {
    let (guard, drops) = counted();
    let mut fiber = Fiber::new(move |suspender, ()| {
        let _guard = guard;
        suspender.suspend(());
        std::panic::resume_unwind(Box::new("thrown"));
    })
    .unwrap();
    assert_eq!(fiber.resume(()), State::Yielded(()));
    let caught = catch_unwind(AssertUnwindSafe(|| fiber.resume(()))).unwrap_err();
    assert_eq!(caught.downcast_ref(), Some(&"thrown"));
    assert!(fiber.has_ended() && drops.get() == 1);
    let again = catch_unwind(AssertUnwindSafe(|| fiber.resume(()))).unwrap_err();
    assert_eq!(again.downcast_ref(), Some(&"a fiber was resumed that has ended"));
}

#[test]
fn what_a_dropped_fiber_has_is_dropped_in_every_state() {
    // Before it has begun.
    let (guard, drops) = counted();
    let fiber = Fiber::<(), (), ()>::new(move |_, ()| drop(guard)).unwrap();
    drop(fiber);
    assert_eq!(drops.get(), 1);
    // While it waits, frames deep, and in the middle of an iterator.
    let (guard, drops) = counted();
    fn deep(depth: usize, guard: &Counted, suspender: &regrow_fiber::Suspender<(), usize>) {
        let _own = guard.clone();
        if depth > 0 {
            deep(depth - 1, guard, suspender);
        }
        suspender.suspend(depth);
    }
    let mut fiber = Fiber::new(move |suspender, ()| deep(9, &guard, suspender)).unwrap();
    assert_eq!(fiber.resume(()), State::Yielded(0));
    assert_eq!(fiber.resume(()), State::Yielded(1));
    assert_eq!(drops.get(), 1);
    drop(fiber);
    assert_eq!(drops.get(), 11);
    // After its end.
    let (guard, drops) = counted();
    let mut fiber = Fiber::<(), (), ()>::new(move |_, ()| drop(guard)).unwrap();
    assert_eq!(fiber.resume(()), State::Returned(()));
    drop(fiber);
    assert_eq!(drops.get(), 1);
    // While its owner unwinds.
    let (guard, drops) = counted();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut fiber = Fiber::<(), (), ()>::new(move |suspender, ()| {
            let _guard = guard;
            suspender.suspend(());
        })
        .unwrap();
        fiber.resume(());
        std::panic::resume_unwind(Box::new(7));
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7));
    assert_eq!(drops.get(), 1);
    assert!(!std::thread::panicking());
}

#[test]
fn outputs_and_results_of_a_dropped_fiber_are_dropped() {
    // It catches its own end, waits again with an output, and returns a result: all of that is dropped.
    let (guard, drops) = counted();
    let mut fiber = Fiber::<(), Counted, Counted>::new(move |suspender, ()| {
        let caught = catch_unwind(AssertUnwindSafe(|| suspender.suspend(guard.clone())));
        assert!(caught.is_err());
        let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(guard.clone())));
        guard
    })
    .unwrap();
    let State::Yielded(first) = fiber.resume(()) else { panic!("it waits") };
    drop(fiber);
    assert_eq!(drops.get(), 2);
    drop(first);
    assert_eq!(drops.get(), 3);
}

#[test]
fn a_fiber_that_never_lets_itself_be_dropped_is_left() {
    let (guard, drops) = counted();
    let mut fiber = Fiber::<(), (), ()>::new(move |suspender, ()| {
        let _guard = guard;
        loop {
            let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(())));
        }
    })
    .unwrap();
    fiber.resume(());
    drop(fiber);
    assert_eq!(drops.get(), 0);
}

#[test]
fn fibers_run_other_fibers() {
    fn tree(depth: u32) -> Fiber<(), u32, u32> {
        Fiber::new(move |suspender, ()| {
            let mut sum = 1;
            if depth > 0 {
                for _ in 0..2 {
                    let mut below = tree(depth - 1);
                    while let State::Yielded(count) = below.resume(()) {
                        suspender.suspend(count);
                    }
                    sum += 1;
                }
            }
            suspender.suspend(depth);
            sum
        })
        .unwrap()
    }
    let mut root = tree(8);
    let mut seen = 0;
    while let State::Yielded(_) = root.resume(()) {
        seen += 1;
    }
    assert_eq!(seen, (1 << 9) - 1);
}

#[test]
fn the_suspender_of_an_outer_fiber_may_be_used_by_an_inner_one() {
    let (guard, drops) = counted();
    let mut outer = Fiber::<u32, u32, u32>::new(move |suspender, first| {
        let seen = RefCell::new(vec![first]);
        let answer = suspender.suspend(first + 1);
        let _guard = guard;
        seen.borrow_mut().push(answer);
        seen.into_inner().iter().sum()
    })
    .unwrap();
    assert_eq!(outer.resume(1), State::Yielded(2));
    assert_eq!(outer.resume(10), State::Returned(11));
    assert_eq!(drops.get(), 1);
}

/// Registers that a function must keep, and those of vectors, are as before after a switch.
#[test]
fn floating_point_and_vector_state_passes_a_switch() {
    let mut fiber = Fiber::<f64, f64, ()>::new(|suspender, seed| {
        let mut values: [f64; 24] = std::array::from_fn(|at| seed + at as f64);
        loop {
            let factor = suspender.suspend(values.iter().sum::<f64>());
            values.iter_mut().for_each(|value| *value = value.mul_add(factor, 1.0));
        }
    })
    .unwrap();
    let mut own: [f64; 24] = std::array::from_fn(|at| 1.0 + at as f64);
    let mut expected = own;
    let State::Yielded(mut sum) = fiber.resume(1.0) else { panic!("it waits") };
    for round in 1..1000_u32 {
        let factor = 1.0 / f64::from(round);
        own.iter_mut().for_each(|value| *value = value.mul_add(factor, 1.0));
        assert_eq!(sum, expected.iter().sum::<f64>());
        let State::Yielded(next) = fiber.resume(factor) else { panic!("it waits") };
        sum = next;
        expected.iter_mut().for_each(|value| *value = value.mul_add(factor, 1.0));
    }
    assert_eq!(own, expected);
}

#[test]
fn errno_belongs_to_the_thread() {
    let mut fiber = Fiber::<(), (), ()>::new(|suspender, ()| {
        assert!(std::fs::File::open("/nonexistent").is_err());
        suspender.suspend(());
    })
    .unwrap();
    fiber.resume(());
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(2));
}

#[test]
fn deep_recursion_fits_where_the_stack_is_large_enough() {
    #[inline(never)]
    fn depth(levels: usize) -> usize {
        let room = std::hint::black_box([levels; 16]);
        if levels == 0 { 0 } else { depth(levels - 1) + usize::from(room[0] == levels) }
    }
    for power in 14..=24 {
        let bytes = 1_usize << power;
        // A level takes less than 512 bytes.
        let levels = (bytes - 4096 - 4096) / 512;
        let mut fiber =
            Builder::new().stack_bytes(bytes).measured().build(move |_, ()| depth(levels)).unwrap();
        assert_eq!(fiber.stack_bytes(), bytes);
        let result: State<(), usize> = fiber.resume(());
        assert_eq!(result, State::Returned(levels));
        let used = fiber.high_water();
        assert!(used >= levels * 128 && used <= bytes, "{used} of {bytes}");
    }
}

#[test]
fn what_was_used_of_a_stack_is_told() {
    let used = |bytes: usize| {
        let mut fiber = Builder::new().stack_bytes(1 << 20).measured().build(move |_, ()| {
            #[inline(never)]
            fn fill(bytes: usize) -> u8 {
                let mut room = [0_u8; 100_000];
                room[100_000 - bytes..].fill(1);
                std::hint::black_box(&room)[99_999]
            }
            #[inline(never)]
            fn little() -> u8 {
                std::hint::black_box(1)
            }
            if bytes == 0 { little() } else { fill(bytes) }
        });
        let state: State<(), u8> = fiber.as_mut().unwrap().resume(());
        assert_eq!(state, State::Returned(1));
        fiber.unwrap().high_water()
    };
    let (least, most) = (used(0), used(100_000));
    assert!(least < 4096, "{least}");
    assert!((100_000..110_000).contains(&most), "{most}");
    assert_eq!(suggested_stack_bytes(most), 1 << 18);
    assert_eq!(suggested_stack_bytes(least), 1 << 14);
}

#[test]
fn a_size_that_is_not_possible_is_an_error() {
    for bytes in [0, 1, 8191, (256 << 20) + 1, usize::MAX] {
        let fiber = Builder::new().stack_bytes(bytes).build::<(), (), ()>(|_, ()| ());
        assert!(matches!(fiber, Err(StackError::Size { bytes: told, .. }) if told == bytes));
    }
}

#[test]
fn stacks_are_used_again() {
    let address = || {
        let mut fiber = Fiber::<(), (), usize>::new(|_, ()| std::ptr::from_ref(&()) as usize).unwrap();
        let here = std::cell::Cell::new(0_u8);
        let _ = &here;
        match fiber.resume(()) {
            State::Returned(_) => format!("{fiber:?}"),
            State::Yielded(()) => panic!("it returns"),
        }
    };
    assert_eq!(address(), address());
}

#[test]
fn threads_have_fibers_of_their_own() {
    let threads = (0..8_u64).map(|thread| {
        std::thread::spawn(move || {
            for round in 0..2_000 {
                let mut fiber =
                    Fiber::new(move |suspender, input: u64| suspender.suspend(input * thread)).unwrap();
                assert_eq!(fiber.resume(round), State::Yielded(round * thread));
                if round % 2 == 0 {
                    assert_eq!(fiber.resume(5), State::Returned(5));
                }
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}
