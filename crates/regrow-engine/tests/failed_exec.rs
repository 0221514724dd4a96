//! What a start that failed leaves behind. The only test of its process: others would open and close descriptors meanwhile.

use regrow_engine::run::creation::Fallback;
use regrow_engine::run::exec::spawn_exec;
use regrow_engine::run::request::Request;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("descriptors").count()
}

fn children() -> String {
    std::fs::read_to_string("/proc/thread-self/children").expect("children")
}

#[test]
fn a_child_that_could_not_exec_leaves_nothing() {
    let before = (descriptors(), children());
    for _ in 0..100 {
        let error = spawn_exec(&Request::new(c"/nowhere/x".to_owned()), Fallback::RecyclingOff).err();
        assert_eq!(error.and_then(|error| error.raw_os_error()), Some(libc::ENOENT));
        assert_eq!((descriptors(), children()), before);
    }
}
