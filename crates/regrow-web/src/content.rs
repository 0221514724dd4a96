//! What is started for a request, by what the gateway serves.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::Refusal;
use crate::function;
use crate::gateway::{Gateway, Job};
use crate::input::Input;
use crate::settings::Content;
use crate::target::{self, Target, TargetError};
use crate::variables::{self, RequestHead, Variables};

/// The job of an HTTP request, whose body has `length` bytes.
pub(crate) fn of_request(
    gateway: &Gateway,
    head: &RequestHead,
    input: Input,
    length: Option<u64>,
) -> Result<Job, Refusal> {
    let raw = head.uri.path().as_bytes();
    let (command, directory, target) = match &gateway.settings.content {
        Content::Directory(_) => {
            let target = target::find(&gateway.root, raw)?;
            (vec![target.script.clone().into_os_string()], folder_of(&target.script), target)
        }
        Content::Program(command) => {
            (command.clone(), folder_of(first(command)), whole(first(command), raw)?)
        }
        Content::Function(function) => return function::job(function, head, input, length),
        Content::Application(application) => {
            let command = gateway.application_command();
            (command, Some(gateway.root.clone()), whole(&application.directory, raw)?)
        }
    };
    let mut variables = variables::of_request(head, &gateway.root, &target, length);
    if let Some(password) = head.fields.get(http::header::AUTHORIZATION)
        && !matches!(gateway.settings.content, Content::Directory(_))
    {
        // An application looks at it itself. To scripts it is not shown (RFC 3875, 4.1.18).
        variables.push((b"HTTP_AUTHORIZATION".to_vec(), password.as_bytes().to_vec()));
    }
    Ok(Job { name: name_of(first(&command)), command, directory, variables, input, joined: false })
}

fn first(command: &[OsString]) -> &Path {
    command.first().map_or(Path::new(""), |word| Path::new(word))
}

fn name_of(program: &Path) -> Rc<str> {
    Rc::from(program.to_string_lossy())
}

/// A script starts in its own folder (RFC 3875, 7.2).
fn folder_of(script: &Path) -> Option<PathBuf> {
    script.parent().filter(|folder| folder.is_absolute()).map(Path::to_owned)
}

/// A program that all paths are for.
fn whole(program: &Path, raw: &[u8]) -> Result<Target, TargetError> {
    let path_info = target::decode_all(raw)?;
    Ok(Target { script: program.to_owned(), script_name: Vec::new(), path_info })
}

/// Whether the exit status of what is served says if the reply is whole. That of a CGI script means nothing to a web server.
pub(crate) fn fails_by_status(gateway: &Gateway) -> bool {
    matches!(gateway.settings.content, Content::Function(_) | Content::Application(_))
}

/// The job of a request that a web server has read.
pub(crate) fn of_params(gateway: &Gateway, mut params: Variables, input: Input) -> Result<Job, Refusal> {
    // The variable by which programs find a proxy is not a client's to set.
    params.retain(|(name, _)| {
        name != b"HTTP_PROXY" && !name.is_empty() && !name.contains(&b'=') && !name.contains(&0)
    });
    if params.iter().any(|(_, value)| value.contains(&0)) {
        return Err(Refusal::Malformed("a variable has a NUL byte in it"));
    }
    let (command, directory) = match &gateway.settings.content {
        Content::Directory(_) => {
            let script = script_of(gateway, &mut params)?;
            let directory = folder_of(&script);
            (vec![script.into_os_string()], directory)
        }
        Content::Program(command) => (command.clone(), folder_of(first(command))),
        Content::Application(_) => (gateway.application_command(), Some(gateway.root.clone())),
        Content::Function(_) => return Err(Refusal::Malformed("functions are asked by HTTP")),
    };
    if !params.iter().any(|(name, _)| name == b"PATH") {
        params.push((b"PATH".to_vec(), variables::PATH.to_vec()));
    }
    Ok(Job { name: name_of(first(&command)), command, directory, variables: params, input, joined: false })
}

/// The script that a web server asks for: the first file on the way of `SCRIPT_FILENAME`, or else of `SCRIPT_NAME` below the folder. What
/// follows is its path info, where the web server has not said so.
fn script_of(gateway: &Gateway, params: &mut Variables) -> Result<PathBuf, Refusal> {
    let value = |name: &[u8]| params.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let named = value(b"SCRIPT_FILENAME")
        .map(|name| without_proxy(&name).to_vec())
        .filter(|name| name.first() == Some(&b'/'));
    let path = match named {
        Some(name) => PathBuf::from(OsString::from_vec(name)),
        None => {
            let name = value(b"SCRIPT_NAME")
                .ok_or(Refusal::Malformed("there is neither SCRIPT_FILENAME nor SCRIPT_NAME"))?;
            gateway.root.join(OsString::from_vec(name.strip_prefix(b"/").unwrap_or(&name).to_vec()))
        }
    };
    let file = path.ancestors().find(|path| path.exists()).ok_or(TargetError::NotFound)?;
    if file.is_dir() {
        return Err(if file == path { TargetError::Forbidden } else { TargetError::NotFound }.into());
    }
    let script = target::runnable(&gateway.root, file)?;
    // What begins with a dot is the server's own, however the web server names the folder.
    let below = file.strip_prefix(&gateway.root).or_else(|_| script.strip_prefix(&gateway.root));
    if below.is_ok_and(|path| path.iter().any(|part| part.as_bytes().starts_with(b"."))) {
        return Err(TargetError::NotFound.into());
    }
    let rest = path.as_os_str().as_bytes()[file.as_os_str().len()..].to_vec();
    let (script_name, path_info) = (value(b"SCRIPT_NAME"), value(b"PATH_INFO"));
    let mut set = |name: &[u8], value: Vec<u8>| {
        params.retain(|(known, _)| known != name);
        params.push((name.to_vec(), value));
    };
    set(b"SCRIPT_FILENAME", file.as_os_str().as_bytes().to_vec());
    if !rest.is_empty() && path_info.is_none_or(|info| info.is_empty()) {
        if let Some(shorter) = script_name.as_deref().and_then(|name| name.strip_suffix(&rest[..])) {
            set(b"SCRIPT_NAME", shorter.to_vec());
        }
        set(b"PATH_INFO", rest);
    }
    Ok(script)
}

/// A file's name without what Apache puts before it: `proxy:fcgi://host:port/srv/a.pl` is `/srv/a.pl`.
fn without_proxy(name: &[u8]) -> &[u8] {
    let Some(rest) = name.strip_prefix(b"proxy:") else { return name };
    let Some(authority) = rest.windows(3).position(|three| three == b"://") else { return name };
    let rest = &rest[authority + 3..];
    rest.iter().position(|&byte| byte == b'/').map_or(name, |slash| &rest[slash..])
}
