//! Regions of a log: one compressed stream after the other, about one per rank.

use std::io::BufRead;
use std::ops::ControlFlow;

use flate2::FlushDecompress;

/// How the regions of a log are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zlib streams.
    Zlib,
    /// bzip2 streams.
    Bzip2,
    /// Not at all: the log of a process that was killed.
    None,
}

/// Outcome of unpacking a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionState {
    /// Streams that were unpacked whole, up to the first that was not.
    pub good_streams: u64,
    /// The bytes they hold.
    pub good_bytes: u64,
    /// Fault that stopped the reading, and how many packed bytes into the region.
    pub fault: Option<(u64, String)>,
}

/// Unpacks a region stream by stream and hands each whole one to `take`, which may ask to stop.
///
/// Whole means that its checksum agrees: nothing of a damaged stream is handed on, because nothing tells which of its
/// bytes are wrong. What follows it is lost as well. A stream that unpacks to more than `keep` bytes comes in pieces of that
/// size, of which only the last is known to be right.
pub(super) fn for_each_stream(
    compression: Compression,
    region: &mut dyn BufRead,
    keep: usize,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> RegionState {
    // A stream is kept until its end, so that there is nothing to take back.
    unpack_streams(compression, region, keep, |part| match part {
        Part::Bytes(bytes) => take(bytes),
        Part::End | Part::Damaged => ControlFlow::Continue(()),
    })
}

/// Parts that a region unpacks to, in order.
pub(super) enum Part<'a> {
    /// A piece of a stream.
    Bytes(&'a [u8]),
    /// The stream ended and its checksum agrees.
    End,
    /// The pieces since the last end are not to be trusted. Nothing comes after this.
    Damaged,
}

/// Unpacks a region in pieces small enough to stay in the processor's cache, for a `take` that can forget what it was
/// given of a stream that turns out to be damaged.
pub(super) fn for_each_part(
    compression: Compression,
    region: &mut dyn BufRead,
    take: impl FnMut(Part) -> ControlFlow<()>,
) -> RegionState {
    const PIECE: usize = 128 << 10;
    unpack_streams(compression, region, PIECE, take)
}

fn unpack_streams(
    compression: Compression,
    region: &mut dyn BufRead,
    piece: usize,
    mut take: impl FnMut(Part) -> ControlFlow<()>,
) -> RegionState {
    let mut state = RegionState::default();
    let mut unpacker = Unpacker::new(compression, piece);
    let mut at = 0;
    loop {
        let mut stopped = false;
        let mut n_bytes = 0;
        let mut bytes = |bytes: &[u8]| {
            n_bytes += bytes.len() as u64;
            stopped = stopped || take(Part::Bytes(bytes)).is_break();
        };
        let unpacked = match region.fill_buf() {
            Ok([]) => break,
            Ok(_) => unpacker.stream(region, &mut bytes),
            Err(error) => Err(error.to_string()),
        };
        match unpacked {
            Ok(consumed) => {
                state.good_streams += 1;
                state.good_bytes += n_bytes;
                at += consumed;
                stopped |= take(Part::End).is_break();
            }
            Err(fault) => {
                state.fault = Some((at, format!("stream {}: {fault}", state.good_streams)));
                stopped = true;
                let _ = take(Part::Damaged);
            }
        }
        if stopped {
            break;
        }
    }
    state
}

/// Unpacks a whole region into one piece, or hands it to `large` in pieces if it has more than `keep` bytes.
///
/// `large` is a copy of itself at the end of each stream, to which it goes back if the next one is damaged.
pub(super) fn unpack<L: Feed>(
    compression: Compression,
    region: &mut dyn BufRead,
    keep: usize,
    large: L,
) -> (Unpacked<L>, RegionState) {
    let mut whole = Vec::new();
    let mut trusted = 0;
    let mut fed: Option<(L, L)> = None;
    let mut large = Some(large);
    let state = for_each_part(compression, region, |part| {
        match (part, &mut fed) {
            (Part::Bytes(bytes), Some((now, _))) => now.feed(bytes),
            (Part::Bytes(bytes), None) => {
                whole.extend_from_slice(bytes);
                if whole.len() > keep
                    && let Some(mut now) = large.take()
                {
                    let rest = whole.split_off(trusted);
                    now.feed(&std::mem::take(&mut whole));
                    let trusted = now.clone();
                    now.feed(&rest);
                    fed = Some((now, trusted));
                }
            }
            (Part::End, Some((now, trusted))) => trusted.clone_from(now),
            (Part::End, None) => trusted = whole.len(),
            (Part::Damaged, Some((now, trusted))) => now.clone_from(trusted),
            (Part::Damaged, None) => whole.truncate(trusted),
        }
        ControlFlow::Continue(())
    });
    let unpacked = match fed {
        Some((fed, _)) => Unpacked::Large(fed),
        None => Unpacked::Whole(whole),
    };
    (unpacked, state)
}

/// Takes a region that is too large to keep.
pub(super) trait Feed: Clone {
    fn feed(&mut self, piece: &[u8]);
}

pub(super) enum Unpacked<L> {
    Whole(Vec<u8>),
    Large(L),
}

/// A decompressor and the buffer it writes to, both used again for each stream.
struct Unpacker {
    compression: Compression,
    zlib: Option<flate2::Decompress>,
    buffer: Buffer,
}

impl Unpacker {
    fn new(compression: Compression, piece: usize) -> Self {
        let zlib = (compression == Compression::Zlib).then(|| flate2::Decompress::new(true));
        Self { compression, zlib, buffer: Buffer { bytes: Vec::new(), piece } }
    }

    /// Unpacks one stream piece by piece; returns how many packed bytes it took.
    fn stream(&mut self, packed: &mut dyn BufRead, take: &mut impl FnMut(&[u8])) -> Result<u64, String> {
        let Self { compression, zlib, buffer } = self;
        match (compression, zlib) {
            (Compression::None, _) => all_of(packed, take),
            (_, Some(zlib)) => {
                zlib.reset(true);
                buffer.drain(packed, take, |input, output| {
                    let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
                    let status = zlib
                        .decompress(input, output, FlushDecompress::None)
                        .map_err(|error| error.to_string())?;
                    Ok(Progress {
                        consumed: (zlib.total_in() - before_in) as usize,
                        filled: (zlib.total_out() - before_out) as usize,
                        ended: status == flate2::Status::StreamEnd,
                    })
                })
            }
            (_, None) => {
                let mut bzip2 = bzip2::Decompress::new(false);
                buffer.drain(packed, take, |input, output| {
                    let (before_in, before_out) = (bzip2.total_in(), bzip2.total_out());
                    let status = bzip2.decompress(input, output).map_err(|error| error.to_string())?;
                    Ok(Progress {
                        consumed: (bzip2.total_in() - before_in) as usize,
                        filled: (bzip2.total_out() - before_out) as usize,
                        ended: status == bzip2::Status::StreamEnd,
                    })
                })
            }
        }
    }
}

/// Takes everything as one stream, for data that is not packed.
fn all_of(packed: &mut dyn BufRead, take: &mut impl FnMut(&[u8])) -> Result<u64, String> {
    let mut consumed = 0;
    loop {
        let bytes = packed.fill_buf().map_err(|error| error.to_string())?;
        if bytes.is_empty() {
            return Ok(consumed);
        }
        take(bytes);
        let n = bytes.len();
        packed.consume(n);
        consumed += n as u64;
    }
}

/// Where a stream is unpacked to.
struct Buffer {
    bytes: Vec<u8>,
    /// How long it may become before it is handed on.
    piece: usize,
}

struct Progress {
    consumed: usize,
    filled: usize,
    ended: bool,
}

impl Buffer {
    /// Calls `step` until the stream has ended, and hands on what it wrote.
    fn drain(
        &mut self,
        packed: &mut dyn BufRead,
        take: &mut impl FnMut(&[u8]),
        mut step: impl FnMut(&[u8], &mut [u8]) -> Result<Progress, String>,
    ) -> Result<u64, String> {
        let (mut consumed, mut filled) = (0, 0);
        loop {
            let input = packed.fill_buf().map_err(|error| error.to_string())?;
            if filled == self.bytes.len() {
                if filled == self.piece {
                    take(&self.bytes);
                    filled = 0;
                } else {
                    self.grow(input.len());
                }
            }
            let progress = step(input, &mut self.bytes[filled..])?;
            packed.consume(progress.consumed);
            consumed += progress.consumed as u64;
            filled += progress.filled;
            if progress.ended {
                take(&self.bytes[..filled]);
                return Ok(consumed);
            }
            if progress.consumed == 0 && progress.filled == 0 {
                return Err("the data end within it".into());
            }
        }
    }

    /// Makes room. Small logs have many small regions, and zeroes of that size cost time.
    fn grow(&mut self, packed_len: usize) {
        let len = match self.bytes.len() {
            0 => packed_len.saturating_mul(4).max(4 << 10),
            len => len * 2,
        };
        let mut larger = vec![0; len.min(self.piece)];
        larger[..self.bytes.len()].copy_from_slice(&self.bytes);
        self.bytes = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Keeps what it is fed, however much that is.
    #[derive(Clone, Default)]
    struct All(Vec<u8>);

    impl Feed for All {
        fn feed(&mut self, piece: &[u8]) {
            self.0.extend_from_slice(piece);
        }
    }

    fn unpacked(mut region: &[u8], keep: usize) -> (Vec<u8>, RegionState, bool) {
        match unpack(Compression::Zlib, &mut region, keep, All::default()) {
            (Unpacked::Whole(whole), state) => (whole, state, false),
            (Unpacked::Large(all), state) => (all.0, state, true),
        }
    }

    #[test]
    fn streams_that_follow_each_other_are_all_unpacked() {
        let region: Vec<u8> = [&b"one"[..], b"", b"three"].iter().flat_map(|bytes| zlib(bytes)).collect();
        for keep in [0, 3, 1 << 20] {
            let (whole, state, is_large) = unpacked(&region, keep);
            assert_eq!((whole.as_slice(), is_large), (&b"onethree"[..], keep < 8));
            assert_eq!(state, RegionState { good_streams: 3, good_bytes: 8, fault: None });
        }
    }

    #[test]
    fn a_stream_with_a_wrong_checksum_gives_nothing_and_ends_the_region() {
        let mut region = zlib(b"one");
        let two = region.len();
        region.extend(zlib(b"two"));
        *region.last_mut().unwrap() ^= 1;
        region.extend(zlib(b"three"));
        for keep in [0, 3, 4, 1 << 20] {
            let (whole, state, _) = unpacked(&region, keep);
            assert_eq!((whole.as_slice(), state.good_streams, state.good_bytes), (&b"one"[..], 1, 3));
            assert_eq!(state.fault.unwrap().0, two as u64);
        }
    }

    #[test]
    fn pieces_come_as_they_are_unpacked_and_the_end_says_whether_they_hold() {
        let long: Vec<u8> = (0..1_000_000_u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        let mut region = [zlib(&long), zlib(b"short"), zlib(&long)].concat();
        let (mut whole, mut trusted) = (Vec::new(), 0);
        let mut parts = |mut region: &[u8]| {
            for_each_part(Compression::Zlib, &mut region, |part| {
                match part {
                    Part::Bytes(bytes) => whole.extend_from_slice(bytes),
                    Part::End => trusted = whole.len(),
                    Part::Damaged => whole.truncate(trusted),
                }
                ControlFlow::Continue(())
            })
        };
        assert_eq!(parts(&region).good_streams, 3);
        *region.last_mut().unwrap() ^= 1;
        assert_eq!(parts(&region).good_streams, 2);
        let expected = [&long[..], b"short", &long, &long, b"short"].concat();
        assert!(whole == expected, "{} bytes of {}", whole.len(), expected.len());
    }

    #[test]
    fn a_stream_cut_short_is_told_from_one_that_ended() {
        let region = zlib(&[7; 10_000]);
        let (whole, state, _) = unpacked(&region[..region.len() - 1], 1 << 20);
        assert!(whole.is_empty());
        assert!(state.fault.unwrap().1.contains("end within it"));
    }

    #[test]
    fn a_region_too_large_to_keep_is_handed_on_in_pieces() {
        let bomb = zlib(&vec![0; 16 << 20]);
        assert!(bomb.len() < 200_000);
        #[derive(Clone, Default)]
        struct Longest(usize, usize);
        impl Feed for Longest {
            fn feed(&mut self, piece: &[u8]) {
                *self = Longest(self.0.max(piece.len()), self.1 + piece.len());
            }
        }
        let (unpacked, state) = unpack(Compression::Zlib, &mut &bomb[..], 1 << 20, Longest::default());
        let Unpacked::Large(Longest(longest, sum)) = unpacked else { panic!("it was kept") };
        assert!(longest <= 2 << 20, "{longest}");
        assert_eq!((sum, state.good_bytes, state.fault), (16 << 20, 16 << 20, None));
    }

    #[test]
    fn a_stream_longer_than_is_kept_comes_in_pieces() {
        let mut region = [zlib(&[1; 3000]), zlib(&[2; 50])].concat();
        let mut lengths = Vec::new();
        let mut streams = |mut region: &[u8]| {
            for_each_stream(Compression::Zlib, &mut region, 1000, |bytes| {
                lengths.push(bytes.len());
                ControlFlow::Continue(())
            })
        };
        assert_eq!(streams(&region).good_bytes, 3050);
        *region.last_mut().unwrap() ^= 1;
        assert_eq!(streams(&region).good_bytes, 3000);
        lengths.retain(|length| *length > 0);
        assert_eq!(lengths, [1000, 1000, 1000, 50, 1000, 1000, 1000]);
    }
}
