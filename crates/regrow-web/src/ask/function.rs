//! Functions, by the contract of the classic watchdog of OpenFaaS: the program reads the body of the request and writes the body of
//! the reply, and variables hold the rest of the request.
//!
//! The gateway keeps the watchdog's variables, methods, statuses (405; 408 after the time limit; 429 for too many requests; 500 with the
//! exit status and the output), `X-Duration-Seconds`, the health path, and the lock file behind it.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method};

use crate::ask::request_head::RequestHead;
use crate::ask::{target, variables};
use crate::cgi_head::CgiHead;
use crate::job::{RequestJob, Variables};
use crate::request_body::StdinSource;
use crate::request_error::RequestError;
use crate::settings::FunctionSettings;

/// The path that tells whether the function accepts requests.
const HEALTH: &str = "/_/health";
/// The methods that the program answers.
const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The reply to a request for the health path, which the program does not see. `None` is for the program.
///
/// # Errors
///
/// [`RequestError::Method`] when nobody answers the method.
pub(crate) fn health(
    function: &FunctionSettings,
    head: &RequestHead,
) -> Result<Option<(CgiHead, Bytes)>, RequestError> {
    if head.path() == HEALTH {
        return match head.method {
            Method::GET if function.lock.exists() => Ok(Some((plain(200), Bytes::from_static(b"OK")))),
            Method::GET => Ok(Some((plain(503), Bytes::new()))),
            _ => Err(RequestError::Method),
        };
    }
    if METHODS.contains(&head.method) { Ok(None) } else { Err(RequestError::Method) }
}

fn plain(status: u16) -> CgiHead {
    let fields = vec![(b"Content-Type".to_vec(), b"text/plain; charset=utf-8".to_vec())];
    CgiHead { status, reason: Vec::new(), fields, local_redirect: None }
}

/// The watchdog's status and text for an error, if they differ from the gateway's.
pub(crate) fn error_reply(error: &RequestError) -> Option<(u16, Vec<u8>)> {
    match error {
        RequestError::Timeout => Some((408, b"Killed process.\n".to_vec())),
        RequestError::Busy => Some((429, b"too many requests at a time\n".to_vec())),
        RequestError::Function { status, output } => {
            let cause =
                status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
            Some((500, [cause.as_bytes(), b"\n", output].concat()))
        }
        _ => None,
    }
}

/// The head of a reply, which the program does not write itself.
pub(crate) fn reply_head(function: &FunctionSettings, head: &RequestHead, took: Duration) -> CgiHead {
    let asked = head.fields.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    let kind = function.content_type.as_ref().map(|kind| kind.as_bytes().to_vec());
    let kind = kind.or(asked).unwrap_or_else(|| b"text/plain".to_vec());
    let took = format!("{:.6}", took.as_secs_f64()).into_bytes();
    let fields = vec![(b"Content-Type".to_vec(), kind), (b"X-Duration-Seconds".to_vec(), took)];
    CgiHead { status: 200, reason: Vec::new(), fields, local_redirect: None }
}

/// The job of a request whose body has `length` bytes.
pub(crate) fn job(
    function: &FunctionSettings,
    head: &RequestHead,
    stdin: StdinSource,
    length: Option<u64>,
) -> Result<RequestJob, RequestError> {
    let mut variables = own_variables();
    variables.extend(request_variables(head, length)?);
    let job = RequestJob::new(function.command.clone(), None, variables, stdin);
    Ok(RequestJob { joined: function.combine_output, ..job })
}

