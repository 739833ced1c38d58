//! Where the bytes of a log are: in memory, or in its file, which is then read region by region.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The bytes of a log.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Memory(Arc<Vec<u8>>),
    File { file: Arc<File>, len: u64 },
}

impl Source {
    pub(super) fn len(&self) -> u64 {
        match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File { len, .. } => *len,
        }
    }

    /// The first bytes, at most so many.
    pub(super) fn head(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.region(0..most as u64).read_to_end(&mut head)?;
        Ok(head)
    }

    /// The bytes of a range, as far as they are there.
    pub(super) fn region(&self, range: Range<u64>) -> Box<dyn BufRead + '_> {
        /// Bytes read of a file at once.
        const WINDOW: usize = 256 << 10;
        let (start, end) = (range.start.min(self.len()), range.end.min(self.len()));
        match self {
            // Both lie within the bytes, so they fit into a `usize`.
            Source::Memory(bytes) => {
                Box::new(bytes.get(start as usize..end.max(start) as usize).unwrap_or_default())
            }
            Source::File { file, .. } => {
                // Most regions are small, and the buffer is filled with zeroes before it is read into.
                let window = usize::try_from(end.saturating_sub(start)).unwrap_or(WINDOW).min(WINDOW);
                Box::new(BufReader::with_capacity(window, Window { file, at: start, end }))
            }
        }
    }
}

struct Window<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Window<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let n = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}
