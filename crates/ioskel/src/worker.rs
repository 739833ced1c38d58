//! One process of the skeleton: waits for the common start, then a burst at every beat.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use iotide_trace::Op;

use crate::protocol::{Message, Operation};
use crate::skeleton::Skeleton;

/// Performs the part of process `rank` in the folder `skeleton.dir`, which the skeleton made, and tells how it went on
/// stdout.
pub fn run(skeleton: &Skeleton, rank: u32) -> anyhow::Result<()> {
    let path = file_of(skeleton, rank, 0);
    let mut tell = BufWriter::new(io::stdout());
    let orders = listen();
    // Made before the start: the folder is empty, and goes, only when the last process is done with it.
    if let Err(error) = File::create_new(&path).with_context(|| format!("cannot make {}", path.display())) {
        return Ok(say(&mut tell, &Message::Failed(format!("{error:#}")))?);
    }
    let is_heard = say(&mut tell, &Message::Ready).is_ok();
    let Some(start) = orders.recv().ok().filter(|_| is_heard) else {
        clean_up(skeleton, &path); // called off before it began, or the skeleton is no more
        return Ok(());
    };

    let mut process = Process {
        rank,
        path,
        start,
        orders,
        pattern: pattern(rank, skeleton.transfer_bytes),
        buffer: vec![0; usize::try_from(skeleton.transfer_bytes)?],
        last_written: 0,
        operations: Vec::new(),
    };
    let outcome = process.bursts(skeleton, &mut tell);
    clean_up(skeleton, &process.path);
    match tell_all(&mut tell, &process.operations, outcome) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()), // the skeleton is no more
        told => told.context("cannot tell the skeleton how it went"),
    }
}

/// The file of a process, or of one of its bursts.
fn file_of(skeleton: &Skeleton, rank: u32, burst: u32) -> PathBuf {
    skeleton.dir.join(match skeleton.file_per_burst {
        true => format!("rank-{rank}-burst-{burst}.dat"),
        false => format!("rank-{rank}.dat"),
    })
}

/// Removes the file, and the folder with the last file: the skeleton, which would do it too, may have been killed.
fn clean_up(skeleton: &Skeleton, path: &Path) {
    if !skeleton.keep {
        let _ = fs::remove_file(path);
        let _ = fs::remove_dir(&skeleton.dir);
    }
}

fn tell_all(tell: &mut impl Write, operations: &[Operation], outcome: anyhow::Result<()>) -> io::Result<()> {
    for &Operation { op, start_ns, end_ns, bytes, .. } in operations {
        writeln!(tell, "{}", Message::Op { op, start_ns, end_ns, bytes })?;
    }
    match outcome {
        Ok(()) => say(tell, &Message::Done),
        Err(error) => say(tell, &Message::Failed(format!("{error:#}"))),
    }
}

struct Process {
    rank: u32,
    path: PathBuf,
    /// The common start.
    start: Instant,
    /// Hangs up when the skeleton wants to stop, or is no more.
    orders: Receiver<Instant>,
    /// Contents of a transfer, but for its stamp.
    pattern: Vec<u8>,
    /// Where a transfer is read to.
    buffer: Vec<u8>,
    /// The burst whose bytes are in the file.
    last_written: u32,
    operations: Vec<Operation>,
}

impl Process {
    fn bursts(&mut self, skeleton: &Skeleton, tell: &mut impl Write) -> anyhow::Result<()> {
        for (index, op) in (0..).zip(skeleton.plan()) {
            let beat = match skeleton.compute_s {
                // Beats count from the common start, so a late burst does not shift those after it.
                None => self.start + Duration::from_secs_f64(f64::from(index) * skeleton.period_s),
                Some(compute_s) if index == 0 => self.start + Duration::from_secs_f64(compute_s),
                // The last process to finish a burst holds up all, as a barrier does.
                Some(_) => match self.orders.recv() {
                    Ok(beat) => beat,
                    Err(_) => bail!("stopped before burst {}", index + 1),
                },
            };
            if skeleton.until_s.is_some_and(|until_s| beat > self.start + Duration::from_secs_f64(until_s)) {
                break;
            }
            if !self.wait_until(beat) {
                bail!("stopped before burst {}", index + 1);
            }
            let start_ns = self.now_ns();
            let done =
                if op == Op::Write { self.write_burst(skeleton, index) } else { self.read_burst(skeleton) };
            done.with_context(|| format!("burst {}", index + 1))?;
            let _ = say(tell, &Message::Burst { index, start_ns, end_ns: self.now_ns() }); // only progress
        }
        Ok(())
    }

