//! Tasks that wait for descriptors: sockets and pipes, both ways, with deadlines, cancelled, and beside all else that runs.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use regrow_fiber::io::{Async, pipe, readable, writable};
use regrow_fiber::{
    Builder, JoinError, Runtime, block_on, channel, scope, sleep, spawn, spawn_here, spawn_step, yield_now,
};
use rustix::time::{ClockId, clock_gettime};

const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(5);

/// On one worker, and on three.
fn run<T: 'static>(root: impl Fn() -> T + Clone + 'static) -> [T; 2] {
    [1, 3].map(|workers| Runtime::with_workers(workers).run(root.clone()).expect("it runs"))
}

/// A listener, and its address.
fn listen() -> (Async<TcpListener>, std::net::SocketAddr) {
    let listener = Async::<TcpListener>::bind(LOCAL).unwrap();
    let address = listener.get_ref().local_addr().unwrap();
    (listener, address)
}

/// Two ends of a connection.
fn connection() -> (Async<TcpStream>, Async<TcpStream>) {
    let (listener, address) = listen();
    let one = Async::<TcpStream>::connect(address).unwrap();
    (one, listener.accept().unwrap().0)
}

/// Sends back what comes, until nothing does.
fn echo(mut stream: Async<TcpStream>) -> io::Result<()> {
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(&bytes[..count])?,
        }
    }
}

/// Bytes of a length that tell where they come from.
fn bytes_of(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number.wrapping_mul(31) + at * 7).to_le_bytes()[0]).collect()
}

/// How many connections may be there at once, both ends of which are in this process.
fn connections() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(200) / 4).unwrap_or(usize::MAX).min(2000)
}

