//! The contents of one file, copied and read back.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    Advice, FallocateFlags, Mode, OFlags, SeekFrom, Stat, fadvise, fallocate, fcntl_getfl, fcntl_setfl,
    fstat, openat, seek,
};
use rustix::io::Errno;

use crate::checksum::{Checksum, Summing};
use crate::pace::{LONGEST, MIN_PIECE, Pace, Stopped};
use crate::sys::write_back;

/// Bytes moved between two looks at the pace: they fit into a core's cache, so that they are summed up from there.
const PIECE: usize = 1 << 20;
/// Files from here on are written past the cache, in pieces of up to so many bytes.
const DIRECT: u64 = 8 << 20;
const MAX_PIECE: usize = 4 << 20;
/// Dirty pages of a file beyond this are waited for: writeback must not run on into a phase of the job.
const MAX_DIRTY: u64 = 64 << 20;
/// Writeback begins after so many bytes.
const WRITE_BACK: u64 = 8 << 20;
/// Steps, in bytes, in which a long file is made durable and read back while the rest is written.
const READ_BACK: u64 = 64 << 20;

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

/// A new file under a name of our own.
pub(crate) struct Target<'a> {
    pub(crate) file: &'a File,
    pub(crate) dir: &'a OwnedFd,
    pub(crate) name: &'a [u8],
    /// On a file system of which it is known that direct writes do it good.
    pub(crate) may_be_direct: bool,
}

/// Copies `size` bytes into a new file, holes as holes, and returns their checksum.
///
/// A long file is read back as far as it is stored while the rest is written; what was read so far is returned, too.
pub(crate) fn contents(
    src: &File,
    dst: &Target<'_>,
    size: u64,
    is_sparse: bool,
    clones: &Clones,
    pace: &Pace,
) -> Result<(Checksum, Option<ReadBack>), CopyError> {
    let is_clone = clones.make(src, dst.file);
    let is_worth_it = dst.may_be_direct && !is_clone && !is_sparse && size >= DIRECT;
    let is_direct = is_worth_it && begin_direct(dst.file, size)?;
    let copying = Copying { src, dst: dst.file, size, is_sparse, is_clone, pace };
    let reading = if is_direct && size >= 2 * READ_BACK { ReadBack::begin(dst) } else { None };
    let Some(reading) = reading else { return Ok((copying.fill(is_direct, |_| {})?, None)) };
    let (written, ends) = mpsc::channel();
    thread::scope(|scope| {
        let reader = scope.spawn(move || reading.follow(&ends, pace));
        let filled = copying.fill(is_direct, move |at| {
            // Who reads no more has said why, or leaves it to the end.
            let _ = written.send(at);
        });
        let reading = reader.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        Ok((filled?, reading?))
    })
}

struct Copying<'a> {
    src: &'a File,
    dst: &'a File,
    size: u64,
    is_sparse: bool,
    is_clone: bool,
    pace: &'a Pace,
}