    fn write_burst(&mut self, skeleton: &Skeleton, index: u32) -> anyhow::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true); // overwritten in place, as a checkpoint of fixed size is
        if skeleton.file_per_burst {
            self.path = file_of(skeleton, self.rank, index);
            options.create(true);
        }
        let mut file = self.open(&options)?;
        for (block, len) in blocks(skeleton) {
            self.check_for_stop()?;
            stamp(&mut self.pattern[..len], index, block);
            let mut done = 0;
            while done < len {
                let start_ns = self.now_ns();
                let n = retry(|| file.write(&self.pattern[done..len]))
                    .with_context(|| format!("cannot write {}", self.path.display()))?;
                if n == 0 {
                    bail!("cannot write {}: it takes no more bytes", self.path.display());
                }
                self.log(Op::Write, start_ns, n);
                done += n;
            }
        }
        if skeleton.sync {
            let start_ns = self.now_ns();
            file.sync_data().with_context(|| format!("cannot sync {}", self.path.display()))?;
            self.log(Op::Sync, start_ns, 0);
        }
        self.last_written = index;
        self.close(file);
        Ok(())
    }

    /// Reads back the last written burst, and makes sure that it is the one.
    fn read_burst(&mut self, skeleton: &Skeleton) -> anyhow::Result<()> {
        let mut file = self.open(OpenOptions::new().read(true))?;
        for (block, len) in blocks(skeleton) {
            self.check_for_stop()?;
            let mut done = 0;
            while done < len {
                let start_ns = self.now_ns();
                let n = retry(|| file.read(&mut self.buffer[done..len]))
                    .with_context(|| format!("cannot read {}", self.path.display()))?;
                if n == 0 {
                    bail!(
                        "{} ends before the {} bytes written to it",
                        self.path.display(),
                        skeleton.burst_bytes
                    );
                }
                self.log(Op::Read, start_ns, n);
                done += n;
            }
            stamp(&mut self.pattern[..len], self.last_written, block);
            if self.buffer[..len] != self.pattern[..len] {
                bail!("{} holds other bytes than were written to it", self.path.display());
            }
        }
        self.close(file);
        Ok(())
    }

    fn open(&mut self, options: &OpenOptions) -> anyhow::Result<File> {
        let start_ns = self.now_ns();
        let file =
            options.open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))?;
        self.log(Op::Open, start_ns, 0);
        Ok(file)
    }

    fn close(&mut self, file: File) {
        let start_ns = self.now_ns();
        drop(file);
        self.log(Op::Close, start_ns, 0);
    }

    fn log(&mut self, op: Op, start_ns: u64, n_bytes: usize) {
        let end_ns = self.now_ns();
        self.operations.push(Operation { rank: self.rank, op, start_ns, end_ns, bytes: n_bytes as u64 });
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Sleeps until `beat`; returns whether to go on.
    fn wait_until(&self, beat: Instant) -> bool {
        let left = beat.saturating_duration_since(Instant::now());
        self.orders.recv_timeout(left) != Err(RecvTimeoutError::Disconnected)
    }

    fn check_for_stop(&self) -> anyhow::Result<()> {
        match self.orders.try_recv() {
            Err(TryRecvError::Disconnected) => bail!("stopped"),
            _ => Ok(()),
        }
    }
}

/// The transfers of a burst: index and length; all are full but the last.
fn blocks(skeleton: &Skeleton) -> impl Iterator<Item = (u64, usize)> + use<> {
    let (total, transfer) = (skeleton.burst_bytes, skeleton.transfer_bytes);
    (0..total.div_ceil(transfer)).map(move |block| (block, (total - block * transfer).min(transfer) as usize))
}

/// Bytes that no file system can store as a hole or squeeze (a xorshift sequence), other ones for each rank.
fn pattern(rank: u32, len: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ (u64::from(rank) << 1);
    let mut bytes = Vec::with_capacity(len as usize + 8);
    while (bytes.len() as u64) < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len as usize);
    bytes
}

/// Marks a transfer with its burst and place, so that stale or misplaced bytes are noticed when read back.
fn stamp(transfer: &mut [u8], burst: u32, block: u64) {
    let mark = (u128::from(burst) << 64 | u128::from(block)).to_le_bytes();
    let len = transfer.len().min(mark.len());
    transfer[..len].copy_from_slice(&mark[..len]);
}

/// Listens on stdin: the common start comes out of the channel, and the channel hangs up when stdin ends.
fn listen() -> Receiver<Instant> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let Some(nanos) = line.strip_prefix("go ").and_then(|nanos| nanos.parse().ok()) else { break };
            // The processes share the wall clock, not `Instant`; it is looked at once, so setting it later does no harm.
            let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
            let start = match at.duration_since(SystemTime::now()) {
                Ok(ahead) => Instant::now() + ahead,
                Err(past) => Instant::now().checked_sub(past.duration()).unwrap_or_else(Instant::now),
            };
            if send.send(start).is_err() {
                break;
            }
        }
    });
    receive
}

fn say(tell: &mut impl Write, message: &Message) -> io::Result<()> {
    writeln!(tell, "{message}")?;
    tell.flush()
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skeleton(burst_bytes: u64, transfer_bytes: u64) -> Skeleton {
        Skeleton { burst_bytes, transfer_bytes, ..Skeleton::for_tests() }
    }

    #[test]
    fn transfers_add_up_to_the_burst() {
        let lens: Vec<_> = blocks(&skeleton(10, 4)).collect();
        assert_eq!(lens, [(0, 4), (1, 4), (2, 2)]);
        assert_eq!(blocks(&skeleton(8, 4)).count(), 2);
        assert_eq!(blocks(&skeleton(1, 1)).count(), 1);
    }

    #[test]
    fn ranks_bursts_and_places_give_different_bytes() {
        assert_ne!(pattern(0, 64), pattern(1, 64));
        let stamped = |burst, block| {
            let mut bytes = pattern(0, 64);
            stamp(&mut bytes, burst, block);
            bytes
        };
        assert_ne!(stamped(1, 0), stamped(2, 0));
        assert_ne!(stamped(1, 0), stamped(1, 1));
        assert_eq!(pattern(3, 13).len(), 13);
    }
}
