//! Scripts and builds: the same with and without.

use std::fs;
use std::path::Path;

use regrow_testkit::program;

use crate::given::{SYSTEM, World};
use crate::service::{shell_status, text};

#[test]
fn scripts_have_the_same_results_and_their_programs_are_recycled() {
    let world = World::new();
    for (script, recycled) in [
        ("echo a b | sed s/a/x/ | cut -d' ' -f1; expr 1 + 2; echo $?", 3),
        ("sh -c 'sh -c \"echo nested | tr a-z A-Z\"'; basename /a/b; dirname /a/b", 3),
        ("cat /nonexistent; grep x /nonexistent; sed; expr a : b; echo $?", 4),
        ("printf '%s\\n' c a b | sort >sorted; wc -l <sorted; mkdir -p d/e && touch d/e/f && rm -r d; ls", 4),
        ("for n in 1 2 3 4 5 6; do echo $n | cat; done; seq 3 | xargs -n1 expr 1 +", 7),
        (
            "cat <<end >s && chmod +x s && ./s\n#!/usr/bin/env sh\nsed -n 1p \"\\$0\"; echo \"\\$1|\\$0\"\nend\n",
            2,
        ),
        (
            "umask 027; echo x | tee file; stat -c %a file; date -d @0 -u +%s; (sed q; cat) </etc/passwd | head -n 2",
            4,
        ),
        ("true | false; echo $?; sh -c 'exit 7'; echo $?; sh -c 'kill -TERM $$'; echo $?", 2),
        ("exec sed s/x/y/ <<end\nx\nend\n", 1),
        ("cat >in; exec 3<in 4>out; sed -n 's/.*/3 is open/p' <&3 >&4; cat out; echo done", 2),
    ] {
        world.same(SYSTEM, script, recycled);
    }
}

#[test]
fn a_command_has_its_own_status_and_its_own_signal() {
    let world = World::new();
    for (words, wanted) in [
        (&["sh", "-c", "exit 3"][..], 3),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["no-such-program"], 127),
        (&["/etc/passwd"], 126),
        (&["sed", "--no-such-flag"], 1),
    ] {
        let output = world.below(SYSTEM, words).output().unwrap();
        assert_eq!(shell_status(output.status), wanted, "{words:?}: {}", text(&output.stderr));
    }
}

/// A script that does what `configure` of autoconf does: it walks through PATH for the tools whose paths it writes into files.
const CONFIGURE: &str = r##"#!/bin/sh
find_tool () {
    for tool; do
        as_save_IFS=$IFS; IFS=:
        for as_dir in $PATH; do
            IFS=$as_save_IFS
            echo "PATH: $as_dir" >>config.log
            if test -f "$as_dir/$tool" && test -x "$as_dir/$tool"; then
                echo "$as_dir/$tool"
                return
            fi
        done
        IFS=$as_save_IFS
    done
}
SED=`find_tool gsed sed` GREP=`find_tool ggrep grep` INSTALL=`find_tool install` AR=`find_tool ar` CC=gcc
as_me=`basename "$0" | sed 's/\.sh$//'`
for header in stdio.h stdlib.h no/such.h string.h; do
    name=`echo "HAVE_$header" | tr a-z/. A-Z__`
    echo "#include <$header>" >conftest.c
    if $CC -c conftest.c 2>conftest.err; then
        echo "#define $name 1" >>confdefs.h
    else
        echo "/* #undef $name */" >>confdefs.h
        sed "s/^/$as_me: /" conftest.err >>config.log
    fi
    rm -f conftest.*
done
echo 'int main(void) { return no_such_function(); }' >conftest.c
$CC -o conftest conftest.c 2>conftest.err || grep -v '^ *+' conftest.err | sed 's/cc[A-Za-z0-9]*\.o//' >>config.log
rm -f conftest*
sort confdefs.h | $GREP -v nothing >config.h
cat >Makefile <<end
SED = $SED
INSTALL = $INSTALL -c
AR = $AR
CC = $CC
all: one two libboth.a
	@:
