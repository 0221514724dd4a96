//! How the caller's registers are found at a place in the code, by the file's call frame information (`.eh_frame`).
//!
//! gimli reads the information; what it says of a place is kept in a small form, because a machine creates its processes at few places.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult, Expression, Format,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, Value,
};

use super::stack::Stack;
use crate::arch::{REGISTERS, RETURN_ADDRESS, STACK_POINTER};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// How expressions are encoded.
const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
/// Most steps of one expression.
const MOST_STEPS: u32 = 1_000;

/// The registers of a frame; `None`: the value is lost.
pub(crate) type Registers = [Option<u64>; REGISTERS];

/// Where a value of the caller is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// Nowhere.
    Lost,
    /// In memory, at this distance from the frame's address.
    At(i64),
    /// The frame's address and this.
    Sum(i64),
    /// In this register.
    In(usize),
    /// In memory, where the expression says; it is given the frame's address.
    AtExpression(Box<[u8]>),
    /// What the expression says; it is given the frame's address.
    Expression(Box<[u8]>),
}

/// The address of a frame: the value of the stack pointer before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FrameAddress {
    Register(usize, i64),
    Expression(Box<[u8]>),
}

/// How a frame is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    frame: FrameAddress,
    rules: Box<[(usize, Rule)]>,
}

/// The call frame information of a file.
#[derive(Debug)]
pub(crate) struct CallFrames {
    /// `.eh_frame_hdr` and its address.
    pub(crate) index: Option<(u64, Vec<u8>)>,
    /// `.eh_frame` and its address.
    pub(crate) frames: (u64, Vec<u8>),
}

impl CallFrames {
    /// Bytes that it keeps in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.frames.1.len() + self.index.as_ref().map_or(0, |(_, bytes)| bytes.len())
    }

    /// The addresses of the function that an address is of.
    pub(crate) fn function(&self, address: u64) -> Option<Range<u64>> {
        let frames = EhFrame::new(&self.frames.1, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(self.frames.0);
        let function = frames.fde_for_address(&bases, address, EhFrame::cie_from_offset).ok()?;
        Some(function.initial_address()..function.end_address())
    }

    /// What is said of an address, as it stands in the file.
    pub(crate) fn row(&self, address: u64) -> Option<Row> {
        let frames = EhFrame::new(&self.frames.1, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(self.frames.0);
        let mut context = UnwindContext::new();
        let row = match &self.index {
            Some((at, bytes)) => {
                let bases = bases.set_eh_frame_hdr(*at);
                let header =
                    EhFrameHdr::new(bytes, LittleEndian).parse(&bases, ENCODING.address_size).ok()?;
                let table = header.table()?;
                table
                    .unwind_info_for_address(&frames, &bases, &mut context, address, EhFrame::cie_from_offset)
                    .ok()?
                    .clone()
            }
            None => frames
                .unwind_info_for_address(&bases, &mut context, address, EhFrame::cie_from_offset)
                .ok()?
                .clone(),
        };
        small(&row, &frames)
    }
}

/// What a row says, in its small form.
fn small(row: &UnwindTableRow<usize>, frames: &EhFrame<Bytes<'_>>) -> Option<Row> {
    let bytes = |expression: &gimli::UnwindExpression<usize>| {
        let Expression(bytes) = expression.get(frames).ok()?;
        Some(Box::from(bytes.slice()))
    };
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            FrameAddress::Register(number(*register)?, *offset)
        }
        CfaRule::Expression(expression) => FrameAddress::Expression(bytes(expression)?),
    };
    let mut rules = Vec::new();
    for (register, rule) in row.registers() {
        let Some(number) = number(*register) else { continue };
        let rule = match rule {
            RegisterRule::SameValue => continue,
            RegisterRule::Offset(distance) => Rule::At(*distance),
            RegisterRule::ValOffset(distance) => Rule::Sum(*distance),
            RegisterRule::Register(other) => Rule::In(self::number(*other)?),
            RegisterRule::Expression(expression) => Rule::AtExpression(bytes(expression)?),
            RegisterRule::ValExpression(expression) => Rule::Expression(bytes(expression)?),
            _ => Rule::Lost,
        };
        rules.push((number, rule));
    }
    Some(Row { frame, rules: rules.into() })
}

/// A register's number, of those that are followed.
fn number(register: Register) -> Option<usize> {
    let number = usize::from(register.0);
    (number < REGISTERS).then_some(number)
}

