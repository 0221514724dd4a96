//! The environment of a CGI script (RFC 3875, 4.1).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderName, Version};

use crate::ask::request_head::RequestHead;
use crate::ask::target::ScriptTarget;
use crate::job::Variables;

/// The search path of a script whose server sets none.
pub(crate) const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The name and version of the gateway.
pub(crate) const SOFTWARE: &str = concat!("regrow/", env!("CARGO_PKG_VERSION"));

/// The variables of a request for a script below `root`, whose body has `length` bytes.
pub(crate) fn of_request(
    head: &RequestHead,
    root: &Path,
    target: &ScriptTarget,
    length: Option<u64>,
) -> Variables {
    let uri = head.uri.path_and_query().map_or(head.path(), http::uri::PathAndQuery::as_str);
    let mut variables = of_connection(head);
    let mut set = |name: &str, value: &[u8]| variables.push((name.as_bytes().to_vec(), value.to_vec()));
    set("REQUEST_URI", uri.as_bytes());
    set("QUERY_STRING", head.query().as_bytes());
    set("SCRIPT_NAME", &target.script_name);
    set("SCRIPT_FILENAME", target.script.as_os_str().as_bytes());
    set("DOCUMENT_ROOT", root.as_os_str().as_bytes());
    if !target.path_info.is_empty() {
        set("PATH_INFO", &target.path_info);
        set("PATH_TRANSLATED", &[root.as_os_str().as_bytes(), &target.path_info].concat());
    }
    if let Some(length) = length {
        set("CONTENT_LENGTH", length.to_string().as_bytes());
    }
    if let Some(kind) = head.fields.get(CONTENT_TYPE) {
        set("CONTENT_TYPE", kind.as_bytes());
    }
    of_fields(&head.fields, &mut variables);
    variables
}

/// The variables of the connection, which do not depend on the path.
fn of_connection(head: &RequestHead) -> Variables {
    let protocol = match head.version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    };
    let mut variables = of_all_requests();
    variables.extend([
        pair("SERVER_PROTOCOL", protocol),
        pair("SERVER_NAME", &head.server_name()),
        pair("SERVER_ADDR", &head.local.ip().to_string()),
        pair("SERVER_PORT", &head.local.port().to_string()),
        pair("REMOTE_ADDR", &head.peer.ip().to_string()),
        pair("REMOTE_PORT", &head.peer.port().to_string()),
        pair("REQUEST_METHOD", head.method.as_str()),
        pair("REQUEST_SCHEME", "http"),
    ]);
    variables
}

/// The variables that all requests by HTTP have in common.
pub(crate) fn of_all_requests() -> Variables {
    vec![
        (b"PATH".to_vec(), PATH.to_vec()),
        pair("GATEWAY_INTERFACE", "CGI/1.1"),
        pair("SERVER_SOFTWARE", SOFTWARE),
    ]
}

fn pair(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec())
}

/// Adds the header fields (4.1.18), but for those that would mislead: a password; `Proxy`, because programs take `HTTP_PROXY` for their
/// own proxy; and names that would become the same variable as another.
fn of_fields(fields: &HeaderMap, variables: &mut Variables) {
    for name in fields.keys() {
        if *name == CONTENT_LENGTH || *name == CONTENT_TYPE || *name == AUTHORIZATION || !is_plain(name) {
            continue;
        }
        let separator: &[u8] = if *name == COOKIE { b"; " } else { b", " };
        let values: Vec<&[u8]> = fields.get_all(name).iter().map(http::HeaderValue::as_bytes).collect();
        let variable =
            name.as_str().bytes().map(|byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
        variables.push((b"HTTP_".iter().copied().chain(variable).collect(), values.join(separator)));
    }
}

/// Whether a field may become a variable.
pub(super) fn is_plain(name: &HeaderName) -> bool {
    name.as_str() != "proxy" && name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use std::path::PathBuf;

    fn head(uri: &str, fields: &[(&'static str, &'static str)]) -> RequestHead {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, value.parse().expect("a value"));
        }
        RequestHead {
            method: Method::POST,
            uri: uri.parse().expect("a URI"),
            version: Version::HTTP_11,
            fields: map,
            peer: "127.0.0.1:4711".parse().expect("an address"),
            local: "[::1]:80".parse().expect("an address"),
        }
    }

    fn value<'v>(variables: &'v Variables, name: &str) -> Option<&'v str> {
        let found = variables.iter().find(|(known, _)| known == name.as_bytes())?;
        std::str::from_utf8(&found.1).ok()
    }

    fn variables_of(head: &RequestHead, info: &str) -> Variables {
        let target = ScriptTarget {
            script: PathBuf::from("/srv/a b.pl"),
            script_name: b"/a b.pl".to_vec(),
            path_info: info.as_bytes().to_vec(),
        };
        of_request(head, Path::new("/srv"), &target, Some(3))
    }

    #[test]
    fn a_request_becomes_variables() {
        let head = head("/a%20b.pl/x?q=%20", &[("host", "example.org:8080"), ("content-type", "text/plain")]);
        let variables = variables_of(&head, "/x");
        for (name, wanted) in [
            ("REQUEST_METHOD", "POST"),
            ("QUERY_STRING", "q=%20"),
            ("SCRIPT_NAME", "/a b.pl"),
            ("PATH_INFO", "/x"),
            ("PATH_TRANSLATED", "/srv/x"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "80"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "3"),
            ("REQUEST_URI", "/a%20b.pl/x?q=%20"),
            ("HTTP_HOST", "example.org:8080"),
        ] {
            assert_eq!(value(&variables, name), Some(wanted), "{name}");
        }
        assert_eq!(value(&variables, "HTTP_CONTENT_TYPE"), None);
        assert_eq!(value(&variables_of(&head, ""), "PATH_INFO"), None);
    }

    #[test]
    fn fields_that_mislead_are_left_out_and_repeated_ones_are_joined() {
        let head = head(
            "/",
            &[
                ("proxy", "http://evil/"),
                ("x_real_ip", "1"),
                ("x-real-ip", "2"),
                ("authorization", "Basic x"),
                ("cookie", "a=1"),
                ("cookie", "b=2"),
                ("accept", "x"),
                ("accept", "y"),
                ("host", "a b"),
            ],
        );
        let variables = variables_of(&head, "");
        assert_eq!(value(&variables, "HTTP_PROXY"), None);
        assert_eq!(value(&variables, "HTTP_AUTHORIZATION"), None);
        assert_eq!(value(&variables, "HTTP_X_REAL_IP"), Some("2"));
        assert_eq!(variables.iter().filter(|(name, _)| name == b"HTTP_X_REAL_IP").count(), 1);
        assert_eq!(value(&variables, "HTTP_COOKIE"), Some("a=1; b=2"));
        assert_eq!(value(&variables, "HTTP_ACCEPT"), Some("x, y"));
        assert_eq!(value(&variables, "SERVER_NAME"), Some("::1"));
    }
}
