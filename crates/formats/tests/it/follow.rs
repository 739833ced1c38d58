use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use iotide_formats::{Format, OneSink, OpenOptions, TracedJobs, TracedStream};
use iotide_trace::{Event, FileId, Trace};
use iotide_wire as wire;
use proptest::prelude::*;

use crate::damage::{Random, damage};
use crate::samples::{self, Sample};

/// Bytes that come in pieces of the given lengths, and then not at all: as a file that nobody has written on yet.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    lengths: Vec<usize>,
    next: usize,
    /// Whether the end is the end, or a wait for more.
    ends: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.len() - self.at;
        if left == 0 {
            return if self.ends { Ok(0) } else { Err(io::Error::other("would wait")) };
        }
        let piece = self.lengths.get(self.next).copied().unwrap_or(usize::MAX).max(1);
        self.next = (self.next + 1) % self.lengths.len().max(1);
        let n = piece.min(left).min(buffer.len());
        buffer[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Returns the trace that a follower of these bytes has seen: until they end, or until it has to wait.
fn followed(bytes: &[u8], format: Format, lengths: &[usize], ends: bool) -> (Trace, Option<String>) {
    let pieces = Pieces { bytes: bytes.to_vec(), at: 0, lengths: lengths.to_vec(), next: 0, ends };
    let options = OpenOptions { input_format: Some(format), ..OpenOptions::default() };
    let mut trace = Trace::default();
    let read = options.from_live("input", pieces).and_then(|reader| reader.read(&mut trace));
    let error = match read {
        Ok(info) => {
            trace.info = info;
            None
        }
        Err(error) => Some(error.to_string()),
    };
    (trace, error)
}

fn whole(bytes: &[u8], format: Format) -> (Trace, Option<String>) {
    followed(bytes, format, &[], true)
}

fn followable() -> Vec<Sample> {
    let is_stream = |sample: &Sample| TracedStream::may_begin(&sample.bytes[..8]);
    let samples = samples::all().into_iter();
    samples.filter(|sample| sample.format.can_be_followed() && !is_stream(sample)).collect()
}

fn traced() -> Vec<Sample> {
    let is_stream = |sample: &Sample| TracedStream::may_begin(&sample.bytes[..8]);
    samples::all().into_iter().filter(is_stream).collect()
}

#[test]
fn every_format_that_can_be_followed_has_a_sample() {
    let samples = followable();
    for format in Format::ALL.iter().filter(|format| format.can_be_followed()) {
        assert!(samples.iter().any(|sample| sample.format == *format), "{format}");
    }
    assert!(!traced().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_the_bytes_come_the_events_are_the_same(lengths in prop::collection::vec(1usize..40, 1..20), seed in 0u64..1000) {
        for sample in followable() {
            let mut random = Random::new(seed);
            // Damaged ones, too: then losses must be the same.
            let bytes = if seed % 2 == 0 { sample.bytes.clone() } else { damage(&sample.bytes, &mut random) };
            if bytes.is_empty() {
                continue;
            }
            let (at_once, in_pieces) =
                (whole(&bytes, sample.format), followed(&bytes, sample.format, &lengths, true));
            prop_assert_eq!(at_once, in_pieces, "{}", sample.name);
        }
    }

    #[test]
    fn however_a_stream_of_the_tracer_comes_the_events_are_the_same(lengths in prop::collection::vec(1usize..400, 1..20), seed in 0u64..1000) {
        for sample in traced() {
            let mut random = Random::new(seed);
            let bytes = if seed % 2 == 0 { sample.bytes.clone() } else { damage(&sample.bytes, &mut random) };
            let (at_once, in_pieces) = (fed(&bytes, &[usize::MAX]), fed(&bytes, &lengths));
            prop_assert_eq!(&at_once, &in_pieces, "{}", sample.name);
            // And they are what a reader of the whole finds, except for names of files.
            let options = OpenOptions { input_format: Some(Format::Native), ..OpenOptions::default() };
            let mut trace = Trace::default();
            let read = options.from_read("input", io::Cursor::new(bytes)).and_then(|reader| reader.read(&mut trace));
            if let (Ok(_), Some(fed)) = (read, in_pieces) {
                let nameless = |events: &[Event]| events.iter().map(|event| Event { file: FileId::NONE, ..*event }).collect::<Vec<_>>();
                prop_assert_eq!(nameless(&trace.events), fed.events);
                prop_assert_eq!(trace.losses, fed.losses);
            }
        }
    }
}

/// Returns the trace that a follower of a stream of the tracer has seen; `None` if it is none.
fn fed(bytes: &[u8], lengths: &[usize]) -> Option<Trace> {
    let (mut jobs, mut stream, mut trace) =
        (TracedJobs::default(), TracedStream::default(), Trace::default());
    let (mut at, mut next) = (0, 0);
    while at < bytes.len() {
        let n = lengths[next % lengths.len()].min(bytes.len() - at);
        next += 1;
        if jobs.feed(&mut stream, &bytes[at..at + n], &mut OneSink(&mut trace)).is_err() {
            return None;
        }
        at += n;
    }
    jobs.end_of(stream, &mut OneSink(&mut trace));
    trace.losses = jobs.jobs().iter().flat_map(|job| job.losses()).collect();
    Some(trace)
}

/// A record must not wait for bytes that belong to the one after it.
#[test]
fn what_is_whole_is_seen_before_more_comes() {
    for sample in followable() {
        let (all, _) = whole(&sample.bytes, sample.format);
        let (so_far, error) = followed(&sample.bytes, sample.format, &[], false);
        assert!(error.is_some_and(|error| error.contains("would wait")), "{}", sample.name);
        // The file's end is no news: everything has been seen already.
        assert_eq!(so_far.events, all.events, "{}", sample.name);
        // And at each place in between, no less than a reader of that much would have found.
        for len in 1..sample.bytes.len() {
            let (at_rest, _) = whole(&sample.bytes[..len], sample.format);
            let (so_far, _) = followed(&sample.bytes[..len], sample.format, &[], false);
            assert!(at_rest.events.starts_with(&so_far.events), "{} after {len} bytes", sample.name);
            // The last line may look whole to a reader of a file that ends there.
            assert!(at_rest.events.len() <= so_far.events.len() + 4, "{} after {len} bytes", sample.name);
        }
    }
}

/// The same blocks by two ways, in any order, count once.
#[test]
fn a_block_that_comes_by_file_and_by_socket_counts_once() {
    for sample in traced() {
        let once = fed(&sample.bytes, &[usize::MAX]).unwrap();
        let (mut jobs, mut trace) = (TracedJobs::default(), Trace::default());
        let mut streams = [TracedStream::default(), TracedStream::default()];
        for piece in sample.bytes.chunks(100) {
            for stream in &mut streams {
                jobs.feed(stream, piece, &mut OneSink(&mut trace)).unwrap();
            }
        }
        assert_eq!(trace.events, once.events, "{}", sample.name);
        let losses: Vec<_> = jobs.jobs().iter().flat_map(|job| job.losses()).collect();
        assert_eq!(losses, once.losses, "{}", sample.name);
    }
}

/// Threads are what real followers are made of: a reader that waits in one, a writer in another.
#[test]
fn a_reader_that_waits_sees_each_flush_when_it_comes() {
    struct Waiting(Arc<Mutex<std::sync::mpsc::Receiver<Vec<u8>>>>, Vec<u8>);
    impl Read for Waiting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.lock().unwrap().recv().unwrap_or_default();
            }
            let n = self.1.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }
    struct Sending(std::sync::mpsc::Sender<f64>);
    impl iotide_trace::EventSink for Sending {
        fn event(&mut self, event: Event) -> std::ops::ControlFlow<()> {
            let _ = self.0.send(event.start.as_secs());
            std::ops::ControlFlow::Continue(())
        }
        fn loss(&mut self, loss: iotide_trace::Loss) {
            panic!("{loss:?}");
        }

        fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> std::ops::ControlFlow<()> {
            self.event(event)
        }

        fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

        fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
    }
    let (bytes_in, bytes_out) = std::sync::mpsc::channel();
    let (events_in, events_out) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let read = Waiting(Arc::new(Mutex::new(bytes_out)), Vec::new());
        let reader = OpenOptions::default().from_live("input", read).unwrap();
        assert_eq!(reader.format(), Format::TmioJsonl);
        reader.read(&mut Sending(events_in)).unwrap();
    });
    for flush in 0..5 {
        let line = format!(
            "\t{{\"write_sync\":{{\"bandwidth\": {{\"b_rank_avr\": [ 8.0],\"t_rank_s\": [ {flush}],\"t_rank_e\": [ {}]}}}}}}\n",
            flush + 1
        );
        let (head, tail) = line.split_at(line.len() / 2);
        bytes_in.send(head.as_bytes().to_vec()).unwrap();
        bytes_in.send(tail.as_bytes().to_vec()).unwrap();
        assert_eq!(events_out.recv().unwrap(), f64::from(flush));
    }
    drop(bytes_in);
    reading.join().unwrap();
}

