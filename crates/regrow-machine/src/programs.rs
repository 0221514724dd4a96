//! The kernel's side: the programs of `bpf/machine.bpf.c`, loaded and attached.
//!
//! The object is a part of the command, so that no compiler is needed where it is built or used; a test compares it with its source. All
//! that is loaded hangs from descriptors of this process: when it ends, however it ends, the kernel takes the programs away.

use std::error::Error;
use std::io;
use std::path::Path;

use aya::maps::{Array, HashMap, MapData, MapError, RingBuf};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use aya_obj::btf::BtfKind;

use crate::error::{Missing, StartError};
use crate::record::{FileIdentity, KINDS};
use crate::rights;

/// The object.
static OBJECT: &[u8] = include_bytes!("../bpf/machine.bpf.o");
/// Where the kernel's type information is.
const TYPE_INFORMATION: &str = "/sys/kernel/btf/vmlinux";
/// The programs, each with its tracepoint. What tells creations is attached last, so that the end of all that was created is told.
const PROGRAMS: [(&str, &str); 4] = [
    ("process_freed", "sched_process_free"),
    ("process_exited", "sched_process_exit"),
    ("process_executed", "sched_process_exec"),
    (CREATION, "sched_process_fork"),
];
/// The program that tells creations.
const CREATION: &str = "process_created";
/// Functions of the kernel that walk the mappings of a task (Linux 6.7), each with the number that stands for it in the object.
const WALK: [(&str, u32); 3] = [
    ("bpf_iter_task_vma_new", 0x7e60_0001),
    ("bpf_iter_task_vma_next", 0x7e60_0002),
    ("bpf_iter_task_vma_destroy", 0x7e60_0003),
];
/// An instruction that calls a function of the kernel, before the function's number.
const CALL_OF_KERNEL: [u8; 4] = [0x85, 0x20, 0, 0];
/// The mark of a file whose code was read: `CODE_READ` of `enum knowledge`.
const CODE_READ: u8 = 2;
/// The size of a file's identity in the tables of the programs, in words.
const IDENTITY_WORDS: usize = 4;

/// The programs and their tables.
pub(crate) struct Programs {
    object: Ebpf,
    /// The kernel's types.
    types: Btf,
    /// What they tell.
    pub(crate) ring: RingBuf<MapData>,
    /// The files that they tell.
    pub(crate) files: RingBuf<MapData>,
    /// They tell what a process has mapped; otherwise it is read from `/proc`.
    pub(crate) tells_mappings: bool,
}

impl Programs {
    /// Loads them, with a ring of so many bytes; they tell of nothing until [`Programs::attach`]. `follows`: only of the processes that they
    /// are to [follow](Programs::follow). `walks`: they tell mappings where they can.
    pub(crate) fn load(ring_bytes: u32, follows: bool, walks: bool) -> Result<Self, StartError> {
        let types = type_information()?;
        let mut bytes = OBJECT.to_vec();
        let tells_mappings = link_walk(&mut bytes, &types, walks);
        let mut object = EbpfLoader::new()
            .btf(Some(&types))
            .override_global("only_followed", &u8::from(follows), true)
            .override_global("can_walk", &u8::from(tells_mappings), true)
            .map_max_entries("ring", ring_bytes)
            .load(&bytes)
            .map_err(|error| refused(&error).unwrap_or_else(|| StartError::Object(Box::new(error))))?;
        let (ring, files) = (ring(&mut object, "ring")?, ring(&mut object, "files")?);
        Ok(Self { object, types, ring, files, tells_mappings })
    }

    /// Attaches them: from now on they tell.
    pub(crate) fn attach(&mut self) -> Result<(), StartError> {
        for (name, tracepoint) in PROGRAMS {
            attach(&mut self.object, name, tracepoint, &self.types)
                .map_err(|error| of_program(name, error))?;
        }
        Ok(())
    }

    /// Has them tell of a process that was there at that time, in nanoseconds of `CLOCK_MONOTONIC`, and of what it creates.
    pub(crate) fn follow(&mut self, pid: u32, since_ns: u64) -> Result<(), StartError> {
        let mut roots: HashMap<&mut MapData, u32, u64> = table(&mut self.object, "roots")?;
        roots.insert(pid, since_ns, 0).map_err(|error| of_table("roots", error))
    }

    /// Marks a file whose code is known.
    pub(crate) fn mark_code_read(&mut self, file: &FileIdentity) -> Result<(), StartError> {
        let mut images: HashMap<&mut MapData, [u64; IDENTITY_WORDS], u8> = table(&mut self.object, "images")?;
        images.insert(file.words(), CODE_READ, 0).map_err(|error| of_table("images", error))
    }

    /// How many records of each kind found no room.
    pub(crate) fn lost(&self) -> Result<[u64; KINDS], StartError> {
        let lost = self.object.map(".bss").ok_or(MapError::ElementNotFound);
        let lost: Result<Array<_, [u64; KINDS]>, MapError> = lost.and_then(Array::try_from);
        lost.and_then(|lost| lost.get(&0, 0)).map_err(|error| of_table(".bss", error))
    }

