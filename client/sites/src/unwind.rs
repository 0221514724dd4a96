//! The callers of a function: by the unwinding tables of its modules, through the rules that all processes of the channel share.
//!
//! Most code has no frame pointers. A place in code has one rule, which is worked out from the tables when the first process meets the place; from
//! then on a frame costs a look-up of its module and of a word.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Pointer, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow,
};
use regrow_abi::sites::{Base, Channel, Rule, Rules};

use crate::arch::{FRAME_POINTER, RETURN_ADDRESS, STACK_POINTER, thread_area};
use crate::caller::Caller;
use crate::modules::Module;
use crate::{state, tell};

/// A frame is not larger.
const LARGEST: usize = 1 << 20;

/// Room for the rows of a table on the stack, where there may be little.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(gimli::Register, RegisterRule<usize>); 24];
    type Stack = [UnwindTableRow<usize, Self>; 2];
}

/// Module and offset of a return address and those of its callers; a module of 0 behind the last that is known.
pub fn frames(channel: Channel<'_>, process: u32, from: &Caller) -> [(u64, u64); 3] {
    let mut frames = [(0, 0); 3];
    let (mut address, mut stack, mut frame) = (from.address, from.stack, from.frame);
    let limit = limit(stack);
    for at in 0..frames.len() {
        let Some(module) = Module::at(address.wrapping_sub(1)) else { break };
        let identity = tell::module(channel, process, &module);
        let offset = address.wrapping_sub(module.base()) as u64;
        if let Some(to) = frames.get_mut(at) {
            *to = (identity, offset);
        }
        if at + 1 == frames.len() {
            break;
        }
        let Rule::Caller { base, size, frame_pointer } = rule(channel, &module, (identity, offset), address)
        else {
            break;
        };
        let from = if base == Base::Stack { stack } else { frame };
        let end = from.wrapping_add(size as usize);
        let kept = end.wrapping_sub(usize::from(frame_pointer.unwrap_or(1)) * 8);
        let is_in_stack = |word: usize| word >= stack && word < end && word.is_multiple_of(8);
        if end <= stack || end > limit || end - stack > LARGEST || !is_in_stack(end - 8) || !is_in_stack(kept)
        {
            break;
        }
        // SAFETY: both words lie between the caller's stack pointer and the limit of its stack, where all is mapped.
        unsafe {
            address = core::ptr::with_exposed_provenance::<usize>(end - 8).read();
            if frame_pointer.is_some() {
                frame = core::ptr::with_exposed_provenance::<usize>(kept).read();
            }
        }
        stack = end;
    }
    frames
}

/// An address that the stack with this place does not reach beyond.
fn limit(stack: usize) -> usize {
    /// The C library keeps the area of a thread above its stack.
    const THREAD_STACK: usize = 256 << 20;
    let (top, area) = (state::stack_top(), thread_area());
    if stack < top && top - stack < (1 << 30) {
        top
    } else if stack < area && area - stack < THREAD_STACK {
        area
    } else {
        // A stack of the program's own: the tables of its code say where it ends.
        stack.saturating_add(LARGEST)
    }
}

/// The rule of a place.
fn rule(channel: Channel<'_>, module: &Module, (identity, offset): (u64, u64), address: usize) -> Rule {
    let place = Rules::place(identity, offset);
    if identity != 0
        && let Some(rule) = channel.rules().find(place)
    {
        return rule;
    }
    let rule = read_rule(module, address.wrapping_sub(1) as u64).unwrap_or(Rule::Last);
    if identity != 0 {
        channel.rules().put(place, rule);
    }
    rule
}

/// The rule of an address, by the tables of its module.
#[inline(never)]
fn read_rule(module: &Module, address: u64) -> Option<Rule> {
    let (table, segment) = module.frames()?;
    let table_at = table.as_ptr() as u64;
    let header = EhFrameHdr::new(table, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(table_at);
    let header = header.parse(&bases, size_of::<usize>() as u8).ok()?;
    let Pointer::Direct(frames_at) = header.eh_frame_ptr() else { return None };
    let frames = segment.get(usize::try_from(frames_at.checked_sub(segment.as_ptr() as u64)?).ok()?..)?;
    let bases = bases.set_eh_frame(frames_at);
    let frames: EhFrame<EndianSlice<'_, LittleEndian>> = EhFrame::new(frames, LittleEndian);
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let row = header
        .table()?
        .unwind_info_for_address(&frames, &bases, &mut context, address, EhFrame::cie_from_offset)
        .ok()?;
    rule_of_row(row)
}

fn rule_of_row(row: &UnwindTableRow<usize, OnStack>) -> Option<Rule> {
    let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let base = match register {
        STACK_POINTER => Base::Stack,
        FRAME_POINTER => Base::Frame,
        _ => return None,
    };
    let size = u32::try_from(offset).ok().filter(|size| size.is_multiple_of(8))?;
    if row.register(RETURN_ADDRESS) != Some(RegisterRule::Offset(-8)) {
        return None;
    }
    let frame_pointer = match row.register(FRAME_POINTER) {
        None | Some(RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) if offset < 0 && offset % 8 == 0 => {
            Some(u16::try_from(-offset / 8).ok()?)
        }
        // It has no value that is known, and a frame that is measured from it is not found.
        Some(_) => return None,
    };
    Some(Rule::Caller { base, size, frame_pointer })
}
