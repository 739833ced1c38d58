//! Where to listen.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on, as users write it: `unix:PATH`, `tcp:HOST:PORT` or `zmq:tcp://HOST:PORT`.
///
/// A host of `*` is every interface. Port 0 lets the system choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system, for streams of the tracer on this node and for questions.
    Unix(PathBuf),
    /// A port, for the same from other nodes.
    Tcp(String),
    /// A port for ZeroMQ messages, as FTIO binds it for TMIO and GekkoFS.
    Zmq(String),
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address: unix:PATH, tcp:HOST:PORT or zmq:tcp://HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fault = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(fault()) } else { Ok(Self::Unix(path.into())) };
        }
        if let Some(rest) = text.strip_prefix("zmq:tcp://") {
            return host_and_port(rest).map(Self::Zmq).ok_or_else(fault);
        }
        text.strip_prefix("tcp:").and_then(host_and_port).map(Self::Tcp).ok_or_else(fault)
    }
}

fn host_and_port(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    match host {
        "" => None,
        "*" => Some(format!("0.0.0.0:{port}")),
        host => Some(format!("{host}:{port}")),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp:{address}"),
            Address::Zmq(address) => write!(f, "zmq:tcp://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_by_their_first_word() {
        assert_eq!("unix:/run/x".parse(), Ok(Address::Unix("/run/x".into())));
        assert_eq!("tcp:[::1]:80".parse(), Ok(Address::Tcp("[::1]:80".into())));
        assert_eq!("zmq:tcp://*:5555".parse(), Ok(Address::Zmq("0.0.0.0:5555".into())));
        for wrong in ["", "unix:", "tcp:", "tcp:host", "tcp::80", "tcp:h:99999", "zmq:*:5555", "/run/x"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
