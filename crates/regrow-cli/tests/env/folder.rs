//! The launchers' folder: made, kept, brought up to date, and not used where it is not the user's alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use regrow_testkit::program;

use crate::given::{REGROW, SYSTEM, World};
use crate::service::text;

/// What `regrow env -v` tells, and the output of the command.
fn verbose(world: &World, path: &str, script: &str) -> (String, String) {
    let output =
        world.command(path, &[REGROW, "env", "-v", "--all", "--", "sh", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (text(&output.stderr), text(&output.stdout))
}

#[test]
fn a_walk_through_path_by_a_shell_passes_the_launchers_by() {
    let world = World::new();
    let walk = "IFS=:; for folder in $PATH; do if test -x $folder/sed; then echo $folder/sed; break; fi; done; command -v sed";
    let launchers = world.launchers(SYSTEM);
    assert!(launchers.ends_with("[b]in"), "{launchers:?}");
    assert_eq!(world.told(SYSTEM, walk), format!("/usr/bin/sed\n{}\n", launchers.join("sed").display()));
}

#[test]
fn a_folder_is_kept_between_uses_and_is_the_users_alone() {
    let world = World::new();
    let launchers = world.launchers(SYSTEM);
    let stamp = launchers.parent().unwrap().join("stamp");
    let made = fs::metadata(&stamp).unwrap();
    assert_eq!(world.launchers(SYSTEM), launchers);
    assert_eq!(fs::metadata(&stamp).unwrap().ino(), made.ino(), "the folder is not made again");
    for folder in [&launchers, launchers.parent().unwrap()] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700, "{folder:?}");
    }
    assert_ne!(world.launchers("/usr/bin"), launchers);
    // One that is below another has one folder in PATH.
    let nested = world.told(SYSTEM, &format!("{REGROW} env --all -- sh -c 'echo $PATH'"));
    assert_eq!(nested, format!("{}:{SYSTEM}\n", launchers.display()));
    fs::remove_file(launchers.join("sed")).unwrap();
    world.launchers(SYSTEM);
    assert!(launchers.join("sed").exists(), "what is missing is made again");
}

