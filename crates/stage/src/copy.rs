//! The contents of one file, copied and read back.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, Mode, OFlags, SeekFrom, Stat, fadvise, openat, seek};
use rustix::io::Errno;

use crate::checksum::{Checksum, Summing};
use crate::pace::{Pace, Stopped};
use crate::sys::write_back;

/// What is moved between two looks at the pace: it fits into a core's cache, so that it is summed up from there.
const PIECE: usize = 1 << 20;
/// Dirty pages of a file beyond this are waited for: writeback must not run on into a phase of the job.
const MAX_DIRTY: u64 = 64 << 20;
/// Writeback begins after so many bytes.
const WRITE_BACK: u64 = 8 << 20;

/// Why a copy was not made.
#[derive(Debug)]
pub(crate) enum CopyError {
    Source(io::Error),
    Destination(io::Error),
    /// The source ended before it should have.
    Changed,
    Stopped,
}

impl From<Stopped> for CopyError {
    fn from(_: Stopped) -> Self {
        CopyError::Stopped
    }
}

/// Copies `size` bytes into a new file, holes as holes, and returns their checksum.
pub(crate) fn contents(
    src: &File,
    dst: &File,
    size: u64,
    is_sparse: bool,
    clones: &Clones,
    pace: &Pace,
) -> Result<Checksum, CopyError> {
    let is_clone = clones.make(src, dst);
    let mut summing = Summing::new();
    let mut buffer = vec![0; PIECE.min(usize::try_from(size).unwrap_or(PIECE))];
    let mut begun = 0;
    let mut at = 0;
    while at < size {
        let Some((from, to)) = data(src, at, size, is_sparse).map_err(CopyError::Source)? else { break };
        summing.add_zeroes(from - at);
        at = from;
        while at < to {
            let n = buffer.len().min(usize::try_from(to - at).unwrap_or(buffer.len()));
            pace.wait(n as u64)?;
            let n = match src.read_at(&mut buffer[..n], at) {
                Ok(0) => return Err(CopyError::Changed),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(CopyError::Source(error)),
            };
            summing.add(&buffer[..n]);
            if !is_clone {
                // Goes on after a short write, and says what stopped it: a full file system may take a part.
                dst.write_all_at(&buffer[..n], at).map_err(CopyError::Destination)?;
            }
            at += n as u64;
            if !is_clone && at - begun >= WRITE_BACK {
                write_back(dst, begun, at - begun, false);
                begun = at;
                if at > MAX_DIRTY {
                    write_back(dst, 0, at - MAX_DIRTY, true);
                }
            }
        }
    }
    summing.add_zeroes(size - at);
    if !is_clone && is_sparse {
        dst.set_len(size).map_err(CopyError::Destination)?;
    }
    // What follows soon is synced as a whole; begun now, it goes to the disk beside what is copied meanwhile.
    if begun < size && !is_clone {
        write_back(dst, begun, size - begun, false);
    }
    Ok(summing.finish())
}

/// Whether files can be copied by sharing their blocks; asked until it turns out that they cannot.
#[derive(Debug, Default)]
pub(crate) struct Clones {
    is_impossible: AtomicBool,
}

impl Clones {
    fn make(&self, src: &File, dst: &File) -> bool {
        if self.is_impossible.load(Ordering::Relaxed) {
            return false;
        }
        match rustix::fs::ioctl_ficlone(dst, src) {
            Ok(()) => true,
            Err(error) => {
                // Two file systems, or one that cannot; anything else may be about this file.
                let is_general =
                    matches!(error, Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS);
                self.is_impossible.fetch_or(is_general, Ordering::Relaxed);
                false
            }
        }
    }
}

/// Reads a file back from where it is stored, past the cache as far as the file system lets us, and returns its checksum.
pub(crate) fn read_back(dir: &OwnedFd, name: &[u8], size: u64, pace: &Pace) -> Result<Checksum, CopyError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |more| openat(dir, name, flags | more, Mode::empty()).map(File::from);
    if let Ok(direct) = open(OFlags::DIRECT) {
        match read_open(&direct, size, pace) {
            Err(CopyError::Destination(error)) if error.raw_os_error() == Some(libc::EINVAL) => {}
            sum => return sum,
        }
    }
    let plain = open(OFlags::empty()).map_err(|error| CopyError::Destination(error.into()))?;
    let _ = fadvise(&plain, 0, None, Advice::DontNeed);
    read_open(&plain, size, pace)
}

