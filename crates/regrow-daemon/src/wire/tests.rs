//! Messages there and back, and what is refused.

use proptest::prelude::*;
use regrow_abi::task::{AFFINITY_WORDS, Resource, Task, UNLIMITED};
use regrow_body::Layout;
use regrow_image::image::PatchKind;
use regrow_image::stack_plan::StackPlan;
use regrow_sys::strings::Strings;

use super::*;

fn strings(block: &[u8]) -> Strings {
    Strings::from_block(block.to_vec()).expect("each string ends")
}

fn task() -> Task {
    let mut task = Task::new();
    task.set_umask(0o22).set_nice(-3).set_process_group(7);
    task.set_ignored_signals(1 << 12)
        .set_blocked_signals(3)
        .set_affinity(&[5; AFFINITY_WORDS])
        .set_slice_ns(9);
    for resource in Resource::ALL {
        task.set_limit(resource, 7, UNLIMITED);
    }
    task
}

fn spawn() -> SpawnMessage {
    SpawnMessage {
        program: b"sh".to_vec(),
        arg0: Some(b"-sh".to_vec()),
        args: strings(b"-c\0:\0"),
        env: strings(b"A=1\0"),
        directory: b"/".to_vec(),
        task: task(),
        domain: vec![1, 2, 3],
        cgroup: b"0::/\n".to_vec(),
        targets: vec![0, 1, 2, 9],
        end_only: true,
        single_use: true,
        preload: strings(b"json\0"),
    }
}

fn grant() -> GrantMessage {
    let patches = vec![
        (1, PatchKind::Argv),
        (2, PatchKind::Argc),
        (3, PatchKind::Envp),
        (4, PatchKind::Argv0(5)),
        (6, PatchKind::ExecPath(7)),
        (8, PatchKind::Exchange),
    ];
    GrantMessage {
        lease: 3,
        armed: 42,
        keeper: 41,
        timed: true,
        first_args: strings(b"sh\0"),
        exec_path: Some(b"/bin/script".to_vec()),
        task: task(),
        layout: Layout { stack: StackPlan { top: 8, floor: 1, auxv: vec![(25, 77), (0, 0)] }, patches },
    }
}

