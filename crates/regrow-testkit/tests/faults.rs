//! Whatever fails, a run gives the right output and status, by exec or in another body, and nothing is left behind.
//!
//! Each scene has a process of its own, so that it may change its limits, user, signals and group, and be killed.
//! `cargo test --test faults -- TEXT` plays the scenes whose names contain the text. A scene is a function that panics
//! when something is not as it should be.

#[path = "faults/caller.rs"]
mod caller;
#[path = "faults/crowd.rs"]
mod crowd;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/mounts.rs"]
mod mounts;
#[path = "faults/points.rs"]
mod points;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/shortage.rs"]
mod shortage;
#[path = "faults/trace.rs"]
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut scenes = points::scenes();
    scenes.extend(kills::scenes());
    scenes.extend(shortage::scenes());
    scenes.extend(processes::scenes());
    scenes.extend(crowd::scenes());
    scenes.extend(caller::scenes());
    scenes.extend(mounts::scenes());
    scene::play(&scenes)
}