    /// Has them tell mappings and files again that were told.
    pub(crate) fn tell_again(&mut self) -> Result<(), StartError> {
        clear(table::<[u64; 2], [u64; 2]>(&mut self.object, "spaces")?);
        clear(table::<[u64; IDENTITY_WORDS], u8>(&mut self.object, "images")?);
        Ok(())
    }

    /// Has them tell no further creations.
    pub(crate) fn end_creations(&mut self) {
        // The links are held by their programs: without them nothing is attached.
        if let Some(Ok(program)) = self.object.program_mut(CREATION).map(<&mut BtfTracePoint>::try_from) {
            let _ = program.unload();
        }
    }
}

fn clear<K: Pod, V: Pod>(mut table: HashMap<&mut MapData, K, V>) {
    let keys: Vec<K> = table.keys().filter_map(Result::ok).collect();
    for key in keys {
        // It may have made room for another one.
        let _ = table.remove(&key);
    }
}

fn ring(object: &mut Ebpf, name: &'static str) -> Result<RingBuf<MapData>, StartError> {
    let map = object.take_map(name).ok_or(MapError::ElementNotFound);
    map.and_then(RingBuf::try_from).map_err(|error| of_table(name, error))
}

fn table<'a, K: Pod, V: Pod>(
    object: &'a mut Ebpf,
    name: &'static str,
) -> Result<HashMap<&'a mut MapData, K, V>, StartError> {
    let map = object.map_mut(name).ok_or(MapError::ElementNotFound);
    map.and_then(HashMap::try_from).map_err(|error| of_table(name, error))
}

/// The kernel's types, when all is there that the programs need.
fn type_information() -> Result<Btf, StartError> {
    let mut missing = rights::missing()?;
    if !Path::new(TYPE_INFORMATION).exists() {
        missing.push(Missing::TypeInformation { path: TYPE_INFORMATION });
        return Err(StartError::Missing(missing));
    }
    let types = Btf::from_sys_fs().map_err(|error| StartError::TypeInformation(Box::new(error)))?;
    for (_, name) in PROGRAMS {
        if types.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_err() {
            missing.push(Missing::TracePoint { name });
        }
    }
    if missing.is_empty() { Ok(types) } else { Err(StartError::Missing(missing)) }
}

/// Writes the numbers of the kernel's own functions into the object, or 0 for all when one is not there or they are not wanted; whether they
/// are called.
fn link_walk(object: &mut [u8], types: &Btf, is_wanted: bool) -> bool {
    let numbers = WALK.map(|(name, _)| types.id_by_type_name_kind(name, BtfKind::Func).ok());
    let is_called = is_wanted && numbers.iter().all(Option::is_some);
    for ((_, stand_in), number) in WALK.into_iter().zip(numbers) {
        let number = number.filter(|_| is_called).unwrap_or(0);
        let (instructions, _) = object.as_chunks_mut::<8>();
        for instruction in instructions {
            let (code, operand) = instruction.split_at_mut(4);
            if code == CALL_OF_KERNEL && operand == stand_in.to_le_bytes() {
                operand.copy_from_slice(&number.to_le_bytes());
            }
        }
    }
    is_called
}

fn attach(object: &mut Ebpf, name: &str, tracepoint: &str, types: &Btf) -> Result<(), ProgramError> {
    let program = object.program_mut(name).ok_or(ProgramError::UnexpectedProgramType)?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, types)?;
    program.attach().map(drop)
}

fn of_program(name: &'static str, error: ProgramError) -> StartError {
    refused(&error).unwrap_or_else(|| StartError::Program { name, source: Box::new(error) })
}

fn of_table(name: &'static str, error: MapError) -> StartError {
    StartError::Table { name, source: Box::new(error) }
}

/// The kernel's refusal, where an error comes from one.
fn refused(error: &(dyn Error + 'static)) -> Option<StartError> {
    let chain = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    let number = chain.filter_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error()).next()?;
    let number = rustix::io::Errno::from_raw_os_error(number);
    matches!(number, rustix::io::Errno::PERM).then(|| StartError::Refused(number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_calls_each_function_of_the_kernel_by_its_stand_in() {
        let (instructions, _) = OBJECT.as_chunks::<8>();
        for (name, stand_in) in WALK {
            let calls = instructions.iter().filter(|instruction| {
                instruction.starts_with(&CALL_OF_KERNEL) && instruction.ends_with(&stand_in.to_le_bytes())
            });
            assert!(calls.count() > 0, "{name}");
        }
    }

    #[test]
    fn a_refusal_of_the_kernel_is_found_below_other_errors() {
        let denied = io::Error::from_raw_os_error(rustix::io::Errno::PERM.raw_os_error());
        let error = StartError::File { path: "x", source: denied };
        assert!(matches!(refused(&error), Some(StartError::Refused(_))));
        let other = io::Error::from_raw_os_error(rustix::io::Errno::NOMEM.raw_os_error());
        assert!(refused(&StartError::File { path: "x", source: other }).is_none());
    }
}
