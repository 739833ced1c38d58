//! DXT, the extended tracing of Darshan: every read and write with its own times.

use std::ops::ControlFlow;

use super::bytes::{Endian, text};

/// Calls of one rank on one file, one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DxtRecord {
    /// Names the file.
    pub id: u64,
    /// Who did it.
    pub rank: i64,
    /// Whether several ranks opened the file.
    pub shared: bool,
    /// The node it ran on.
    pub host: String,
    /// How many writes follow.
    pub n_writes: u64,
    /// How many reads follow the writes.
    pub n_reads: u64,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DxtSegment {
    /// Whether it wrote; it read otherwise.
    pub is_write: bool,
    /// Where in the file; `None` where the version did not note it.
    pub offset: Option<i64>,
    /// How many bytes.
    pub length: i64,
    /// When it began, in seconds since the start of the job.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// The thread that did it; `None` before DXT_POSIX 2 and DXT_MPIIO 3.
    pub thread: Option<u64>,
}

/// The sums of a DXT module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DxtTotals {
    /// Records: pairs of rank and file.
    pub records: u64,
    /// Calls that read.
    pub read_segments: u64,
    /// Calls that wrote.
    pub write_segments: u64,
    /// Bytes they read.
    pub bytes_read: i64,
    /// Bytes they wrote.
    pub bytes_written: i64,
    /// When the first call began.
    pub first_start_s: Option<f64>,
    /// When the last call ended.
    pub last_end_s: Option<f64>,
}

impl DxtTotals {
    pub(super) fn add(&mut self, segment: &DxtSegment) {
        let (count, bytes) = if segment.is_write {
            (&mut self.write_segments, &mut self.bytes_written)
        } else {
            (&mut self.read_segments, &mut self.bytes_read)
        };
        *count += 1;
        *bytes = bytes.saturating_add(segment.length);
        // A comparison that is foreseen costs less than `min`, which waits for the one before; NaN is never less.
        if self.first_start_s.is_none_or(|first| segment.start_s < first) {
            self.first_start_s = Some(segment.start_s);
        }
        if self.last_end_s.is_none_or(|last| segment.end_s > last) {
            self.last_end_s = Some(segment.end_s);
        }
    }
}

/// Takes the bytes of a DXT region in pieces and finds records and segments in them, which may lie across pieces.
#[derive(Clone)]
pub(super) struct DxtDecoder {
    endian: Endian,
    has_thread: bool,
    has_offset: bool,
    record: DxtRecord,
    writes_left: u64,
    reads_left: u64,
    /// The beginning of a record or segment whose end is in the next piece.
    carry: Vec<u8>,
}

const RECORD_LEN: usize = 104;

impl DxtDecoder {
    pub(super) fn new(endian: Endian, module: DxtModule, version: u32) -> Self {
        Self {
            endian,
            has_thread: version >= module.first_version_with_threads(),
            has_offset: !(module == DxtModule::MpiIo && version == 1),
            record: DxtRecord::default(),
            writes_left: 0,
            reads_left: 0,
            carry: Vec::new(),
        }
    }

    /// Decodes one piece. `take` is told of each record (with no segment) and then of each of its segments.
    pub(super) fn feed(
        &mut self,
        piece: &[u8],
        take: &mut impl FnMut(&DxtRecord, Option<DxtSegment>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rest = piece;
        while !self.carry.is_empty() {
            let missing = self.next_len() - self.carry.len();
            let Some((head, tail)) = rest.split_at_checked(missing) else {
                self.carry.extend_from_slice(rest);
                return ControlFlow::Continue(());
            };
            rest = tail;
            let mut whole = std::mem::take(&mut self.carry);
            whole.extend_from_slice(head);
            self.feed_whole(&whole, take)?;
        }
        let left = self.feed_whole(rest, take)?;
        self.carry.extend_from_slice(left);
        ControlFlow::Continue(())
    }

    /// How many bytes at the end were no whole record or segment, and how many segments never came.
    pub(super) fn left_over(&self) -> (usize, u64) {
        (self.carry.len(), self.writes_left.saturating_add(self.reads_left))
    }

    fn segment_len(&self) -> usize {
        if self.has_thread { 40 } else { 32 }
    }

    /// How long the next thing is.
    fn next_len(&self) -> usize {
        if self.writes_left == 0 && self.reads_left == 0 { RECORD_LEN } else { self.segment_len() }
    }

    /// Decodes all that is whole; returns the rest.
    fn feed_whole<'a>(
        &mut self,
        mut bytes: &'a [u8],
        take: &mut impl FnMut(&DxtRecord, Option<DxtSegment>) -> ControlFlow<()>,
    ) -> ControlFlow<(), &'a [u8]> {
        loop {
            if self.writes_left > 0 {
                let (left, n) = self.feed_segments::<true>(bytes, self.writes_left, take)?;
                self.writes_left -= n;
                bytes = left;
            }
            if self.writes_left == 0 && self.reads_left > 0 {
                let (left, n) = self.feed_segments::<false>(bytes, self.reads_left, take)?;
                self.reads_left -= n;
                bytes = left;
            }
            if self.writes_left > 0 || self.reads_left > 0 {
                return ControlFlow::Continue(bytes);
            }
            let Some((head, rest)) = bytes.split_first_chunk::<RECORD_LEN>() else {
                return ControlFlow::Continue(bytes);
            };
            bytes = rest;
            self.begin(head);
            take(&self.record, None)?;
        }
    }

    fn begin(&mut self, head: &[u8; RECORD_LEN]) {
        let (words, _) = head.as_chunks::<8>();
        let word = |at: usize| self.endian.i64(words[at]);
        // A negative count is damage: the record then has no segments, and what follows will not look like one.
        self.writes_left = u64::try_from(word(11)).unwrap_or(0);
        self.reads_left = u64::try_from(word(12)).unwrap_or(0);
        self.record = DxtRecord {
            id: word(0) as u64,
            rank: word(1),
            shared: word(2) == -1,
            host: text(&head[24..88]),
            n_writes: self.writes_left,
            n_reads: self.reads_left,
        };
    }

    /// Decodes up to `n` segments; returns what is left and how many there were.
    fn feed_segments<'a, const IS_WRITE: bool>(
        &self,
        bytes: &'a [u8],
        n: u64,
        take: &mut impl FnMut(&DxtRecord, Option<DxtSegment>) -> ControlFlow<()>,
    ) -> ControlFlow<(), (&'a [u8], u64)> {
        let len = self.segment_len();
        let n_here = (bytes.len() / len).min(usize::try_from(n).unwrap_or(usize::MAX));
        let (segments, rest) = bytes.split_at(n_here * len);
        for segment in segments.chunks_exact(len) {
            let (words, _) = segment.as_chunks::<8>();
            let segment = DxtSegment {
                is_write: IS_WRITE,
                offset: self.has_offset.then(|| self.endian.i64(words[0])),
                length: self.endian.i64(words[1]),
                start_s: self.endian.f64(words[2]),
                end_s: self.endian.f64(words[3]),
                thread: words.get(4).map(|word| self.endian.u64(*word)),
            };
            take(&self.record, Some(segment))?;
        }
        ControlFlow::Continue((rest, n_here as u64))
    }
}

