//! Whom to ask about the files of a mount: what `--gate` says.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iotide_wire::{GateKeyText, GateMap};
use rustix::net::{AddressFamily, SocketAddrUnix};

use crate::GateError;
use crate::keys::read_key;

/// The arbiters of the storage behind a mount.
#[derive(Clone)]
pub struct Arbiters {
    pub(crate) places: Vec<Place>,
    /// How much of a file lies at one target before the next.
    pub(crate) stripe: u64,
    pub(crate) key: Option<GateKeyText>,
    /// How long an arbiter may hold a request.
    pub(crate) patience: Duration,
}

impl std::fmt::Debug for Arbiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arbiters")
            .field("places", &self.places)
            .field("stripe", &self.stripe)
            .finish_non_exhaustive()
    }
}

/// Where an arbiter listens.
#[derive(Clone, Debug)]
pub enum Place {
    /// At a path.
    Unix(SocketAddrUnix),
    /// At an address.
    Tcp(SocketAddr),
}

impl Place {
    pub(crate) fn family(&self) -> AddressFamily {
        match self {
            Self::Unix(_) => AddressFamily::UNIX,
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        }
    }
}

impl Arbiters {
    /// Reads a map of arbiters, as `IOTIDE_GATE` is, for files below a directory; and the key that is proved to those on other machines.
    pub fn read(text: &str, directory: &Path, key: Option<&PathBuf>) -> Result<Self, GateError> {
        let refused = |reason: String| GateError::Map { text: text.to_owned(), reason };
        let mut map = GateMap::new();
        map.read(text.as_bytes());
        let below = directory.as_os_str().as_bytes();
        let is_inside = |prefix: &[u8]| {
            let rest = prefix.strip_prefix(below);
            rest.is_some_and(|rest| rest.starts_with(b"/") && rest.len() > 1)
        };
        if let Some(inside) = map.rules().iter().find(|rule| is_inside(rule.prefix)) {
            let inside = String::from_utf8_lossy(inside.prefix);
            return Err(refused(format!(
                "{inside} is a part of the mount, which has one rule for all its files"
            )));
        }
        let rule = map.rule(map.rule_of(below)).filter(|rule| rule.n_targets > 0);
        let rule = rule.ok_or_else(|| refused(format!("it names no arbiter for {}", directory.display())))?;
        let place = |at: usize| {
            let address = String::from_utf8_lossy(map.address(at)).into_owned();
            let parsed = match address.split_once(':') {
                Some(("unix", path)) => SocketAddrUnix::new(path).ok().map(Place::Unix),
                Some(("tcp", numbers)) => numbers.parse().ok().map(Place::Tcp),
                _ => None,
            };
            parsed.ok_or_else(|| refused(format!("{address} is no unix:/path and no tcp:a.b.c.d:port")))
        };
        Ok(Self {
            places: (rule.first..rule.first + rule.n_targets).map(place).collect::<Result<_, _>>()?,
            stripe: rule.stripe,
            key: key.map(|path| read_key(path)).transpose()?,
            patience: Duration::from_secs(60),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Arbiters, String> {
        Arbiters::read(text, Path::new("/scratch"), None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_mount_asks_those_that_the_map_names_for_it() {
        let arbiters = read("/scratch=tcp:10.0.0.5:1,tcp:[fe80::1]:2@4M;/home=unix:/h;unix:/rest").unwrap();
        assert_eq!((arbiters.places.len(), arbiters.stripe), (2, 4 << 20));
        assert_eq!(read("unix:/run/gate").unwrap().places.len(), 1);
        for (text, why) in [
            ("", "names no arbiter"),
            ("/home=unix:/h", "names no arbiter"),
            ("/scratch/fast=unix:/h;unix:/rest", "a part of the mount"),
            ("tcp:storage1:7070", "is no unix:/path and no tcp:"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
