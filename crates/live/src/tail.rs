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
use iotide_trace::Loss;
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
    let mut next = Next::default();
    loop {
        let ended = Arc::new(Mutex::new(None));
        let growing = Growing {
            next: std::mem::take(&mut next),
            ended: Arc::clone(&ended),
            ..Growing::new(path, look_every, bell, outbox)
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
            // That very file, whatever its name leads to by now.
            (_, Some(Ended::Replaced(file))) => next = file,
            (Err(error), None) => {
                let _ = sink.with(|outbox| outbox.say(Word::Failed(error)));
                break;
            }
        }
    }
    let _ = sink.with(Outbox::flush);
}

/// Why the bytes ended.
#[derive(Debug)]
enum Ended {
    Stopped,
    /// Another file, to be read from its beginning.
    Replaced(Next),
}

/// File that is read next.
#[derive(Debug, Default)]
struct Next {
    /// The file; `None` for the one that the path leads to.
    file: Option<File>,
    /// The one before it, and how long that was.
    left: Option<(File, u64)>,
}

/// The bytes of a file that grows. Where it ends, reading waits.
struct Growing {
    path: PathBuf,
    next: Next,
    at: u64,
    /// Of all bytes up to `at`.
    hash: Fnv1a,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// The last bytes before `at`: if they are others now, it is another file.
    last: Vec<u8>,
    /// Bytes that were read; of a text, the last line waits here until it is whole.
    held: Vec<u8>,
    /// How much of `held` may be given on.
    given: usize,
    /// Whether what follows is for another reader.
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

    fn new(path: &Path, look_every: Duration, bell: &Arc<Bell>, outbox: &Arc<Mutex<Outbox>>) -> Self {
        Self {
            path: path.to_path_buf(),
            next: Next::default(),
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
            ended: Arc::default(),
        }
    }

    /// Takes what the file has more by now; whether it had any.
    fn fetch(&mut self) -> io::Result<bool> {
        if self.next.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.next.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &self.next.file else { return Ok(false) };
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
        if n > 0 && !self.ends_as_remembered(file) {
            // It was written anew, and is longer already than it was: this is from its middle.
            self.held.truncate(had);
            return Ok(false);
        }
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
        let Some(file) = &self.next.file else { return Ok(Look::Same) };
        let open = file.metadata()?;
        let named = std::fs::metadata(&self.path).ok();
        Ok(Sight {
            n_read: self.at,
            n_open: open.len(),
            is_as_read: open.len() >= self.at && self.ends_as_remembered(file),
            n_of_other: named
                .filter(|named| (named.dev(), named.ino()) != (open.dev(), open.ino()))
                .map(|named| named.len()),
        }
        .look())
    }

    /// Says if somebody still writes to a file that was left for another of its name: that is not read any more.
    fn look_back(&mut self) {
        let Some((file, n_read)) = &self.next.left else { return };
        let grown = file.metadata().map_or(0, |about| about.len().saturating_sub(*n_read));
        if grown > 0 {
            let name = self.path.display();
            let what = format!(
                "{name}: the file that had this name before has grown by at least {grown} bytes since it was replaced; they are not read"
            );
            let _ = self.outbox.with(|outbox| outbox.say(Word::Loss(Loss::of_unknown_size(what))));
            self.next.left = None;
        }
    }

    fn ends_as_remembered(&self, file: &File) -> bool {
        let mut now = vec![0; self.last.len()];
        file.read_exact_at(&mut now, self.at - self.last.len() as u64).is_ok() && now == self.last
    }

