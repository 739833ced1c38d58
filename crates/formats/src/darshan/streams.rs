//! Regions of a log: one compressed stream after the other, about one per rank.

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

/// What became of a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionState {
    /// Streams that were unpacked whole, up to the first that was not.
    pub good_streams: u64,
    /// The bytes they hold.
    pub good_bytes: u64,
    /// What stopped the reading, and how many packed bytes into the region.
    pub fault: Option<(u64, String)>,
}

/// Unpacks a region stream by stream and hands each whole one to `take`, which may ask to stop.
///
/// Whole means that its checksum agrees: nothing of a damaged stream is handed on, because nothing tells which of its
/// bytes are wrong. What follows it is lost as well. A stream that unpacks to more than `limit` bytes is refused.
pub(super) fn for_each_stream(
    compression: Compression,
    region: &[u8],
    limit: usize,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> RegionState {
    // A stream is kept until its end, so that there is nothing to take back.
    unpack_streams(compression, region, limit, limit, |part| match part {
        Part::Bytes(bytes) => take(bytes),
        Part::End | Part::Damaged => ControlFlow::Continue(()),
    })
}

/// What a region unpacks to, in order.
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
    region: &[u8],
    limit: usize,
    take: impl FnMut(Part) -> ControlFlow<()>,
) -> RegionState {
    const PIECE: usize = 128 << 10;
    unpack_streams(compression, region, limit, PIECE, take)
}

