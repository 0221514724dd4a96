//! Channels, locks and futures between plain threads: what needs no stack of its own, so that Miri runs it too.

use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use regrow_fiber::{JoinError, Mutex, ReceiveError, SendError, block_on, channel, select, sleep, spawn};

/// Miri takes a thousand times as long.
const COUNT: u32 = if cfg!(miri) { 30 } else { 10_000 };

#[test]
fn values_go_from_threads_to_threads_each_of_them_once() {
    for capacity in [1, 3] {
        let (sender, receiver) = channel(capacity);
        let sends = [0, 1].map(|from| {
            let sender = sender.clone();
            thread::spawn(move || {
                (0..COUNT).for_each(|number| sender.send(Box::new((from, number))).unwrap());
            })
        });
        drop(sender);
        let receives = [(); 2].map(|()| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.iter().map(|value| *value).collect::<Vec<_>>())
        });
        sends.into_iter().for_each(|thread| thread.join().unwrap());
        let mut all: Vec<(u32, u32)> =
            receives.map(|thread| thread.join().unwrap()).into_iter().flatten().collect();
        all.sort_unstable();
        let expected = (0..2).flat_map(|from| (0..COUNT).map(move |number| (from, number)));
        assert!(all.into_iter().eq(expected));
    }
}

#[test]
fn threads_that_wait_are_told_when_the_other_side_is_gone() {
    let (sender, receiver) = channel::<Box<u8>>(1);
    let waits = thread::spawn(move || receiver.receive());
    drop(sender);
    assert_eq!(waits.join().unwrap(), Err(ReceiveError::Closed));
    let (sender, receiver) = channel(1);
    let waits = thread::spawn(move || {
        sender.send(Box::new(1)).unwrap();
        sender.send(Box::new(2))
    });
    while receiver.is_empty() {
        thread::yield_now();
    }
    drop(receiver);
    assert_eq!(waits.join().unwrap(), Err(SendError(Box::new(2))));
}

#[test]
fn a_thread_stops_waiting_when_its_time_is_over() {
    let (sender, receiver) = channel(1);
    assert_eq!(receiver.receive_within(Duration::from_millis(2)), Err(ReceiveError::Empty));
    assert_eq!(select(&[&receiver], Some(Duration::from_millis(2))), None);
    let sends = thread::spawn(move || {
        sleep(Duration::from_millis(2));
        (0..COUNT).for_each(|number| sender.send(number).unwrap());
    });
    let mut received = Vec::new();
    loop {
        match receiver.receive_within(Duration::from_micros(20)) {
            Ok(number) => received.push(number),
            Err(ReceiveError::Empty) => {}
            Err(ReceiveError::Closed) => break,
        }
    }
    sends.join().unwrap();
    assert!(received.into_iter().eq(0..COUNT));
}

#[test]
fn a_thread_waits_for_several_channels() {
    let channels = [channel(1), channel(1)];
    let (receivers, sends): (Vec<_>, Vec<_>) = channels
        .into_iter()
        .map(|(sender, receiver)| {
            let sends = thread::spawn(move || (0..COUNT).for_each(|number| sender.send(number).unwrap()));
            (receiver, sends)
        })
        .unzip();
    let (mut open, mut sum) = (vec![&receivers[0], &receivers[1]], 0);
    while !open.is_empty() {
        let sources: Vec<&dyn regrow_fiber::Source> =
            open.iter().map(|receiver| *receiver as &dyn regrow_fiber::Source).collect();
        let ready = select(&sources, None).unwrap();
        match open[ready].try_receive() {
            Ok(number) => sum += u64::from(number),
            Err(ReceiveError::Closed) => drop(open.swap_remove(ready)),
            Err(ReceiveError::Empty) => panic!("nobody else receives"),
        }
    }
    sends.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(sum, u64::from(COUNT) * u64::from(COUNT - 1));
}

#[test]
fn threads_have_a_lock_one_at_a_time() {
    let lock = Arc::new(Mutex::new(Vec::new()));
    let threads = [0, 1, 2].map(|from| {
        let lock = lock.clone();
        thread::spawn(move || (0..COUNT).for_each(|number| lock.lock().push((from, number))))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let lock = Arc::into_inner(lock).expect("the threads have ended");
    let mut all: Vec<(u32, u32)> = lock.into_inner();
    all.sort_unstable();
    assert!(all.into_iter().eq((0..3).flat_map(|from| (0..COUNT).map(move |number| (from, number)))));
}

/// Ready when it was polled so often; each time another thread wakes it.
struct Later(u32);

impl Future for Later {
    type Output = u8;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u8> {
        if self.0 == 0 {
            return Poll::Ready(7);
        }
        self.0 -= 1;
        let waker = context.waker().clone();
        thread::spawn(move || waker.wake());
        Poll::Pending
    }
}

#[test]
fn a_thread_waits_for_a_future_that_another_one_wakes() {
    assert_eq!(block_on(Later(COUNT.min(200))), 7);
    let both = Arc::new(Barrier::new(2));
    let other = both.clone();
    let thread = thread::spawn(move || {
        other.wait();
        block_on(Later(3))
    });
    both.wait();
    assert_eq!((block_on(Later(3)), thread.join().unwrap()), (7, 7));
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_task_that_nobody_runs_has_ended() {
    let task = spawn(|| 1);
    assert!(task.has_ended());
    task.cancel();
    let mut task = pin!(task);
    let waker = Waker::from(Arc::new(Nobody));
    let mut context = Context::from_waker(&waker);
    assert!(matches!(task.as_mut().poll(&mut context), Poll::Ready(Err(JoinError::NoRuntime))));
    assert!(matches!(task.as_mut().poll(&mut context), Poll::Ready(Err(JoinError::Taken))));
}
