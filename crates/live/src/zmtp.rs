//! ZeroMQ's wire protocol, ZMTP 3.0 and 3.1 without encryption, as the pulling end of a pipeline.
//!
//! A state machine without a socket: bytes in, messages and bytes to send out. After [RFC 23](https://rfc.zeromq.org/spec/23/) and
//! [RFC 37](https://rfc.zeromq.org/spec/37/): a greeting of 64 bytes each way, a `READY` command each way, then frames. Peers that push
//! are welcome, any other kind is not, nor is one that wants to authenticate or speaks a version from before 2013.

/// One peer that pushes messages to us.
#[derive(Debug)]
pub struct Puller {
    state: State,
    /// Bytes that came and are not a whole greeting or frame yet.
    input: Vec<u8>,
    output: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Handshake,
    Open,
}

/// Fault of a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZmtpFault {
    /// The first bytes are no greeting of ZeroMQ's.
    #[error("it does not speak ZeroMQ's protocol")]
    NotZmtp,
    /// The peer's version of the protocol.
    #[error("it speaks version {0} of ZeroMQ's protocol, and 3 is needed")]
    Version(u8),
    /// The peer asks for another security mechanism than none.
    #[error("it asks for the security mechanism {0:?}, and only NULL is known")]
    Mechanism(String),
    /// The peer is a socket that does not push.
    #[error("it is a socket of type {0:?}, and only PUSH can send here")]
    SocketType(String),
    /// A frame has flags that do not exist, or comes where it must not.
    #[error("it sent a frame that makes no sense")]
    Frame,
    /// A message is longer than is taken.
    #[error("it sent a message of {0} bytes, and at most {max} are taken", max = Puller::LONGEST_MESSAGE)]
    Length(u64),
}

const GREETING: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

impl Default for Puller {
    fn default() -> Self {
        Self { state: State::Greeting, input: Vec::new(), output: greeting() }
    }
}

impl Puller {
    /// No message may be longer: a flush of a million requests fits in well.
    pub const LONGEST_MESSAGE: u64 = 64 << 20;
    /// Nor a command.
    const LONGEST_COMMAND: u64 = 4 << 10;