    /// Goes on with what has taken the place of what was read, if it is there already: the same file from its beginning, or the one that has its name
    /// now.
    ///
    /// If it begins as the old one did (a table has its header again), it is for a reader of its own.
    fn turn_over(&mut self, look: Look) -> io::Result<bool> {
        let name = self.path.display();
        let file = match (&self.next.file, look) {
            // What was written into it is there, wherever it has been moved since.
            (Some(open), Look::Cut) => open.try_clone()?,
            _ => match File::open(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                file => file?,
            },
        };
        if self.holds_all(&file)? {
            // Written anew with all that was there: nothing of it counts twice.
            if look == Look::Other {
                self.leave_for(file);
            }
            return Ok(true);
        }
        let mut head = vec![0; Self::REMEMBERED];
        let n = file.read_at(&mut head, 0)?;
        // One that was moved away like this may never become longer.
        let is_gone = look == Look::Cut && !self.is_at_its_path(&file)?;
        let Some(is_alike) = begins_alike(&self.head, &head[..n]).or(is_gone.then_some(true)) else {
            return Ok(false);
        };
        let what = match look {
            Look::Cut => {
                "was cut short or overwritten: read again from its beginning; what it got just before that is not known"
            }
            _ => "was replaced by another file: going on with that one",
        };
        let notice = format!("{name} {what}");
        let _ = self.outbox.with(|outbox| outbox.say(Word::Replaced(notice)));
        self.is_over = is_alike;
        // The last line of the old file will not become longer.
        self.given = self.held.len();
        if look == Look::Other {
            self.leave_for(file);
        }
        (self.at, self.hash) = (0, Fnv1a::default());
        (self.head, self.last) = (Vec::new(), Vec::new());
        Ok(true)
    }

    fn is_at_its_path(&self, file: &File) -> io::Result<bool> {
        let open = file.metadata()?;
        let named = std::fs::metadata(&self.path).ok();
        Ok(named.is_some_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())))
    }

    fn leave_for(&mut self, file: File) {
        let left = self.next.file.replace(file);
        self.next.left = left.map(|left| (left, self.at));
    }

    /// Whether a file begins with all that was read.
    fn holds_all(&self, file: &File) -> io::Result<bool> {
        let mut hash = Fnv1a::default();
        let (mut at, mut piece) = (0, vec![0; Self::PIECE]);
        while file.metadata()?.len() >= self.at && at < self.at {
            let n = (self.at - at).min(Self::PIECE as u64) as usize;
            if file.read_exact_at(&mut piece[..n], at).is_err() {
                break;
            }
            hash.write(&piece[..n]);
            at += n as u64;
        }
        Ok(at == self.at && hash == self.hash)
    }

    fn end(&mut self, why: Ended) -> io::Result<usize> {
        *self.ended.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(why);
        Ok(0)
    }

    /// Takes what there is more without waiting for it; whether there is anything to give on, or another file to read.
    fn advance(&mut self) -> io::Result<bool> {
        if self.fetch()? {
            return Ok(true);
        }
        self.look_back();
        match self.look()? {
            Look::Same => Ok(false),
            // What the old file got at the last moment comes first.
            Look::Other if self.fetch()? => Ok(true),
            look => self.turn_over(look),
        }
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
                let next = std::mem::take(&mut self.next);
                return self.end(Ended::Replaced(next));
            }
            if self.advance()? {
                continue;
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

/// State of a file at a look, all of it at different moments.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Bytes that were read of it.
    n_read: u64,
    /// Bytes in it now.
    n_open: u64,
    /// Whether it has what was read last where it was read.
    is_as_read: bool,
    /// Bytes in the file that has its name now, if that is another one.
    n_of_other: Option<u64>,
}

impl Sight {
    fn look(self) -> Look {
        let is_emptied = self.n_open == 0 && self.n_read > 0;
        match self.n_of_other {
            // What was written into the old file comes first: nobody can find it by its name any more.
            _ if !is_emptied && (self.n_open < self.n_read || !self.is_as_read) => Look::Cut,
            // The writer goes on with the old file until the new one has something in it.
            Some(1..) => Look::Other,
            // One that is empty is about to be written anew; with what, is to be seen.
            _ => Look::Same,
        }
    }
}