impl Copying<'_> {
    /// Moves the bytes, and says now and then up to where they are written.
    fn fill(&self, mut is_direct: bool, written: impl Fn(u64)) -> Result<Checksum, CopyError> {
        let Self { dst, size, is_sparse, is_clone, .. } = *self;
        let mut summing = Summing::new();
        let mut space = Space::new(if is_direct { MAX_PIECE } else { PIECE }, size);
        let mut piece = Piece::new(space.len(), is_direct);
        let mut begun = 0;
        let mut at = 0;
        while at < size {
            let Some((from, to)) = data(self.src, at, size, is_sparse).map_err(CopyError::Source)? else {
                break;
            };
            summing.add_zeroes(from - at, || self.pace.go_on())?;
            at = from;
            while at < to {
                let n = self.pace.piece(piece.len()).min(usize::try_from(to - at).unwrap_or(usize::MAX));
                self.pace.wait(n as u64)?;
                let bytes = &mut space.bytes()[..n];
                self.read(bytes, at)?;
                summing.add(bytes);
                if !is_clone {
                    piece.time(|| write(dst, bytes, at, &mut is_direct))?;
                }
                let end = at + n as u64;
                if at / READ_BACK != end / READ_BACK {
                    written(end);
                }
                at = end;
                if is_direct {
                    begun = at;
                } else if !is_clone && at - begun >= WRITE_BACK {
                    write_back(dst, begun, at - begun, false);
                    begun = at;
                    if at > MAX_DIRTY {
                        write_back(dst, 0, at - MAX_DIRTY, true);
                    }
                }
            }
        }
        summing.add_zeroes(size - at, || self.pace.go_on())?;
        if !is_clone && is_sparse {
            dst.set_len(size).map_err(CopyError::Destination)?;
        }
        // What follows soon is synced as a whole; begun now, it goes to the disk beside what is copied meanwhile.
        if begun < size && !is_clone {
            write_back(dst, begun, size - begun, false);
        }
        Ok(summing.finish())
    }

    /// Reads as much as was asked for: pieces after a short one would not begin where direct writes can.
    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), CopyError> {
        self.src.read_exact_at(bytes, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CopyError::Changed,
            _ => CopyError::Source(error),
        })
    }
}

/// Has a new file written past the cache: without a copy there, and so that nothing is left to be written back in a phase of the job. `false` where it cannot be.
fn begin_direct(file: &File, size: u64) -> Result<bool, CopyError> {
    if set_direct(file, true).is_err() {
        return Ok(false);
    }
    // Writes that need not make the file longer go beside reads of it; and a disk that is too full says so before anything was moved.
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, size) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(true),
            Err(error) => return Err(CopyError::Destination(error.into())),
        }
    }
}

fn set_direct(file: &File, is_direct: bool) -> rustix::io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, is_direct);
    fcntl_setfl(file, flags)
}

/// Writes past the cache as long as that goes: what does not end at a multiple, and all after it, is written as usual.
fn write(file: &File, bytes: &[u8], at: u64, is_direct: &mut bool) -> Result<(), CopyError> {
    if *is_direct && bytes.len().is_multiple_of(ALIGNED) {
        match file.write_all_at(bytes, at) {
            Err(error) if is_not_direct(&error) => {}
            written => return written.map_err(CopyError::Destination),
        }
    }
    if *is_direct {
        set_direct(file, false).map_err(|error| CopyError::Destination(error.into()))?;
        *is_direct = false;
    }
    // Goes on after a short write, and says what stopped it: a full file system may take a part.
    file.write_all_at(bytes, at).map_err(CopyError::Destination)
}

/// How much is written by one call: what takes no longer than the job may have to wait for it.
struct Piece {
    n: usize,
    max: usize,
    /// Whether a call takes as long as the disk does.
    is_timed: bool,
}

impl Piece {
    fn new(max: usize, is_timed: bool) -> Self {
        Self { n: if is_timed { PIECE.min(max) } else { max }, max, is_timed }
    }

    fn len(&self) -> usize {
        self.n
    }

    fn time<T>(&mut self, act: impl FnOnce() -> T) -> T {
        if !self.is_timed {
            return act();
        }
        let begun = Instant::now();
        let done = act();
        self.took(begun.elapsed());
        done
    }

    fn took(&mut self, time: Duration) {
        if time > LONGEST {
            self.n = (self.n / 2).max(MIN_PIECE.min(self.max));
        } else if time < LONGEST / 4 {
            self.n = (self.n * 2).min(self.max);
        }
    }
}

/// Memory that begins at a multiple of what direct reads and writes ask for.
struct Space {
    bytes: Vec<u8>,
    begin: usize,
    n: usize,
}

impl Space {
    /// For pieces of `max` bytes of a file that has `size`.
    fn new(max: usize, size: u64) -> Self {
        let n = max.min(usize::try_from(size).unwrap_or(max)).next_multiple_of(ALIGNED);
        let bytes = vec![0; ALIGNED + n];
        let begin = bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        Self { bytes, begin, n }
    }