    /// Takes bytes of the peer and hands whole messages on. Parts of a message count as messages, as FTIO counts them.
    ///
    /// After a fault the connection is to be closed.
    pub fn feed(&mut self, bytes: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), ZmtpFault> {
        self.input.extend_from_slice(bytes);
        let mut at = 0;
        let done = loop {
            match self.step(&self.input[at..]) {
                Ok(Some(step)) => {
                    let piece = &self.input[at..at + step.len];
                    match step.what {
                        What::Greeting => {
                            self.state = State::Handshake;
                            self.output.extend(ready());
                        }
                        What::Ready => self.state = State::Open,
                        What::Message(from) => take(&piece[from..]),
                        What::Ping(context) => self.output.extend(pong(&piece[context..])),
                        What::OtherCommand => {}
                    }
                    at += step.len;
                }
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        if at > 0 {
            // A copy: a long message gives its memory back.
            self.input = self.input[at..].to_vec();
        }
        done
    }

    /// Takes the bytes to be sent to the peer.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes wait for the rest of their message.
    pub fn n_waiting(&self) -> usize {
        self.input.len()
    }

    /// Returns the greeting or frame that is whole at the front of `bytes`; `None` if more is needed.
    fn step(&self, bytes: &[u8]) -> Result<Option<Found>, ZmtpFault> {
        if self.state == State::Greeting {
            return check_greeting(bytes)
                .map(|is_whole| is_whole.then_some(Found { len: GREETING, what: What::Greeting }));
        }
        let Some(&flags) = bytes.first() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(ZmtpFault::Frame);
        }
        let (head, body_len) = match flags & LONG {
            0 => match bytes.get(1) {
                Some(&len) => (2, u64::from(len)),
                None => return Ok(None),
            },
            _ => match bytes.get(1..9).and_then(|len| len.try_into().ok()) {
                Some(len) => (9, u64::from_be_bytes(len)),
                None => return Ok(None),
            },
        };
        let is_command = flags & COMMAND != 0;
        if is_command && body_len > Self::LONGEST_COMMAND {
            return Err(ZmtpFault::Frame);
        }
        if body_len > Self::LONGEST_MESSAGE {
            return Err(ZmtpFault::Length(body_len));
        }
        let len = head + body_len as usize;
        let Some(body) = bytes.get(head..len) else { return Ok(None) };
        let what = match (self.state, is_command) {
            (State::Handshake, true) => check_ready(body)?,
            (State::Handshake, false) => return Err(ZmtpFault::Frame),
            (_, false) => What::Message(head),
            // PING, a time to live of two bytes, and up to 16 bytes that the answer repeats.
            (_, true) if body.starts_with(b"\x04PING") && body.len() <= 7 + 16 => {
                What::Ping(head + body.len().min(7))
            }
            (_, true) => What::OtherCommand,
        };
        Ok(Some(Found { len, what }))
    }
}

struct Found {
    len: usize,
    what: What,
}

enum What {
    Greeting,
    Ready,
    /// A message, from that byte on.
    Message(usize),
    /// A ping; from that byte on stands what the answer repeats.
    Ping(usize),
    OtherCommand,
}

fn greeting() -> Vec<u8> {
    let mut greeting = vec![0; GREETING];
    (greeting[0], greeting[9]) = (0xff, 0x7f);
    (greeting[10], greeting[11]) = (3, 0);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Whether a greeting is whole; as much of it as is there is looked at already.
fn check_greeting(bytes: &[u8]) -> Result<bool, ZmtpFault> {
    let at = |index: usize| bytes.get(index).copied();
    // The eight bytes in between may hold anything.
    if at(0).is_some_and(|byte| byte != 0xff) || at(9).is_some_and(|byte| byte != 0x7f) {
        return Err(ZmtpFault::NotZmtp);
    }
    if let Some(version) = at(10)
        && version < 3
    {
        return Err(ZmtpFault::Version(version));
    }
    let Some(mechanism) = bytes.get(12..32) else { return Ok(false) };
    if mechanism[..4] != *b"NULL" || mechanism[4..].iter().any(|&byte| byte != 0) {
        let name: Vec<u8> = mechanism.iter().copied().take_while(|&byte| byte != 0).collect();
        return Err(ZmtpFault::Mechanism(String::from_utf8_lossy(&name).into_owned()));
    }
    Ok(bytes.len() >= GREETING)
}

fn ready() -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", "PULL"), ("Identity", "")] {
        body.push(name.len() as u8);
        body.extend(name.as_bytes());
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    command(&body)
}

fn pong(context: &[u8]) -> Vec<u8> {
    command(&[b"\x04PONG", context].concat())
}

/// A command of at most 255 bytes as a frame.
fn command(body: &[u8]) -> Vec<u8> {
    [&[COMMAND, body.len() as u8], body].concat()
}

/// Looks at the peer's `READY`: it must be a socket that pushes.
fn check_ready(body: &[u8]) -> Result<What, ZmtpFault> {
    let mut rest = body.strip_prefix(b"\x05READY").ok_or(ZmtpFault::Frame)?;
    let mut socket_type = None;
    while let Some((&name_len, tail)) = rest.split_first() {
        let (name, tail) = tail.split_at_checked(usize::from(name_len)).ok_or(ZmtpFault::Frame)?;
        let (value_len, tail) = tail.split_at_checked(4).ok_or(ZmtpFault::Frame)?;
        let value_len = u32::from_be_bytes(value_len.try_into().map_err(|_| ZmtpFault::Frame)?);
        let (value, tail) = tail.split_at_checked(value_len as usize).ok_or(ZmtpFault::Frame)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket_type = Some(value);
        }
        rest = tail;
    }
    match socket_type {
        Some(b"PUSH") => Ok(What::Ready),
        other => {
            let name = String::from_utf8_lossy(other.unwrap_or_default()).chars().take(40).collect();
            Err(ZmtpFault::SocketType(name))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the bytes that a PUSH socket sends: greeting, READY, then these messages.
    pub(crate) fn pushed(messages: &[&[u8]]) -> Vec<u8> {
        let mut bytes = greeting();
        bytes.extend(command(b"\x05READY\x0bSocket-Type\0\0\0\x04PUSH\x08Identity\0\0\0\0"));
        for message in messages {
            if message.len() < 256 {
                bytes.extend([0, message.len() as u8]);
            } else {
                bytes.push(LONG);
                bytes.extend((message.len() as u64).to_be_bytes());
            }
            bytes.extend_from_slice(message);
        }
        bytes
    }

    fn pulled(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Result<(), ZmtpFault>) {
        let (mut puller, mut messages) = (Puller::default(), Vec::new());
        let done = bytes
            .chunks(piece)
            .try_for_each(|piece| puller.feed(piece, &mut |message| messages.push(message.to_vec())));
        (messages, done)
    }

    #[test]
    fn messages_come_whole_however_the_bytes_come() {
        let long = vec![7; 70_000];
        let bytes = pushed(&[b"one", b"", &long, b"two"]);
        for piece in [1, 2, 7, 64, 1000, usize::MAX] {
            let (messages, done) = pulled(&bytes, piece);
            assert_eq!((messages.len(), done), (4, Ok(())), "pieces of {piece}");
            assert_eq!(messages[2], long);
        }
    }

    #[test]
    fn a_ping_is_answered_with_what_it_carried() {
        let mut puller = Puller::default();
        puller.feed(&pushed(&[]), &mut |_| panic!("no message was sent")).unwrap();
        puller.take_output();
        puller.feed(&command(b"\x04PING\0\x0ahello"), &mut |_| ()).unwrap();
        assert_eq!(puller.take_output(), command(b"\x04PONGhello"));
    }

    #[test]
    fn who_does_not_push_is_refused() {
        let refused = |bytes: &[u8]| pulled(bytes, usize::MAX).1.unwrap_err();
        assert_eq!(refused(b"GET / HTTP/1.1\r\n"), ZmtpFault::NotZmtp);
        let mut old = greeting();
        old[10] = 1;
        assert_eq!(refused(&old), ZmtpFault::Version(1));
        let mut curve = greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        assert_eq!(refused(&curve), ZmtpFault::Mechanism("CURVE".into()));
        let mut publisher = greeting();
        publisher.extend(command(b"\x05READY\x0bSocket-Type\0\0\0\x03PUB"));
        assert_eq!(refused(&publisher), ZmtpFault::SocketType("PUB".into()));
    }

    #[test]
    fn a_message_longer_than_is_taken_is_refused_before_it_comes() {
        let mut bytes = pushed(&[]);
        bytes.push(LONG);
        bytes.extend((Puller::LONGEST_MESSAGE + 1).to_be_bytes());
        assert_eq!(pulled(&bytes, 100).1, Err(ZmtpFault::Length(Puller::LONGEST_MESSAGE + 1)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
            let _ = pulled(&bytes, piece);
            let _ = pulled(&[pushed(&[b"x"]), bytes].concat(), piece);
        }
    }
}
