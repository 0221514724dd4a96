//! Turns a process that stands at its snapshot point into the image's seed: its state is read and written to the store, and
//! the agent is loaded.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regrow_abi::{ARG_AREA_BYTES, MAX_PATCHES, PAGE_BYTES};
use regrow_sys::maps::Mapping;

use crate::error::{MakeError, refuse};
use crate::image::ImageContents;
use crate::making::agent_place::{AGENT_PARTS, AgentPlace};
use crate::making::descriptors::fd;
use crate::making::fitness::check_task;
use crate::making::initial_stack::InitialStack;
use crate::making::memory::{Memory, read_memory};
use crate::making::remote::{self, Remote};
use crate::making::report_file::NamedWords;
use crate::making::stat;
use crate::making::task_facts::TaskFacts;
use crate::making::trace::AtPoint;
use crate::patch::PatchKind;
use crate::point::Point;
use crate::program::envkey::KeyNames;
use crate::recipe::{Dependencies, Recipe};
use crate::stack_plan::{MAIN_ROOM_BYTES, StackPlan, at};
use crate::store::{self, PathTable, StoreContents, StoreLayout};

/// Loads the agent and lets the process go on in it. `named` are the words that a front end has named.
pub(crate) fn load(
    at_point: AtPoint,
    recipe: &Recipe<'_>,
    named: NamedWords,
    store: BorrowedFd<'_>,
) -> Result<ImageContents, MakeError> {
    let AtPoint { remote, stack, startup } = at_point;
    let start_time = stat::processor_time(remote.pid());
    let is_warm = recipe.point == Point::Warm;
    check_task(remote.pid(), fd::COUNT + usize::from(is_warm), is_warm)?;
    let (remote, facts) = TaskFacts::read(remote, recipe.point)?;
    let float_state =
        remote.stopped().float_state().map_err(MakeError::tracing("reading vector registers"))?;
    let learned =
        forget_strings(&remote, &stack, recipe.point, startup.asked, facts.registers.stack_pointer())?;
    let mut memory = read_memory(&remote, facts.registers.stack_pointer())?;
    let mapped = remote::mappings(remote.pid())?;
    let paths = PathTable::new(&mapped);
    let vma_count = memory.vmas.len() + AGENT_PARTS;
    let layout = StoreLayout::new(vma_count, memory.pages.len(), &paths, &float_state);
    let (remote, place) = AgentPlace::reserve(remote, layout.bytes())?;
    memory.insert(&place.entries());
    let mut patches = match recipe.point {
        Point::Main => memory.patches(&stack, recipe.argv0.to_bytes(), &mapped),
        Point::Warm => memory.environment_patches(&stack),
        Point::Entry => Vec::new(),
    };
    if named.exchange != 0 {
        patches.push((memory.checked_words(named.exchange, 1, "exchange")?, PatchKind::Exchange));
    }
    if patches.len() > MAX_PATCHES {
        return refuse(format!("{} pointers into the argument block", patches.len()));
    }
    let mut header = facts.header(&remote, recipe, &memory, &place)?;
    header.gate_address = memory.checked_words(named.gate, 2, "gate")?;
    header.random_address = stack.aux(at::RANDOM).unwrap_or(0);
    layout.note_in(&mut header);
    header.membarrier_tolerated = tolerated_registrations(&mapped);
    let contents = StoreContents {
        header: &header,
        vmas: &memory.vmas,
        pages: &memory.pages,
        paths: &paths,
        float_state: &float_state,
        saved: &memory.content,
    };
    store::write(store, &layout, &contents).map_err(MakeError::tracing("writing the image"))?;
    // By every name that leads to a file: the kernel's name of a mapping has no links in it.
    let mut files = mapped_files(&mapped);
    files.push(PathBuf::from(OsStr::from_bytes(recipe.path.to_bytes())));
    files.extend(startup.opened);
    place.start(remote)?;
    let dependencies = Dependencies { files, absent: startup.absent.into_iter().collect() };
    let stack = stack_plan(&stack, recipe.point);
    let Memory { vmas, pages, .. } = memory;
    Ok(ImageContents { header, vmas, pages, stack, patches, dependencies, learned, start_time })
}

/// Takes out of the stack what the image was made with and no run may find: arguments, and the environment but for the
/// variables that belong to the key. Returns the names that were learned to belong to it.
fn forget_strings(
    remote: &Remote,
    stack: &InitialStack,
    point: Point,
    asked: Vec<Vec<u8>>,
    stack_pointer: u64,
) -> Result<Vec<Vec<u8>>, MakeError> {
    let mut learned = asked;
    match point {
        Point::Entry => {
            stack.forget_environment(remote, |_| false)?;
            return Ok(learned);
        }
        // It was given nothing but what belongs to the key.
        Point::Warm => return Ok(learned),
        Point::Main => {}
    }
    stack.forget_arguments(remote)?;
    learned.extend(read_memory(remote, stack_pointer)?.kept_variables(stack, remote)?);
    let names = KeyNames::with_learned(&learned);
    stack.forget_environment(remote, |name| names.contains(name))?;
    Ok(learned)
}

/// Where the blocks of runs go.
fn stack_plan(stack: &InitialStack, point: Point) -> StackPlan {
    let auxv = stack.auxv.clone();
    match point {
        Point::Main | Point::Warm => StackPlan {
            top: stack.pointer + MAIN_ROOM_BYTES,
            floor: stack.arrays_end().next_multiple_of(16),
            auxv,
        },
        Point::Entry => {
            let room = ARG_AREA_BYTES as u64 - PAGE_BYTES;
            StackPlan { top: stack.pointer, floor: stack.pointer.saturating_sub(room), auxv }
        }
    }
}

/// musl registers for `membarrier` with a program's first thread. That cannot be undone; it only lets a later run use what
/// it would have to register for.
fn tolerated_registrations(mapped: &[Mapping]) -> u32 {
    const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
    let is_musl =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-musl"));
    let is_musl = |mapping: &Mapping| {
        let resolved = mapping.name.path().and_then(|path| fs::canonicalize(path).ok());
        let musl_dir = |path: &Path| {
            path.components().any(|part| part.as_os_str().as_encoded_bytes().ends_with(b"musl"))
        };
        mapping.name.path().is_some_and(is_musl) || resolved.is_some_and(|path| musl_dir(&path))
    };
    if mapped.iter().any(is_musl) { REGISTER_PRIVATE_EXPEDITED } else { 0 }
}

/// The files that a process has mapped.
fn mapped_files(all: &[Mapping]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in
        all.iter().filter(|mapping| !mapping.name.is_memfd()).filter_map(|mapping| mapping.name.path())
    {
        if !files.iter().any(|seen| seen == path) {
            files.push(path.to_owned());
        }
    }
    files
}