/// Whether a file that begins so has lines.
fn is_text(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    head.iter().take(8).all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// Whether two files have the same first line, or the same first bytes if they have none; `None` as long as the second is too short to tell.
fn begins_alike(a: &[u8], b: &[u8]) -> Option<bool> {
    let n = match (is_text(a), a.iter().position(|&byte| byte == b'\n')) {
        (true, Some(newline)) => newline + 1,
        (true, None) => a.len(),
        (false, _) => a.len().min(8),
    };
    let n_both = n.min(b.len());
    if a[..n_both] != b[..n_both] { Some(false) } else { (b.len() >= n).then_some(true) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use iotide_testkit::FreshDir;
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "rank,op,start,end,bytes\n";

    struct Followed {
        growing: Growing,
        words: Receiver<Word>,
        _wake: UnixStream,
    }

    impl Followed {
        fn new(path: &Path) -> Self {
            let (wake, woken) = UnixStream::pair().unwrap();
            let (outbox, words) = Outbox::new(wake);
            let outbox = Arc::new(Mutex::new(outbox));
            let growing = Growing::new(path, Duration::ZERO, &Arc::default(), &outbox);
            Self { growing, words, _wake: woken }
        }

        /// All that a reader gets until it would have to wait; readers that follow each other get it one after the other.
        fn take(&mut self) -> String {
            let mut taken = Vec::new();
            loop {
                let given = self.growing.given;
                taken.extend(self.growing.held.drain(..given));
                self.growing.given = 0;
                self.growing.is_over = false;
                if !self.growing.advance().unwrap() {
                    return String::from_utf8(taken).unwrap();
                }
            }
        }

        fn said(&self) -> Vec<String> {
            let words = self.words.try_iter().filter_map(|word| match word {
                Word::Replaced(said) => Some(said),
                Word::Loss(loss) => Some(loss.what),
                _ => None,
            });
            words.collect()
        }
    }

    #[test]
    fn a_file_that_is_cut_rewritten_and_moved_away_within_one_look_is_read_before_its_successor() {
        let dir = FreshDir::new("tail-cut");
        let path = dir.join("run.csv");
        let rows = |rows: &str| format!("{HEADER}{rows}");
        fs::write(&path, rows("0,write,0,1,1000\n0,write,5,6,1000\n")).unwrap();
        let mut followed = Followed::new(&path);
        assert_eq!(followed.take(), rows("0,write,0,1,1000\n0,write,5,6,1000\n"));
        // The same file, cut and written anew; moved away; and another one in its place.
        fs::write(&path, rows("0,write,0,1,7\n")).unwrap();
        fs::rename(&path, dir.join("run.csv.1")).unwrap();
        fs::write(&path, rows("0,write,2,3,50\n")).unwrap();
        assert_eq!(followed.take(), rows("0,write,0,1,7\n") + &rows("0,write,2,3,50\n"));
        let said = followed.said();
        assert!(said.len() == 2 && said[0].contains("cut short") && said[1].contains("replaced"), "{said:?}");
        // Cut, and moved away, with nothing in its place.
        fs::write(&path, rows("1,write,0,1,9\n")).unwrap();
        fs::rename(&path, dir.join("run.csv.2")).unwrap();
        assert_eq!(followed.take(), rows("1,write,0,1,9\n"));
    }

    #[test]
    fn a_file_that_is_emptied_and_replaced_does_not_keep_its_successor_from_being_read() {
        let dir = FreshDir::new("tail-emptied");
        let path = dir.join("run.csv");
        fs::write(&path, format!("{HEADER}0,write,0,1,1000\n")).unwrap();
        let mut followed = Followed::new(&path);
        followed.take();
        fs::write(&path, "").unwrap();
        assert_eq!(followed.take(), "", "with what it is written anew is to be seen");
        fs::write(dir.join("new.csv"), format!("{HEADER}0,write,2,3,50\n")).unwrap();
        fs::rename(dir.join("new.csv"), &path).unwrap();
        assert_eq!(followed.take(), format!("{HEADER}0,write,2,3,50\n"));
    }

    #[test]
    fn a_successor_waits_until_its_first_line_is_whole() {
        let dir = FreshDir::new("tail-header");
        let path = dir.join("run.csv");
        fs::write(&path, format!("{HEADER}0,write,0,1,1000\n")).unwrap();
        let mut followed = Followed::new(&path);
        followed.take();
        fs::write(&path, &HEADER[..7]).unwrap();
        assert_eq!((followed.take(), followed.said().len()), (String::new(), 0));
        fs::write(&path, format!("{HEADER}1,write,2,3,50\n")).unwrap();
        assert!(followed.growing.advance().unwrap());
        assert!(followed.growing.is_over, "it has a reader of its own");
    }

    #[test]
    fn who_still_writes_to_a_file_that_was_replaced_is_named() {
        use std::io::Write;
        let dir = FreshDir::new("tail-left");
        let path = dir.join("run.csv");
        let mut old = File::create(&path).unwrap();
        old.write_all(b"0,write,0,1,1000\n").unwrap();
        let mut followed = Followed::new(&path);
        followed.take();
        fs::rename(&path, dir.join("run.csv.1")).unwrap();
        old.write_all(b"0,write,1,2,1000\n").unwrap();
        fs::write(&path, "0,write,2,3,50\n").unwrap();
        assert_eq!(followed.take(), "0,write,1,2,1000\n0,write,2,3,50\n");
        assert_eq!(followed.said().len(), 1);
        old.write_all(b"0,write,9,9,1\n").unwrap();
        assert_eq!(followed.take(), "");
        let said = followed.said();
        assert!(said.len() == 1 && said[0].contains("has grown by at least 14 bytes"), "{said:?}");
        old.write_all(b"0,write,9,9,1\n").unwrap();
        followed.take();
        assert_eq!(followed.said().len(), 0, "once");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append,
        Cut,
        Empty,
        /// The file is moved away; another one comes in its place at once, or does not.
        Move {
            is_replaced: bool,
        },
        Look,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Append),
            1 => Just(Step::Cut),
            1 => Just(Step::Empty),
            2 => any::<bool>().prop_map(|is_replaced| Step::Move { is_replaced }),
            3 => Just(Step::Look),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Between two looks a file is cut at most once, and replaced at most once: then every row is read, in order, and once.
        #[test]
        fn no_row_is_lost_between_looks(steps in prop::collection::vec(step(), 1..40)) {
            let dir = FreshDir::new("tail-any");
            let path = dir.join("run.csv");
            let (mut taken, mut written, mut n_moved) = (String::new(), String::new(), 0);
            let mut followed = Followed::new(&path);
            // Whether the file of the name is the one that is open, and whether it has rows that were not read yet.
            let (mut is_open, mut is_unread) = (false, false);
            for step in steps.into_iter().chain([Step::Look]) {
                let mut row = || {
                    let row = format!("{:08}\n", written.len() / 9);
                    written += &row;
                    row
                };
                match step {
                    // Nobody can read what is cut before it was, or is moved away before it was seen.
                    Step::Cut | Step::Empty if is_unread || !path.exists() => {}
                    Step::Move { .. } if !is_open => {}
                    Step::Append => {
                        let row = row();
                        let mut file = File::options().append(true).create(true).open(&path).unwrap();
                        io::Write::write_all(&mut file, row.as_bytes()).unwrap();
                        is_unread = true;
                    }
                    Step::Cut => {
                        fs::write(&path, row()).unwrap();
                        is_unread = true;
                    }
                    Step::Empty => fs::write(&path, "").unwrap(),
                    Step::Move { is_replaced } => {
                        n_moved += 1;
                        fs::rename(&path, dir.join(format!("run.csv.{n_moved}"))).unwrap();
                        if is_replaced {
                            fs::write(&path, row()).unwrap();
                        }
                        (is_open, is_unread) = (false, is_replaced);
                    }
                    Step::Look => {
                        taken += &followed.take();
                        is_unread = false;
                        is_open |= fs::metadata(&path).is_ok_and(|about| about.len() > 0);
                    }
                }
            }
            prop_assert_eq!(taken, written);
        }
    }
}