#[test]
fn a_folder_that_others_may_write_to_or_that_has_something_else_is_refused() {
    let world = World::new();
    let launchers = world.launchers(SYSTEM);
    let off = "regrow: env: programs are executed as always: ";
    for folder in [launchers.as_path(), launchers.parent().unwrap(), launchers.ancestors().nth(2).unwrap()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let (told, path) = verbose(&world, SYSTEM, "echo $PATH");
        assert_eq!(told, format!("{off}{}: others may write to it\n", folder.display()));
        assert_eq!(path, format!("{SYSTEM}\n"));
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let (told, _) = verbose(&world, SYSTEM, ":");
    assert!(told.starts_with(&format!("regrow: env: launchers in {}\n", launchers.display())), "{told}");
    fs::remove_file(launchers.join("sed")).unwrap();
    program::write(&launchers.join("sed"), b"#!/bin/sh\n").unwrap();
    let (told, path) = verbose(&world, SYSTEM, "echo $PATH");
    let sed = launchers.join("sed");
    assert_eq!(told, format!("{off}{}: it is there already and is no launcher\n", sed.display()));
    assert_eq!(path, format!("{SYSTEM}\n"));
}

#[test]
fn a_program_that_is_installed_later_is_seen() {
    let world = World::new();
    let own = world.folder("own");
    let path = format!("{}:{SYSTEM}", own.display());
    assert_eq!(world.told(&path, "echo ab | rev"), "ba\n");
    let script = "printf '#!/bin/sh\\necho mine\\n' >\"$0/rev\"; chmod +x \"$0/rev\"; echo ab | rev";
    let output = world.below(&path, &["sh", "-c", script, own.to_str().unwrap()]).output().unwrap();
    assert_eq!(text(&output.stdout), "mine\n", "in the middle of a command: {output:?}");
    assert_eq!(world.told(&path, "echo ab | rev; command -v rev"), format!("mine\n{}/rev\n", own.display()));
    // A name that there was not.
    let only = world.folder("only");
    std::os::unix::fs::symlink("/usr/bin/sh", only.join("sh")).unwrap();
    let only_path = only.to_str().unwrap();
    let launchers = world.launchers(only_path);
    assert!(!launchers.join("cut").exists());
    program::copy(Path::new("/usr/bin/cut"), &only.join("cut")).unwrap();
    assert_eq!(
        world.told(only_path, "echo ab | cut -c1; command -v cut"),
        format!("a\n{}\n", launchers.join("cut").display())
    );
}

#[test]
fn what_has_been_learned_decides() {
    let world = World::new();
    let command = |words: &[&str]| world.command(SYSTEM, words).output().unwrap();
    let explain = || text(&command(&[REGROW, "env", "--explain"]).stdout);
    let way = |name: &str| {
        let text = explain();
        let row = text.lines().find(|line| line.split_whitespace().next() == Some(name)).map(str::to_owned);
        row.unwrap_or_else(|| panic!("{name} in {text}"))
    };
    let of =
        |name: &str| text(&command(&[REGROW, "env", "--", "sh", "-c", &format!("command -v {name}")]).stdout);
    assert!(of("tac").ends_with("[b]in/tac\n") && way("tac").contains(" launcher "), "{}", way("tac"));
    let facts = fs::metadata("/usr/bin/tac").unwrap();
    let (dev, ino, ctime_s, ctime_ns) = (facts.dev(), facts.ino(), facts.ctime(), facts.ctime_nsec());
    let program = serde_json::json!({
        "file": "/usr/bin/tac", "dev": dev, "ino": ino, "ctime_s": ctime_s, "ctime_ns": ctime_ns, "start_us": 900.0,
        "refused": null,
    });
    let price = serde_json::json!({"by_exec_us": 800.0, "by_launcher_us": 1400.0, "start_us": 700.0});
    let learned = serde_json::json!({"version": 1, "price": price, "programs": [program]});
    let path = world.folder("state").join("regrow/env/learned.json");
    fs::write(&path, learned.to_string()).unwrap();
    assert_eq!(of("tac"), "/usr/bin/tac\n");
    assert!(
        way("tac").contains("a launcher costs 600 µs more than exec, and saves 200 µs"),
        "{}",
        way("tac")
    );
    assert!(of("sed").ends_with("[b]in/sed\n"), "of the others nothing is known");
    fs::write(&path, "{").unwrap();
    assert!(of("tac").ends_with("[b]in/tac\n"));
    assert!(!path.exists() && path.with_extension("damaged").exists());
}

#[test]
fn the_daemon_is_asked_for_its_figures() {
    let world = World::new();
    world.same(SYSTEM, "echo x | tac; echo x | tac", 1);
    let output = world.command(SYSTEM, &[REGROW, "env", "--learn"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let learned = fs::read(world.folder("state").join("regrow/env/learned.json")).unwrap();
    let learned: serde_json::Value = serde_json::from_slice(&learned).unwrap();
    let files: Vec<&str> = learned["programs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|program| program["file"].as_str())
        .collect();
    assert!(files.contains(&"/usr/bin/tac"), "{learned}");
    for figure in ["by_exec_us", "by_launcher_us", "start_us"] {
        assert!(learned["price"][figure].as_f64().is_some_and(|figure| figure > 0.0), "{learned}");
    }
}

#[test]
fn where_there_can_be_no_launchers_the_command_is_executed_as_always() {
    let world = World::new();
    let script = "echo x | sed s/x/y/; echo $PATH";
    let run = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command =
            world.command(SYSTEM, &[REGROW, "env", "-v", "--all", "--", "/bin/sh", "-c", script]);
        change(&mut command);
        let output = command.output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let always = format!("y\n{SYSTEM}\n");
    let off = |why: &str| format!("regrow: env: programs are executed as always: {why}\n");
    let (stdout, told) = run(&|command| {
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    });
    assert_eq!((stdout, told), (always.clone(), off("neither XDG_STATE_HOME nor HOME names a folder")));
    let (stdout, told) = run(&|command| {
        command.env("XDG_STATE_HOME", "/a:b");
    });
    assert_eq!(
        (stdout, told),
        (always.clone(), off("/a:b/regrow/env: a folder of this name cannot stand in PATH"))
    );
    let (stdout, told) = run(&|command| {
        command.env("XDG_STATE_HOME", "/proc");
    });
    assert_eq!(stdout, always);
    assert!(told.contains("executed as always: /proc/regrow"), "{told}");
    // No daemon: the launchers execute their programs.
    let (stdout, told) = run(&|command| {
        command.env("XDG_RUNTIME_DIR", "/nonexistent");
    });
    assert!(
        stdout.starts_with("y\n") && told.contains("launchers execute their programs: "),
        "{stdout}{told}"
    );
}