fn unpack_streams(
    compression: Compression,
    region: &[u8],
    limit: usize,
    piece: usize,
    mut take: impl FnMut(Part) -> ControlFlow<()>,
) -> RegionState {
    let mut state = RegionState::default();
    let mut unpacker = Unpacker::new(compression, limit, piece);
    let mut at = 0;
    while at < region.len() {
        let mut stopped = false;
        let mut n_bytes = 0;
        let mut bytes = |bytes: &[u8]| {
            n_bytes += bytes.len() as u64;
            stopped = stopped || take(Part::Bytes(bytes)).is_break();
        };
        let unpacked = match compression {
            Compression::None => {
                bytes(region);
                Ok(region.len())
            }
            _ => unpacker.stream(&region[at..], &mut bytes),
        };
        match unpacked {
            Ok(consumed) => {
                state.good_streams += 1;
                state.good_bytes += n_bytes;
                at += consumed;
                stopped |= take(Part::End).is_break();
            }
            Err(fault) => {
                state.fault = Some((at as u64, format!("stream {}: {fault}", state.good_streams)));
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

/// Unpacks a whole region into one piece, of at most `limit` bytes.
pub(super) fn unpack(compression: Compression, region: &[u8], limit: usize) -> (Vec<u8>, RegionState) {
    let mut whole = Vec::new();
    let mut trusted = 0;
    let mut too_much = false;
    let mut state = for_each_part(compression, region, limit, |part| {
        match part {
            Part::Bytes(bytes) if whole.len() + bytes.len() > limit => too_much = true,
            Part::Bytes(bytes) => whole.extend_from_slice(bytes),
            Part::End if !too_much => trusted = whole.len(),
            Part::End | Part::Damaged => whole.truncate(trusted),
        }
        if too_much { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if too_much && state.fault.is_none() {
        // The stream that was one too many was whole, but is not kept.
        state.good_streams = state.good_streams.saturating_sub(1);
        state.good_bytes = whole.len() as u64;
        state.fault = Some((0, expands_beyond(limit)));
    }
    (whole, state)
}

/// A decompressor and the buffer it writes to, both used again for each stream.
struct Unpacker {
    zlib: Option<flate2::Decompress>,
    buffer: Buffer,
}

impl Unpacker {
    fn new(compression: Compression, limit: usize, piece: usize) -> Self {
        let zlib = (compression == Compression::Zlib).then(|| flate2::Decompress::new(true));
        Self { zlib, buffer: Buffer { bytes: Vec::new(), piece, limit } }
    }

    /// Unpacks one stream piece by piece; returns how many packed bytes it took.
    fn stream(&mut self, packed: &[u8], take: &mut impl FnMut(&[u8])) -> Result<usize, String> {
        let Self { zlib, buffer } = self;
        match zlib {
            Some(zlib) => {
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
            None => {
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

/// Where a stream is unpacked to.
struct Buffer {
    bytes: Vec<u8>,
    /// How long it may become before it is handed on.
    piece: usize,
    /// How long a stream may be.
    limit: usize,
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
        packed: &[u8],
        take: &mut impl FnMut(&[u8]),
        mut step: impl FnMut(&[u8], &mut [u8]) -> Result<Progress, String>,
    ) -> Result<usize, String> {
        let (mut consumed, mut filled, mut handed_on) = (0, 0, 0);
        loop {
            if filled == self.bytes.len() {
                if handed_on + filled >= self.limit {
                    return Err(expands_beyond(self.limit));
                }
                if filled == self.piece {
                    take(&self.bytes);
                    handed_on += filled;
                    filled = 0;
                } else {
                    self.grow(packed.len());
                }
            }
            let progress = step(&packed[consumed..], &mut self.bytes[filled..])?;
            consumed += progress.consumed;
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

fn expands_beyond(limit: usize) -> String {
    format!("it unpacks to more than {} MiB", limit >> 20)
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

    #[test]
    fn streams_that_follow_each_other_are_all_unpacked() {
        let region: Vec<u8> = [&b"one"[..], b"", b"three"].iter().flat_map(|bytes| zlib(bytes)).collect();
        let (whole, state) = unpack(Compression::Zlib, &region, 1 << 20);
        assert_eq!(whole, b"onethree");
        assert_eq!(state, RegionState { good_streams: 3, good_bytes: 8, fault: None });
    }

    #[test]
    fn a_stream_with_a_wrong_checksum_gives_nothing_and_ends_the_region() {
        let mut region = zlib(b"one");
        let two = region.len();
        region.extend(zlib(b"two"));
        *region.last_mut().unwrap() ^= 1;
        region.extend(zlib(b"three"));
        let (whole, state) = unpack(Compression::Zlib, &region, 1 << 20);
        assert_eq!((whole.as_slice(), state.good_streams, state.good_bytes), (&b"one"[..], 1, 3));
        assert_eq!(state.fault.unwrap().0, two as u64);
    }

    #[test]
    fn pieces_come_as_they_are_unpacked_and_the_end_says_whether_they_hold() {
        let long: Vec<u8> = (0..1_000_000_u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
        let mut region = [zlib(&long), zlib(b"short"), zlib(&long)].concat();
        let (mut whole, mut trusted) = (Vec::new(), 0);
        let mut parts = |region: &[u8]| {
            for_each_part(Compression::Zlib, region, 8 << 20, |part| {
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
        let (whole, state) = unpack(Compression::Zlib, &region[..region.len() - 1], 1 << 20);
        assert!(whole.is_empty());
        assert!(state.fault.unwrap().1.contains("end within it"));
    }

    #[test]
    fn a_compression_bomb_is_stopped_at_the_limit() {
        let bomb = zlib(&vec![0; 16 << 20]);
        assert!(bomb.len() < 200_000);
        let (whole, state) = unpack(Compression::Zlib, &bomb, 1 << 20);
        assert!(whole.is_empty());
        assert!(state.fault.unwrap().1.contains("more than 1 MiB"));
        // Many small ones are a bomb as well.
        let many = zlib(&[0; 1 << 19]).repeat(64);
        let (whole, state) = unpack(Compression::Zlib, &many, 1 << 20);
        assert_eq!(whole.len(), 1 << 20);
        assert!(state.fault.unwrap().1.contains("more than 1 MiB"));
    }
}