/// The variables that do not depend on the request: the environment of the gateway is the configuration of a function.
pub(crate) fn own_variables() -> Variables {
    std::env::vars_os().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// The variables that say what the request is: no header field becomes one of them.
const OWN_VARIABLES: &[&str] =
    &["Http_Method", "Http_Path", "Http_Query", "Http_ContentLength", "Http_Content_Length"];

/// The variables of a request: each header field that may be one as `Http_Name`, and method, path, query and length.
fn request_variables(head: &RequestHead, length: Option<u64>) -> Result<Variables, RequestError> {
    let mut variables = Variables::new();
    let mut set = |name: &str, value: &[u8]| variables.push((name.as_bytes().to_vec(), value.to_vec()));
    for name in head.fields.keys().filter(|name| variables::is_plain(name)) {
        let variable = format!("Http_{}", canonical(name));
        if !OWN_VARIABLES.contains(&variable.as_str()) {
            set(&variable, head.fields.get(name).map_or(&b""[..], http::HeaderValue::as_bytes));
        }
    }
    set("Http_Method", head.method.as_str().as_bytes());
    set("Http_Path", &target::decode_all(head.path().as_bytes())?);
    if !head.query().is_empty() {
        set("Http_Query", head.query().as_bytes());
    }
    let length = length.unwrap_or(0).to_string();
    set("Http_ContentLength", length.as_bytes());
    set("Http_Content_Length", length.as_bytes());
    Ok(variables)
}

/// The name of a header field with underscores, and with a capital at the start of each word: `User_Agent` for `user-agent`.
fn canonical(name: &HeaderName) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.as_str().split('-').map(word).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, Version};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn function() -> FunctionSettings {
        FunctionSettings {
            command: vec!["/bin/cat".into()],
            content_type: None,
            combine_output: true,
            lock: "/nothing/there".into(),
            suppress_lock: false,
        }
    }

    fn head(method: Method, uri: &str, fields: &[(&'static str, &'static str)]) -> RequestHead {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, value.parse().expect("a value"));
        }
        RequestHead {
            method,
            uri: uri.parse().expect("a URI"),
            version: Version::HTTP_11,
            fields: map,
            peer: "127.0.0.1:4711".parse().expect("an address"),
            local: "127.0.0.1:80".parse().expect("an address"),
        }
    }

    #[test]
    fn a_request_becomes_the_watchdogs_variables() {
        let head = head(Method::POST, "/a%20b?c=d", &[("x-one-two", "3"), ("x-one-two", "4")]);
        let variables = request_variables(&head, Some(5)).expect("variables");
        let expected = [
            ("Http_X_One_Two", "3"),
            ("Http_Method", "POST"),
            ("Http_Path", "/a b"),
            ("Http_Query", "c=d"),
            ("Http_ContentLength", "5"),
            ("Http_Content_Length", "5"),
        ];
        let expected = expected.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        assert_eq!(variables, expected);
    }

    #[test]
    fn a_field_is_not_taken_for_what_the_request_is() {
        let fields =
            [("query", "a"), ("method", "b"), ("path", "c"), ("content-length", "d"), ("proxy", "e")];
        let head = head(Method::GET, "/x", &fields);
        let variables = request_variables(&head, None).expect("variables");
        let names: Vec<_> = variables.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        assert_eq!(names, ["Http_Method", "Http_Path", "Http_ContentLength", "Http_Content_Length"]);
        assert!(variables.iter().all(|(_, value)| [&b"GET"[..], b"/x", b"0"].contains(&value.as_slice())));
    }

    #[test]
    fn health_is_what_the_lock_file_says() {
        let mut function = function();
        let status = |function: &FunctionSettings, method, path| {
            health(function, &head(method, path, &[])).map(|reply| reply.map(|(head, _)| head.status))
        };
        assert!(matches!(status(&function, Method::GET, HEALTH), Ok(Some(503))));
        function.lock = "/".into();
        assert!(matches!(status(&function, Method::GET, HEALTH), Ok(Some(200))));
        assert!(matches!(status(&function, Method::POST, HEALTH), Err(RequestError::Method)));
        assert!(matches!(status(&function, Method::POST, "/"), Ok(None)));
        assert!(matches!(status(&function, Method::OPTIONS, "/"), Err(RequestError::Method)));
    }

    #[test]
    fn a_reply_has_the_content_type_of_the_settings_or_of_the_request() {
        let mut function = function();
        let kind = |function: &FunctionSettings, fields| {
            let reply = reply_head(function, &head(Method::POST, "/", fields), Duration::from_millis(1500));
            assert_eq!(reply.fields[1], (b"X-Duration-Seconds".to_vec(), b"1.500000".to_vec()));
            reply.fields[0].1.clone()
        };
        assert_eq!(kind(&function, &[]), b"text/plain");
        assert_eq!(kind(&function, &[("content-type", "a/b")]), b"a/b");
        function.content_type = Some("c/d".to_owned());
        assert_eq!(kind(&function, &[("content-type", "a/b")]), b"c/d");
    }

    #[test]
    fn errors_have_the_watchdogs_statuses() {
        let failed = |raw| RequestError::Function {
            status: ExitStatus::from_raw(raw),
            output: Bytes::from_static(b"no\n"),
        };
        assert_eq!(error_reply(&failed(3 << 8)), Some((500, b"exit status 3\nno\n".to_vec())));
        assert_eq!(error_reply(&RequestError::Timeout).map(|(status, _)| status), Some(408));
        assert_eq!(error_reply(&RequestError::Busy).map(|(status, _)| status), Some(429));
        assert_eq!(error_reply(&RequestError::Slow), None);
    }
}
