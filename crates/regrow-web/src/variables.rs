//! The environment of a script (RFC 3875, 4.1).

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderName, Method, Uri, Version};

use crate::target::Target;

/// The search path where none is given: as servers have it.
pub(crate) const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What the gateway calls itself.
pub(crate) const SOFTWARE: &str = concat!("regrow/", env!("CARGO_PKG_VERSION"));

/// Names with their values.
pub(crate) type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// The head of an HTTP request, and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) fields: HeaderMap,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

impl RequestHead {
    /// The path and the query, as they came.
    pub(crate) fn path(&self) -> (&str, &str) {
        (self.uri.path(), self.uri.query().unwrap_or(""))
    }

    /// The request that a local redirect asks for (RFC 3875, 6.2.2): the same client's, without a body.
    pub(crate) fn redirected(&self, location: &[u8]) -> Option<Self> {
        let uri = Uri::try_from(location).ok()?;
        let mut fields = self.fields.clone();
        fields.remove(CONTENT_LENGTH);
        fields.remove(CONTENT_TYPE);
        let method = if self.method == Method::HEAD { Method::HEAD } else { Method::GET };
        Some(Self { method, uri, fields, ..self.clone() })
    }

    /// The name that the client has called this server by, without the port.
    fn server_name(&self) -> String {
        let host = self.uri.host().map(str::to_owned);
        let field =
            || self.fields.get(http::header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        let Some(host) = host.or_else(field) else { return self.local.ip().to_string() };
        let end = host.rfind(':').filter(|&colon| !host[colon..].contains(']')).unwrap_or(host.len());
        let name = &host[..end];
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if name.bytes().all(is_name) && !name.is_empty() {
            name.to_owned()
        } else {
            self.local.ip().to_string()
        }
    }
}

/// The variables of a request for a script below `root`. `length` is that of the body, where there is one.
pub(crate) fn of_request(head: &RequestHead, root: &Path, target: &Target, length: Option<u64>) -> Variables {
    let (path, query) = head.path();
    let uri = head.uri.path_and_query().map_or(path, http::uri::PathAndQuery::as_str);
    let mut variables = of_server(head);
    let mut set = |name: &str, value: &[u8]| variables.push((name.as_bytes().to_vec(), value.to_vec()));
    set("REQUEST_URI", uri.as_bytes());
    set("QUERY_STRING", query.as_bytes());
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

/// What is so whatever is asked for.
pub(crate) fn of_server(head: &RequestHead) -> Variables {
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

/// What is so of every request that comes by HTTP.
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

/// Header fields as variables (4.1.18). What would be taken for something else is left out: a password, the variable by which
/// programs find a proxy, and names that would become the same as another's.
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

fn is_plain(name: &HeaderName) -> bool {
    name.as_str() != "proxy" && name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let target = Target {
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

    #[test]
    fn a_local_redirect_is_a_get_of_the_same_client() {
        let other =
            head("/a", &[("content-length", "3"), ("cookie", "a=1")]).redirected(b"/b?c=1").expect("a URI");
        assert_eq!((other.method.as_str(), other.path()), ("GET", ("/b", "c=1")));
        assert!(other.fields.get(CONTENT_LENGTH).is_none() && other.fields.get(COOKIE).is_some());
    }
}