/// The two modules of DXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DxtModule {
    Posix,
    MpiIo,
}

impl DxtModule {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        match name {
            "DXT_POSIX" => Some(DxtModule::Posix),
            "DXT_MPIIO" => Some(DxtModule::MpiIo),
            _ => None,
        }
    }

    fn first_version_with_threads(self) -> u32 {
        match self {
            DxtModule::Posix => 2,
            DxtModule::MpiIo => 3,
        }
    }

    /// The newest version that is known.
    pub(super) fn newest_version(self) -> u32 {
        self.first_version_with_threads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of two writes and one read, and one of nothing.
    fn region() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut record = |id: u64, n_writes: i64, n_reads: i64| {
            bytes.extend(id.to_be_bytes());
            bytes.extend(3_i64.to_be_bytes());
            bytes.extend((-1_i64).to_be_bytes());
            let mut host = [0; 64];
            host[..4].copy_from_slice(b"nid7");
            bytes.extend(host);
            bytes.extend(n_writes.to_be_bytes());
            bytes.extend(n_reads.to_be_bytes());
            for segment in 0..n_writes + n_reads {
                bytes.extend((segment * 10).to_be_bytes());
                bytes.extend(10_i64.to_be_bytes());
                bytes.extend((segment as f64).to_be_bytes());
                bytes.extend((segment as f64 + 0.5).to_be_bytes());
                bytes.extend(77_u64.to_be_bytes());
            }
        };
        record(1, 2, 1);
        record(2, 0, 0);
        bytes
    }

    #[test]
    fn a_record_cut_anywhere_between_two_pieces_is_put_together() {
        let region = region();
        for cut in 0..=region.len() {
            let mut decoder = DxtDecoder::new(Endian::Big, DxtModule::Posix, 2);
            let (mut totals, mut hosts) = (DxtTotals::default(), Vec::new());
            let mut take = |record: &DxtRecord, segment: Option<DxtSegment>| {
                match segment {
                    Some(segment) => totals.add(&segment),
                    None => hosts.push((record.id, record.host.clone())),
                }
                ControlFlow::Continue(())
            };
            assert!(decoder.feed(&region[..cut], &mut take).is_continue());
            assert!(decoder.feed(&region[cut..], &mut take).is_continue());
            assert_eq!(decoder.left_over(), (0, 0), "cut at {cut}");
            assert_eq!(hosts, [(1, "nid7".to_string()), (2, "nid7".to_string())], "cut at {cut}");
            assert_eq!((totals.write_segments, totals.read_segments), (2, 1));
            assert_eq!((totals.bytes_written, totals.bytes_read), (20, 10));
            assert_eq!((totals.first_start_s, totals.last_end_s), (Some(0.0), Some(2.5)));
        }
    }

    #[test]
    fn segments_that_never_came_are_counted() {
        let region = region();
        let mut decoder = DxtDecoder::new(Endian::Big, DxtModule::Posix, 2);
        let flow = decoder.feed(&region[..RECORD_LEN + 45], &mut |_, _| ControlFlow::Continue(()));
        assert!(flow.is_continue());
        assert_eq!(decoder.left_over(), (5, 2));
    }
}
