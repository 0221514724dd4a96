//! Orders: what a front end reads when it wakes.
//!
//! ```text
//! regrow 1 ARGC ENVC BYTES\n   then ARGC and ENVC strings, each ended by NUL, then BYTES bytes
//! ```

use std::io::Write as _;

use crate::channel::is_own_entry;

/// How an order begins: the name of the format and its version.
const HEAD: &[u8] = b"regrow 1 ";

/// Appends an order to `to`: arguments, environment and the bytes that the caller passes. It leaves the front ends' own
/// variables out of the environment.
///
/// No string may have a NUL byte in it: the reader would take it for two.
pub fn write<'a, 'e>(
    argv: impl Iterator<Item = &'a [u8]> + Clone,
    env: impl Iterator<Item = &'e [u8]> + Clone,
    payload: &[u8],
    to: &mut Vec<u8>,
) {
    let env = env.filter(|entry| !is_own_entry(entry));
    to.extend_from_slice(HEAD);
    // Writing to a vector does not fail.
    let _ = writeln!(to, "{} {} {}", argv.clone().count(), env.clone().count(), payload.len());
    argv.for_each(|text| end_with_nul(text, to));
    env.for_each(|text| end_with_nul(text, to));
    to.extend_from_slice(payload);
}

fn end_with_nul(text: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(text);
    to.push(0);
}

/// Takes a block of strings apart in which a NUL byte ends each.
pub fn strings(block: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    block.split_inclusive(|&byte| byte == 0).map(without_nul)
}

/// An order, as a front end reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOrder<'a> {
    /// The whole argument vector.
    pub argv: Vec<&'a [u8]>,
    /// The environment: entries, each ended by a NUL.
    pub environment: &'a [u8],
    /// The bytes that the caller passes.
    pub payload: &'a [u8],
}

/// Why a front end cannot read an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderError {
    /// The first line is not that of an order.
    Head,
    /// There are fewer strings or bytes than the first line says, or more.
    Length,
}

/// Reads an order as a front end does: the bytes must be one order and nothing else.
///
/// # Errors
/// [`OrderError`].
pub fn read(bytes: &[u8]) -> Result<ReadOrder<'_>, OrderError> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(OrderError::Head)?;
    let (head, rest) = bytes.split_at_checked(end).ok_or(OrderError::Head)?;
    let mut numbers =
        head.strip_prefix(HEAD).ok_or(OrderError::Head)?.split(|&byte| byte == b' ').map(number);
    let mut next = || numbers.next().flatten().ok_or(OrderError::Head);
    let (words, variables, size) = (next()?, next()?, next()?);
    if numbers.next().is_some() {
        return Err(OrderError::Head);
    }
    let rest = rest.get(1..).unwrap_or_default();
    let block = rest.len().checked_sub(size).ok_or(OrderError::Length)?;
    let (block, payload) = rest.split_at_checked(block).ok_or(OrderError::Length)?;
    if block.last().is_some_and(|&byte| byte != 0) {
        return Err(OrderError::Length);
    }
    let mut strings = block.split_inclusive(|&byte| byte == 0);
    let argv: Vec<&[u8]> = strings.by_ref().take(words).map(without_nul).collect();
    let all = argv.len() == words && strings.clone().count() == variables;
    let length: usize = strings.map(<[u8]>::len).sum();
    let environment = block.get(block.len() - length..).filter(|_| all).ok_or(OrderError::Length)?;
    Ok(ReadOrder { argv, environment, payload })
}

/// A decimal number without sign.
fn number(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn without_nul(text: &[u8]) -> &[u8] {
    text.strip_suffix(&[0]).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn written(argv: &[&[u8]], env: &[&[u8]], payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(argv.iter().copied(), env.iter().copied(), payload, &mut bytes);
        bytes
    }

    #[test]
    fn an_order_is_written_as_the_contract_says() {
        let bytes = written(&[b"python3", b"-"], &[b"A=1"], b"call");
        assert_eq!(bytes, b"regrow 1 2 1 4\npython3\0-\0A=1\0call");
    }

    #[test]
    fn the_front_ends_own_variables_are_left_out() {
        let bytes = written(&[], &[b"REGROW_WARM=63", b"REGROW_WARMER=1", b"REGROW_ORDER=63"], b"");
        assert_eq!(read(&bytes).expect("an order").environment, b"REGROW_WARMER=1\0");
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for bytes in
            [&b""[..], b"regrow 1 0 0 0", b"regrow 2 0 0 0\n", b"regrow 1 0 0\n", b"regrow 1 0 +0 0\n"]
        {
            assert_eq!(read(bytes), Err(OrderError::Head));
        }
        for bytes in
            [&b"regrow 1 1 0 0\n"[..], b"regrow 1 0 0 0\na\0", b"regrow 1 1 0 0\na", b"regrow 1 0 0 1\n"]
        {
            assert_eq!(read(bytes), Err(OrderError::Length));
        }
    }

    #[test]
    fn a_block_is_taken_apart_at_each_nul() {
        assert_eq!(strings(b"a\0\0b\0").collect::<Vec<_>>(), [&b"a"[..], b"", b"b"]);
        assert_eq!(strings(b"").count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            argv in vec(vec(1_u8.., 0..9), 0..5), env in vec(vec(1_u8.., 0..9), 0..5), payload in vec(any::<u8>(), 0..9),
        ) {
            let mut bytes = Vec::new();
            write(argv.iter().map(Vec::as_slice), env.iter().map(Vec::as_slice), &payload, &mut bytes);
            let order = read(&bytes).expect("an order");
            prop_assert_eq!(order.argv, argv);
            prop_assert_eq!(strings(order.environment).collect::<Vec<_>>(), env);
            prop_assert_eq!(order.payload, payload);
        }

        #[test]
        fn no_bytes_are_too_strange_to_be_refused(bytes in vec(any::<u8>(), 0..40)) {
            let _ = read(&bytes);
            let _ = read(&[HEAD, &bytes].concat());
        }
    }
}
