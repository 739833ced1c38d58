//! Limits for many peers together, and the handling of messages.

use super::*;
use iotide_formats::OneSink;
use iotide_testkit::FreshDir;
use iotide_trace::Trace;
use std::io::Write;

#[test]
fn answers_that_many_do_not_read_stay_below_the_limit_for_all() {
    let dir = FreshDir::new("live-unread");
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    let mut live = Live::new(Settings { limits, ..Settings::default() }).unwrap();
    let address = Address::Unix(dir.path().join("live"));
    live.listen(&address).unwrap();
    live.answer(0, &"x".repeat(60_000));
    let mut trace = Trace::default();
    let mut deaf: Vec<UnixStream> =
        (0..64).map(|_| UnixStream::connect(dir.path().join("live")).unwrap()).collect();
    let _ = live.turn(Duration::ZERO, &mut OneSink(&mut trace)).unwrap();
    assert_eq!(live.connections.len(), 64);
    // More than the system keeps for each, less than each may leave unread.
    for _ in 0..2 {
        for socket in &mut deaf {
            let _ = socket.write_all(b"latest\nlatest\nlatest\n");
        }
        let _ = live.turn(Duration::ZERO, &mut OneSink(&mut trace)).unwrap();
        let n_waiting: usize = live.connections.iter().map(Connection::n_waiting).sum();
        assert!(n_waiting <= limits.bytes, "{n_waiting} bytes for {}", live.connections.len());
    }
    assert!(live.connections.len() < 64, "some were closed");
    // Whoever reads is answered.
    let mut other = UnixStream::connect(dir.path().join("live")).unwrap();
    let _ = live.turn(Duration::ZERO, &mut OneSink(&mut trace)).unwrap();
    other.write_all(b"latest\n").unwrap();
    other.set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    while answer.len() < 60_001 {
        let _ = live.turn(Duration::ZERO, &mut OneSink(&mut trace)).unwrap();
        let _ = other.read_to_end(&mut answer);
    }
}

#[test]
fn messages_are_read_as_the_format_that_is_named() {
    // A flush of a GekkoFS client whose host has no name: content alone does not tell what it is.
    let flush = b"\x09\xa0\x07\xa1w\x91\x0a\x91\x14\x91\x64\x01\x64";
    for (input_format, n_events) in [(None, 0), (Some(Format::GekkofsMsgpack), 1)] {
        let open = OpenOptions { input_format, ..OpenOptions::default() };
        let mut live = Live::new(Settings { open, ..Settings::default() }).unwrap();
        let Address::Zmq(host) = live.listen(&Address::Zmq("127.0.0.1:0".to_owned())).unwrap() else {
            panic!("a port was asked for");
        };
        let mut socket = std::net::TcpStream::connect(host).unwrap();
        socket.write_all(&crate::zmtp::tests::pushed(&[flush])).unwrap();
        let mut trace = Trace::default();
        while trace.events.is_empty() && trace.losses.is_empty() {
            live.turn(Duration::from_millis(100), &mut OneSink(&mut trace)).unwrap();
        }
        assert_eq!((trace.events.len(), trace.losses.len()), (n_events, 1 - n_events));
    }
}
