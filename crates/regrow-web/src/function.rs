//! Functions, by the contract of the classic watchdog of OpenFaaS: the body goes to the program's standard input, its standard output is the
//! reply, and the request is in variables.
//!
//! What is as there: the variables, the methods, the statuses (405, 408 after its time, 429 for what is too much, 500 with the cause and the
//! output), `X-Duration-Seconds`, the path that says whether it is in health, and the file that this depends on.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method};

use crate::error::{Refusal, WebError};
use crate::gateway::{Gateway, Job};
use crate::head::Head;
use crate::input::Input;
use crate::settings::{Content, Function};
use crate::target;
use crate::variables::{RequestHead, Variables};

/// The path that is asked whether requests may come.
const HEALTH: &str = "/_/health";
/// What a program may be asked with.
const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The function, if that is what is served.
pub(crate) fn of(gateway: &Gateway) -> Option<&Function> {
    match &gateway.settings.content {
        Content::Function(function) => Some(function),
        _ => None,
    }
}

/// What is answered without the program: whether requests may come.
pub(crate) fn answer_itself(
    function: &Function,
    head: &RequestHead,
) -> Result<Option<(Head, Bytes)>, Refusal> {
    if head.uri.path() == HEALTH {
        return match head.method {
            Method::GET if function.lock.exists() => Ok(Some((plain(200), Bytes::from_static(b"OK")))),
            Method::GET => Ok(Some((plain(503), Bytes::new()))),
            _ => Err(Refusal::Method),
        };
    }
    if METHODS.contains(&head.method) { Ok(None) } else { Err(Refusal::Method) }
}

fn plain(status: u16) -> Head {
    let fields = vec![(b"Content-Type".to_vec(), b"text/plain; charset=utf-8".to_vec())];
    Head { status, reason: Vec::new(), fields, instead: None }
}

/// What a request that is not answered by the program is told instead: a status, and a text.
pub(crate) fn refused(refusal: &Refusal) -> Option<(u16, Vec<u8>)> {
    match refusal {
        Refusal::Timeout => Some((408, b"Killed process.\n".to_vec())),
        Refusal::Busy => Some((429, b"too many requests at a time\n".to_vec())),
        Refusal::Function { status, output } => {
            let cause =
                status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"));
            Some((500, [cause.as_bytes(), b"\n", output].concat()))
        }
        _ => None,
    }
}

/// The output of a program that has ended, if it has not failed.
pub(crate) fn result(status: Option<ExitStatus>, output: Bytes) -> Result<Bytes, Refusal> {
    match status {
        Some(status) if !status.success() => Err(Refusal::Function { status, output }),
        _ => Ok(output),
    }
}

/// The head of a reply: a program has none of its own.
pub(crate) fn head(function: &Function, head: &RequestHead, took: Duration) -> Head {
    let asked = head.fields.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    let kind = function.content_type.as_ref().map(|kind| kind.as_bytes().to_vec());
    let kind = kind.or(asked).unwrap_or_else(|| b"text/plain".to_vec());
    let took = format!("{:.6}", took.as_secs_f64()).into_bytes();
    let fields = vec![(b"Content-Type".to_vec(), kind), (b"X-Duration-Seconds".to_vec(), took)];
    Head { status: 200, reason: Vec::new(), fields, instead: None }
}

/// The job of a request whose body has `length` bytes.
pub(crate) fn job(
    function: &Function,
    head: &RequestHead,
    input: Input,
    length: Option<u64>,
) -> Result<Job, Refusal> {
    let command = function.command.clone();
    let program = command.first().map_or(Path::new(""), |word| Path::new(word));
    let name = program.to_string_lossy().into();
    let variables = variables(head, length)?;
    Ok(Job { name, command, directory: None, variables, input, joined: function.combine_output })
}

/// The variables: header fields as `Http_Name`, and what the request asks for.
fn variables(head: &RequestHead, length: Option<u64>) -> Result<Variables, Refusal> {
    // What the gateway itself was started with is a function's configuration.
    let mut variables: Variables = std::env::vars_os()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    let mut set = |name: &str, value: &[u8]| variables.push((name.as_bytes().to_vec(), value.to_vec()));
    for name in head.fields.keys() {
        let first = head.fields.get(name).map_or(&b""[..], http::HeaderValue::as_bytes);
        set(&format!("Http_{}", canonical(name)), first);
    }
    set("Http_Method", head.method.as_str().as_bytes());
    set("Http_Path", &target::decode_all(head.uri.path().as_bytes())?);
    let query = head.path().1;
    if !query.is_empty() {
        set("Http_Query", query.as_bytes());
    }
    let length = length.unwrap_or(0).to_string();
    set("Http_ContentLength", length.as_bytes());
    set("Http_Content_Length", length.as_bytes());
    Ok(variables)
}

/// A header field's name with underscores, each word with a capital: `user-agent` is `User_Agent`.
fn canonical(name: &HeaderName) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.as_str().split('-').map(word).collect::<Vec<_>>().join("_")
}

/// The file that says that requests may come. It is removed when none may come any more.
pub(crate) struct Lock(Option<PathBuf>);

impl Lock {
    /// Makes it, where a function is served that is to have one.
    pub(crate) fn new(gateway: &Gateway) -> Result<Self, WebError> {
        let path =
            of(gateway).filter(|function| !function.suppress_lock).map(|function| function.lock.clone());
        if let Some(path) = &path {
            let cannot = |source| WebError::Path {
                path: path.clone(),
                what: "the file of a function's health cannot be written (the variable suppress_lock does without)",
                source,
            };
            std::fs::write(path, []).map_err(cannot)?;
        }
        Ok(Self(path))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever has removed it has said the same.
        self.0.as_ref().map(std::fs::remove_file);
    }
}
