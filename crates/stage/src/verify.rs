//! Whether what was brought to a directory is still what it was.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::OWN;
use crate::checksum::Checksum;
use crate::copy::{CopyError, read_back};
use crate::dirs::{Dirs, name, parent};
use crate::error::StageError;
use crate::numbers::kind;
use crate::pace::Pace;
use crate::parallel;
use crate::receipts::{Receipt, ReceiptLine, parse_line};

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files that are as they were.
    pub n_good: u64,
    /// Their bytes.
    pub good_bytes: u64,
    /// Those that are not, by path.
    pub faults: Vec<Fault>,
    /// Where the files came from, one for each buffer.
    pub sources: Vec<Vec<u8>>,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which; empty for a line of the receipts.
    pub path: Vec<u8>,
    /// Description of the fault.
    pub why: String,
}

/// A file that was checked: its bytes, or what is wrong.
pub type Checked = Result<u64, String>;

/// No receipt is longer: a path in hexadecimal digits and a few numbers.
const MAX_LINE: u64 = 4 << 20;

/// Reads every file of which there is a receipt.
pub fn verify(dst: &Path, n_jobs: usize, pace: &Pace) -> Result<Verified, StageError> {
    let path = crate::stager::real(dst)?;
    let tree = Dirs::open(&path).map_err(StageError::io("cannot open", &path))?;
    let mut verified = Verified::default();
    let receipts =
        read_receipts(&tree, &mut verified).map_err(StageError::io("cannot read", path.join(OWN)))?;
    // A buffer has a folder of ours as well. That nothing is wrong with no files must not pass for an answer.
    if verified.sources.is_empty() && verified.faults.is_empty() && receipts.is_empty() {
        return Err(StageError::NoReceipts { path });
    }
    pace.expect(receipts.iter().map(|receipt| receipt.size).sum());
    let checked = parallel::each(n_jobs, &receipts, |receipt| check(&tree, receipt, pace));
    for (receipt, checked) in receipts.into_iter().zip(checked) {
        match checked {
            Ok(n_bytes) => {
                verified.n_good += 1;
                verified.good_bytes += n_bytes;
            }
            Err(why) => verified.faults.push(Fault { path: receipt.path, why }),
        }
    }
    Ok(verified)
}

/// The last receipt of each path, of all buffers, by path.
fn read_receipts(tree: &Dirs, verified: &mut Verified) -> io::Result<Vec<Receipt>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(tree.top(), OWN, flags | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        folder => folder?,
    };
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let name = entry?.file_name().to_bytes().to_owned();
        if name.ends_with(b".jsonl") {
            names.push(name);
        }
    }
    names.sort();
    let mut last: HashMap<Vec<u8>, Receipt> = HashMap::new();
    for name in &names {
        let file = std::fs::File::from(openat(&folder, &name[..], flags | OFlags::NONBLOCK, Mode::empty())?);
        let shown = String::from_utf8_lossy(name);
        let mut lines = BufReader::with_capacity(1 << 20, file);
        for number in 1u64.. {
            let mut line = Vec::new();
            if lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // What a stager is adding just now has no end yet.
            if line.pop_if(|byte| *byte == b'\n').is_none() && (line.len() as u64) < MAX_LINE {
                break;
            }
            match parse_line(&line) {
                Some(ReceiptLine::Head { source, .. }) => verified.sources.push(source),
                Some(ReceiptLine::Receipt(receipt)) => {
                    let is_newer = last.get(&receipt.path).is_none_or(|old| old.time_ns <= receipt.time_ns);
                    if is_newer {
                        last.insert(receipt.path.clone(), receipt);
                    }
                }
                None => {
                    let why = format!("line {number} of {OWN}/{shown} is no receipt");
                    verified.faults.push(Fault { path: Vec::new(), why });
                }
            }
        }
    }
    let mut receipts: Vec<Receipt> = last.into_values().collect();
    receipts.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(receipts)
}

fn check(tree: &Dirs, receipt: &Receipt, pace: &Pace) -> Checked {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "it is missing".to_owned(),
        _ => error.to_string(),
    };
    let dir = tree.dir(parent(&receipt.path)).map_err(failed)?;
    let stat = tree.stat(&receipt.path).map_err(failed)?;
    let wanted = if receipt.is_link { FileType::Symlink } else { FileType::RegularFile };
    if kind(&stat) != wanted {
        return Err("it is no longer of the same kind".to_owned());
    }
    let checksum = if receipt.is_link {
        let target =
            readlinkat(&*dir, name(&receipt.path), Vec::new()).map_err(|error| failed(error.into()))?;
        Checksum::of(target.to_bytes())
    } else {
        read_back(&dir, name(&receipt.path), receipt.size, None, pace).map_err(|error| match error {
            CopyError::Source(error) | CopyError::Destination(error) => failed(error),
            CopyError::Changed | CopyError::Stopped => "it changed while it was read".to_owned(),
        })?
    };
    if checksum != receipt.checksum {
        return Err(format!("its contents differ: xxh3-128 {checksum}, not {}", receipt.checksum));
    }
    Ok(receipt.size)
}
