//! Channels between works of all weights.

use std::time::Duration;

use regrow::work::{ChannelError, Receiver, Sender, Weight, channel, run, shared_channel, spawn};

use crate::Tests;
use crate::ends::PROCESSES;

/// Passes values on, each with one more, until there are no more; how many they were.
#[regrow::fresh]
fn relay(from: Receiver<u64>, to: Sender<u64>) -> u64 {
    let mut count = 0;
    for value in from.iter() {
        if to.send(value + 1).is_err() {
            break;
        }
        count += 1;
    }
    count
}

fn the_same_code_is_on_both_ends_of_each_kind() {
    for weight in [Weight::Fiber, Weight::Thread, Weight::Fork, Weight::Fresh] {
        let is_process = weight >= Weight::Fork;
        let pair = || if is_process { shared_channel(3).expect("a channel") } else { channel(3) };
        let ((sender, from), (to, receiver)) = (pair(), pair());
        let work = spawn(weight, relay::call(from, to));
        let sending = std::thread::spawn(move || {
            for number in 0..500 {
                sender.send(number).expect("it listens");
            }
        });
        assert_eq!(receiver.iter().collect::<Vec<_>>(), (1..=500).collect::<Vec<_>>(), "{weight}");
        sending.join().expect("all were sent");
        assert_eq!(work.join().expect("a count"), 500, "{weight}");
    }
}

#[regrow::fresh]
fn take_all(name: u64, from: Receiver<u64>, to: Sender<(u64, u64)>) -> u64 {
    from.iter().map(|value| to.send((name, value)).map_or(0, |()| 1)).sum()
}

fn several_processes_share_a_queue() {
    let (sender, queue) = shared_channel::<u64>(8).expect("a channel");
    let (results, done) = shared_channel(8).expect("a channel");
    let weights = [Weight::Fork, Weight::Fresh, Weight::Fork, Weight::Fresh];
    let works: Vec<_> = (0..)
        .zip(weights)
        .map(|(name, weight)| spawn(weight, take_all::call(name, queue.clone(), results.clone())))
        .collect();
    drop((queue, results));
    let sending = std::thread::spawn(move || (0..4000).try_for_each(|number| sender.send(number)));
    let mut values: Vec<u64> = done.iter().map(|(_, value)| value).collect();
    sending.join().expect("its end").expect("all were sent");
    values.sort_unstable();
    assert_eq!(values, (0..4000).collect::<Vec<_>>());
    let counts: Vec<u64> = works.into_iter().map(|work| work.join().expect("a count")).collect();
    assert_eq!(counts.iter().sum::<u64>(), 4000);
}

fn an_end_that_is_dropped_closes_the_channel() {
    let (sender, receiver) = shared_channel::<u64>(2).expect("a channel");
    sender.send(5).expect("room");
    drop(sender);
    assert_eq!(receiver.receive().expect("it was sent"), 5);
    assert!(matches!(receiver.receive(), Err(ChannelError::Closed)));
    let (sender, receiver) = shared_channel::<u64>(2).expect("a channel");
    drop(receiver);
    assert!(matches!(sender.send(1), Err(ChannelError::Closed)));
    // A copy of this process that has nothing to do with a channel does not keep it open.
    let (sender, receiver) = shared_channel::<u64>(2).expect("a channel");
    let other = spawn(Weight::Fork, || std::thread::sleep(Duration::from_secs(600)));
    drop(sender);
    assert!(matches!(receiver.receive_within(Duration::from_secs(60)), Err(ChannelError::Closed)));
    assert!(other.id().is_some_and(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()));
    other.cancel();
    assert!(other.join().is_err());
}

fn a_full_channel_and_an_empty_one_wait() {
    let (sender, receiver) = shared_channel::<Vec<u8>>(2).expect("a channel");
    let timed_out = |result| matches!(result, Err(ChannelError::TimedOut));
    assert!(timed_out(receiver.receive_within(Duration::from_millis(5)).map(drop)));
    sender.send(vec![1; 10]).and_then(|()| sender.send(vec![2; 600_000])).expect("room");
    assert!(timed_out(sender.try_send(Vec::new())));
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        (receiver.receive().map(|bytes| bytes.len()), receiver.receive().map(|bytes| bytes.len()), receiver)
    });
    sender.send(vec![3; 600_000]).expect("room comes");
    let (first, second, receiver) = late.join().expect("both");
    assert_eq!((first.expect("a value"), second.expect("a value")), (10, 600_000));
    assert_eq!(receiver.receive().expect("a value").len(), 600_000);
    let error = sender.send(vec![0; 2 << 20]).expect_err("too large");
    assert!(matches!(error, ChannelError::TooLarge { bytes, .. } if bytes > 2 << 20), "{error}");
}