fn read_open(file: &File, size: u64, pace: &Pace) -> Result<Checksum, CopyError> {
    let stat = file.metadata().map_err(CopyError::Destination)?;
    if stat.len() != size {
        let what = format!("it has {} bytes instead of {size}", stat.len());
        return Err(CopyError::Destination(io::Error::other(what)));
    }
    if size > PIECE as u64 {
        // Nobody reads it again soon; what the job has in the cache is worth more.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
    }
    sum(file, size, stat.blocks().saturating_mul(512) < size, pace)
}

fn sum(file: &File, size: u64, is_sparse: bool, pace: &Pace) -> Result<Checksum, CopyError> {
    let mut summing = Summing::new();
    let mut space =
        vec![0; ALIGNED + (PIECE.min(usize::try_from(size).unwrap_or(PIECE))).next_multiple_of(ALIGNED)];
    let skipped = space.as_ptr().align_offset(ALIGNED).min(ALIGNED);
    let n_space = space.len() - ALIGNED;
    let buffer = &mut space[skipped..skipped + n_space];
    let mut at = 0;
    while at < size {
        let Some((from, to)) = data(file, at, size, is_sparse).map_err(CopyError::Destination)? else {
            break;
        };
        summing.add_zeroes(from - at);
        at = from;
        while at < to {
            // Direct reads begin and end at multiples; what is too much is not counted.
            let begin = at - at % ALIGNED as u64;
            let skipped = (at - begin) as usize;
            pace.wait(buffer.len() as u64)?;
            let n = match file.read_at(buffer, begin) {
                Ok(n) if n <= skipped => return Err(CopyError::Changed),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(CopyError::Destination(error)),
            };
            let n = (n - skipped).min(usize::try_from(to - at).unwrap_or(n));
            summing.add(&buffer[skipped..skipped + n]);
            at += n as u64;
        }
    }
    summing.add_zeroes(size - at);
    Ok(summing.finish())
}

const ALIGNED: usize = 4096;

/// Whether fewer blocks are stored than the size asks for.
pub(crate) fn is_sparse(stat: &Stat) -> bool {
    let (n_blocks, size) = (u64::try_from(stat.st_blocks), u64::try_from(stat.st_size));
    n_blocks.unwrap_or(u64::MAX).saturating_mul(512) < size.unwrap_or(0)
}

/// The next range with data at or after `at`; `None` if there is none up to `size`.
fn data(file: impl AsFd, at: u64, size: u64, is_sparse: bool) -> io::Result<Option<(u64, u64)>> {
    if !is_sparse {
        return Ok(Some((at, size)));
    }
    let from = match seek(file.as_fd(), SeekFrom::Data(at)) {
        Ok(from) => from,
        Err(Errno::NXIO) => return Ok(None),
        // Not every file system knows its holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((at, size))),
        Err(error) => return Err(error.into()),
    };
    let to = seek(file, SeekFrom::Hole(from)).unwrap_or(size);
    Ok((from < size).then_some((from, to.clamp(from + 1, size))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn holes_stay_holes_and_count_as_zeroes() {
        let dir = FreshDir::new("stage-copy");
        let src = File::create_new(dir.join("src")).unwrap();
        src.write_all_at(b"begin", 1).unwrap();
        src.write_all_at(&[7; 5000], 3 << 20).unwrap();
        src.set_len(8 << 20).unwrap();
        let src = File::open(dir.join("src")).unwrap();
        let dst = File::create_new(dir.join("dst")).unwrap();
        let pace = Pace::free();
        let is_sparse = |file: &File| is_sparse(&rustix::fs::fstat(file).unwrap());
        let clones = Clones::default();
        assert!(is_sparse(&src));
        let sum = contents(&src, &dst, 8 << 20, true, &clones, &pace).unwrap();
        let bytes = std::fs::read(dir.join("src")).unwrap();
        assert!(std::fs::read(dir.join("dst")).unwrap() == bytes);
        assert_eq!(sum, Checksum::of(&bytes));
        assert!(is_sparse(&dst));
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        assert_eq!(read_back(&folder, b"dst", 8 << 20, &pace).unwrap(), sum);
        assert!(matches!(contents(&src, &dst, 9 << 20, false, &clones, &pace), Err(CopyError::Changed)));
        dst.write_all_at(&[8], (3 << 20) + 4999).unwrap();
        dst.sync_all().unwrap();
        assert_ne!(read_back(&folder, b"dst", 8 << 20, &pace).unwrap(), sum);
    }
}
