//! From the registers and the stack of a process in a system call to the places in the code that it came through.
//!
//! Three ways lead from a frame to its caller's, and the first that is there is gone:
//!
//! 1. call frame information, which nearly all files have, stripped ones too;
//! 2. the frame pointer, in Go programs and in code that keeps one;
//! 3. the stack itself: the first word that is the return address of a call of this function, and stands where its frame may end. The parts
//!    of C libraries that are in assembly (`clone`) and all of musl, which have neither of the two, are left by it.
//!
//! Nothing that is read here is believed: a return address must stand in a mapping that may be executed, and stack pointers only ascend.

pub(crate) mod rows;
pub(crate) mod stack;

use crate::arch::{
    self, Call, FRAME_POINTER, LONGEST_CALL_BYTES, LeafReturn, REGISTERS, RETURN_ADDRESS, STACK_POINTER,
};
use crate::images::{FileNumber, Images, Met};
use rows::Registers;
use stack::Stack;

/// Most frames that are followed.
const MOST_FRAMES: usize = 48;
/// The longest function that a direct call is believed to be of, in bytes.
const LONGEST_FUNCTION_BYTES: u64 = 8 << 10;

/// A file in an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    pub(crate) file: FileNumber,
}

/// A place in the code of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: FileNumber,
    /// The address, as it stands in the file: a return address, or at the innermost place that of the instruction behind the system call.
    pub(crate) address: u64,
    /// The code stands between the program and the kernel: it is a C library's.
    pub(crate) is_wrapper: bool,
    /// It is of a function of the C library that creates a child by itself, as `system` does: the function's first address.
    pub(crate) creator: Option<u64>,
}

/// The places that a process came through to its system call, the innermost one first.
pub(crate) fn places(
    registers: [u64; REGISTERS],
    stack: &Stack<'_>,
    space: &[Mapped],
    pid: u32,
    images: &mut Images,
) -> Vec<Place> {
    let mut walk = Walk { stack, space, pid, images };
    let mut registers = registers.map(Some);
    let mut places = Vec::new();
    while places.len() < MOST_FRAMES
        && let Some(address) = registers.get(RETURN_ADDRESS).copied().flatten()
        && let Some(at) = walk.find(address, places.is_empty())
    {
        places.push(at.place);
        let Some(callers) = walk.leave(&registers, &at) else { break };
        registers = callers;
    }
    places
}

/// Where the walk stands.
struct At {
    place: Place,
    /// The address in the file that decides which function it is: before the return address, because a call may be a function's last
    /// instruction.
    inside: u64,
    is_innermost: bool,
    met: Met,
}

struct Walk<'a> {
    stack: &'a Stack<'a>,
    space: &'a [Mapped],
    pid: u32,
    images: &'a mut Images,
}