one two: %: %.o both.o
	\$(CC) -o \$@ \$^
%.o: %.c config.h
	\$(CC) -O1 -c -o \$@ \$<
one.c two.c:
	printf '#include "config.h"\nextern int both(int); int main(void) { return both(0); }\n' >\$@
both.c:
	printf 'int both(int n) { return n; }\n' >\$@
libboth.a: both.o
	\$(AR) crD \$@ \$^ && ranlib -D \$@
check: all
	./one && ./two && \$(SED) -n 1p config.h | cut -c 1-8
end
"##;

#[test]
fn configure_and_make_write_the_same_files() {
    let world = World::new();
    let configure = world.folder("source").join("configure");
    program::write(&configure, CONFIGURE.as_bytes()).unwrap();
    let build = format!("{} && make -j2 >make.log && make -s check; rm -f make.log", configure.display());
    let left = world.same(SYSTEM, &build, 20);
    assert_eq!((left.status, left.stdout.as_str()), (0, "#define \n"), "{left:?}");
    let makefile = &left.files.get(Path::new("Makefile")).unwrap().0;
    assert!(
        makefile.starts_with("SED = /usr/bin/sed\nINSTALL = /usr/bin/install -c\nAR = /usr/bin/ar\n"),
        "{makefile}"
    );
    assert!(left.files.contains_key(Path::new("one")) && left.files.contains_key(Path::new("libboth.a")));
}

#[test]
fn a_script_may_change_path() {
    let world = World::new();
    let own = world.folder("own");
    program::write(&own.join("cut"), b"#!/bin/sh\necho my own cut\n").unwrap();
    let own = own.display();
    world.same(SYSTEM, &format!("PATH={own}:$PATH; echo x | cut -c1; echo x | tr x y"), 1);
    world.same(SYSTEM, &format!("PATH={own}:/usr/bin; echo x | cut -c1; echo x | tr x y; command -v tr"), 0);
    world.same(SYSTEM, "echo x | tr x y; PATH=/nonexistent; tr x y", 1);
}

/// A program in front of PATH that executes the next of its name in PATH, as wrappers do.
#[test]
fn a_wrapper_in_front_of_the_launcher_is_run_once() {
    let world = World::new();
    let wrapper = r#"#!/bin/sh
echo wrapped "$*"
IFS=:
set -f
for folder in $PATH; do
    if [ "$folder" != "${0%/*}" ] && [ -x "$folder/tr" ]; then
        exec "$folder/tr" "$@"
    fi
done
"#;
    let own = world.folder("own");
    program::write(&own.join("tr"), wrapper.as_bytes()).unwrap();
    let own = own.display();
    let left = world.same(SYSTEM, &format!("PATH={own}:$PATH; echo x | tr x y"), 1);
    assert_eq!(left.stdout, "wrapped x y\ny\n");
}

#[test]
fn a_launcher_may_be_removed_in_the_middle() {
    let world = World::new();
    let script = r#"echo x | tr x y; case $PATH in *"[b]in"*) rm "${PATH%%:*}/tr";; esac; echo x | tr x z"#;
    let left = world.same(SYSTEM, script, 2);
    assert_eq!(left.stdout, "y\nz\n");
}

#[test]
fn two_commands_at_once_have_one_folder() {
    let world = World::new();
    let words = ["sh", "-c", "for n in 1 2 3 4 5; do echo $n | sed s/$/x/; done"];
    for _ in 0..5 {
        let state = world.folder("state");
        fs::remove_dir_all(&state).unwrap();
        fs::create_dir(&state).unwrap();
        let children: Vec<_> = (0..4)
            .map(|_| {
                let mut command = world.below(SYSTEM, &words);
                command
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert_eq!(
                (text(&output.stdout).as_str(), text(&output.stderr).as_str()),
                ("1x\n2x\n3x\n4x\n5x\n", "")
            );
        }
    }
    assert!(world.launchers(SYSTEM).join("sed").exists());
}
