//! Programs that look for themselves, by PATH or by `/proc/self/exe`: they find themselves.

use std::process::Command;

use regrow_testkit::program;

use crate::given::{SYSTEM, World};

/// Whether the system has a program.
fn has(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}

#[test]
fn gcc_finds_its_parts_and_says_so() {
    let world = World::new();
    let left = world.same(
        SYSTEM,
        "echo 'int main(void) { return 5; }' >x.c; gcc -Wall -o x x.c; ./x; echo $?; rm x
         gcc x-none.c; gcc; gcc -c -o y.o x.c && gcc -o y y.o -lno-such 2>&1 | sed s/cc[A-Za-z0-9]*.o//
         gcc -v 2>&1; gcc -print-prog-name=as; gcc -print-prog-name=collect2; gcc -print-libgcc-file-name; gcc -dumpspecs",
        4,
    );
    assert!(
        left.stdout.starts_with("5\n") && left.stdout.contains("/usr/bin/ld: cannot find -lno-such"),
        "{left:?}"
    );
    // What is executed by full path is found in COMPILER_PATH.
    let cc1 = world.told(SYSTEM, "gcc -print-prog-name=cc1");
    assert!(cc1.contains("/cc/") && cc1.ends_with("/cc1\n"), "{cc1}");
    let image = || {
        let output = world.service.regrow().args(["status", "--json"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("/cc1\"")
    };
    assert!(image(), "the compiler proper goes through the daemon");
    // A user's own setting stays.
    let script = "COMPILER_PATH=/own; export COMPILER_PATH; exec \"$@\"";
    let mut command =
        world.command(SYSTEM, &["sh", "-c", script, "sh", crate::given::REGROW, "env", "--all", "--"]);
    let output = command.args(["sh", "-c", "echo $COMPILER_PATH"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/own\n");
}

#[test]
fn interpreters_and_their_environments_find_themselves() {
    let world = World::new();
    world.same(
        SYSTEM,
        "perl -e 'print qq($^X $0\\n)'; perl -S perldoc -V >/dev/null 2>&1; perl -e 'exit 3'; echo $?",
        1,
    );
    if has("/usr/bin/python3") {
        let left =
            world.same(SYSTEM, "python3 -c 'import sys; print(sys.executable, sys.prefix)'; echo x | cat", 1);
        assert_eq!(left.stdout, "/usr/bin/python3 /usr\nx\n");
        // An environment is known by the file beside its interpreter.
        let script = "mkdir -p v/bin; ln -s /usr/bin/python3 v/bin/python3; echo 'home = /usr/bin' >v/pyvenv.cfg
            PATH=$PWD/v/bin:$PATH; python3 -c 'import sys; print(sys.executable, sys.prefix)'; echo x | cat; rm -r v";
        let left = world.same(SYSTEM, script, 1);
        assert!(left.stdout.contains("/v/bin/python3 "), "{left:?}");
    }
    for name in ["busybox", "java"] {
        if has(name) {
            world.same(
                SYSTEM,
                &format!("{name} --help 2>&1 | head -n 1; command -v {name}; echo x | cat"),
                1,
            );
        }
    }
    if has("busybox") {
        world.same(
            SYSTEM,
            "busybox sh -c 'echo a | sed s/a/b/; readlink /proc/self/exe'; busybox expr 1 + 1",
            1,
        );
    }
}

/// Looks for itself in PATH by its `argv[0]`, and reads the file beside itself, as clang does with its resources.
const LOOKS_FOR_ITSELF: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char file[4096], line[64] = "";
    char *path = strdup(getenv("PATH"));
    for (char *folder = strtok(path, ":"); folder; folder = strtok(NULL, ":")) {
        snprintf(file, sizeof file, "%s/%s", folder, argv[0]);
        if (access(file, X_OK) == 0) break;
    }
    snprintf(file + strlen(file), 32, ".resource");
    FILE *resource = fopen(file, "r");
    puts(resource && fgets(line, sizeof line, resource) ? line : "lost");
    return 0;
}
"#;

#[test]
fn a_program_that_looks_for_itself_in_path_is_left_alone() {
    let world = World::new();
    let own = world.folder("own");
    // The only one of this name in PATH, and a name that may have a launcher.
    let path = format!("{}:{}", own.display(), world.folder("min").display());
    for name in ["sh", "sed", "cat"] {
        let _ = std::os::unix::fs::symlink(format!("/usr/bin/{name}"), world.folder("min").join(name));
    }
    let source = own.join("rev.c");
    std::fs::write(&source, LOOKS_FOR_ITSELF).unwrap();
    assert!(Command::new("gcc").arg("-o").arg(own.join("rev")).arg(&source).status().unwrap().success());
    std::fs::write(own.join("rev.resource"), "found").unwrap();
    let left = world.same(&path, "rev; command -v rev; echo x | cat", 1);
    assert_eq!(left.stdout, format!("found\n{}/rev\nx\n", own.display()));
}

/// Version managers and `ccache` stand in PATH twice: the first looks for the next, which is not to be a launcher of the first.
#[test]
fn a_name_that_path_has_twice_is_left_alone() {
    let world = World::new();
    let shims = world.folder("shims");
    let shim = "#!/bin/sh\necho shim\nPATH=/usr/bin:/bin\nexec rev \"$@\"\n";
    program::write(&shims.join("rev"), shim.as_bytes()).unwrap();
    let path = format!("{}:{SYSTEM}", shims.display());
    let left = world.same(&path, "echo ab | rev; command -v rev; echo x | cat", 1);
    assert_eq!(left.stdout, format!("shim\nba\n{}/rev\nx\n", shims.display()));
}