/// What a message is read as that has these attributes.
fn read_task(task: Task) -> Result<Task, WireError> {
    let bytes = ToDaemon::Run(Box::new(SpawnMessage { task, ..SpawnMessage::default() })).to_bytes();
    match ToDaemon::from_bytes(&bytes)? {
        ToDaemon::Run(message) => Ok(message.task),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_message_comes_back() {
    let to_daemon = [
        ToDaemon::Run(Box::new(spawn())),
        ToDaemon::Run(Box::default()),
        ToDaemon::Ask(Question::Status),
        ToDaemon::Ask(Question::List(b"/".to_vec())),
        ToDaemon::Ask(Question::Show(b"/host/body/7".to_vec())),
        ToDaemon::Clear,
        ToDaemon::Stop,
        ToDaemon::Budget(u64::MAX - 7),
        ToDaemon::Proof(vec![1, 0, 3]),
        ToDaemon::Once(Box::new(OnceMessage {
            secret: vec![7; 24],
            said: [1, 2, 3, 4, 5, 6, 7, 8, 9],
            stays: true,
            run: spawn(),
        })),
        ToDaemon::Once(Box::default()),
        ToDaemon::Lease(Box::new(spawn())),
        ToDaemon::Renew(7),
        ToDaemon::Return(u32::MAX),
    ];
    for message in to_daemon {
        assert_eq!(ToDaemon::from_bytes(&message.to_bytes()), Ok(message));
    }
    let to_client = [
        ToClient::Started { pid: 7, how: b"recycled".to_vec(), not_loaded: b"why".to_vec() },
        ToClient::Declined { reason: b"first_run".to_vec(), detail: b"why".to_vec() },
        ToClient::Stopped { signal: 20 },
        ToClient::Continued,
        ToClient::Ended { status: -1 },
        ToClient::Answer { more: true, text: b"{}".to_vec() },
        ToClient::Leased(Box::new(grant())),
        ToClient::Leased(Box::default()),
        ToClient::Done,
        ToClient::Failed { text: b"no".to_vec() },
    ];
    for message in to_client {
        assert_eq!(ToClient::from_bytes(&message.to_bytes()), Ok(message));
    }
}

#[test]
fn another_version_is_told() {
    let mut bytes = ToDaemon::Stop.to_bytes();
    bytes[4] += 1;
    assert_eq!(ToDaemon::from_bytes(&bytes), Err(WireError::Version { theirs: VERSION + 1 }));
}

#[test]
fn a_message_that_is_cut_or_too_long_is_refused_wherever_it_is_cut() {
    let whole = ToDaemon::Run(Box::new(spawn())).to_bytes();
    for length in 0..whole.len() {
        assert!(ToDaemon::from_bytes(&whole[..length]).is_err(), "{length} bytes");
    }
    let mut long = whole;
    long.push(0);
    assert!(matches!(ToDaemon::from_bytes(&long), Err(WireError::Trailing { bytes: 1, .. })));
}

#[test]
fn strings_must_end_and_names_must_not_hold_nul() {
    let field = |field| Err(WireError::Field { kind: kind::RUN, field });
    let with = |change: fn(&mut SpawnMessage)| {
        let mut message = spawn();
        change(&mut message);
        ToDaemon::from_bytes(&ToDaemon::Run(Box::new(message)).to_bytes())
    };
    assert_eq!(with(|message| message.program = b"a\0b".to_vec()), field("program"));
    assert_eq!(with(|message| message.targets = vec![0; MAX_TARGETS + 1]), field("targets"));
    // The last byte of a list is made another one than NUL.
    let spoiled = |list: &[u8]| {
        let mut bytes = ToDaemon::Run(Box::new(spawn())).to_bytes();
        let at = bytes.windows(list.len()).position(|window| window == list).expect("it is there");
        bytes[at + list.len() - 1] = b'x';
        ToDaemon::from_bytes(&bytes)
    };
    assert_eq!(spoiled(b"-c\0:\0"), field("args"));
    assert_eq!(spoiled(b"A=1\0"), field("env"));
    assert_eq!(spoiled(b"json\0"), field("preload"));
}

#[test]
fn an_attribute_beyond_its_bounds_is_named() {
    let field = |change: fn(&mut Task) -> &mut Task| {
        let mut task = task();
        change(&mut task);
        match read_task(task) {
            Err(WireError::Field { kind: kind::RUN, field }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field(|task| task.set_process_group(-1)), "process_group");
    assert_eq!(field(|task| task.set_umask(0o1000)), "umask");
    assert_eq!(field(|task| task.set_nice(20)), "nice");
    assert_eq!(field(|task| task.set_nice(-21)), "nice");
    assert_eq!(field(|task| task.set_limit(Resource::Core, 2, 1)), "limits");
    assert_eq!(field(|task| task.set_ignored_signals(1 << 8)), "ignored_signals");
    assert_eq!(field(|task| task.set_affinity(&[0; AFFINITY_WORDS])), "affinity");
    assert_eq!(field(|task| task.set_slice_ns(0)), "slice_ns");
}

/// A task in which any of the attributes is set, with a value that a process can have.
fn any_task() -> impl Strategy<Value = Task> {
    use proptest::option::of;
    let scheduling = (of(-20..20), of(any::<[u64; AFFINITY_WORDS]>()), of(1..=u64::MAX));
    let limits = proptest::collection::vec((0..Resource::ALL.len(), any::<u64>(), any::<u64>()), 0..20);
    let signals = (of(any::<u64>()), of(any::<u64>()));
    (any::<bool>(), of(0..i32::MAX), of(0..0o1000_u32), scheduling, limits, signals).prop_map(
        |(session, group, mask, (nice, affinity, slice_ns), limits, (ignored, blocked))| {
            let mut task = Task::new();
            task.set_session(session);
            if let Some(group) = group.filter(|&group| group > 0 || !session) {
                task.set_process_group(group);
            }
            if let Some(mask) = mask {
                task.set_umask(mask);
            }
            if let Some(niceness) = nice {
                task.set_nice(niceness);
            }
            if let Some(mut processors) = affinity {
                processors[3] |= 1;
                task.set_affinity(&processors);
            }
            if let Some(slice_ns) = slice_ns {
                task.set_slice_ns(slice_ns);
            }
            if let Some(signals) = ignored {
                task.set_ignored_signals(signals & !(1 << 8 | 1 << 18));
            }
            if let Some(signals) = blocked {
                task.set_blocked_signals(signals);
            }
            for (number, one, other) in limits {
                task.set_limit(Resource::ALL[number], one.min(other), one.max(other));
            }
            task
        },
    )
}

proptest! {
    #[test]
    fn every_task_comes_back(task in any_task()) {
        prop_assert_eq!(read_task(task), Ok(task));
    }

    #[test]
    fn no_bytes_make_the_readers_panic(kind in 0u16..80, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&body);
        if let Ok(message) = ToDaemon::from_bytes(&bytes) {
            prop_assert_eq!(message.to_bytes(), bytes.clone());
        }
        if let Ok(message) = ToClient::from_bytes(&bytes) {
            prop_assert_eq!(message.to_bytes(), bytes);
        }
    }
}
