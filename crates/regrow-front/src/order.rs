//! Orders: what a front end reads when it wakes.
//!
//! ```text
//! regrow 1 ARGC ENVC BYTES\n   then ARGC and ENVC strings, each ended by NUL, then BYTES bytes
//! ```

use crate::{ORDER_VARIABLE, WARM_VARIABLE};
use std::io::Write as _;

/// How an order begins: the name of the format and its version.
const HEAD: &[u8] = b"regrow 1 ";

/// Appends an order. Front ends' own variables in `env` are left out.
///
/// A string with a NUL byte in it cannot be said: it would be taken for two. No argument and no variable has one.
pub fn write<'a, 'e>(
    argv: impl Iterator<Item = &'a [u8]> + Clone,
    env: impl Iterator<Item = &'e [u8]> + Clone,
    payload: &[u8],
    to: &mut Vec<u8>,
) {
    let env = env.filter(|entry| !is_own(entry));
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

/// Whether an entry of an environment is one of the front ends' own variables.
fn is_own(entry: &[u8]) -> bool {
    [WARM_VARIABLE, ORDER_VARIABLE]
        .iter()
        .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')))
}

/// The strings of a block in which each is ended by a NUL byte.
pub fn strings(block: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    block.split_inclusive(|&byte| byte == 0).map(|text| text.strip_suffix(&[0]).unwrap_or(text))
}

/// An order that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order<'a> {
    /// The whole argument vector.
    pub argv: Vec<&'a [u8]>,
    /// The environment.
    pub env: Vec<&'a [u8]>,
    /// The bytes that the caller passes.
    pub payload: &'a [u8],
}

/// An order cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The first line is not that of an order.
    #[error("the first line of the order is not `regrow 1` and three numbers")]
    Head,
    /// There are fewer strings or bytes than the first line says, or more.
    #[error("the order is not as long as its first line says")]
    Length,
}

/// Reads an order.
///
/// # Errors
///
/// When the bytes are not an order and nothing else.
pub fn parse(bytes: &[u8]) -> Result<Order<'_>, OrderError> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(OrderError::Head)?;
    let numbers = bytes[..end].strip_prefix(HEAD).ok_or(OrderError::Head)?;
    let numbers: Option<Vec<usize>> = numbers.split(|&byte| byte == b' ').map(number).collect();
    let Some(&[words, variables, size]) = numbers.as_deref() else { return Err(OrderError::Head) };
    let rest = &bytes[end + 1..];
    let block = rest.len().checked_sub(size).ok_or(OrderError::Length)?;
    let (block, payload) = rest.split_at(block);
    if block.last().is_some_and(|&byte| byte != 0) {
        return Err(OrderError::Length);
    }
    let mut argv: Vec<&[u8]> = strings(block).collect();
    if words.checked_add(variables) != Some(argv.len()) {
        return Err(OrderError::Length);
    }
    let env = argv.split_off(words);
    Ok(Order { argv, env, payload })
}

/// A decimal number without sign.
fn number(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
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
        assert_eq!(parse(&bytes).expect("an order").env, [b"REGROW_WARMER=1"]);
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for bytes in
            [&b""[..], b"regrow 1 0 0 0", b"regrow 2 0 0 0\n", b"regrow 1 0 0\n", b"regrow 1 0 +0 0\n"]
        {
            assert_eq!(parse(bytes), Err(OrderError::Head));
        }
        for bytes in
            [&b"regrow 1 1 0 0\n"[..], b"regrow 1 0 0 0\na\0", b"regrow 1 1 0 0\na", b"regrow 1 0 0 1\n"]
        {
            assert_eq!(parse(bytes), Err(OrderError::Length));
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
            let order = parse(&bytes).expect("an order");
            prop_assert_eq!(order.argv, argv);
            prop_assert_eq!(order.env, env);
            prop_assert_eq!(order.payload, payload);
        }

        #[test]
        fn no_bytes_are_too_strange_to_be_refused(bytes in vec(any::<u8>(), 0..40)) {
            let _ = parse(&bytes);
            let _ = parse(&[HEAD, &bytes].concat());
        }
    }
}
