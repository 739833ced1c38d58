//! Whose a connection over loopback is, as the kernel says (`sock_diag(7)`): there all users of a machine have one address.
//!
//! It decides whose share a connection takes, and nothing about what is shown on it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// Bytes of the header of a message, and of a question for one socket (`inet_diag_req_v2`).
const HEADER: usize = 16;
const QUESTION: usize = 56;
/// The kind of that question and of its answer, and that it is one.
const BY_FAMILY: u16 = 20;
const IS_QUESTION: u16 = 1;
const TCP: u8 = 6;
const FAMILY_4: u8 = 2;
const FAMILY_6: u8 = 10;
/// Where an answer (`inet_diag_msg`) has the number of the user.
const USER_AT: usize = HEADER + 64;

/// Asks the kernel.
pub(crate) struct Owners(Option<OwnedFd>);

impl Owners {
    pub(crate) fn new() -> Self {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = Some(netlink::SOCK_DIAG);
        Self(socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, kind).ok())
    }

    /// The user who has connected from `peer` to `here`; `None` if that is another machine, or nobody can say.
    pub(crate) fn of(&self, peer: &SocketAddr, here: &SocketAddr) -> Option<u32> {
        let socket = self.0.as_ref().filter(|_| peer.ip().is_loopback())?;
        send(socket, &question(peer, here), SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        // The kernel answers before `send` returns.
        let (n_bytes, _) = recv(socket, &mut answer[..], RecvFlags::empty()).ok()?;
        user_in(&answer[..n_bytes])
    }
}

fn question(peer: &SocketAddr, here: &SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    bytes.extend(((HEADER + QUESTION) as u32).to_ne_bytes());
    bytes.extend([BY_FAMILY, IS_QUESTION].map(u16::to_ne_bytes).as_flattened());
    bytes.extend([0; 8]);
    // In any state, without more than is always said.
    bytes.extend([if peer.is_ipv4() { FAMILY_4 } else { FAMILY_6 }, TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend([peer.port(), here.port()].map(u16::to_be_bytes).as_flattened());
    for address in [peer.ip(), here.ip()] {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets = address.octets(),
        }
        bytes.extend(octets);
    }
    // Any interface, any cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

/// The user that an answer names; an error names none.
fn user_in(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let user = u32::from_ne_bytes(*answer.get(USER_AT..)?.first_chunk()?);
    (kind == BY_FAMILY).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_says_whose_a_connection_is() {
        let owners = Owners::new();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Not all machines have the long one.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let here = listener.local_addr().unwrap();
            let stream = TcpStream::connect(here).unwrap();
            let peer = stream.local_addr().unwrap();
            if owners.of(&peer, &here).is_none() {
                return iotide_testkit::skip(iotide_testkit::Missing::Data, "of a kernel with sock_diag");
            }
            assert_eq!(owners.of(&peer, &here), Some(rustix::process::geteuid().as_raw()));
            let nobody = SocketAddr::new(peer.ip(), 1);
            assert_eq!(owners.of(&nobody, &here), None);
            // After an error, the next answer is that of the next question.
            assert_eq!(owners.of(&peer, &here), Some(rustix::process::geteuid().as_raw()));
        }
        assert_eq!(owners.of(&"192.0.2.1:7".parse().unwrap(), &"192.0.2.2:7".parse().unwrap()), None);
        assert!(
            (0..USER_AT + 4).all(|n| user_in(&vec![0; n]).is_none()),
            "an answer that is cut names nobody"
        );
    }
}
