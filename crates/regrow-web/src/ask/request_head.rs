//! The head of an HTTP request.

use std::net::SocketAddr;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Uri, Version};

/// The head of an HTTP request, and the two ends of its connection.
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
    /// The path, as the client wrote it.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// The query, as the client wrote it; empty if there is none.
    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or("")
    }

    /// Sets the field `Host` to the authority of the request, if it has one. HTTP/2 has the authority in place of the field; in
    /// HTTP/1.1 it goes before the field (RFC 9113, 8.3.1; RFC 9112, 3.2.2).
    pub(crate) fn take_authority(&mut self) {
        let authority = self.uri.authority().map(http::uri::Authority::as_str);
        // A name and a password before the host are no part of it.
        let host = authority.and_then(|authority| authority.rsplit('@').next());
        if let Some(Ok(host)) = host.map(HeaderValue::from_str) {
            self.fields.insert(HOST, host);
        }
    }

    /// The request that a local redirect asks for (RFC 3875, 6.2.2): it comes from the same client and has no body.
    pub(crate) fn redirected(&self, location: &[u8]) -> Option<Self> {
        let uri = Uri::try_from(location).ok()?;
        let mut fields = self.fields.clone();
        fields.remove(CONTENT_LENGTH);
        fields.remove(CONTENT_TYPE);
        let method = if self.method == Method::HEAD { Method::HEAD } else { Method::GET };
        Some(Self { method, uri, fields, ..self.clone() })
    }

    /// The name by which the client calls this server, without the port; the address of the server if that is no name.
    pub(crate) fn server_name(&self) -> String {
        let host = self.uri.host().map(str::to_owned);
        let field = || self.fields.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
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

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::COOKIE;

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

    #[test]
    fn a_local_redirect_is_a_get_of_the_same_client() {
        let mut request = head("/a", &[("content-length", "3"), ("cookie", "a=1")]);
        let other = request.redirected(b"/b?c=1").expect("a URI");
        assert_eq!((other.method.as_str(), other.path(), other.query()), ("GET", "/b", "c=1"));
        assert!(other.fields.get(CONTENT_LENGTH).is_none() && other.fields.get(COOKIE).is_some());
        request.method = Method::HEAD;
        assert_eq!(request.redirected(b"/b").expect("a URI").method, Method::HEAD);
        assert!(request.redirected(b"/b c").is_none());
    }

    #[test]
    fn the_authority_of_a_request_is_its_host() {
        for (uri, fields, host) in [
            ("http://example.org:8080/", &[][..], Some("example.org:8080")),
            (
                "http://example.org/",
                &[("host", "other.example"), ("host", "third.example")],
                Some("example.org"),
            ),
            ("http://user:secret@example.org/", &[], Some("example.org")),
            ("/", &[("host", "example.org")], Some("example.org")),
            ("/", &[], None),
        ] {
            let mut head = head(uri, fields);
            head.take_authority();
            let found: Vec<_> = head.fields.get_all(HOST).iter().collect();
            assert_eq!(found, host.into_iter().collect::<Vec<_>>(), "{uri}");
            // A local redirect does not lose it.
            let other = head.redirected(b"/b").expect("a URI");
            assert_eq!(other.fields.get(HOST), head.fields.get(HOST), "{uri}");
        }
    }

    #[test]
    fn the_server_has_the_name_that_the_client_uses_if_it_is_one() {
        for (uri, host, name) in [
            ("/", "example.org:8080", "example.org"),
            ("/", "[::1]:8080", "[::1]"),
            ("/", "[::1]", "[::1]"),
            ("http://other.example:1/", "example.org", "other.example"),
            ("/", "a b", "::1"),
            ("/", ":80", "::1"),
        ] {
            assert_eq!(head(uri, &[("host", host)]).server_name(), name, "{uri} {host}");
        }
        assert_eq!(head("/", &[]).server_name(), "::1");
    }
}