#[test]
fn an_echo_server_has_two_thousand_connections_at_once() {
    let count = connections();
    assert!(count > 10, "a process may have too few descriptors");
    let served = run(move || {
        let (listener, address) = listen();
        let (accepted, is_accepted) = channel(1);
        let server = spawn(move || {
            let tasks: Vec<_> = (0..count)
                .map(|_| {
                    let (stream, _) = listener.accept().unwrap();
                    accepted.send(()).unwrap();
                    Builder::new().stack_bytes(32 << 10).spawn(move || echo(stream).unwrap())
                })
                .collect();
            tasks.into_iter().fold(0, |ended, task| {
                task.join().unwrap();
                ended + 1
            })
        });
        // All of them are there before the first one says anything.
        let streams: Vec<_> = (0..count)
            .map(|_| {
                let stream = Async::<TcpStream>::connect(address).unwrap();
                is_accepted.receive().unwrap();
                stream
            })
            .collect();
        let clients: Vec<_> = streams
            .into_iter()
            .enumerate()
            .map(|(number, mut stream)| {
                Builder::new().stack_bytes(32 << 10).spawn(move || {
                    for length in [1, number % 100 + 1, 3000] {
                        let sent = bytes_of(number, length);
                        stream.write_all(&sent).unwrap();
                        let mut back = vec![0; length];
                        stream.read_exact(&mut back).unwrap();
                        assert!(sent == back);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap()
    });
    assert_eq!(served, [count; 2]);
}

#[test]
fn what_goes_into_a_pipe_comes_out_of_it() {
    run(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        // Much more than a pipe has room for.
        let sent = bytes_of(3, 1 << 20);
        let expected = sent.clone();
        let writes = spawn(move || writer.write_all(&sent));
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        writes.join().unwrap().unwrap();
        assert!(received == expected);
    });
}

/// Fills what a stream has room for.
fn fill(stream: &UnixStream) -> usize {
    let mut stream = stream;
    std::iter::from_fn(|| stream.write(&[7; 4096]).ok()).sum()
}

#[test]
fn a_descriptor_is_waited_for_both_ways_at_once() {
    run(|| {
        let (one, other) = Async::<UnixStream>::pair().unwrap();
        let one = Arc::new(one);
        let full = fill(one.get_ref());
        let reads = spawn({
            let one = one.clone();
            move || {
                let mut byte = [0];
                (&*one).read_exact(&mut byte).unwrap();
                byte[0]
            }
        });
        let writes = spawn({
            let one = one.clone();
            move || (&*one).write_all(b"end").unwrap()
        });
        // By their number, too.
        let more = [
            spawn({
                let one = one.clone();
                move || readable(&*one, None)
            }),
            spawn({
                let one = one.clone();
                move || writable(&*one, None)
            }),
        ];
        sleep(SHORT);
        assert!(
            !reads.has_ended()
                && !writes.has_ended()
                && !more.iter().any(regrow_fiber::JoinHandle::has_ended)
        );
        let [read_more, write_more] = more;
        (&other).write_all(b"xy").unwrap();
        assert_eq!(reads.join().unwrap(), b'x');
        read_more.join().unwrap().unwrap();
        assert!(!writes.has_ended() && !write_more.has_ended());
        let mut drained = vec![0; full + 3];
        (&other).read_exact(&mut drained).unwrap();
        writes.join().unwrap();
        write_more.join().unwrap().unwrap();
        assert!(drained.ends_with(b"end") && drained[..full].iter().all(|byte| *byte == 7));
    });
}

#[test]
fn a_wait_has_a_deadline() {
    run(|| {
        let (one, mut other) = Async::<UnixStream>::pair().unwrap();
        let mut one = one;
        let timed_out = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
        let begun = Instant::now();
        timed_out(readable(&one, Some(begun + SHORT)));
        assert!(begun.elapsed() >= SHORT);
        timed_out(one.readable(Some(Instant::now() + SHORT)));
        // One that is over already.
        timed_out(one.readable(Some(begun)));
        one.set_read_timeout(Some(SHORT));
        timed_out(one.read(&mut [0]).map(drop));
        let full = fill(one.get_ref());
        timed_out(writable(&one, Some(Instant::now() + SHORT)));
        one.set_write_timeout(Some(SHORT));
        timed_out(one.write(b"x").map(drop));
        // Nothing is lost by it.
        let mut drained = vec![0; full];
        other.read_exact(&mut drained).unwrap();
        one.set_read_timeout(None);
        one.write_all(b"there").unwrap();
        other.write_all(b"back").unwrap();
        let (mut there, mut back) = ([0; 5], [0; 4]);
        other.read_exact(&mut there).unwrap();
        one.read_exact(&mut back).unwrap();
        assert_eq!((&there, &back), (b"there", b"back"));
        let (listener, address) = listen();
        listener.set_read_timeout(Some(SHORT));
        timed_out(listener.accept().map(drop));
        // Nobody takes connections, and few wait to be taken.
        rustix::net::listen(listener.get_ref(), 0).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match Async::<TcpStream>::connect_within(address, SHORT * 10) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
            assert!(waiting.len() < 100);
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

/// Adds one when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_task_that_waits_for_a_descriptor_is_cancelled() {
    run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let (one, mut other) = Async::<UnixStream>::pair().unwrap();
        let one = Arc::new(one);
        let full = fill(one.get_ref());
        let (listener, _) = listen();
        let waits: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new({
                let one = one.clone();
                move || drop((&*one).read(&mut [0]))
            }),
            Box::new({
                let one = one.clone();
                move || drop((&*one).write(&[0]))
            }),
            Box::new({
                let one = one.clone();
                move || drop(readable(&*one, Some(Instant::now() + LONG)))
            }),
            Box::new({
                let one = one.clone();
                move || drop(one.writable(None))
            }),
            Box::new(move || drop(listener.accept())),
        ];
        let count = waits.len();
        let tasks: Vec<_> = waits
            .into_iter()
            .map(|wait| {
                let dropped = Dropped(drops.clone());
                spawn(move || {
                    let _dropped = dropped;
                    wait();
                })
            })
            .collect();
        sleep(SHORT * 4);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        tasks.iter().for_each(regrow_fiber::JoinHandle::cancel);
        for task in tasks {
            assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        }
        assert_eq!(drops.load(Ordering::SeqCst), count);
        // The descriptor is as it was.
        let mut drained = vec![0; full];
        other.read_exact(&mut drained).unwrap();
        other.write_all(b"x").unwrap();
        let mut byte = [0];
        (&*one).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    });
}

#[test]
fn a_peer_that_closes_or_resets_ends_the_wait() {
    run(|| {
        let (mut one, other) = connection();
        let reads = spawn(move || one.read(&mut [0]));
        sleep(SHORT);
        assert!(!reads.has_ended());
        drop(other);
        assert_eq!(reads.join().unwrap().unwrap(), 0);
        let (mut one, other) = connection();
        let reads = spawn(move || one.read(&mut [0]));
        sleep(SHORT);
        rustix::net::sockopt::set_socket_linger(&other, Some(Duration::ZERO)).unwrap();
        drop(other);
        assert_eq!(reads.join().unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
        // Who waits for room in a pipe that nobody reads any more.
        let (reader, mut writer) = pipe().unwrap();
        let writes = spawn(move || writer.write_all(&[0; 1 << 20]));
        sleep(SHORT);
        drop(reader);
        assert_eq!(writes.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
        // A side that is shut down here.
        let (one, _other) = connection();
        let one = Arc::new(one);
        let reads = spawn({
            let one = one.clone();
            move || (&*one).read(&mut [0])
        });
        sleep(SHORT);
        one.get_ref().shutdown(std::net::Shutdown::Read).unwrap();
        assert_eq!(reads.join().unwrap().unwrap(), 0);
        let (listener, address) = listen();
        drop(listener);
        let refused = Async::<TcpStream>::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// A number is used again for another descriptor, on the same worker and on others.
#[test]
fn numbers_of_closed_descriptors_come_back() {
    run(|| {
        let mut numbers = std::collections::BTreeSet::new();
        for round in 0..300_u32 {
            let (mut reader, mut writer) = pipe().unwrap();
            numbers.insert(reader.get_ref().as_raw_fd());
            let reads = spawn(move || {
                let mut bytes = [0; 4];
                // Some leave by a deadline, some are dropped while the kernel still watches a copy.
                if round % 3 == 0 {
                    let _ = reader.readable(Some(Instant::now()));
                }
                reader.read_exact(&mut bytes).map(|()| (u32::from_le_bytes(bytes), reader))
            });
            yield_now();
            writer.write_all(&round.to_le_bytes()).unwrap();
            let (read, reader) = reads.join().unwrap().unwrap();
            assert_eq!(read, round);
            let copy = reader.get_ref().try_clone().unwrap();
            drop(reader);
            let mut copy = Async::<PipeReader>::new(copy).unwrap();
            let reads = spawn(move || copy.read(&mut [0]));
            yield_now();
            drop(writer);
            assert_eq!(reads.join().unwrap().unwrap(), 0);
        }
        assert!(numbers.len() < 300);
    });
}

#[test]
fn busy_workers_look_at_descriptors() {
    run(|| {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut reader, mut writer) = io::pipe().unwrap();
        // More than there are workers, so that each is busy: by turns, by messages, and by steps.
        let yields: Vec<_> = (0..6)
            .map(|_| {
                let is_over = is_over.clone();
                spawn(move || {
                    while !is_over.load(Ordering::SeqCst) {
                        yield_now();
                    }
                })
            })
            .collect();
        let (to, from) = channel(1);
        let (back, again) = channel(1);
        spawn_here(move || from.iter().all(|number: u64| back.send(number + 1).is_ok()));
        spawn_here(move || to.send(0).is_ok() && again.iter().all(|number| to.send(number).is_ok()));
        let steps = spawn_step(Steps(is_over.clone()));
        let mut stream = Async::new(reader.try_clone().unwrap()).unwrap();
        let reads = spawn(move || {
            let mut bytes = [0; 3];
            stream.read_exact(&mut bytes).unwrap();
            bytes
        });
        std::thread::spawn(move || {
            for byte in b"abc" {
                std::thread::sleep(SHORT);
                writer.write_all(&[*byte]).unwrap();
            }
        });
        assert_eq!(&reads.join().unwrap(), b"abc");
        is_over.store(true, Ordering::SeqCst);
        yields.into_iter().for_each(|task| task.join().unwrap());
        steps.join().unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    });
}

/// Steps until it is told.
struct Steps(Arc<AtomicBool>);

impl regrow_fiber::Step for Steps {
    type Output = ();

    fn step(&mut self) -> regrow_fiber::Progress<()> {
        if self.0.load(Ordering::SeqCst) {
            regrow_fiber::Progress::Done(())
        } else {
            regrow_fiber::Progress::More
        }
    }
}

#[test]
fn a_task_that_need_not_wait_lets_others_run() {
    Runtime::with_workers(1)
        .run(|| {
            let is_over = Arc::new(AtomicBool::new(false));
            let ends = is_over.clone();
            let mut zeros = Async::new(File::open("/dev/zero").unwrap()).unwrap();
            spawn_here(move || ends.store(true, Ordering::SeqCst));
            while !is_over.load(Ordering::SeqCst) {
                zeros.read_exact(&mut [1; 16]).unwrap();
            }
        })
        .unwrap();
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

#[test]
fn workers_that_wait_for_descriptors_use_no_processor_time() {
    for workers in [1, 3] {
        let used = Runtime::with_workers(workers).run(move || {
            // Each worker has one of them.
            let barrier = Arc::new(Barrier::new(workers));
            let (tasks, writers): (Vec<_>, Vec<_>) = (0..workers)
                .map(|_| {
                    let (mut reader, writer) = pipe().unwrap();
                    let barrier = barrier.clone();
                    let task = spawn(move || {
                        barrier.wait();
                        // A timer of its own besides, which is far away.
                        reader.set_read_timeout(Some(LONG));
                        let before = processor_time();
                        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
                        processor_time() - before
                    });
                    (task, writer)
                })
                .unzip();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                drop(writers);
            });
            tasks.into_iter().map(|task| task.join().unwrap()).max().unwrap()
        });
        let used = used.unwrap();
        assert!(used < Duration::from_millis(100), "{used:?} in 300 ms");
    }
}

/// A worker sleeps in its reactor then: whatever else there is wakes it.
#[test]
fn all_else_goes_on_while_descriptors_are_waited_for() {
    run(|| {
        let (mut reader, writer) = pipe().unwrap();
        let waits = spawn_here(move || reader.read(&mut [0]).unwrap());
        yield_now();
        // A time.
        sleep(SHORT);
        // A message of a thread.
        let (sender, receiver) = channel(1);
        let thread = std::thread::spawn(move || {
            for number in 0..20_u32 {
                std::thread::sleep(Duration::from_millis(1));
                sender.send(number).unwrap();
            }
        });
        assert!(receiver.iter().eq(0..20));
        thread.join().unwrap();
        // A future, which a thread wakes.
        let (sender, receiver) = channel(1);
        let thread = std::thread::spawn(move || {
            Runtime::with_workers(1)
                .run(move || {
                    let task = spawn(|| {
                        sleep(SHORT);
                        6
                    });
                    sender.send(block_on(async { task.await.unwrap() * 7 })).unwrap();
                })
                .unwrap();
        });
        assert_eq!(receiver.receive(), Ok(42));
        thread.join().unwrap();
        // A task that is started, and one that waits for a descriptor and is a future.
        assert_eq!(spawn(|| 5).join().unwrap(), 5);
        let (mut second, mut second_writer) = pipe().unwrap();
        let reads = spawn(move || {
            let mut byte = [0];
            second.read_exact(&mut byte).unwrap();
            byte[0]
        });
        let thread = std::thread::spawn(move || {
            std::thread::sleep(SHORT);
            second_writer.write_all(b"f").unwrap();
        });
        assert_eq!(block_on(async { reads.await.unwrap() }), b'f');
        thread.join().unwrap();
        assert!(!waits.has_ended());
        drop(writer);
        assert_eq!(waits.join().unwrap(), 0);
    });
}

#[test]
fn plain_threads_wait_for_descriptors_too() {
    let (mut one, mut other) = connection();
    let error = readable(&one, Some(Instant::now() + SHORT)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let thread = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        one.read_to_end(&mut bytes).map(|_| bytes)
    });
    let sent = bytes_of(5, 1 << 20);
    for part in sent.chunks(100_000) {
        writable(&other, None).unwrap();
        other.write_all(part).unwrap();
    }
    drop(other);
    assert!(thread.join().unwrap().unwrap() == sent);
}

#[test]
fn tasks_of_many_workers_accept_from_one_listener() {
    let served = Runtime::with_workers(4).run(|| {
        let (listener, address) = listen();
        let listener = Arc::new(listener);
        let barrier = Arc::new(Barrier::new(4));
        let served = Arc::new(AtomicUsize::new(0));
        let acceptors: Vec<_> = (0..8)
            .map(|number| {
                let (listener, barrier, served) = (listener.clone(), barrier.clone(), served.clone());
                spawn(move || {
                    // Four of them are on workers of their own.
                    if number < 4 {
                        barrier.wait();
                    }
                    for stream in listener.incoming() {
                        let (stream, served) = (stream.unwrap(), served.clone());
                        spawn(move || {
                            echo(stream).unwrap();
                            served.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                })
            })
            .collect();
        let threads: Vec<_> = (0..4_usize)
            .map(|thread| {
                std::thread::spawn(move || {
                    for number in 0..50 {
                        let mut stream = TcpStream::connect(address).unwrap();
                        let sent = bytes_of(thread * 50 + number, 700);
                        stream.write_all(&sent).unwrap();
                        let mut back = vec![0; 700];
                        stream.read_exact(&mut back).unwrap();
                        assert!(back == sent);
                    }
                })
            })
            .collect();
        while served.load(Ordering::SeqCst) < 200 {
            sleep(Duration::from_millis(1));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        acceptors.iter().for_each(regrow_fiber::JoinHandle::cancel);
        for acceptor in acceptors {
            assert!(matches!(acceptor.join(), Err(JoinError::Cancelled)));
        }
        served.load(Ordering::SeqCst)
    });
    assert_eq!(served.unwrap(), 200);
}

#[test]
fn files_are_always_ready() {
    let check = || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "all of it").unwrap();
        let mut file = Async::new(File::open(&path).unwrap()).unwrap();
        for descriptor in [file.get_ref(), &File::open("/dev/null").unwrap()] {
            readable(descriptor, None).unwrap();
            writable(descriptor, None).unwrap();
        }
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "all of it");
        // An operation that says otherwise is asked again.
        let mut times = 0;
        let done = file.read_with(|_| {
            times += 1;
            if times < 3 { Err(ErrorKind::WouldBlock.into()) } else { Ok(times) }
        });
        assert_eq!(done.unwrap(), 3);
    };
    check();
    run(check);
}

/// What a runtime has watched is there for the next one, and for threads.
#[test]
fn a_descriptor_outlives_its_runtime() {
    let (mut one, mut other) = Async::<UnixStream>::pair().unwrap();
    for round in 0..3_u8 {
        (one, other) = Runtime::with_workers(2)
            .run(move || {
                let reads = spawn(move || {
                    let mut byte = [0];
                    one.read_exact(&mut byte).map(|()| (byte[0], one))
                });
                sleep(SHORT);
                other.write_all(&[round]).unwrap();
                let (byte, one) = reads.join().unwrap().unwrap();
                assert_eq!(byte, round);
                (one, other)
            })
            .unwrap();
        other.write_all(&[round + 10]).unwrap();
        let mut byte = [0];
        one.read_exact(&mut byte).unwrap();
        assert_eq!(byte[0], round + 10);
    }
    // As it was before, but for what it waits with.
    let mut plain = one.into_inner();
    drop(other);
    assert_eq!(plain.read(&mut [0]).unwrap(), 0);
}

#[test]
fn tasks_that_borrow_share_a_descriptor() {
    run(|| {
        let (one, other) = connection();
        scope(|scope| {
            scope.spawn(|| (&one).write_all(&bytes_of(1, 1 << 18)).unwrap());
            scope.spawn(|| (&other).write_all(&bytes_of(2, 1 << 18)).unwrap());
            for (stream, number) in [(&one, 2), (&other, 1)] {
                scope.spawn(move || {
                    let mut stream = stream;
                    let mut bytes = vec![0; 1 << 18];
                    stream.read_exact(&mut bytes).unwrap();
                    assert!(bytes == bytes_of(number, 1 << 18));
                });
            }
        });
    });
}

#[test]
fn messages_and_sockets_of_the_file_system() {
    run(|| {
        let [one, other] = [(); 2].map(|()| Async::<UdpSocket>::bind(LOCAL).unwrap());
        let (from, to) = (one.get_ref().local_addr().unwrap(), other.get_ref().local_addr().unwrap());
        let receives = spawn(move || {
            let mut bytes = [0; 10];
            other.recv_from(&mut bytes).map(|(count, from)| (bytes[..count].to_vec(), from))
        });
        yield_now();
        one.send_to(b"message", to).unwrap();
        assert_eq!(receives.join().unwrap().unwrap(), (b"message".to_vec(), from));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let absent = Async::<UnixStream>::connect(&path).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        let listener = Async::<UnixListener>::bind(&path).unwrap();
        // So few may wait that the others wait before.
        rustix::net::listen(listener.get_ref(), 1).unwrap();
        let clients: Vec<_> = (0..20_u8)
            .map(|number| {
                let path = path.clone();
                spawn(move || {
                    let mut stream = Async::<UnixStream>::connect(path).unwrap();
                    stream.write_all(&[number]).unwrap();
                    let mut back = [0];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, [number + 1]);
                })
            })
            .collect();
        sleep(SHORT);
        for stream in listener.incoming().take(20) {
            let mut stream = stream.unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&[byte[0] + 1]).unwrap();
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}