impl Walk<'_> {
    /// The mapping that an address stands in.
    fn mapping(&self, address: u64) -> Option<&Mapped> {
        let after = self.space.partition_point(|mapped| mapped.start <= address);
        self.space.get(after.checked_sub(1)?).filter(|mapped| address < mapped.end)
    }

    /// What stands at an address.
    fn find(&mut self, address: u64, is_innermost: bool) -> Option<At> {
        let back = u64::from(!is_innermost);
        let inside = address.checked_sub(back)?;
        let Mapped { start, end, offset, file } = *self.mapping(inside)?;
        let met = Met { pid: self.pid, mapped: Some((start, end)) };
        let code = self.images.code(file, met)?;
        let inside = code.address_of(offset.checked_add(inside - start)?)?;
        let address = inside.checked_add(back)?;
        let place =
            Place { file, address, is_wrapper: code.is_wrapper(inside), creator: code.creator(inside) };
        Some(At { place, inside, is_innermost, met })
    }

    /// The caller's registers.
    fn leave(&mut self, registers: &Registers, at: &At) -> Option<Registers> {
        let callers = match self.images.row(at.place.file, at.inside, at.met) {
            Some(row) => row.leave(registers, self.stack),
            None => self.leave_without_row(registers, at),
        }?;
        let ascends = callers.get(STACK_POINTER)? > registers.get(STACK_POINTER)? || at.is_innermost;
        let returns = callers.get(RETURN_ADDRESS).copied().flatten()?;
        (ascends && self.mapping(returns.checked_sub(1)?).is_some()).then_some(callers)
    }

    fn leave_without_row(&mut self, registers: &Registers, at: &At) -> Option<Registers> {
        let has_frame_pointers = self.images.code(at.place.file, at.met)?.has_frame_pointers();
        if has_frame_pointers {
            return self.leave_by_frame_pointer(registers);
        }
        if at.is_innermost
            && let Some(callers) = self.leave_leaf(registers, at)
        {
            return Some(callers);
        }
        self.leave_by_search(registers, at).or_else(|| self.leave_by_frame_pointer(registers))
    }

    /// By the frame pointer: it points to the caller's, with the return address behind.
    fn leave_by_frame_pointer(&self, registers: &Registers) -> Option<Registers> {
        let frame = registers.get(FRAME_POINTER).copied().flatten()?;
        let returns = self.stack.word(frame.checked_add(8)?)?;
        self.mapping(returns.checked_sub(1)?)?;
        returned(registers, frame.checked_add(16)?, returns, Some(self.stack.word(frame)))
    }

    /// From a function that has no frame at its system call.
    fn leave_leaf(&mut self, registers: &Registers, at: &At) -> Option<Registers> {
        let stack_pointer = registers.get(STACK_POINTER).copied().flatten()?;
        let (_, behind) = self.images.text(at.place.file, at.place.address, at.met)?;
        match arch::return_of_leaf(behind) {
            LeafReturn::Register(number) => {
                let returns = registers.get(number).copied().flatten()?;
                self.call_before(returns)?;
                returned(registers, stack_pointer, returns, None)
            }
            LeafReturn::Stack => {
                let returns = self.stack.word(stack_pointer)?;
                self.called_from(returns, at)?;
                returned(registers, stack_pointer.checked_add(8)?, returns, None)
            }
        }
    }

    /// By the stack: the return address of a call of this function, as far up as the function's first instructions make room.
    ///
    /// Frames hold return addresses of earlier calls as well. Those of functions further down in the file have the lower address: of the
    /// functions that were called, this one begins last.
    fn leave_by_search(&mut self, registers: &Registers, at: &At) -> Option<Registers> {
        let stack_pointer = registers.get(STACK_POINTER).copied().flatten()?;
        let mut best: Option<(u64, u64, u64, bool)> = None;
        for word_at in self.stack.words_from(stack_pointer) {
            let Some(word) = self.stack.word(word_at) else { continue };
            let Some(function) = self.called_from(word, at) else { continue };
            let is_better = best.is_none_or(|(begin, ..)| function > begin);
            let (_, code) = self.images.text(at.place.file, function, at.met)?;
            let until = usize::try_from(at.inside.saturating_sub(function)).unwrap_or(usize::MAX);
            let code = code.get(..until).unwrap_or(code);
            if is_better && arch::frame_may_have(code, word_at - stack_pointer) {
                best = Some((function, word_at, word, arch::keeps_frame_pointer(code)));
            }
        }
        let (_, word_at, word, keeps_frame_pointer) = best?;
        let frame = keeps_frame_pointer.then(|| self.stack.word(word_at.checked_sub(8)?));
        returned(registers, word_at.checked_add(8)?, word, frame)
    }

    /// The first address of the function that this code is of, when a word is the return address of a call that may be of it.
    fn called_from(&mut self, word: u64, at: &At) -> Option<u64> {
        let (call, file, returns, _) = self.call_before(word)?;
        let named = self.images.function(at.place.file, at.inside, at.met);
        let Call::Direct(distance) = call else { return named };
        let target = returns.wrapping_add_signed(distance);
        let is_near = at.inside.checked_sub(target).is_some_and(|inside| inside < LONGEST_FUNCTION_BYTES);
        match named {
            // From another file the call goes through a linkage table.
            Some(function) => (file != at.place.file || target == function).then_some(function),
            None => (file == at.place.file && is_near).then_some(target),
        }
    }

    /// The call before an address, with the file and the address in it.
    fn call_before(&mut self, address: u64) -> Option<(Call, FileNumber, u64, Met)> {
        let last = address.checked_sub(1)?;
        let Mapped { start, end, offset, file } = *self.mapping(last)?;
        let met = Met { pid: self.pid, mapped: Some((start, end)) };
        let returns =
            self.images.code(file, met)?.address_of(offset.checked_add(last - start)?)?.checked_add(1)?;
        let (before, _) = self.images.text(file, returns, met)?;
        let near = before.get(before.len().saturating_sub(LONGEST_CALL_BYTES)..)?;
        Some((arch::call_before(near)?, file, returns, met))
    }
}

