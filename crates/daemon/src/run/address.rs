//! Sending something to a server of the site.

use std::io;
use std::time::Duration;

use iotide_http::{AnswerLimits, Request, Url};

/// A receiver that says nothing for so long has not taken it.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// Sends a body to a path of a server, with headers that each end a line; `Ok(false)` if it will never be taken.
pub(crate) fn post(server: &Url, path: &str, headers: &str, body: &[u8]) -> io::Result<bool> {
    let request = Request::post(path, headers, body);
    match iotide_http::ask(server, &request, AnswerLimits::status_within(TAKEN_WITHIN))?.status {
        200..=299 => Ok(true),
        // It is asked to wait, or something is wrong over there.
        429 | 500.. => Err(io::Error::other("the receiver cannot take it now")),
        _ => Ok(false),
    }
}

/// Names for addresses, of which no two are the same.
pub(super) fn names<'a>(addresses: impl IntoIterator<Item = &'a Url>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for address in addresses {
        let mut name = address.authority();
        while names.contains(&name) {
            name.push('+');
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_addresses_have_one_name() {
        let target: Url = "http://[::1]:9090".parse().unwrap();
        assert_eq!(names([&target, &target]), ["[::1]:9090", "[::1]:9090+"]);
    }
}