/// A stream of one process that writes so many bytes.
fn process(uid: u32, pid: u32, job_id: &str, run: &str, bytes: u64) -> Vec<u8> {
    let facts = wire::Facts {
        rank: None,
        n_ranks: None,
        pid,
        parent_pid: 1,
        uid,
        buffer_records: 1638,
        realtime_offset_ns: 1_700_000_000_000_000_000,
        start_ns: 1_000_000_000,
        clock: wire::ClockKind::MonotonicNanos,
        host: b"node1",
        job_id: job_id.as_bytes(),
        exe: b"/bin/app",
        mpi: b"",
        run: run.as_bytes(),
        command: b"",
    };
    let mut payload = [0; wire::Facts::MAX_SIZE];
    let n = facts.encode(&mut payload).unwrap();
    let record = wire::Record {
        start: 1_000_100_000,
        duration: 5_000,
        bytes,
        position: 0,
        file: 3,
        calls: 1,
        call: wire::Call::of(wire::Op::Write),
        flags: wire::Flags::of(wire::Layer::Posix),
    };
    let mut stream = wire::StreamHeader { version: wire::StreamHeader::VERSION }.to_bytes().to_vec();
    let blocks =
        [(wire::BlockKind::Facts, &payload[..n]), (wire::BlockKind::Records, &record.to_bytes()[..])];
    for (sequence, (kind, payload)) in blocks.into_iter().enumerate() {
        let (sequence, payload_len) = (sequence as u64, payload.len() as u32);
        let header =
            wire::BlockHeader { kind, payload_len, thread: 1, sequence, ticks: 1 << 30, nanos: 1 << 30 };
        stream.extend(header.seal(payload));
        stream.extend(payload);
    }
    stream
}

