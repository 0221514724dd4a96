//! A caller without a free descriptor gets a clear error and no process. It is a file of its own, as the limit
//! holds for the whole process.

use std::fs;

use regrow::{Command, Stdio};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
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
