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
    let mut state = RegionState::default();
    let mut unpacker = Unpacker::new(compression);
    let mut at = 0;
    while at < region.len() {
        let unpacked = match compression {
            Compression::None => Ok((region.len(), region)),
            _ => unpacker.stream(&region[at..], limit),
        };
        match unpacked {
            Ok((consumed, bytes)) => {
                state.good_streams += 1;
                state.good_bytes += bytes.len() as u64;
                at += consumed;
                if take(bytes).is_break() {
                    break;
                }
            }
            Err(fault) => {
                state.fault = Some((at as u64, format!("stream {}: {fault}", state.good_streams)));
                break;
            }
        }
    }
    state
}

/// Unpacks a whole region into one piece, of at most `limit` bytes.
pub(super) fn unpack(compression: Compression, region: &[u8], limit: usize) -> (Vec<u8>, RegionState) {
    let mut whole = Vec::new();
    let mut too_much = false;
    let mut state = for_each_stream(compression, region, limit, |bytes| {
        too_much = whole.len() + bytes.len() > limit;
        if too_much {
            return ControlFlow::Break(());
        }
        whole.extend_from_slice(bytes);
        ControlFlow::Continue(())
    });
    if too_much {
        state.good_streams -= 1;
        state.good_bytes = whole.len() as u64;
        state.fault = Some((0, expands_beyond(limit)));
    }
    (whole, state)
}

/// A decompressor and the buffer it writes to, both used again for each stream.
struct Unpacker {
    zlib: Option<flate2::Decompress>,
    buffer: Vec<u8>,
}

impl Unpacker {
    fn new(compression: Compression) -> Self {
        let zlib = (compression == Compression::Zlib).then(|| flate2::Decompress::new(true));
        Self { zlib, buffer: Vec::new() }
    }

    /// Unpacks one stream; returns how many packed bytes it took, and what they hold.
    fn stream(&mut self, packed: &[u8], limit: usize) -> Result<(usize, &[u8]), String> {
        let Self { zlib, buffer } = self;
        let (consumed, filled) = match zlib {
            Some(zlib) => {
                zlib.reset(true);
                drain(packed, buffer, limit, |input, output| {
                    let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
                    let status = zlib
                        .decompress(input, output, FlushDecompress::None)
                        .map_err(|error| error.to_string())?;
                    Ok(Progress {
                        consumed: (zlib.total_in() - before_in) as usize,
                        filled: (zlib.total_out() - before_out) as usize,
                        ended: status == flate2::Status::StreamEnd,
                    })
                })?
            }
            None => {
                let mut bzip2 = bzip2::Decompress::new(false);
                drain(packed, buffer, limit, |input, output| {
                    let (before_in, before_out) = (bzip2.total_in(), bzip2.total_out());
                    let status = bzip2.decompress(input, output).map_err(|error| error.to_string())?;
                    Ok(Progress {
                        consumed: (bzip2.total_in() - before_in) as usize,
                        filled: (bzip2.total_out() - before_out) as usize,
                        ended: status == bzip2::Status::StreamEnd,
                    })
                })?
            }
        };
        Ok((consumed, &buffer[..filled]))
    }
}

struct Progress {
    consumed: usize,
    filled: usize,
    ended: bool,
}

/// Calls `step` until the stream has ended, giving it room as it fills the buffer.
fn drain(
    packed: &[u8],
    buffer: &mut Vec<u8>,
    limit: usize,
    mut step: impl FnMut(&[u8], &mut [u8]) -> Result<Progress, String>,
) -> Result<(usize, usize), String> {
    let (mut consumed, mut filled) = (0, 0);
    loop {
        if filled == buffer.len() {
            if filled >= limit {
                return Err(expands_beyond(limit));
            }
            // Fresh zeroes cost nothing until they are touched, so the first guess may be generous.
            let len = if filled == 0 { packed.len().saturating_mul(4).max(64 << 10) } else { filled * 2 };
            let mut larger = vec![0; len.min(limit)];
            larger[..filled].copy_from_slice(buffer);
            *buffer = larger;
        }
        let progress = step(&packed[consumed..], &mut buffer[filled..])?;
        consumed += progress.consumed;
        filled += progress.filled;
        if progress.ended {
            return Ok((consumed, filled));
        }
        if progress.consumed == 0 && progress.filled == 0 {
            return Err("the data end within it".into());
        }
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
