//! Any bytes as a process's stream: taking it apart must end, and use every byte once.
//!
//! The stream is what the tracer's files and its socket carry. The same bytes then go through the reader, as one trace.
#![no_main]

use std::io::Cursor;

use iotide_formats::{Format, OneSink, OpenOptions, TracedJobs, TracedStream};
use iotide_trace::Trace;
use iotide_wire::{BlockHeader, Payload, Record, Step, StreamHeader, next_block, skip_torn};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut n_used = 0;
    while !rest.is_empty() {
        let used = match next_block(rest) {
            Step::Block { header, payload, used } => {
                assert_eq!(used, BlockHeader::SIZE + payload.len());
                assert_eq!(header.payload_len as usize, payload.len());
                if let Ok(Payload::Records(records)) = Payload::of(&header, payload) {
                    assert_eq!(Payload::records(records).count(), records.len() / Record::SIZE);
                }
                used
            }
            Step::Need(needed) => {
                assert!(needed > rest.len());
                skip_torn(rest)
            }
            Step::Damaged { skip, .. } => skip,
        };
        assert!((1..=rest.len()).contains(&used), "no progress, or too much");
        n_used += used;
        rest = &rest[used..];
    }
    assert_eq!(n_used, bytes.len());

    let mut stream = StreamHeader { version: 1 }.to_bytes().to_vec();
    stream.extend_from_slice(bytes);
    let options = OpenOptions { input_format: Some(Format::Native), ..OpenOptions::default() };
    let mut trace = Trace::default();
    let read =
        options.from_read("stream", Cursor::new(stream.clone())).and_then(|reader| reader.read(&mut trace));
    assert!(read.is_err() || trace.events.iter().all(|event| event.start <= event.end));

    // A follower gets the same in pieces.
    let (mut jobs, mut live, mut followed) =
        (TracedJobs::default(), TracedStream::default(), Trace::default());
    for piece in stream.chunks(23) {
        jobs.feed(&mut live, piece, &mut OneSink(&mut followed)).expect("it begins like a stream");
    }
    jobs.end_of(live, &mut OneSink(&mut followed));
    assert!(read.is_err() || followed.events.len() == trace.events.len());
});
