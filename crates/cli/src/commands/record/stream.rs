//! Who gets a trace as it comes: the listener that `--stream` names.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_api::Address;

use crate::ui::{Hint, Ui};

/// Where to send a trace, as the tracer understands it: it looks up no names, and its programs may change their directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// How long the listener may take to answer.
const WITHIN: Duration = Duration::from_secs(1);

impl Listener {
    /// Where an address is, seen from here.
    pub(super) fn find(address: &Address) -> anyhow::Result<Self> {
        match address {
            Address::Unix(path) => {
                Ok(Self::Unix(std::path::absolute(path).with_context(|| format!("cannot find {address}"))?))
            }
            Address::Tcp(host) => {
                let found = host.to_socket_addrs().with_context(|| format!("cannot find {address}"))?.next();
                match found {
                    Some(found) => Ok(Self::Tcp(found)),
                    None => bail!("cannot find {address}: it has no address"),
                }
            }
            Address::Zmq(_) => Err(anyhow::anyhow!("a trace is not sent by ZeroMQ"))
                .hint("`iotide detect --listen` takes unix:PATH and tcp:HOST:PORT, too"),
        }
    }

    /// Says so if nobody is there. The program runs all the same, and what is recorded is kept.
    pub(super) fn try_out(&self, ui: &mut Ui) {
        if let Err(error) = self.connect() {
            ui.warning(format_args!(
                "nobody listens on {} ({error}); the trace goes to its files, and the listener is tried again",
                self.for_tracer()
            ));
        }
    }

    fn connect(&self) -> io::Result<()> {
        match self {
            Self::Unix(path) => iotide_private::connect_within(path, WITHIN).map(drop),
            Self::Tcp(address) => TcpStream::connect_timeout(address, WITHIN).map(drop),
        }
    }

    /// Returns the value of `IOTIDE_STREAM` for the tracer.
    pub(super) fn for_tracer(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Tcp(address) => format!("tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_looked_up_before_the_program_runs() {
        let find = |address: &str| Listener::find(&address.parse().unwrap()).map(|it| it.for_tracer());
        let here = std::env::current_dir().unwrap();
        assert_eq!(find("unix:x/socket").unwrap(), format!("unix:{}/x/socket", here.display()));
        assert!(["tcp:127.0.0.1:7", "tcp:[::1]:7"].contains(&&*find("tcp:localhost:7").unwrap()));
        assert!(find("zmq:tcp://localhost:7").is_err());
    }
}
