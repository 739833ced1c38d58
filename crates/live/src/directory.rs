//! Directory that the tracer writes: one stream per process, each of which grows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use iotide_formats::{JobSinks, TracedJobs, TracedStream};
use iotide_trace::{Event, EventSink, Loss, Timestamp};

/// The streams of a directory, or one of them.
pub(crate) struct Streams {
    pub(crate) directory: PathBuf,
    /// If only one of them is followed.
    only: Option<OsString>,
    files: HashMap<OsString, Stream>,
}

#[derive(Default)]
struct Stream {
    stream: TracedStream,
    at: u64,
    /// Device and number of the file.
    identity: Option<(u64, u64)>,
    /// It is none of the tracer's, or one that cannot be read.
    refused: bool,
}

impl Streams {
    /// How much is read at once. Also what a file costs while it is read.
    const PIECE: usize = 256 << 10;
    /// How much of one file is read before another one's turn, where many are read at once.
    const SMALL_PIECE: usize = 8 << 10;

    pub(crate) fn of_directory(directory: PathBuf) -> Self {
        Self { directory, only: None, files: HashMap::new() }
    }

    pub(crate) fn of_file(path: &Path) -> Self {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Self { directory, only: path.file_name().map(OsStr::to_owned), files: HashMap::new() }
    }

    /// Whether a file of that name is one of these.
    pub(crate) fn has(&self, directory: &Path, name: &OsStr) -> bool {
        directory == self.directory
            && match &self.only {
                Some(only) => only == name,
                None => Path::new(name).extension().is_some_and(|extension| extension == "iot"),
            }
    }

    /// Looks at all files.
    pub(crate) fn look_at_all(
        &mut self,
        jobs: &mut TracedJobs,
        sinks: &mut dyn JobSinks,
        notices: &mut Vec<String>,
    ) -> bool {
        let names: Vec<OsString> = match (&self.only, std::fs::read_dir(&self.directory)) {
            (Some(only), _) => vec![only.clone()],
            (None, Ok(entries)) => {
                let names = entries.flatten().map(|entry| entry.file_name());
                names.filter(|name| self.has(&self.directory, name)).collect()
            }
            (None, Err(_)) => return false,
        };
        // Whoever is furthest behind comes next, so that the events of all processes come nearly in order of time, however long
        // the files have become before anyone looked.
        let mut behind: BinaryHeap<Reverse<(i64, OsString)>> =
            names.into_iter().map(|name| Reverse((i64::MIN, name))).collect();
        let mut merged = Merged { reached: i64::MIN, ..Merged::default() };
        let mut is_news = false;
        while let Some(Reverse((_, name))) = behind.pop() {
            if self.look_at_piece(&name, Some(Self::SMALL_PIECE), jobs, &mut merged, notices) {
                is_news = true;
                behind.push(Reverse((merged.reached, name)));
            }
            merged.reached = i64::MIN;
            let up_to = behind.peek().map_or(i64::MAX, |Reverse((reached, _))| *reached);
            merged.hand_over(up_to, sinks);
        }
        is_news
    }

    /// Takes what one file has more by now; whether it had any.
    pub(crate) fn look_at(
        &mut self,
        name: &OsStr,
        jobs: &mut TracedJobs,
        sinks: &mut dyn JobSinks,
        notices: &mut Vec<String>,
    ) -> bool {
        self.look_at_piece(name, None, jobs, sinks, notices)
    }

    fn look_at_piece(
        &mut self,
        name: &OsStr,
        most: Option<usize>,
        jobs: &mut TracedJobs,
        sinks: &mut dyn JobSinks,
        notices: &mut Vec<String>,
    ) -> bool {
        let path = self.directory.join(name);
        let stream = self.files.entry(name.to_owned()).or_default();
        if stream.refused {
            return false;
        }
        let had = stream.at;
        // Opened for each look: a job has more processes than we may have files open.
        match stream.take_more(&path, most, jobs, sinks, notices) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                notices.push(format!("{}: {error}; it is left out", path.display()));
                stream.refused = true;
            }
        }
        stream.at != had
    }

    /// Takes note that nothing more comes.
    pub(crate) fn end(self, jobs: &mut TracedJobs, sinks: &mut dyn JobSinks) {
        for (_, stream) in self.files {
            jobs.end_of(stream.stream, sinks);
        }
    }
}

impl Stream {
    fn take_more(
        &mut self,
        path: &Path,
        most: Option<usize>,
        jobs: &mut TracedJobs,
        sinks: &mut dyn JobSinks,
        notices: &mut Vec<String>,
    ) -> io::Result<()> {
        let file = iotide_private::open_ordinary(path)?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        let is_other = self.identity.is_some_and(|known| known != identity);
        if is_other || metadata.len() < self.at {
            let what = if is_other { "was replaced by another file" } else { "was cut short" };
            notices.push(format!("{} {what}: read again from its beginning", path.display()));
            jobs.end_of(std::mem::take(&mut self.stream), sinks);
            self.at = 0;
        }
        self.identity = Some(identity);
        // A file that is empty yet costs nothing; one of a few bytes not much.
        let mut piece = vec![0; most.unwrap_or(Streams::PIECE).min((metadata.len() - self.at) as usize + 1)];
        loop {
            let n = match file.read_at(&mut piece, self.at) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.at += n as u64;
            jobs.feed(&mut self.stream, &piece[..n], sinks).map_err(io::Error::other)?;
            if most.is_some() {
                return Ok(());
            }
        }
    }
}

/// Events of many files on their way, in order of their starts.
#[derive(Default)]
struct Merged {
    /// With each event, the number of its job.
    waiting: Vec<(usize, Event, Option<Timestamp>)>,
    losses: Vec<(usize, Loss)>,
    /// The job whose events come now.
    job: usize,
    /// The latest start of the events that were taken since this was last looked at.
    reached: i64,
}

impl Merged {
    fn take(&mut self, event: Event, waited: Option<Timestamp>) -> ControlFlow<()> {
        self.reached = self.reached.max(event.start.as_nanos());
        self.waiting.push((self.job, event, waited));
        ControlFlow::Continue(())
    }

    /// Hands over what began by then.
    fn hand_over(&mut self, up_to: i64, sinks: &mut dyn JobSinks) {
        if self.waiting.is_empty() || up_to == i64::MIN {
            return;
        }
        self.waiting.sort_by_key(|(_, event, _)| event.start);
        let n = self.waiting.partition_point(|(_, event, _)| event.start.as_nanos() <= up_to);
        for (job, event, waited) in self.waiting.drain(..n) {
            let sink = sinks.of_job(job);
            let _ = match waited {
                Some(waited) => sink.async_event(event, waited),
                None => sink.event(event),
            };
        }
        for (job, loss) in self.losses.drain(..) {
            sinks.of_job(job).loss(loss);
        }
    }
}

impl JobSinks for Merged {
    fn of_job(&mut self, job: usize) -> &mut dyn EventSink {
        self.job = job;
        self
    }
}

impl EventSink for Merged {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.take(event, None)
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.take(event, Some(waited))
    }
    fn loss(&mut self, loss: Loss) {
        self.losses.push((self.job, loss));
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}
