//! The job of a request that a web server has read: the web server's variables are those of the script, but for what would mislead
//! the script.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use crate::ask::target::{self, TargetError};
use crate::ask::variables;
use crate::gateway::Gateway;
use crate::job::{RequestJob, Variables, folder_of, program_of};
use crate::request_body::{BodyPiece, RequestBody, StdinSource};
use crate::request_error::RequestError;
use crate::settings::{Content, Limits};

/// The value of a variable.
pub(crate) fn value<'v>(params: &'v Variables, name: &[u8]) -> Option<&'v [u8]> {
    params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
}

/// Sets a variable.
fn set(params: &mut Variables, name: &[u8], value: Vec<u8>) {
    params.retain(|(known, _)| known != name);
    params.push((name.to_vec(), value));
}

/// What the process reads. Collects a body without a length, and sets `CONTENT_LENGTH`.
pub(crate) async fn stdin(
    params: &mut Variables,
    body: mpsc::Receiver<BodyPiece>,
    limits: &Limits,
) -> Result<StdinSource, RequestError> {
    let body = RequestBody::FastCgi(body);
    let Some(length) = content_length(params)? else {
        let (stdin, length) = body.collect(limits.body_bytes, limits.idle_timeout).await?;
        params.retain(|(name, _)| name != b"CONTENT_LENGTH");
        if length > 0 {
            set(params, b"CONTENT_LENGTH", length.to_string().into_bytes());
        }
        return Ok(stdin);
    };
    match limits.body_bytes {
        Some(limit) if length > limit => Err(RequestError::TooLarge { limit }),
        _ if length == 0 => Ok(StdinSource::Empty),
        _ => Ok(StdinSource::Stream(body)),
    }
}

/// The length of the body, if the web server says it.
fn content_length(params: &Variables) -> Result<Option<u64>, RequestError> {
    let text = value(params, b"CONTENT_LENGTH").unwrap_or_default().trim_ascii();
    // Caddy says -1 if its client has said nothing.
    if text.is_empty() || text == b"-1" {
        return Ok(None);
    }
    let length = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    length.map(Some).ok_or(RequestError::Malformed("CONTENT_LENGTH is no number"))
}

/// The job of a request.
pub(crate) fn job(
    gateway: &Gateway,
    params: Variables,
    stdin: StdinSource,
) -> Result<RequestJob, RequestError> {
    let mut params = safe(params)?;
    let (command, directory) = match &gateway.settings.content {
        Content::Directory(_) => {
            let script = find_script(&gateway.root, &mut params)?;
            let directory = folder_of(&script);
            (vec![script.into_os_string()], directory)
        }
        Content::Program(command) => (command.clone(), folder_of(program_of(command))),
        Content::Application(_) => {
            let params = with_path(params);
            return Ok(gateway.launcher.application_job(Some(gateway.root.clone()), params, stdin));
        }
        Content::Function(_) => return Err(RequestError::Malformed("functions are served by HTTP")),
    };
    Ok(RequestJob::new(command, directory, with_path(params), stdin))
}

/// The variables with the usual search path, if the web server sets none.
fn with_path(mut params: Variables) -> Variables {
    if value(&params, b"PATH").is_none() {
        set(&mut params, b"PATH", variables::PATH.to_vec());
    }
    params
}

/// Variables without those that no environment can hold, and without `HTTP_PROXY`, by which programs find a proxy: a client sets it with
/// the header field `Proxy`.
fn safe(mut params: Variables) -> Result<Variables, RequestError> {
    params.retain(|(name, _)| {
        name != b"HTTP_PROXY" && !name.is_empty() && !name.contains(&b'=') && !name.contains(&0)
    });
    if params.iter().any(|(_, value)| value.contains(&0)) {
        return Err(RequestError::Malformed("a variable has a NUL byte in it"));
    }
    Ok(params)
}

/// The script that a web server asks for: the first file on the path `SCRIPT_FILENAME`, or else on the path `SCRIPT_NAME` below `root`.
/// The rest of the path becomes `PATH_INFO`, unless the web server has set that.
fn find_script(root: &Path, params: &mut Variables) -> Result<PathBuf, RequestError> {
    let path = requested_path(root, params)?;
    let file = path.ancestors().find(|path| path.exists()).ok_or(TargetError::NotFound)?;
    if file.is_dir() {
        return Err(if file == path { TargetError::Forbidden } else { TargetError::NotFound }.into());
    }
    let script = target::runnable(root, file)?;
    // The gateway serves no hidden file, by whichever name of the folder the web server asks.
    let below = file.strip_prefix(root).or_else(|_| script.strip_prefix(root));
    if below.is_ok_and(|path| path.iter().any(|part| part.as_bytes().starts_with(b"."))) {
        return Err(TargetError::NotFound.into());
    }
    let rest = path.as_os_str().as_bytes()[file.as_os_str().len()..].to_vec();
    let has_path_info = value(params, b"PATH_INFO").is_some_and(|info| !info.is_empty());
    set(params, b"SCRIPT_FILENAME", file.as_os_str().as_bytes().to_vec());
    if !rest.is_empty() && !has_path_info {
        let name = value(params, b"SCRIPT_NAME").and_then(|name| name.strip_suffix(&rest[..]));
        if let Some(name) = name.map(<[u8]>::to_vec) {
            set(params, b"SCRIPT_NAME", name);
        }
        set(params, b"PATH_INFO", rest);
    }
    Ok(script)
}

