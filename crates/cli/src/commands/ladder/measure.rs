//! Requests in flight at a directory, counted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory that devices take: begins at a whole page.
const ALIGNED: usize = 4096;
/// Size of a worker's file, in requests, where there is room.
const REQUESTS_A_FILE: u64 = 16;

/// How a rung is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung {
    /// Writes; else reads.
    pub(super) writes: bool,
    pub(super) lasts: Duration,
    /// No more than this is moved.
    pub(super) most_bytes: u64,
    /// Files have no more than this together, but for one request each.
    pub(super) room: u64,
}

/// Counts of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) completions: u64,
    pub(super) seconds: f64,
    /// Whether requests went past the page cache (`O_DIRECT`); else each was synced.
    pub(super) is_direct: bool,
}

/// A buffer that begins at a whole page.
struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let mut bytes = vec![0; len + ALIGNED];
        let from = bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        // What is all zeros may be stored as nothing.
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
        }
        Self { bytes, from, len }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

/// A name to be removed in the end.
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes a file of no name, or where there are none such, one that is removed in the end.
fn scratch(directory: &Path) -> io::Result<(File, Option<Named>)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    match iotide_private::nameless_in(directory) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            let nth = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!(".iotide-ladder-{}-{nth}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            Ok((file, Some(Named(path))))
        }
        made => Ok((made?, None)),
    }
}

/// One of those that keep a request in flight.
struct Worker {
    file: File,
    _named: Option<Named>,
    buffer: Buffer,
    n_requests: u64,
    is_direct: bool,
}

impl Worker {
    fn new(directory: &Path, size: u64, room: u64) -> io::Result<Self> {
        let n_requests = (room / size).clamp(1, REQUESTS_A_FILE);
        // Blocks are there before the clock runs; where a file system cannot go past its cache, it is synced.
        if let Ok(file) = iotide_private::nameless_direct_in(directory) {
            let buffer = Buffer::new(size as usize);
            let mut worker = Self { file, _named: None, buffer, n_requests, is_direct: true };
            if worker.fill().and_then(|()| worker.file.sync_data()).is_ok() {
                return Ok(worker);
            }
        }
        let (file, named) = scratch(directory)?;
        let buffer = Buffer::new(size as usize);
        let mut worker = Self { file, _named: named, buffer, n_requests, is_direct: false };
        worker.fill()?;
        worker.file.sync_data()?;
        Ok(worker)
    }

    fn fill(&mut self) -> io::Result<()> {
        let len = self.buffer.len as u64;
        for nth in 0..self.n_requests {
            self.file.write_all_at(self.buffer.get(), nth * len)?;
        }
        Ok(())
    }

    fn request(&mut self, nth: u64, writes: bool) -> io::Result<()> {
        let at = nth % self.n_requests * self.buffer.len as u64;
        if writes {
            self.file.write_all_at(self.buffer.get(), at)?;
            if !self.is_direct {
                self.file.sync_data()?;
            }
            Ok(())
        } else {
            if !self.is_direct {
                // What is in the cache is not read. A virtual file is in none.
                match rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed) {
                    Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.file.read_exact_at(self.buffer.get(), at)
        }
    }

    fn finish(&self, writes: bool) -> io::Result<()> {
        if writes && self.is_direct { self.file.sync_data() } else { Ok(()) }
    }
}

/// Keeps `n` requests of a size in flight for a while.
pub(super) fn measure(directory: &Path, n: u64, size: u64, rung: &Rung) -> io::Result<Measured> {
    let mut workers = Vec::new();
    for _ in 0..n {
        workers.push(Worker::new(directory, size, rung.room / n)?);
    }
    let is_direct = workers.iter().all(|worker| worker.is_direct);
    let most = (rung.most_bytes / size).max(n);
    let (started, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let has_failed = AtomicBool::new(false);
    let fault: Mutex<Option<io::Error>> = Mutex::default();
    let spans: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    let barrier = Barrier::new(workers.len());
    std::thread::scope(|scope| {
        for mut worker in workers {
            let (started, done, has_failed) = (&started, &done, &has_failed);
            let (fault, spans, barrier) = (&fault, &spans, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let began = Instant::now();
                let fail = |error| {
                    has_failed.store(true, Ordering::Relaxed);
                    *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                };
                let mut nth = 0;
                while began.elapsed() < rung.lasts
                    && started.fetch_add(1, Ordering::Relaxed) < most
                    && !has_failed.load(Ordering::Relaxed)
                {
                    if let Err(error) = worker.request(nth, rung.writes) {
                        return fail(error);
                    }
                    nth += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                // A client that keeps writes to itself, `O_DIRECT` or not, has to give them away before the clock stops.
                if let Err(error) = worker.finish(rung.writes) {
                    return fail(error);
                }
                spans.lock().unwrap_or_else(PoisonError::into_inner).push((began, Instant::now()));
            });
        }
    });
    // What was under way at the end was waited for, and counts with the time it took.
    let spans = spans.into_inner().unwrap_or_else(PoisonError::into_inner);
    let first = spans.iter().map(|(began, _)| *began).min();
    let last = spans.iter().map(|(_, ended)| *ended).max();
    let seconds = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64()).max(1e-9);
    if let Some(error) = fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok(Measured { completions: done.into_inner(), seconds, is_direct })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn requests_are_counted_and_nothing_is_left() {
        let folder = FreshDir::new("ladder");
        for writes in [true, false] {
            let rung = Rung { writes, lasts: Duration::from_millis(30), most_bytes: 1 << 22, room: 1 << 20 };
            let measured = measure(folder.path(), 3, 4096, &rung).unwrap();
            assert!((1..=1024).contains(&measured.completions) && measured.seconds > 0.0, "{measured:?}");
        }
        assert!(folder.names().is_empty());
        let missing = folder.join("missing");
        let rung = Rung { writes: true, lasts: Duration::from_millis(1), most_bytes: 1, room: 1 };
        assert!(measure(&missing, 1, 4096, &rung).is_err());
    }
}
