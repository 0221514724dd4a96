//! What passes between engine and agent: the words that a program can have written into a control area are a known
//! value or none, and the block that an order carries is laid out as the kernel would, whatever strings are in it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use regrow_abi::{Broken, Refused, State};
use regrow_image::stack_plan::{ArgumentBlock, StackPlan, at};

/// Takes what it is asked for from the front of an input; zeros when that is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    fn size(&mut self, bytes: usize) -> usize {
        usize::try_from(self.number(bytes)).unwrap_or(0)
    }
}

/// A word of a control area.
fn check_word(raw: u32) {
    assert!(State::from_raw(raw).is_none_or(|state| state as u32 == raw));
    assert!(Broken::from_raw(raw).is_none_or(|why| why as u32 == raw));
    assert!(Refused::from_raw(raw).is_none_or(|step| step as u32 == raw));
    assert!(Broken::from_raw(0).is_none() && Refused::from_raw(0).is_none());
}

/// A laid-out block beside what it was made of.
struct Laid<'a> {
    plan: &'a StackPlan,
    block: &'a ArgumentBlock,
    bytes: &'a [u8],
}

impl Laid<'_> {
    fn word(&self, index: usize) -> u64 {
        let word = &self.bytes[index * 8..][..8];
        u64::from_ne_bytes(word.try_into().expect("eight bytes"))
    }

    /// The string at an address of the block, its NUL included.
    fn string(&self, address: u64) -> &[u8] {
        let at = usize::try_from(address - self.block.address).expect("above the block's start");
        let length = self.bytes[at..].iter().position(|&byte| byte == 0).expect("it ends in NUL");
        &self.bytes[at..=at + length]
    }

    /// Checks an array of pointers: it ends in NULL, and its strings follow each other from `start` to at most `end`.
    fn check_list(&self, first_word: usize, count: usize, strings: &[u8], bounds: (u64, u64)) {
        let mut at = bounds.0;
        for index in 0..count {
            assert_eq!(self.word(first_word + index), at);
            let offset = usize::try_from(at - bounds.0).expect("it is inside");
            let string = self.string(at);
            assert_eq!(&strings[offset..offset + string.len()], string);
            at += string.len() as u64;
        }
        assert!(at <= bounds.1);
        assert_eq!(self.word(first_word + count), 0);
        assert_eq!(bounds.1 - bounds.0, strings.len() as u64);
    }

    fn check(&self, args: (&[u8], usize), env: (&[u8], usize), path: Option<&[u8]>) {
        let Laid { plan, block, bytes } = self;
        let end = block.address + bytes.len() as u64;
        assert!(block.address.is_multiple_of(16) && plan.floor <= block.address && end <= plan.top);
        assert!(plan.top - end < 16);
        assert_eq!((self.word(0), block.argc), (args.1 as u64, args.1 as u64));
        assert_eq!(block.argv, block.address + 8);
        assert_eq!(block.envp, block.argv + 8 * (args.1 as u64 + 1));
        let [arg_start, arg_end, env_start, env_end] = block.bounds;
        assert_eq!((block.argv0, arg_end), (arg_start, env_start));
        self.check_list(1, args.1, args.0, (arg_start, arg_end));
        self.check_list(1 + args.1 + 1, env.1, env.0, (env_start, env_end));
        let auxv = 1 + args.1 + 1 + env.1 + 1;
        for (index, &(key, value)) in plan.auxv.iter().enumerate() {
            let (have_key, have_value) = (self.word(auxv + 2 * index), self.word(auxv + 2 * index + 1));
            let is_path = key == at::EXECFN && path.is_some();
            assert_eq!((have_key, have_value), (key, if is_path { env_end } else { value }));
        }
        assert_eq!(block.address + 8 * (auxv + 2 * plan.auxv.len()) as u64, arg_start);
        assert_eq!(block.exec_path, path.map(|_| env_end));
        if let Some(path) = path {
            assert_eq!(self.string(env_end).split_last(), Some((&0, path)));
        }
        assert_eq!(end, env_end + path.map_or(0, |path| path.len() as u64 + 1));
    }
}

/// How many strings a list has that is as the engine makes them: each is ended by its NUL.
fn count(strings: &[u8]) -> usize {
    strings.iter().filter(|&&byte| byte == 0).count()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    check_word(u32::try_from(input.number(1)).unwrap_or(0));
    check_word(u32::try_from(input.number(4)).unwrap_or(0));
    let floor = input.number(8);
    let plan = StackPlan {
        floor,
        top: floor.saturating_add(input.number(3)),
        auxv: (0..input.size(1) % 24).map(|_| (input.number(1) % 40, input.number(2))).collect(),
    };
    let path = (input.number(1) % 2 == 1).then(|| {
        let size = input.size(1) % 64;
        input.bytes(size)
    });
    let path = path.filter(|path| !path.contains(&0));
    let args_size = input.size(2) % 2048;
    let args = input.bytes(args_size);
    let lie = input.size(1);
    let env = input.0;
    let mut laid = vec![1, 2, 3];
    let honest = (count(args), count(env));
    // A list with fewer or more strings than are said is refused or cut, never read beyond.
    for counts in [honest, (lie, honest.1), (honest.0, lie)] {
        let (args, env) = ((args, counts.0), (env, counts.1));
        if let Some(block) = plan.lay_out(args, env, path, &mut laid) {
            assert!(counts.0 <= honest.0 && counts.1 <= honest.1);
            Laid { plan: &plan, block: &block, bytes: &laid }.check(args, env, path);
        }
    }
});
