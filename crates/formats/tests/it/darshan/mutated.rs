//! A few hundred of each kind by default; `IOTIDE_MUTATIONS=10000` for more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::sink::Each;
use iotide_formats::darshan::{Compression, DarshanLayers, DarshanOptions, DarshanSource, Endian, Log};
use iotide_trace::Tally;

use super::writer::LogWriter;

/// A seeded generator: what fails can be done again.
struct Random(u64);

impl Random {
    /// A 64-bit xorshift with a multiplied output.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn n_mutations() -> usize {
    std::env::var("IOTIDE_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// Our own logs of every kind, and real ones of up to 100 kB where they are at hand.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for minor in [0, 10, 21, 41] {
        for compression in [Compression::Zlib, Compression::Bzip2, Compression::None] {
            let endian = if minor == 10 { Endian::Big } else { Endian::Little };
            seeds.push(LogWriter::rich(minor, endian, compression).write());
        }
    }
    seeds.extend(super::text::samples().map(|(_, bytes)| bytes));
    if let Some(folder) = super::golden::traces() {
        add_files(&folder.join("darshan"), &mut seeds);
        add_files(&folder.join("darshan-legacy"), &mut seeds);
    }
    seeds
}

fn add_files(folder: &Path, seeds: &mut Vec<Vec<u8>>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            add_files(&path, seeds);
        } else if path.metadata().unwrap().len() <= 100_000 {
            seeds.push(std::fs::read(path).unwrap());
        }
    }
}

/// Reads it both ways; a log that is refused is fine, a panic is not.
fn read(bytes: &[u8]) {
    if let Ok(log) = Log::parse("mutated", bytes.to_vec()) {
        for source in [DarshanSource::Auto, DarshanSource::Counters] {
            let mut tally = Tally::default();
            let mut sink = Each(
                |event: iotide_trace::Event| {
                    assert!(event.end >= event.start && event.bytes >= 0.0, "{event:?}");
                    tally.add(&event);
                },
                drop::<iotide_trace::Loss>,
            );
            log.events(DarshanOptions { source, layers: DarshanLayers::All }, &mut sink);
        }
        for module in &log.modules {
            module.counters().map(|table| table.totals().len());
        }
    }
}

fn check(kind: &str, seed: u64, mutate: impl Fn(&mut Random, &mut Vec<u8>)) {
    let seeds = seeds();
    let mut random = Random(seed);
    for round in 0..n_mutations() {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut random, &mut bytes);
        let outcome = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
        if outcome.is_err() {
            let path = std::env::temp_dir().join(format!("iotide-{kind}-{round}.darshan"));
            std::fs::write(&path, &bytes).unwrap();
            panic!("{kind}, round {round}: kept as {}", path.display());
        }
    }
}

#[test]
fn flipped_bytes_do_no_harm() {
    check("flipped", 0x5eed_0001, |random, bytes| {
        for _ in 0..=random.below(8) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
    });
}

#[test]
fn flipped_bytes_of_the_header_do_no_harm() {
    check("header", 0x5eed_0002, |random, bytes| {
        for _ in 0..=random.below(4) {
            let at = 16 + random.below(bytes.len().min(1328).saturating_sub(16));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
    });
}

#[test]
fn cut_logs_do_no_harm() {
    check("cut", 0x5eed_0003, |random, bytes| {
        let len = random.below(bytes.len() + 1);
        bytes.truncate(len);
    });
}

#[test]
fn random_bytes_do_no_harm() {
    check("random", 0x5eed_0004, |random, bytes| {
        // Half of them behind a true header, so that they are looked into.
        let from = if random.below(2) == 0 { 0 } else { bytes.len().min(24) };
        bytes.truncate(from + random.below(4096));
        bytes.resize(from + random.below(4096), 0);
        bytes[from..].iter_mut().for_each(|byte| *byte = random.next() as u8);
    });
}

#[test]
fn damage_behind_the_checksums_does_no_harm() {
    // Logs that are not packed have no checksum: what is damaged in them reaches the records.
    let seeds =
        [0, 10, 21, 41].map(|minor| LogWriter::rich(minor, Endian::Little, Compression::None).write());
    let mut random = Random(0x5eed_0005);
    for _ in 0..n_mutations() {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len() / 8 - 1) * 8;
            let word = [u64::MAX, 1 << 63, i64::MAX as u64, 0, random.next(), 1 << 40][random.below(6)];
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        read(&bytes);
    }
}
