//! A caller with too few free descriptors gets a clear error and no process. It is a file of its own, as the limit
//! holds for the whole process.

use std::fs;

use regrow::{Command, Stdio};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What `output` gives with so many free descriptors: by exec, as the standard library starts processes.
fn output_with(free: u64) -> std::io::Result<Vec<u8>> {
    let pool = regrow::Pool::builder().recycle(false).build();
    let mut command = pool.command("echo");
    command.arg("hello");
    let before = getrlimit(Resource::Nofile);
    // Those that are open have the lowest numbers.
    let open = fs::read_dir("/proc/self/fd").expect("the descriptors of this process").count() - 1;
    let current = Some(u64::try_from(open).expect("small") + free);
    setrlimit(Resource::Nofile, Rlimit { current, maximum: before.maximum }).expect("it may be lowered");
    let output = command.output();
    setrlimit(Resource::Nofile, before).expect("it may be raised to where it was");
    output.map(|output| output.stdout)
}

fn output_needs_six_descriptors() {
    assert_eq!(output_with(6).expect("they are enough"), b"hello\n");
    let error = output_with(5).expect_err("they are too few");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()), "{error}");
}

#[test]
fn too_few_descriptors_are_an_error_and_no_process() {
    no_descriptor_left_is_an_error_and_no_process();
    output_needs_six_descriptors();
}

fn no_descriptor_left_is_an_error_and_no_process() {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: before.maximum })
        .expect("it may be lowered");
    let plain = Command::new("true").spawn().map(|child| child.id());
    let piped = Command::new("true").stdout(Stdio::piped()).spawn().map(|child| child.id());
    setrlimit(Resource::Nofile, before).expect("it may be raised to where it was");
    for result in [plain, piped] {
        let error = result.expect_err("a process needs a descriptor");
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()), "{error}");
    }
    for task in fs::read_dir("/proc/self/task").expect("the tasks of this process") {
        let path = task.expect("a task").path().join("children");
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), "", "{}", path.display());
    }
    assert!(Command::new("true").status().expect("there are descriptors again").success());
}
