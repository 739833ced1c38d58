//! Compressed text, read as if it were not.

use std::io::{self, BufReader, Read};
use std::sync::{Arc, OnceLock};

use flate2::bufread::MultiGzDecoder;

/// Whether bytes begin a gzip member.
pub(crate) fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b, 8])
}

/// As much of the text as the first bytes of a compressed file hold, but at most `most` bytes of it.
pub(crate) fn inflated_head(head: &[u8], most: usize) -> Vec<u8> {
    let mut text = Vec::new();
    // The head stops in the middle of the stream: what came out before that is what is wanted.
    let _ = MultiGzDecoder::new(head).take(most as u64).read_to_end(&mut text);
    text
}

/// Inflates one member after the other. A stream that is cut or damaged ends where it can be read no further, and
/// [`Gunzip::trouble`] says so: what came before is whole.
pub(crate) struct Gunzip {
    decoder: Option<MultiGzDecoder<BufReader<Box<dyn Read + Send>>>>,
    n_read: u64,
    trouble: Arc<OnceLock<String>>,
}

impl Gunzip {
    pub(crate) fn new(read: Box<dyn Read + Send>) -> Self {
        let decoder = MultiGzDecoder::new(BufReader::with_capacity(64 << 10, read));
        Self { decoder: Some(decoder), n_read: 0, trouble: Arc::default() }
    }

    /// Filled once the stream proves to be cut or damaged.
    pub(crate) fn trouble(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.trouble)
    }
}

impl Read for Gunzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        match decoder.read(buffer) {
            Ok(n) => {
                self.n_read += n as u64;
                Ok(n)
            }
            Err(error) => {
                use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
                let how = match error.kind() {
                    UnexpectedEof => "is cut off",
                    InvalidData | InvalidInput => "is damaged",
                    _ => return Err(error),
                };
                let _ =
                    self.trouble.set(format!("the gzip stream {how} after {} bytes of text", self.n_read));
                self.decoder = None;
                Ok(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn gunzip(bytes: Vec<u8>) -> (Vec<u8>, Option<String>) {
        let mut gunzip = Gunzip::new(Box::new(io::Cursor::new(bytes)));
        let trouble = gunzip.trouble();
        let mut text = Vec::new();
        gunzip.read_to_end(&mut text).unwrap();
        (text, trouble.get().cloned())
    }

    #[test]
    fn members_follow_each_other() {
        let bytes = [gzip(b"one "), gzip(b"two")].concat();
        assert!(is_gzip(&bytes));
        assert_eq!(gunzip(bytes), (b"one two".to_vec(), None));
    }

    #[test]
    fn a_cut_stream_gives_what_came_before() {
        let text: Vec<u8> =
            (0..200_000u32).flat_map(|n| (n.wrapping_mul(2654435761) % 251).to_le_bytes()).collect();
        let mut bytes = gzip(&text);
        bytes.truncate(bytes.len() / 2);
        let (half, trouble) = gunzip(bytes.clone());
        assert!(!half.is_empty() && text.starts_with(&half));
        assert_eq!(
            trouble.unwrap(),
            format!("the gzip stream is cut off after {} bytes of text", half.len())
        );
        assert_eq!(inflated_head(&bytes, 100), &text[..100]);
    }
}