/// The path of the file that a web server asks for, which may go on behind the file.
fn requested_path(root: &Path, params: &Variables) -> Result<PathBuf, RequestError> {
    let named = value(params, b"SCRIPT_FILENAME").map(without_proxy);
    if let Some(name) = named.filter(|name| name.first() == Some(&b'/')) {
        return Ok(PathBuf::from(OsString::from_vec(name.to_vec())));
    }
    let name = value(params, b"SCRIPT_NAME")
        .ok_or(RequestError::Malformed("there is neither SCRIPT_FILENAME nor SCRIPT_NAME"))?;
    Ok(root.join(OsString::from_vec(name.strip_prefix(b"/").unwrap_or(name).to_vec())))
}

/// The name of a file without the prefix of Apache: `/srv/a.pl` for `proxy:fcgi://host:port/srv/a.pl`.
fn without_proxy(name: &[u8]) -> &[u8] {
    let Some(rest) = name.strip_prefix(b"proxy:") else { return name };
    let Some(authority) = rest.windows(3).position(|three| three == b"://") else { return name };
    let rest = &rest[authority + 3..];
    rest.iter().position(|&byte| byte == b'/').map_or(name, |slash| &rest[slash..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn params(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    fn text<'v>(params: &'v Variables, name: &str) -> Option<&'v str> {
        value(params, name.as_bytes()).map(|value| std::str::from_utf8(value).expect("a text"))
    }

    /// A folder with the scripts `a.pl`, `sub/b.pl` and `.hidden.pl`, and the file `plain`.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its path").join("root");
        fs::create_dir_all(root.join("sub")).expect("a folder");
        for (name, mode) in [("a.pl", 0o755), ("sub/b.pl", 0o755), (".hidden.pl", 0o755), ("plain", 0o644)] {
            fs::write(root.join(name), "").expect("a file");
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
        }
        (folder, root)
    }

    #[test]
    fn the_prefix_of_apache_is_no_part_of_a_name() {
        for (name, expected) in [
            ("proxy:fcgi://localhost:9000/srv/a.pl", "/srv/a.pl"),
            ("proxy:unix:/run/s|fcgi://localhost/srv/a.pl", "/srv/a.pl"),
            ("/srv/a.pl", "/srv/a.pl"),
            ("proxy:odd", "proxy:odd"),
        ] {
            assert_eq!(without_proxy(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }

    #[test]
    fn a_length_is_a_number_or_unknown() {
        for (says, length) in [(" 12 ", Some(12)), ("0", Some(0)), ("", None), ("-1", None)] {
            assert_eq!(
                content_length(&params(&[("CONTENT_LENGTH", says)])).expect("a length"),
                length,
                "{says}"
            );
        }
        assert_eq!(content_length(&Variables::new()).expect("no length"), None);
        for wrong in ["-2", "x", "99999999999999999999"] {
            assert!(content_length(&params(&[("CONTENT_LENGTH", wrong)])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_that_mislead_or_that_no_environment_holds_are_left_out() {
        let given = [("HTTP_PROXY", "http://evil/"), ("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "1")];
        assert_eq!(safe(params(&given)).expect("variables"), params(&[("A", "1")]));
        assert!(safe(params(&[("A", "\0")])).is_err());
    }

    #[test]
    fn the_script_is_the_first_file_on_the_path_and_the_rest_is_its_path_info() {
        let (_folder, root) = folder();
        let name = |path: &str| format!("{}{path}", root.display());
        let mut by_name =
            params(&[("SCRIPT_FILENAME", &name("/sub/b.pl/x/y")), ("SCRIPT_NAME", "/cgi/sub/b.pl/x/y")]);
        assert_eq!(find_script(&root, &mut by_name).expect("a script"), root.join("sub/b.pl"));
        assert_eq!(text(&by_name, "SCRIPT_FILENAME"), Some(&*name("/sub/b.pl")));
        assert_eq!(
            (text(&by_name, "SCRIPT_NAME"), text(&by_name, "PATH_INFO")),
            (Some("/cgi/sub/b.pl"), Some("/x/y"))
        );
        let mut by_path = params(&[("SCRIPT_NAME", "/a.pl"), ("PATH_INFO", "/own")]);
        assert_eq!(find_script(&root, &mut by_path).expect("a script"), root.join("a.pl"));
        assert_eq!(
            (text(&by_path, "SCRIPT_NAME"), text(&by_path, "PATH_INFO")),
            (Some("/a.pl"), Some("/own"))
        );
    }

    #[test]
    fn a_web_server_gets_no_file_that_is_no_script_of_the_folder() {
        let (folder, root) = folder();
        let outside = folder.path().join("outside.pl");
        fs::write(&outside, "").expect("a file");
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o755)).expect("a mode");
        symlink(&outside, root.join("link.pl")).expect("a link");
        symlink(&root, folder.path().join("alias")).expect("a link");
        let alias = format!("{}/alias/.hidden.pl", folder.path().display());
        let inside = |name: &str| format!("{}/{name}", root.display());
        for (file, status) in [
            (inside("plain"), 403),
            (inside("sub"), 403),
            (inside("sub/none"), 404),
            (inside(".hidden.pl"), 404),
            (inside("link.pl"), 403),
            (alias, 404),
            (outside.display().to_string(), 403),
        ] {
            let found = find_script(&root, &mut params(&[("SCRIPT_FILENAME", &file)]));
            assert_eq!(found.expect_err("no script").status(), status, "{file}");
        }
        assert_eq!(find_script(&root, &mut Variables::new()).expect_err("no name").status(), 400);
    }
}