fn an_end_goes_to_a_process_as_an_argument_alone() {
    let (sender, receiver) = channel::<u64>(1);
    let (to, _receiver) = shared_channel::<u64>(1).expect("a channel");
    let died = run(Weight::Fresh, relay::call(receiver, to)).expect_err("it stays here");
    assert!(died.to_string().contains("its arguments cannot be passed on"), "{died}");
    drop(sender);
    let (nested, _other) = shared_channel::<u64>(1).expect("a channel");
    let (outer, _receiver) = shared_channel::<Sender<u64>>(1).expect("a channel");
    assert!(matches!(outer.send(nested), Err(ChannelError::Value(_))));
}

/// Writes nonsense into all memory that it shares with its caller.
#[regrow::fresh]
fn damage(sender: Sender<u64>) -> usize {
    sender.send(1).expect("room");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("its mappings");
    let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").expect("own memory");
    let shared = maps.lines().filter(|line| line.contains("regrow-channel"));
    let ranges = shared.filter_map(|line| line.split(' ').next()?.split_once('-'));
    let mut count = 0;
    for (start, end) in ranges {
        let address = |text| u64::from_str_radix(text, 16).expect("an address");
        let bytes = usize::try_from(address(end) - address(start)).expect("small");
        let nonsense: Vec<u8> =
            (0..bytes).map(|byte| u8::try_from(byte * 31 % 251).expect("small")).collect();
        std::os::unix::fs::FileExt::write_all_at(&memory, &nonsense, address(start)).expect("written");
        count += 1;
    }
    count
}

fn who_damages_a_channel_damages_nothing_else() {
    for weight in PROCESSES {
        let (sender, receiver) = shared_channel::<u64>(4).expect("a channel");
        let damaged = run(weight, damage::call(sender)).expect("its result goes another way");
        assert!(damaged >= 1);
        let error = receiver.receive_within(Duration::from_secs(10)).expect_err("nonsense");
        assert!(
            matches!(error, ChannelError::Io(_) | ChannelError::Value(_) | ChannelError::Closed),
            "{error}"
        );
    }
}

/// Takes the memory of a channel away, if it can; whether it could.
#[regrow::fresh]
fn take_memory_away(sender: Sender<u64>) -> bool {
    sender.send(1).expect("room");
    let files = std::fs::read_dir("/proc/self/fd").expect("a folder").flatten();
    let is_channel = |path: &std::path::PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:regrow-channel"))
    };
    let mut channels = files.map(|entry| entry.path()).filter(is_channel).peekable();
    assert!(channels.peek().is_some());
    channels.any(|path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("its file");
        file.set_len(0).is_ok() || file.set_len(1 << 40).is_ok()
    })
}

fn nobody_takes_the_memory_of_a_channel_away() {
    for weight in PROCESSES {
        let (sender, receiver) = shared_channel::<u64>(4).expect("a channel");
        assert!(!run(weight, take_memory_away::call(sender)).expect("its result"));
        assert_eq!(receiver.receive().expect("it is there"), 1);
    }
}

pub(crate) fn tests() -> Tests {
    vec![
        ("channels_the_same_code_is_on_both_ends_of_each_kind", the_same_code_is_on_both_ends_of_each_kind),
        ("channels_several_processes_share_a_queue", several_processes_share_a_queue),
        ("channels_an_end_that_is_dropped_closes_the_channel", an_end_that_is_dropped_closes_the_channel),
        ("channels_a_full_channel_and_an_empty_one_wait", a_full_channel_and_an_empty_one_wait),
        (
            "channels_an_end_goes_to_a_process_as_an_argument_alone",
            an_end_goes_to_a_process_as_an_argument_alone,
        ),
        ("channels_nobody_takes_the_memory_of_a_channel_away", nobody_takes_the_memory_of_a_channel_away),
        ("channels_who_damages_a_channel_damages_nothing_else", who_damages_a_channel_damages_nothing_else),
    ]
}
