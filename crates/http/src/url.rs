//! Where a server is.

use std::fmt;
use std::str::FromStr;

const LONGEST: usize = 1024;

/// An address: `http[s]://HOST[:PORT][/PATH]`. Without a scheme it is `http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    is_tls: bool,
    /// Without the brackets of an address of version 6.
    host: String,
    port: u16,
    path: String,
}

/// Why something is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(String);

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let refused = |why: &str| Err(UrlError(why.to_owned()));
        if text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return refused(
                "an address is http://host:port or https://host:port, with a path at most behind it",
            );
        }
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => return refused(&format!("{scheme} is not supported, only http and https")),
            None => (false, text),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return refused("user names and passwords are not supported in an address");
        }
        // The colons of an address of version 6 stand in brackets.
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => {
                (host, port.parse().map_err(|_| UrlError(format!("{port:?} is not a port number")))?)
            }
            None => (authority, if is_tls { 443 } else { 80 }),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains(['?', '[', ']']) {
            return refused("there is no host in the address");
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { is_tls, host: host.to_owned(), port, path: path.to_owned() })
    }
}

impl Url {
    /// The host: a name or an address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Its host and port, as they are shown and sent.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    /// The path, with its query if there is one.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A path below this one.
    pub fn below(&self, path: &str) -> String {
        format!("{}{path}", self.path.trim_end_matches('/'))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_put_together() {
        for (text, shown) in [
            ("http://localhost:9090", "http://localhost:9090"),
            ("localhost:9090/", "http://localhost:9090"),
            ("http://10.0.0.1/prom/", "http://10.0.0.1:80/prom"),
            ("http://[::1]:9090/a/b", "http://[::1]:9090/a/b"),
            ("http://[::1]", "http://[::1]:80"),
            ("https://prom.example/api?x=1", "https://prom.example:443/api?x=1"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(url.to_string(), shown, "{text}");
        }
        let url: Url = "http://a/prom/".parse().unwrap();
        assert_eq!((url.path(), url.below("/api").as_str()), ("/prom/", "/prom/api"));
        assert_eq!("http://[::1]:9090".parse::<Url>().unwrap().path(), "/");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for (text, why) in [
            ("ftp://x/", "ftp is not supported"),
            ("http://x:y/", "\"y\" is not a port number"),
            ("http:///write", "no host"),
            ("http://", "no host"),
            ("http://?x", "no host"),
            ("http://a:b@x/", "not supported"),
            ("http://x/\r\nHost: y", "an address is"),
            ("http://a b", "an address is"),
        ] {
            let said = text.parse::<Url>().unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
