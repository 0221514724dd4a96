//! Children that compute until they are scheduled as long ones, and say how nice they were at their beginning.

use std::path::Path;

/// How much nicer long ones are in these tests; `child.sh` waits for that.
pub(crate) const LONG_NICE: &str = "7";

/// Computes for 60 ms, and prints its slice in nanoseconds.
const SLICE: &str = r#"
import time
while time.process_time() < 0.06: pass
print(*(line.split()[-1] for line in open("/proc/self/sched") if line.startswith("se.slice")))
"#;

/// Functions of scripts: `niceness` sets `nice` to that of the shell; `compute` computes until it is $1.
pub(crate) const FUNCTIONS: &str = r#"
niceness() { read -r line </proc/$$/stat; set -- ${line##*) }; nice=${17}; }
compute() { niceness; while [ "$nice" != "$1" ]; do niceness; done; }
"#;

/// Runs children by the shell $1, one after the other; ends with the first that began as a long one, or with the hundredth.
const CHILDREN: &str = r#"
for each in 0 1 2 3 4 5 6 7 8 9; do
    for other in 0 1 2 3 4 5 6 7 8 9; do
        began=$("$@" ./child.sh)
        echo "$began"
        [ "$began" = 7 ] && exit 0
    done
done
exit 1
"#;

/// Starts children that never end, one while the others run, until one begins as a long one; at most ten. Then it ends them.
const ENDLESS: &str = r#"
began=0
for each in 0 1 2 3 4 5 6 7 8 9; do
    : >began
    sh ./loop.sh &
    all="$all $!"
    until began=$(cat began) && [ -n "$began" ]; do :; done
    echo "$began"
    [ "$began" = 7 ] && break
    # Until it is scheduled as a long one, and what was learned of it is published.
    sleep 0.3
done
kill $all
[ "$began" = 7 ]
"#;

/// Puts `child.sh`, `children.sh`, `endless.sh`, `loop.sh` and `slice.py` into a folder.
pub(crate) fn put(folder: &Path) {
    // It goes on for a while, so that nobody takes it for one that is hardly long.
    let child = format!(
        "{FUNCTIONS}\nniceness; echo $nice; compute {LONG_NICE}; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    );
    std::fs::write(folder.join("child.sh"), child).unwrap();
    std::fs::write(folder.join("children.sh"), CHILDREN).unwrap();
    std::fs::write(folder.join("endless.sh"), ENDLESS).unwrap();
    std::fs::write(folder.join("slice.py"), SLICE).unwrap();
    let endless = format!("{FUNCTIONS}\nniceness; echo $nice >began; while :; do :; done");
    std::fs::write(folder.join("loop.sh"), endless).unwrap();
}
