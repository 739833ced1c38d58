//! A file of any format that grows, read by its usual reader in a thread of its own.
//!
//! The reader pulls; where the file ends, the pull waits. So a record that is not whole yet is not seen, one that is whole is
//! seen at once, and the events are those of the whole file whatever the pieces it came in.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use iotide_formats::OpenOptions;
use iotide_wire::Fnv1a;

use crate::outbox::{Outbox, Shared, Word};

/// A file that is followed.
pub(crate) struct Tail {
    pub(crate) words: Receiver<Word>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Tail {
    /// Begins to follow a file. `wake` is written to whenever there is something to take.
    pub(crate) fn new(path: PathBuf, options: OpenOptions, look_every: Duration, wake: UnixStream) -> Self {
        let bell = Arc::new(Bell::default());
        let (outbox, words) = Outbox::new(wake);
        let outbox = Arc::new(Mutex::new(outbox));
        let thread_bell = Arc::clone(&bell);
        let thread = std::thread::spawn(move || {
            read_again_and_again(&path, &options, look_every, &thread_bell, &outbox);
        });
        Self { words, bell, thread: Some(thread) }
    }

    /// Says that the file may have changed.
    pub(crate) fn look(&self) {
        self.bell.ring(false);
    }

    /// Asks for the end: what the file holds by now is still read, and then the words end.
    pub(crate) fn stop(&self) {
        self.bell.ring(true);
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.stop();
        // Whoever waits to say something must see that nobody listens.
        drop(std::mem::replace(&mut self.words, std::sync::mpsc::channel().1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How the thread is woken.
#[derive(Default)]
struct Bell {
    state: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Rung {
    look: bool,
    stop: bool,
}

impl Bell {
    fn ring(&self, stop: bool) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *state = Rung { look: true, stop: state.stop || stop };
        self.changed.notify_all();
    }

    /// Waits until the bell is rung, or some time has passed; says whether it is time to stop.
    fn wait(&self, at_most: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waited = self.changed.wait_timeout_while(state, at_most, |rung| !rung.look && !rung.stop);
        let (mut state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.look = false;
        state.stop
    }
}

/// Reads the file, and if another takes its place, that one.
fn read_again_and_again(
    path: &Path,
    options: &OpenOptions,
    look_every: Duration,
    bell: &Arc<Bell>,
    outbox: &Arc<Mutex<Outbox>>,
) {
    let mut sink = Shared(Arc::clone(outbox));
    loop {
        let ended = Arc::new(Mutex::new(None));
        let growing = Growing {
            path: path.to_path_buf(),
            file: None,
            at: 0,
            hash: Fnv1a::default(),
            head: Vec::new(),
            last: Vec::new(),
            held: Vec::new(),
            given: 0,
            is_over: false,
            n_last_looks: 0,
            look_every,
            bell: Arc::clone(bell),
            outbox: Shared(Arc::clone(outbox)),
            ended: Arc::clone(&ended),
        };
        let read = options.from_live(path, growing).and_then(|reader| {
            let _ = sink.with(|outbox| outbox.say(Word::Format(reader.format())));
            reader.read(&mut sink)
        });
        let why = ended.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        match (read, why) {
            // Nothing usable in it so far, or nothing at all: that is for whoever asks later.
            (Ok(_) | Err(iotide_formats::ReadError::Empty { .. }), Some(Ended::Stopped) | None) => break,
            (Err(error), Some(Ended::Stopped)) => {
                let _ = sink.with(|outbox| outbox.say(Word::Failed(error)));
                break;
            }
            (_, Some(Ended::Replaced)) => {}
            (Err(error), None) => {
                let _ = sink.with(|outbox| outbox.say(Word::Failed(error)));
                break;
            }
        }
    }
    let _ = sink.with(Outbox::flush);
}

/// Why the bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Stopped,
    /// Another file, to be read from its beginning.
    Replaced,
}

/// The bytes of a file that grows. Where it ends, reading waits.
struct Growing {
    path: PathBuf,
    file: Option<File>,
    at: u64,
    /// Of all bytes up to `at`.
    hash: Fnv1a,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// The last bytes before `at`: if they are others now, it is another file.
    last: Vec<u8>,
    /// What was read; of a text, the last line waits here until it is whole.
    held: Vec<u8>,
    /// How much of `held` may be given on.
    given: usize,
    /// Whether nothing follows what is given on.
    is_over: bool,
    n_last_looks: u32,
    look_every: Duration,
    bell: Arc<Bell>,
    outbox: Shared,
    ended: Arc<Mutex<Option<Ended>>>,
}

impl Growing {
    /// How many first and last bytes are remembered.
    const REMEMBERED: usize = 64;
    /// How much is read at once.
    const PIECE: usize = 64 << 10;
    /// How often a file is looked at once all is to end.
    const LAST_LOOKS: u32 = 3;
    /// A line longer than this is not waited for.
    const LONGEST_LINE: usize = 1 << 20;

    /// Takes what the file has more by now; whether it had any.
    fn fetch(&mut self) -> io::Result<bool> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &self.file else { return Ok(false) };
        let had = self.held.len();
        self.held.resize(had + Self::PIECE, 0);
        let got = loop {
            match file.read_at(&mut self.held[had..], self.at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => break got,
            }
        };
        self.held.truncate(had + *got.as_ref().unwrap_or(&0));
        let n = got?;
        let piece = &self.held[had..];
        self.at += n as u64;
        self.hash.write(piece);
        let n_head = (Self::REMEMBERED - self.head.len()).min(n);
        self.head.extend_from_slice(&piece[..n_head]);
        self.last.extend_from_slice(&piece[n.saturating_sub(Self::REMEMBERED)..]);
        self.last.drain(..self.last.len().saturating_sub(Self::REMEMBERED));
        self.given = match self.held.iter().rposition(|&byte| byte == b'\n') {
            Some(newline) if is_text(&self.head) => newline + 1,
            None if is_text(&self.head) && self.held.len() < Self::LONGEST_LINE => 0,
            _ => self.held.len(),
        };
        Ok(n > 0)
    }

    /// Looks whether the path still leads to what was read so far.
    fn look(&mut self) -> io::Result<Look> {
        let Some(file) = &self.file else { return Ok(Look::Same) };
        let open = file.metadata()?;
        if open.len() == 0 && self.at > 0 {
            // About to be written anew; with what, is to be seen.
            return Ok(Look::Same);
        }
        if open.len() < self.at || !self.ends_as_remembered(file) {
            return Ok(Look::Cut);
        }
        match std::fs::metadata(&self.path) {
            // The writer goes on with the old file until the new one has something in it.
            Ok(named) if (named.dev(), named.ino()) != (open.dev(), open.ino()) && named.len() > 0 => {
                Ok(Look::Other)
            }
            _ => Ok(Look::Same),
        }
    }

    fn ends_as_remembered(&self, file: &File) -> bool {
        let mut now = vec![0; self.last.len()];
        file.read_exact_at(&mut now, self.at - self.last.len() as u64).is_ok() && now == self.last
    }

    /// Goes on with the file that has taken the place of the old one, if it is there already.
    ///
    /// If it begins as the old one did (a table has its header again), it is for a reader of its own.
    fn turn_over(&mut self, look: Look) -> io::Result<bool> {
        let name = self.path.display();
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let mut hash = Fnv1a::default();
        let holds_all = file.metadata()?.len() >= self.at && {
            let (mut at, mut piece) = (0, vec![0; Self::PIECE]);
            while at < self.at {
                let n = (self.at - at).min(Self::PIECE as u64) as usize;
                if file.read_exact_at(&mut piece[..n], at).is_err() {
                    break;
                }
                hash.write(&piece[..n]);
                at += n as u64;
            }
            at == self.at && hash == self.hash
        };
        if holds_all {
            // Written anew with all that was there: nothing of it counts twice.
            self.file = Some(file);
            return Ok(true);
        }
        let what = match look {
            Look::Cut => "was cut short or overwritten: read again from its beginning",
            _ => "was replaced by another file: going on with that one",
        };
        let notice = format!("{name} {what}");
        let _ = self.outbox.with(|outbox| outbox.say(Word::Replaced(notice)));
        let mut head = vec![0; Self::REMEMBERED];
        let n = file.read_at(&mut head, 0)?;
        self.is_over = begins_alike(&self.head, &head[..n]);
        // The last line of the old file will not become longer.
        self.given = self.held.len();
        (self.file, self.at, self.hash) = (Some(file), 0, Fnv1a::default());
        (self.head, self.last) = (Vec::new(), Vec::new());
        Ok(true)
    }

    fn end(&mut self, why: Ended) -> io::Result<usize> {
        *self.ended.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(why);
        Ok(0)
    }
}

impl Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.given > 0 {
                let n = self.given.min(buffer.len());
                buffer[..n].copy_from_slice(&self.held[..n]);
                self.held.drain(..n);
                self.given -= n;
                return Ok(n);
            }
            if self.is_over {
                return self.end(Ended::Replaced);
            }
            if self.fetch()? {
                continue;
            }
            match self.look()? {
                Look::Same => {}
                // What the old file got at the last moment comes first.
                Look::Other if self.fetch()? => continue,
                look => {
                    if self.turn_over(look)? {
                        continue;
                    }
                }
            }
            if self.outbox.with(Outbox::flush).is_break() {
                return self.end(Ended::Stopped);
            }
            if self.bell.wait(self.look_every) {
                // One more look at what came before the bell; a file that is being replaced just now has had its chance.
                self.n_last_looks += 1;
                if !self.fetch()? && (self.n_last_looks > Self::LAST_LOOKS || self.look()? == Look::Same) {
                    return self.end(Ended::Stopped);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Same,
    /// Shorter than before, or with other bytes in it.
    Cut,
    /// Another file has its name.
    Other,
}

/// Whether a file that begins so has lines.
fn is_text(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    head.iter().take(8).all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// Whether two files have the same first line, or the same first bytes if they have none.
fn begins_alike(a: &[u8], b: &[u8]) -> bool {
    let n = match (is_text(a), a.iter().position(|&byte| byte == b'\n')) {
        (true, Some(newline)) => newline + 1,
        (true, None) => a.len(),
        (false, _) => a.len().min(8),
    };
    b.len() >= n && a[..n] == b[..n]
}
