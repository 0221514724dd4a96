//! The head of a CGI reply (RFC 3875, 6): header fields, then an empty line.
//!
//! ```text
//!  Status: 404 Not Found      `nph-` scripts write a status line of HTTP instead
//!  Content-Type: text/html
//!                             an empty line
//!  body …
//! ```

use std::ops::Range;

/// The head of a CGI reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgiHead {
    /// The status that the script writes. Without one it is 302 if the script writes a location, and else 200.
    pub status: u16,
    /// The reason phrase behind the status; empty if the script writes none.
    pub reason: Vec<u8>,
    /// The other fields, with the names as the script writes them.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// A local redirect: the path of this server, with its query, whose reply the client gets (6.2.2).
    pub local_redirect: Option<Vec<u8>>,
}

impl CgiHead {
    /// The length of the body, if the head has a `Content-Length`.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        let field = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
        std::str::from_utf8(&field.1).ok()?.parse().ok()
    }
}

/// Why bytes are no head of a CGI reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A line of the head is malformed.
    #[error("a line of the reply's head is no header field")]
    Field,
    /// The status is malformed.
    #[error("the status of the reply is no number from 100 to 999")]
    Status,
    /// The head has no field.
    #[error("the head of the reply is empty")]
    Empty,
}

/// Reads the head at the start of `bytes`. Returns it with its length, or `None` if it is not complete yet.
///
/// # Errors
///
/// When the bytes are no head.
pub fn parse(bytes: &[u8]) -> Result<Option<(CgiHead, usize)>, HeadError> {
    let Some((lines, length)) = lines(bytes) else { return Ok(None) };
    let mut head = CgiHead {
        status: 0,
        reason: Vec::new(),
        fields: Vec::with_capacity(lines.len()),
        local_redirect: None,
    };
    let mut location = None;
    for (number, line) in lines.into_iter().enumerate() {
        let line = &bytes[line];
        if number == 0 && line.starts_with(b"HTTP/") {
            let status = line.splitn(2, |&byte| byte == b' ').nth(1).ok_or(HeadError::Status)?;
            (head.status, head.reason) = read_status(status)?;
            continue;
        }
        let (name, value) = read_field(line)?;
        if name.eq_ignore_ascii_case(b"status") {
            (head.status, head.reason) = read_status(value)?;
            continue;
        }
        if name.eq_ignore_ascii_case(b"location") {
            location = Some(value.to_vec());
        }
        head.fields.push((name.to_vec(), value.to_vec()));
    }
    if head.fields.is_empty() && head.status == 0 {
        return Err(HeadError::Empty);
    }
    if head.status == 0 {
        head.local_redirect = location.clone().filter(|location| location.first() == Some(&b'/'));
        head.status = if location.is_some() { 302 } else { 200 };
    }
    Ok(Some((head, length)))
}

/// The lines of a head without their line ends, and the length of the head with its empty line.
fn lines(bytes: &[u8]) -> Option<(Vec<Range<usize>>, usize)> {
    let mut lines = Vec::new();
    let mut start = 0;
    while let Some(end) = bytes[start..].iter().position(|&byte| byte == b'\n').map(|at| start + at) {
        let last = if end > start && bytes[end - 1] == b'\r' { end - 1 } else { end };
        if last == start {
            return Some((lines, end + 1));
        }
        lines.push(start..last);
        start = end + 1;
    }
    None
}

fn read_field(line: &[u8]) -> Result<(&[u8], &[u8]), HeadError> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(HeadError::Field)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_value = value.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) || !is_value {
        return Err(HeadError::Field);
    }
    Ok((name, value))
}

/// Whether a field name may have a byte (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn read_status(value: &[u8]) -> Result<(u16, Vec<u8>), HeadError> {
    let value = value.trim_ascii();
    let (digits, reason) = value.split_at(value.len().min(3));
    let status: u16 =
        std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or(HeadError::Status)?;
    let separated = reason.first().is_none_or(|&byte| byte == b' ');
    if !(100..=999).contains(&status) || !separated || reason.iter().any(u8::is_ascii_control) {
        return Err(HeadError::Status);
    }
    Ok((status, reason.trim_ascii().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head_of(text: &str) -> CgiHead {
        let (head, length) = parse(text.as_bytes()).expect("a head").expect("whole");
        assert_eq!(&text[length..], "body");
        head
    }

    #[test]
    fn a_document_has_the_status_that_it_says_or_200() {
        let head = head_of("Content-Type: text/plain\nX-A:  b c \r\n\r\nbody");
        assert_eq!((head.status, head.reason.as_slice(), head.local_redirect), (200, &b""[..], None));
        assert_eq!(head.fields[1], (b"X-A".to_vec(), b"b c".to_vec()));
        let head = head_of("content-type: text/plain\r\nstatus: 404 Not Here\r\n\r\nbody");
        assert_eq!((head.status, head.reason.as_slice(), head.fields.len()), (404, &b"Not Here"[..], 1));
        let head = head_of("HTTP/1.0 201 Created\nServer: x\n\nbody");
        assert_eq!((head.status, head.fields.len()), (201, 1));
        assert_eq!(head_of("Status: 204\n\nbody").status, 204);
    }

    #[test]
    fn a_location_is_the_clients_or_this_servers() {
        let head = head_of("Location: http://example.org/\n\nbody");
        assert_eq!((head.status, head.local_redirect), (302, None));
        let head = head_of("Location: /other?x=1\n\nbody");
        assert_eq!((head.status, head.local_redirect.as_deref()), (302, Some(&b"/other?x=1"[..])));
        let head = head_of("Status: 303 See Other\nLocation: /other\n\nbody");
        assert_eq!((head.status, head.local_redirect), (303, None));
    }

    #[test]
    fn what_is_no_head_is_refused_and_what_is_not_whole_is_waited_for() {
        for whole in [
            "\n",
            "\r\n\r\n",
            "hello\n\n",
            ": x\n\n",
            "a b: c\n\n",
            "A: b\rc\n\n",
            "A: \0\n\n",
            "Status: x\n\n",
            "Status: 99\n\n",
            "Status: 2000\n\n",
            "HTTP/1.1\n\n",
        ] {
            assert!(parse(whole.as_bytes()).is_err(), "{whole:?}");
        }
        for part in ["", "A: b", "A: b\n", "A: b\r\n\r", "hello"] {
            assert_eq!(parse(part.as_bytes()), Ok(None), "{part:?}");
        }
    }

    proptest! {
        #[test]
        fn a_head_is_the_same_however_it_comes(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'A'), Just(b' '), any::<u8>()], 0..60)) {
            let whole = parse(&bytes);
            if let Ok(Some((head, length))) = &whole {
                prop_assert!(*length <= bytes.len() && (100..=999).contains(&head.status));
                prop_assert_eq!(parse(&bytes[..*length]), whole.clone());
                prop_assert_eq!(parse(&bytes[..*length - 1]), Ok(None));
            }
        }
    }
}
