//! Programs that create without end, are killed in the midst of a word, close what they can, and write over the channel.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::harness::{Place, plain};

#[test]
fn processes_that_are_killed_anywhere_block_nobody() {
    let place = Place::new();
    let script = "for round in 1 2 3 4 5 6 7 8 9 10; do\n\
                  (while :; do /bin/true; (:); done) & one=$!\n\
                  (while :; do sh -c :; done) & two=$!\n\
                  sleep 0.0$round; kill -9 $one $two; wait $one $two 2>/dev/null\ndone\nexit 0\n";
    let told = place.watch_shell("bash", script);
    assert!(told.status.success());
    let processes = told.processes();
    assert!(processes.len() > 30, "{}", processes.len());
    // Each of them that was waited for has ended.
    assert!(processes.iter().filter(|seen| seen.usage.is_some()).count() > 20);
    assert_eq!(told.summary.dropped, 0);
}

#[test]
fn more_creations_than_the_ring_has_room_for_are_counted_and_change_nothing() {
    let place = Place::new();
    let program = place.compile("cc", "forks.c", &["-O2"]);
    // Nobody reads: the collector is stopped, as it is inside of `each` for as long as the command runs.
    let below = regrow_collect::below::Below::new(&place.library(), None).expect("a channel");
    let [(_, library), (name, channel)] = below.variables();
    let status =
        Command::new(&program).args(["20000"]).env("LD_PRELOAD", library).env(name, channel).status();
    assert!(status.expect("it starts").success());
    let mut below = below;
    let events = below.collect();
    assert!(events.len() > 10_000, "{}", events.len());
}

#[test]
fn a_program_that_creates_at_many_places_is_told_apart_up_to_what_is_kept() {
    let place = Place::new();
    let program = place.compile("cc", "many.c", &["-O0"]);
    let told = place.watch(&mut Command::new(program)).whole();
    let sites: std::collections::HashSet<_> = told.processes().iter().map(|seen| seen.site).collect();
    assert_eq!(sites.len(), 1000);
}

#[test]
fn a_channel_that_is_written_over_costs_records_and_no_process() {
    let place = Place::new();
    let script = "import os, random\n\
                  path = os.environ['REGROW_SITES']\n\
                  size = os.path.getsize(path)\n\
                  random.seed(5)\n\
                  for round in range(40):\n\
                  \x20   with open(path, 'r+b') as file:\n\
                  \x20       for _ in range(50):\n\
                  \x20           file.seek(random.randrange(512, size - 4096)); file.write(os.urandom(4096))\n\
                  \x20   pid = os.fork()\n\
                  \x20   if pid == 0: os._exit(3)\n\
                  \x20   assert os.waitpid(pid, 0)[1] == 3 << 8\n\
                  \x20   assert os.spawnv(os.P_WAIT, '/bin/true', ['true']) == 0\n";
    fs::write(place.path("script.py"), script).expect("it is written");
    let told = place.watch(Command::new("/usr/bin/python3").arg("script.py"));
    assert!(told.status.success(), "{:?}", told.status);
    // The mark as well: nobody tells anything any more.
    let script = "import os\nwith open(os.environ['REGROW_SITES'], 'r+b') as file: file.write(b'x' * 4096)\nos.system('true')\n";
    fs::write(place.path("script.py"), script).expect("it is written");
    let told = place.watch(Command::new("/usr/bin/python3").arg("script.py"));
    assert!(told.status.success(), "{:?}", told.status);
}

#[test]
fn programs_with_few_means_create_as_without() {
    let place = Place::new();
    let script = "ulimit -n 6; /bin/true && echo files\n(ulimit -v 65536; /bin/true && echo memory)\n\
                  (exec 0<&- 1>&- 2>&-; /bin/true; echo $? >closed); cat closed\n\
                  cd / && /bin/true && echo root\n";
    let told = place.watch_shell("bash", script).whole();
    assert_eq!(told.output, "files\nmemory\n0\nroot\n");
    // No descriptor is left open.
    let list = ["-c", "ls /proc/self/fd"];
    let without = plain(Command::new("bash").args(list));
    let told = place.watch(Command::new("bash").args(list)).whole();
    assert_eq!(told.output, String::from_utf8_lossy(&without.stdout));
}

#[test]
fn a_process_that_may_make_few_system_calls_creates_as_without() {
    let place = Place::new();
    let program = place.compile("cc", "filtered.c", &["-O1"]);
    let told = place.watch(&mut Command::new(program)).whole();
    assert_eq!(told.output, "done\n");
    assert_eq!(told.processes().len(), 2);
}

#[test]
fn a_record_in_the_ring_that_is_none_is_passed_over() {
    let place = Place::new();
    let mut below = regrow_collect::below::Below::new(&place.library(), None).expect("a channel");
    let [_, (_, channel)] = below.variables();
    let file = fs::OpenOptions::new().write(true).open(channel).expect("it is ours");
    let bytes = file.metadata().expect("it is open").len();
    // Each word is "full", and the tail says that all places were taken.
    let words = [2u8, 0, 0, 0, 0, 0, 0, 0].repeat(512);
    for at in (4096..bytes).step_by(4096) {
        file.write_at(&words, at).expect("it is written");
    }
    file.write_at(&u64::MAX.to_le_bytes(), 16 * 8).expect("it is written");
    assert!(below.collect().is_empty());
}