impl Row {
    /// The caller's registers. `None`: they are lost, or there is no caller.
    pub(crate) fn leave(&self, registers: &Registers, stack: &Stack<'_>) -> Option<Registers> {
        let frame = match &self.frame {
            FrameAddress::Register(number, offset) => {
                registers.get(*number).copied().flatten()?.wrapping_add_signed(*offset)
            }
            FrameAddress::Expression(bytes) => evaluate(bytes, None, registers, stack)?,
        };
        let mut callers = *registers;
        *callers.get_mut(STACK_POINTER)? = Some(frame);
        *callers.get_mut(RETURN_ADDRESS)? = None;
        for (number, rule) in &self.rules {
            let value = match rule {
                Rule::Lost => None,
                Rule::At(distance) => stack.word(frame.wrapping_add_signed(*distance)),
                Rule::Sum(distance) => Some(frame.wrapping_add_signed(*distance)),
                Rule::In(other) => registers.get(*other).copied().flatten(),
                Rule::AtExpression(bytes) => {
                    evaluate(bytes, Some(frame), registers, stack).and_then(|address| stack.word(address))
                }
                Rule::Expression(bytes) => evaluate(bytes, Some(frame), registers, stack),
            };
            *callers.get_mut(*number)? = value;
        }
        callers.get(RETURN_ADDRESS).copied().flatten()?;
        Some(callers)
    }
}

/// The value of an expression.
fn evaluate(bytes: &[u8], frame: Option<u64>, registers: &Registers, stack: &Stack<'_>) -> Option<u64> {
    let mut evaluation = Expression(EndianSlice::new(bytes, LittleEndian)).evaluation(ENCODING);
    evaluation.set_max_iterations(MOST_STEPS);
    if let Some(frame) = frame {
        evaluation.set_initial_value(frame);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(number(register)?).copied().flatten()?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(stack.word(address)?)).ok()?
            }
            _ => return None,
        };
    }
    evaluation.value_result()?.to_u64(u64::MAX).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::FRAME_POINTER;
    use crate::unwind::stack::Piece;

    fn registers(stack_pointer: u64) -> Registers {
        let mut registers = [Some(0); REGISTERS];
        registers[STACK_POINTER] = Some(stack_pointer);
        registers[RETURN_ADDRESS] = Some(0x40_1000);
        registers
    }

    fn stack_of(bytes: &[u8]) -> Stack<'_> {
        Stack { near: Piece { base: 0x1000, bytes }, far: None }
    }

    /// Words of a stack.
    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_frame_is_left_by_its_rules() {
        let bytes = words(&[1, 2, 0x77, 0x40_2000]);
        let stack = stack_of(&bytes);
        let rules = [(FRAME_POINTER, Rule::At(-16)), (RETURN_ADDRESS, Rule::At(-8))];
        let row = Row { frame: FrameAddress::Register(STACK_POINTER, 32), rules: rules.into() };
        let callers = row.leave(&registers(0x1000), &stack).unwrap();
        assert_eq!(callers[RETURN_ADDRESS], Some(0x40_2000));
        assert_eq!(callers[STACK_POINTER], Some(0x1020));
        assert_eq!(callers[FRAME_POINTER], Some(0x77));
    }

    #[test]
    fn a_return_address_that_was_not_copied_ends_the_way() {
        let stack = stack_of(&[0; 16]);
        let rules = [(RETURN_ADDRESS, Rule::At(-8))];
        let row = Row { frame: FrameAddress::Register(STACK_POINTER, 32), rules: rules.into() };
        assert_eq!(row.leave(&registers(0x1000), &stack), None);
        let row = Row {
            frame: FrameAddress::Register(STACK_POINTER, 8),
            rules: [(RETURN_ADDRESS, Rule::Lost)].into(),
        };
        assert_eq!(row.leave(&registers(0x1000), &stack), None, "the outermost frame");
    }

    #[test]
    fn a_frame_address_may_be_an_expression() {
        let bytes = words(&[0x2000, 0x40_2000]);
        let stack = stack_of(&bytes);
        // DW_OP_breg7 0: the stack pointer; DW_OP_lit16, DW_OP_plus.
        let frame = FrameAddress::Expression([0x77, 0, 0x40, 0x22].into());
        let row = Row { frame, rules: [(RETURN_ADDRESS, Rule::At(-8))].into() };
        assert_eq!(row.leave(&registers(0x1000), &stack).unwrap()[RETURN_ADDRESS], Some(0x40_2000));
        // DW_OP_breg7 0, DW_OP_deref: what the stack's first word says.
        let rule = Rule::AtExpression([0x77, 0, 0x06].into());
        let row =
            Row { frame: FrameAddress::Register(STACK_POINTER, 16), rules: [(RETURN_ADDRESS, rule)].into() };
        assert_eq!(row.leave(&registers(0x1000), &stack), None, "the word is not on the stack");
        // DW_OP_skip to itself.
        let endless = FrameAddress::Expression([0x2f, 0xfd, 0xff].into());
        let row = Row { frame: endless, rules: [].into() };
        assert_eq!(row.leave(&registers(0x1000), &stack), None);
    }
}
