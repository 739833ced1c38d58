//! Any bytes of a ZeroMQ peer, in pieces: they must be taken or refused, and a message must be read or refused.
#![no_main]

use iotide_formats::Messages;
use iotide_live::zmtp::Puller;
use iotide_trace::Trace;
use libfuzzer_sys::fuzz_target;

/// Returns the first bytes of every peer that pushes.
fn hello() -> Vec<u8> {
    let mut hello = vec![0; 64];
    (hello[0], hello[9], hello[10]) = (0xff, 0x7f, 3);
    hello[12..16].copy_from_slice(b"NULL");
    hello.extend(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PUSH");
    hello
}

fuzz_target!(|bytes: &[u8]| {
    for greeting in [Vec::new(), hello()] {
        let (mut messages, mut puller) = (Messages::default(), Puller::default());
        for piece in [&greeting[..], bytes].concat().chunks(11) {
            let fed = puller.feed(piece, &mut |message| {
                let mut trace = Trace::default();
                let _ = messages.read(message, &mut trace);
                assert!(trace.events.len() <= 2 * message.len());
            });
            if fed.is_err() {
                break;
            }
        }
    }
});