/// The registers behind a return; the frame pointer is as before where no other is given.
fn returned(
    registers: &Registers,
    stack_pointer: u64,
    returns: u64,
    frame: Option<Option<u64>>,
) -> Option<Registers> {
    let mut callers = *registers;
    *callers.get_mut(STACK_POINTER)? = Some(stack_pointer);
    *callers.get_mut(RETURN_ADDRESS)? = Some(returns);
    if let Some(frame) = frame {
        *callers.get_mut(FRAME_POINTER)? = frame;
    }
    Some(callers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::identity_of;
    use stack::Piece;
    use std::path::PathBuf;

    /// The mapped code of a program, and what is known of it.
    fn program(path: &str) -> (Images, Mapped, u64) {
        let mut images = Images::default();
        let identity = identity_of(&std::fs::metadata(path).unwrap());
        let gone = Met { pid: u32::MAX, mapped: Some((0, 0)) };
        assert!(images.see(identity, Some(PathBuf::from(path)), gone));
        let file = images.number(identity, gone);
        let segment = images.code(file, gone).unwrap().segments[0];
        let start = 0x7000_0000_0000;
        (images, Mapped { start, end: start + segment.bytes, offset: segment.offset, file }, segment.address)
    }

    /// Whatever registers and stack hold, the walk ends, and only goes through code.
    #[test]
    fn any_stack_is_left_in_time() {
        let (mut images, mapped, first) = program("/bin/true");
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below.max(1)
        };
        let base = 0x7fff_0000_0000;
        let mut longest = 0;
        for _ in 0..2_000 {
            let mut bytes = Vec::new();
            for _ in 0..256 {
                let word = match next(4) {
                    0 => next(u64::MAX),
                    1 => base + 8 * next(300),
                    _ => mapped.start + next(mapped.end - mapped.start),
                };
                bytes.extend(word.to_le_bytes());
            }
            let stack = Stack { near: Piece { base, bytes: &bytes }, far: None };
            let mut registers = [0; REGISTERS].map(|_| base + 8 * next(300));
            registers[STACK_POINTER] = base;
            registers[RETURN_ADDRESS] = mapped.start + next(mapped.end - mapped.start);
            let places = places(registers, &stack, &[mapped], u32::MAX, &mut images);
            assert!(places.len() <= MOST_FRAMES);
            let bytes = mapped.end - mapped.start;
            assert!(places.iter().all(|place| (first..=first + bytes).contains(&place.address)));
            longest = longest.max(places.len());
        }
        assert!(longest > 3, "stacks that are followed are among them");
    }

    #[test]
    fn code_that_is_in_no_file_has_no_place() {
        let (mut images, mapped, _) = program("/bin/true");
        let stack = Stack { near: Piece { base: 0x1000, bytes: &[] }, far: None };
        let at = |address: u64, images: &mut Images| {
            let mut registers = [0; REGISTERS];
            registers[RETURN_ADDRESS] = address;
            places(registers, &stack, &[mapped], u32::MAX, images).len()
        };
        assert_eq!(at(mapped.start, &mut images), 1);
        for outside in [0, mapped.start - 1, mapped.end, u64::MAX] {
            assert_eq!(at(outside, &mut images), 0, "{outside:#x}");
        }
    }
}
