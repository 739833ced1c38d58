use std::io::Cursor;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use iotide_formats::{Format, JobLogOptions, OpenOptions};
use iotide_trace::{Event, EventSink, FileId, Loss};

use crate::samples;

/// Damaged copies per sample. Each takes microseconds; the coverage-guided targets under `fuzz/` go on from here.
const N_COPIES: u64 = 3000;

#[test]
fn damaged_samples_are_read_or_refused() {
    for sample in samples::all() {
        for seed in 0..N_COPIES {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sample.bytes.len() as u64);
            let damaged = damage(&sample.bytes, &mut random);
            let told = (seed % 3 == 0).then_some(sample.format);
            read(&damaged, told, &format!("{} with seed {seed}", sample.name));
        }
    }
}

#[test]
fn every_beginning_of_a_sample_is_read_or_refused() {
    for sample in samples::all() {
        for len in 0..sample.bytes.len() {
            read(
                &sample.bytes[..len],
                Some(sample.format),
                &format!("the first {len} bytes of {}", sample.name),
            );
        }
    }
}

#[test]
fn noise_is_read_or_refused_as_any_format() {
    for &format in Format::ALL {
        for seed in 0..N_COPIES / 3 {
            let mut random = Random(seed + 1);
            let len = random.below(200);
            let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            read(&noise, Some(format), &format!("noise {seed} as {format}"));
        }
    }
}

#[test]
fn damaged_job_logs_are_read_or_refused() {
    let logs = [
        "JobID|User|JobName|NNodes|Start|End|State|Elapsed\n1|ana|x|2K|2024-03-01T12:00:00|Unknown|RUNNING|1-02:03:04\n\
         1.batch||batch|1|2024-03-01T12:00:00|2024-03-01T13:00:00+01:00|COMPLETED|10:00\n2+0|bo|y|4|100.5|200|CANCELLED by 7|90\n",
        "# jobs\nuser,name,nodes,start,end\nana,\"a,b\",2,0,60.5\nbo,c,,2024-03-01 12:00:00.5Z,\n",
        "{\"user\": \"ana\", \"jobname\": \"x\", \"nnodes\": 2, \"start\": 1, \"end\": \"2024-03-01T12:00:00\"}\n",
    ];
    for (log, seed) in logs.iter().flat_map(|log| (0..N_COPIES).map(move |seed| (log, seed))) {
        let damaged = damage(log.as_bytes(), &mut Random::new(seed + 1));
        let n = damaged.len();
        match JobLogOptions::default().from_read("input", Cursor::new(damaged)) {
            Ok(log) => {
                assert!(log.runs.len() <= n, "seed {seed}");
                for run in &log.runs {
                    let in_order = run.end_s.is_none_or(|end_s| end_s >= run.start_s);
                    assert!(run.start_s.is_finite() && in_order, "seed {seed}: {run:?}");
                }
                assert!(log.losses.iter().all(|loss| !loss.what.is_empty()), "seed {seed}");
            }
            Err(error) => assert!(error.to_string().contains("input"), "seed {seed}: {error}"),
        }
    }
}

/// Reads, and asserts what holds of any source: it ends, soon; events are in order; an error says something.
fn read(bytes: &[u8], format: Option<Format>, name: &str) {
    let begun = Instant::now();
    let options = OpenOptions { input_format: format, ..OpenOptions::default() };
    let mut checked = Checked { n_events: 0, n_losses: 0, n_files: 0 };
    match options.from_read("input", Cursor::new(bytes.to_vec())).and_then(|reader| reader.read(&mut checked))
    {
        Ok(info) => {
            assert!(checked.n_files <= info.files.len(), "{name}: an event of a file that is not there")
        }
        Err(error) => assert!(error.to_string().contains("input"), "{name}: {error}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{name}: took {:?}", begun.elapsed());
    // A byte of source cannot hold many records.
    assert!(checked.n_events <= 2 * bytes.len(), "{name}: {} events", checked.n_events);
    assert!(checked.n_losses <= 20 + bytes.len() / 20, "{name}: {} losses", checked.n_losses);
}

struct Checked {
    n_events: usize,
    n_losses: usize,
    n_files: usize,
}

impl EventSink for Checked {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        assert!(event.start <= event.end, "{event:?}");
        self.n_events += 1;
        if event.file != FileId::NONE {
            self.n_files = self.n_files.max(event.file.0 as usize + 1);
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, loss: Loss) {
        assert!(!loss.what.is_empty());
        self.n_losses += 1;
    }

    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

/// Some bytes flipped, replaced, cut out, doubled or put in.
pub fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    /// Bytes that hurt parsers: brackets, quotes, ends, signs, large lengths, words that are no numbers.
    const BAD: &[&[u8]] = &[
        b"\"",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b":",
        b"\n",
        b"-",
        b"NaN",
        b"inf",
        b"null",
        b"1e999",
        b"-1e999",
        b"9e18",
        b"\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc1",
        b"\x00",
        b"\\",
        b"\\u",
        b"#",
        b"=",
        b"[[[[[[[[",
        b"18446744073709551616",
        b"\xef\xbb\xbf",
    ];
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(12)).min(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            4 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, BAD[random.below(BAD.len())].iter().copied())),
        }
    }
    bytes
}

/// Steele's SplitMix64: a seed is the whole state, so a failing case is its number.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