    fn len(&self) -> usize {
        self.n
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.n]
    }
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

/// A copy that is read back from where it is stored, past the cache as far as the file system lets us.
pub(crate) struct ReadBack {
    file: File,
    summing: Summing,
    at: u64,
}

impl ReadBack {
    fn open(dir: &OwnedFd, name: &[u8], how: OFlags) -> rustix::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(openat(dir, name, flags | how, Mode::empty())?);
        Ok(Self { file, summing: Summing::new(), at: 0 })
    }

    /// Begins with a copy that is being written; `None` where it cannot be read past the cache.
    fn begin(dst: &Target<'_>) -> Option<Self> {
        Self::open(dst.dir, dst.name, OFlags::DIRECT).ok()
    }

    /// Reads up to each of the `ends` once what is before it is durable.
    fn follow(mut self, ends: &mpsc::Receiver<u64>, pace: &Pace) -> Result<Option<Self>, CopyError> {
        while let Ok(end) = ends.recv() {
            // Those that came meanwhile are stored by the same call.
            let end = ends.try_iter().last().unwrap_or(end);
            self.file.sync_data().map_err(CopyError::Destination)?;
            pace.is_answered();
            match self.read_to(end, false, pace) {
                Ok(()) => {}
                // No direct reads here after all: it is read in the end.
                Err(CopyError::Destination(error)) if is_not_direct(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(self))
    }

    /// Reads what is left of a file of `size` bytes, and returns the checksum of the whole.
    fn finish(mut self, size: u64, pace: &Pace) -> Result<Checksum, CopyError> {
        let stat = fstat(&self.file).map_err(|error| CopyError::Destination(error.into()))?;
        if u64::try_from(stat.st_size) != Ok(size) {
            let what = format!("it has {} bytes instead of {size}", stat.st_size);
            return Err(CopyError::Destination(io::Error::other(what)));
        }
        self.read_to(size, is_sparse(&stat), pace)?;
        Ok(self.summing.finish())
    }

    fn read_to(&mut self, end: u64, is_sparse: bool, pace: &Pace) -> Result<(), CopyError> {
        let Self { file, summing, at } = self;
        if end - *at > PIECE as u64 {
            // Nobody reads it again soon; what the job has in the cache is worth more.
            let _ = fadvise(&*file, *at, NonZeroU64::new(end - *at), Advice::DontNeed);
        }
        let mut space = Space::new(if end - *at >= DIRECT { MAX_PIECE } else { PIECE }, end);
        let buffer = space.bytes();
        while *at < end {
            let Some((from, to)) = data(&*file, *at, end, is_sparse).map_err(CopyError::Destination)? else {
                break;
            };
            summing.add_zeroes(from - *at, || pace.go_on())?;
            *at = from;
            while *at < to {
                // Direct reads begin and end at multiples; what is too much is not counted.
                let begin = *at - *at % ALIGNED as u64;
                let skipped = (*at - begin) as usize;
                let n = pace.piece(buffer.len());
                pace.wait(n as u64)?;
                let n = match file.read_at(&mut buffer[..n], begin) {
                    Ok(n) if n <= skipped => return Err(CopyError::Changed),
                    Ok(n) => n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(CopyError::Destination(error)),
                };
                let n = (n - skipped).min(usize::try_from(to - *at).unwrap_or(n));
                summing.add(&buffer[skipped..skipped + n]);
                *at += n as u64;
            }
        }
        summing.add_zeroes(end - *at, || pace.go_on())?;
        *at = end;
        Ok(())
    }
}

/// Reads a durable file back, from where it was read to while it was written, and returns its checksum.
pub(crate) fn read_back(
    dir: &OwnedFd,
    name: &[u8],
    size: u64,
    begun: Option<ReadBack>,
    pace: &Pace,
) -> Result<Checksum, CopyError> {
    if let Some(direct) = begun.or_else(|| ReadBack::open(dir, name, OFlags::DIRECT).ok()) {
        match direct.finish(size, pace) {
            Err(CopyError::Destination(error)) if is_not_direct(&error) => {}
            sum => return sum,
        }
    }
    let plain =
        ReadBack::open(dir, name, OFlags::empty()).map_err(|error| CopyError::Destination(error.into()))?;
    let _ = fadvise(&plain.file, 0, None, Advice::DontNeed);
    plain.finish(size, pace)
}

/// Whether a file system that opens files for direct reads refuses them.
fn is_not_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
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
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let target = Target { file: &dst, dir: &folder, name: b"dst", may_be_direct: true };
        let (sum, reading) = contents(&src, &target, 8 << 20, true, &clones, &pace).unwrap();
        assert!(reading.is_none());
        let bytes = std::fs::read(dir.join("src")).unwrap();
        assert!(std::fs::read(dir.join("dst")).unwrap() == bytes);
        assert_eq!(sum, Checksum::of(&bytes));
        assert!(is_sparse(&dst));
        assert_eq!(read_back(&folder, b"dst", 8 << 20, None, &pace).unwrap(), sum);
        let other = File::create_new(dir.join("other")).unwrap();
        let other = Target { file: &other, name: b"other", ..target };
        assert!(matches!(contents(&src, &other, 9 << 20, false, &clones, &pace), Err(CopyError::Changed)));
        dst.write_all_at(&[8], (3 << 20) + 4999).unwrap();
        dst.sync_all().unwrap();
        assert_ne!(read_back(&folder, b"dst", 8 << 20, None, &pace).unwrap(), sum);
    }

    #[test]
    fn a_long_copy_is_read_back_while_it_is_written() {
        let dir = FreshDir::new("stage-copy");
        let size = 2 * READ_BACK + 12_345;
        let src = File::create_new(dir.join("src")).unwrap();
        let block: Vec<u8> = (0..PIECE as u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
        for at in (0..size).step_by(PIECE) {
            src.write_all_at(&block[..PIECE.min((size - at) as usize)], at).unwrap();
        }
        let src = File::open(dir.join("src")).unwrap();
        let dst = File::create_new(dir.join("dst")).unwrap();
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let target = Target { file: &dst, dir: &folder, name: b"dst", may_be_direct: true };
        let pace = Pace::free();
        let (sum, reading) = contents(&src, &target, size, false, &Clones::default(), &pace).unwrap();
        dst.sync_all().unwrap();
        // Where files cannot be read past the cache (or blocks are shared), it is read in the end.
        assert!(reading.as_ref().is_none_or(|reading| reading.at >= 2 * READ_BACK));
        assert_eq!(read_back(&folder, b"dst", size, reading, &pace).unwrap(), sum);
        assert_eq!(read_back(&folder, b"dst", size, None, &pace).unwrap(), sum);
    }

    #[test]
    fn what_was_read_while_it_was_written_counts() {
        let dir = FreshDir::new("stage-copy");
        let (file, path) = (File::create_new(dir.join("dst")).unwrap(), b"dst");
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let pace = Pace::free();
        let mut bytes = vec![3; 3 * PIECE + 77];
        bytes[5000] = 4;
        file.write_all_at(&bytes, 0).unwrap();
        for end in [1, 4096, 5001, PIECE as u64 + 5, 3 * PIECE as u64] {
            file.sync_all().unwrap();
            let (sender, ends) = mpsc::channel();
            sender.send(end).unwrap();
            drop(sender);
            let read = ReadBack::open(&folder, path, OFlags::empty()).unwrap().follow(&ends, &pace).unwrap();
            // Whatever it holds later: a byte that was read is not read again.
            file.write_all_at(&[5], 0).unwrap();
            file.sync_all().unwrap();
            let sum = read_back(&folder, path, bytes.len() as u64, read, &pace).unwrap();
            assert_eq!(sum, Checksum::of(&bytes), "up to {end}");
            file.write_all_at(&bytes[..1], 0).unwrap();
        }
    }
}
