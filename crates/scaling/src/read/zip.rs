//! One file out of a ZIP archive, which is what an `.extra-p` experiment is.

use std::io::Read;

/// More than any experiment of numbers holds; a small archive cannot fill the memory.
const MAX_INFLATED: u64 = 1 << 30;

/// Returns the contents of the file `name`.
pub(crate) fn unzip(archive: &[u8], name: &str) -> Result<Vec<u8>, ZipError> {
    // The end record is at the end, before a comment of at most 64 KiB.
    let tail = archive.len().saturating_sub(22 + 65_535);
    let end = (tail..archive.len().saturating_sub(21))
        .rev()
        .find(|at| archive[*at..].starts_with(b"PK\x05\x06"))
        .ok_or(ZipError::NoDirectory)?;
    let n_entries = u16_at(archive, end + 10)?;
    let mut at = u32_at(archive, end + 16)? as usize;
    for _ in 0..n_entries {
        let entry =
            archive.get(at..).filter(|entry| entry.starts_with(b"PK\x01\x02")).ok_or(ZipError::Truncated)?;
        let (name_len, extra_len, comment_len) = (u16_at(entry, 28)?, u16_at(entry, 30)?, u16_at(entry, 32)?);
        let entry_name = entry.get(46..46 + usize::from(name_len)).ok_or(ZipError::Truncated)?;
        if entry_name == name.as_bytes() {
            let (method, packed_len) = (u16_at(entry, 10)?, u32_at(entry, 20)? as usize);
            let header = u32_at(entry, 42)? as usize;
            // The name and extra fields before the data may be longer than the directory says.
            let start = header
                .checked_add(
                    30 + usize::from(u16_at(archive, header + 26)?)
                        + usize::from(u16_at(archive, header + 28)?),
                )
                .ok_or(ZipError::Truncated)?;
            let packed = start
                .checked_add(packed_len)
                .and_then(|stop| archive.get(start..stop))
                .ok_or(ZipError::Truncated)?;
            return match method {
                0 => Ok(packed.to_vec()),
                8 => inflate(packed),
                _ => Err(ZipError::Method { method }),
            };
        }
        at += 46 + usize::from(name_len) + usize::from(extra_len) + usize::from(comment_len);
    }
    Err(ZipError::NotInside { name: name.to_owned() })
}

fn inflate(packed: &[u8]) -> Result<Vec<u8>, ZipError> {
    let mut inflated = Vec::new();
    flate2::read::DeflateDecoder::new(packed)
        .take(MAX_INFLATED + 1)
        .read_to_end(&mut inflated)
        .map_err(|_| ZipError::Truncated)?;
    if inflated.len() as u64 > MAX_INFLATED { Err(ZipError::TooLarge) } else { Ok(inflated) }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ZipError> {
    let bytes = at.checked_add(2).and_then(|stop| bytes.get(at..stop)).ok_or(ZipError::Truncated)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ZipError> {
    Ok(u32::from(u16_at(bytes, at)?) | u32::from(u16_at(bytes, at.saturating_add(2))?) << 16)
}

/// Fault of an archive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ZipError {
    /// No directory at the end.
    #[error("the archive has no directory; it may have been cut off")]
    NoDirectory,
    /// A part lies beyond the end, or the packed data are damaged.
    #[error("the archive is cut off or damaged")]
    Truncated,
    /// A way of packing we do not know.
    #[error("the archive is packed by method {method}, which is not supported")]
    Method {
        /// Its number.
        method: u16,
    },
    /// The file is not there.
    #[error("the archive holds no {name}")]
    NotInside {
        /// Its name.
        name: String,
    },
    /// Unpacked, it would be larger than allowed.
    #[error("unpacked, the archive is larger than 1 GiB")]
    TooLarge,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A smallest archive of one stored file.
    pub(crate) fn stored(name: &str, contents: &[u8]) -> Vec<u8> {
        let (name_len, len) = ((name.len() as u16).to_le_bytes(), (contents.len() as u32).to_le_bytes());
        let mut archive = b"PK\x03\x04".to_vec();
        archive.extend([0; 14]);
        archive.extend(len);
        archive.extend(len);
        archive.extend(name_len);
        archive.extend([0; 2]);
        archive.extend(name.as_bytes());
        archive.extend(contents);
        let directory = archive.len() as u32;
        archive.extend(b"PK\x01\x02");
        archive.extend([0; 16]);
        archive.extend(len);
        archive.extend(len);
        archive.extend(name_len);
        archive.extend([0; 16]);
        archive.extend(name.as_bytes());
        archive.extend(b"PK\x05\x06");
        archive.extend([0, 0, 0, 0, 1, 0, 1, 0]);
        archive.extend(46u32.to_le_bytes());
        archive.extend(directory.to_le_bytes());
        archive.extend([0; 2]);
        archive
    }

    #[test]
    fn a_stored_file_comes_back() {
        let archive = stored("experiment.json", b"{}");
        assert_eq!(unzip(&archive, "experiment.json").unwrap(), b"{}");
        assert_eq!(unzip(&archive, "other"), Err(ZipError::NotInside { name: "other".into() }));
        assert_eq!(unzip(&archive[..40], "experiment.json"), Err(ZipError::NoDirectory));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..140, byte: u8) {
            let mut archive = stored("experiment.json", b"{\"parameters\": []}");
            let at = at % archive.len();
            archive[at] = byte;
            let _ = unzip(&archive, "experiment.json");
        }
    }
}
