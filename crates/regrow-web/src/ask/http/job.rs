//! The job of a request by HTTP, by what the gateway serves.

use std::path::Path;

use crate::ask::function;
use crate::ask::request_head::RequestHead;
use crate::ask::target::{self, ScriptTarget, TargetError};
use crate::ask::variables;
use crate::gateway::Gateway;
use crate::job::{RequestJob, Variables, folder_of, program_of};
use crate::request_body::StdinSource;
use crate::request_error::RequestError;
use crate::settings::Content;

/// The job of a request whose body has `length` bytes.
pub(crate) fn of_request(
    gateway: &Gateway,
    head: &RequestHead,
    stdin: StdinSource,
    length: Option<u64>,
) -> Result<RequestJob, RequestError> {
    let path = head.path().as_bytes();
    let (command, directory, target) = match &gateway.settings.content {
        Content::Directory(_) => {
            let target = target::find(&gateway.root, path)?;
            (vec![target.script.clone().into_os_string()], folder_of(&target.script), target)
        }
        Content::Program(command) => {
            let program = program_of(command);
            (command.clone(), folder_of(program), for_all_paths(program, path)?)
        }
        Content::Function(function) => return function::job(function, head, stdin, length),
        Content::Application(application) => {
            let target = for_all_paths(&application.directory, path)?;
            let variables = of_program(gateway, head, &target, length);
            return Ok(gateway.launcher.application_job(Some(gateway.root.clone()), variables, stdin));
        }
    };
    let variables = match &gateway.settings.content {
        Content::Directory(_) => variables::of_request(head, &gateway.root, &target, length),
        _ => of_program(gateway, head, &target, length),
    };
    Ok(RequestJob::new(command, directory, variables, stdin))
}

/// The variables of a program that answers all paths. It checks a password itself; scripts do not see it (RFC 3875, 4.1.18).
fn of_program(
    gateway: &Gateway,
    head: &RequestHead,
    target: &ScriptTarget,
    length: Option<u64>,
) -> Variables {
    let mut variables = variables::of_request(head, &gateway.root, target, length);
    if let Some(password) = head.fields.get(http::header::AUTHORIZATION) {
        variables.push((b"HTTP_AUTHORIZATION".to_vec(), password.as_bytes().to_vec()));
    }
    variables
}

/// The target of a program that answers all paths.
fn for_all_paths(program: &Path, path: &[u8]) -> Result<ScriptTarget, TargetError> {
    let path_info = target::decode_all(path)?;
    Ok(ScriptTarget { script: program.to_owned(), script_name: Vec::new(), path_info })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_path_is_the_path_info_of_a_program_with_encoded_slashes_too() {
        let target = for_all_paths(Path::new("/bin/x"), b"/a%2fb/c%20d").expect("a target");
        assert_eq!((target.script_name, target.path_info), (Vec::new(), b"/a/b/c d".to_vec()));
        assert_eq!(for_all_paths(Path::new("/bin/x"), b"/%0"), Err(TargetError::Malformed));
    }
}