/// Traces that the jobs have written.
#[derive(Default)]
struct Written(Vec<Trace>);

impl iotide_formats::JobSinks for Written {
    fn of_job(&mut self, job: usize) -> &mut dyn iotide_trace::EventSink {
        self.0.resize_with(self.0.len().max(job + 1), Trace::default);
        &mut self.0[job]
    }
}

#[test]
fn processes_are_one_job_that_have_its_name_and_its_user() {
    let processes = [
        process(1000, 1, "42", "", 1),
        process(1000, 2, "42", "sim-7", 2),
        process(1001, 3, "42", "", 4),
        process(1000, 4, "", "sim-7", 8),
        process(1000, 5, "", "", 16),
        process(1000, 6, "", "sim-7", 32),
        process(1000, 7, "", "", 64),
    ];
    let (mut jobs, mut written) = (TracedJobs::default(), Written::default());
    let mut streams: Vec<TracedStream> = processes.iter().map(|_| TracedStream::default()).collect();
    // All at once, in small pieces.
    for piece in 0..processes[0].len() {
        for (stream, bytes) in streams.iter_mut().zip(&processes) {
            let bytes = bytes.chunks(10).nth(piece).unwrap_or_default();
            jobs.feed(stream, bytes, &mut written).unwrap();
        }
    }
    let sums = written.0.iter().map(|trace| trace.events.iter().map(|event| event.bytes).sum::<f64>());
    let named: Vec<(&str, f64)> = jobs.jobs().iter().map(|job| job.name()).zip(sums).collect();
    assert_eq!(named.iter().map(|(_, bytes)| bytes).sum::<f64>(), 127.0);
    for job in [("42", 3.0), ("42", 4.0), ("sim-7", 40.0), ("", 80.0)] {
        assert!(named.contains(&job), "{job:?} in {named:?}");
    }
    assert_eq!(named.len(), 4);
}

#[test]
fn jobs_beyond_the_limit_are_a_loss_and_cost_nothing() {
    let (mut jobs, mut written) = (TracedJobs::default(), Written::default());
    for number in 0..3 * TracedJobs::MOST_JOBS {
        let bytes = process(1000, number as u32, &number.to_string(), "", 1);
        jobs.feed(&mut TracedStream::default(), &bytes, &mut written).unwrap();
    }
    assert_eq!((jobs.jobs().len(), written.0.len()), (TracedJobs::MOST_JOBS, TracedJobs::MOST_JOBS));
    assert!(jobs.loss().unwrap().what.contains("more than 256 jobs"));
}
