//! Those who connect: tracers that send, programs that ask, ZeroMQ sockets that push.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use iotide_formats::{JobSinks, Messages, TracedJobs, TracedStream};
use iotide_trace::Loss;

use crate::live::Live;
use crate::zmtp::Puller;

/// A connection, of whichever kind it turns out to be.
pub(crate) struct Connection {
    socket: Socket,
    kind: Kind,
    /// Bytes that are still to be sent.
    output: Vec<u8>,
    /// Whether it is to be closed once that is sent.
    pub(crate) closing: bool,
}

pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

enum Kind {
    /// Nothing came yet that tells.
    Unknown(Vec<u8>),
    Tracer(TracedStream),
    /// Asks for predictions, and if it watches for further ones as they come.
    Asks {
        watches: bool,
        /// The beginning of its next question.
        question: Vec<u8>,
    },
    Zmq(Puller),
}

/// Result of a look at a connection.
pub(crate) struct Heard {
    pub(crate) is_open: bool,
    /// Whether events may have come.
    pub(crate) is_news: bool,
}

/// The latest prediction of each job.
#[derive(Default)]
pub(crate) struct Answers {
    /// By the job's name, in the order in which they came, and when they did.
    by_job: Vec<(String, String, Instant)>,
}

impl Answers {
    const NOTHING_YET: &str = "null";

    pub(crate) fn set(&mut self, job: String, line: &str) {
        self.by_job.retain(|(name, ..)| *name != job);
        self.by_job.push((job, line.to_owned(), Instant::now()));
    }

    fn newest(&self) -> &str {
        self.by_job.last().map_or(Self::NOTHING_YET, |(_, line, _)| line)
    }

    fn of_job(&self, job: &[u8]) -> &str {
        let of_job = self.by_job.iter().find(|(name, ..)| name.as_bytes() == job);
        of_job.map_or(Self::NOTHING_YET, |(_, line, _)| line)
    }

    /// All of them, with their ages, as one line.
    fn all(&self) -> String {
        let each = self.by_job.iter().map(|(_, line, came)| {
            format!("{{\"age_s\":{:.3},\"prediction\":{line}}}", came.elapsed().as_secs_f64())
        });
        format!("{{\"jobs\":[{}]}}", each.collect::<Vec<_>>().join(","))
    }
}

/// State that all connections share.
pub(crate) struct Shared<'a> {
    pub(crate) jobs: &'a mut TracedJobs,
    pub(crate) messages: &'a mut Messages,
    /// Answers for those who ask.
    pub(crate) answers: &'a Answers,
    pub(crate) notices: &'a mut Vec<String>,
}

impl Connection {
    /// A question is a short line.
    const LONGEST_QUESTION: usize = 256;
    /// Who does not read what was asked for is left alone once this much waits.
    const MOST_OUTPUT: usize = 256 << 10;
    /// How much is read from one before the others have their turn.
    const PIECE: usize = 256 << 10;

    pub(crate) fn new(socket: Socket, is_zmq: bool) -> io::Result<Self> {
        match &socket {
            Socket::Unix(stream) => stream.set_nonblocking(true)?,
            Socket::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
            }
        }
        let mut connection =
            Self { socket, kind: Kind::Unknown(Vec::new()), output: Vec::new(), closing: false };
        if is_zmq {
            let mut puller = Puller::default();
            connection.output = puller.take_output();
            connection.kind = Kind::Zmq(puller);
        }
        Ok(connection)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        !self.output.is_empty()
    }

    pub(crate) fn watches(&self) -> bool {
        matches!(self.kind, Kind::Asks { watches: true, .. })
    }

    /// How many bytes are kept for it.
    pub(crate) fn n_waiting(&self) -> usize {
        self.output.len()
            + match &self.kind {
                Kind::Unknown(bytes) => bytes.len(),
                Kind::Tracer(stream) => stream.n_waiting(),
                Kind::Asks { question, .. } => question.len(),
                Kind::Zmq(puller) => puller.n_waiting(),
            }
    }

    /// Takes what has come.
    pub(crate) fn hear(
        &mut self,
        buffer: &mut [u8],
        shared: &mut Shared<'_>,
        sinks: &mut dyn JobSinks,
    ) -> Heard {
        let (mut n_heard, mut is_news) = (0, false);
        while n_heard < Self::PIECE {
            let got = match &mut self.socket {
                Socket::Unix(stream) => stream.read(buffer),
                Socket::Tcp(stream) => stream.read(buffer),
            };
            match got {
                Ok(0) => return Heard { is_open: false, is_news },
                Ok(n) => {
                    n_heard += n;
                    let taken = self.take(&buffer[..n], shared, sinks);
                    // Whoever asks brings nothing new, however often.
                    is_news |= !matches!(self.kind, Kind::Asks { .. });
                    if let Err(fault) = taken {
                        shared.notices.push(format!("a connection is closed: {fault}"));
                        return Heard { is_open: false, is_news };
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Heard { is_open: false, is_news },
            }
        }
        Heard { is_open: true, is_news }
    }

    fn take(
        &mut self,
        bytes: &[u8],
        shared: &mut Shared<'_>,
        sinks: &mut dyn JobSinks,
    ) -> Result<(), String> {
        match &mut self.kind {
            Kind::Tracer(stream) => shared.jobs.feed(stream, bytes, sinks).map_err(|fault| fault.to_string()),
            Kind::Zmq(puller) => {
                let Shared { messages, .. } = shared;
                let sink = sinks.of_job(Live::WITHOUT_NAME);
                let fed = puller.feed(bytes, &mut |message| {
                    // A message that is nothing costs itself; the next one may be good.
                    if let Err(error) = messages.read(message, sink) {
                        sink.loss(Loss::of_records(1, error.to_string()));
                    }
                });
                self.output.extend(puller.take_output());
                fed.map_err(|fault| fault.to_string())
            }
            Kind::Unknown(_) | Kind::Asks { .. } => self.ask(bytes, shared, sinks),
        }
    }

    /// Takes bytes of someone who may be a tracer, or ask something.
    fn ask(&mut self, bytes: &[u8], shared: &mut Shared<'_>, sinks: &mut dyn JobSinks) -> Result<(), String> {
        let (mut so_far, mut watches, may_trace) = match &mut self.kind {
            Kind::Unknown(so_far) => (std::mem::take(so_far), false, true),
            Kind::Asks { question, watches } => (std::mem::take(question), *watches, false),
            Kind::Tracer(_) | Kind::Zmq(_) => return Ok(()),
        };
        so_far.extend_from_slice(bytes);
        if may_trace && TracedStream::may_begin(&so_far) {
            if so_far.len() < iotide_wire::StreamHeader::MAGIC.len() {
                self.kind = Kind::Unknown(so_far);
                return Ok(());
            }
            self.kind = Kind::Tracer(TracedStream::default());
            return self.take(&so_far, shared, sinks);
        }
        while let Some(newline) = so_far.iter().position(|&byte| byte == b'\n') {
            let question = so_far[..newline].trim_ascii();
            let answer = match question.split(u8::is_ascii_whitespace).collect::<Vec<_>>()[..] {
                [b"latest"] => shared.answers.newest().into(),
                [b"latest", job] => shared.answers.of_job(job).into(),
                [b"jobs"] => Cow::Owned(shared.answers.all()),
                [b"watch"] => {
                    watches = true;
                    shared.answers.newest().into()
                }
                _ => {
                    return Err(
                        "it is no tracer, and asks neither `latest` nor `jobs` nor `watch`".to_owned()
                    );
                }
            };
            // One answer may be long, if there are many jobs. Who has not read the last one gets no other.
            if self.output.len() > Self::MOST_OUTPUT {
                return Err("it asks and does not read the answers".to_owned());
            }
            self.output.extend_from_slice(answer.as_bytes());
            self.output.push(b'\n');
            so_far.drain(..=newline);
        }
        if so_far.len() > Self::LONGEST_QUESTION {
            return Err("it is no tracer, and its question has no end".to_owned());
        }
        self.kind = Kind::Asks { watches, question: so_far };
        Ok(())
    }

    /// Queues a line for it. One that does not read is closed.
    pub(crate) fn tell(&mut self, line: &str) {
        self.output.extend_from_slice(line.as_bytes());
        self.output.push(b'\n');
        self.closing |= self.output.len() > Self::MOST_OUTPUT;
    }

    /// Sends what it takes; whether it is still there.
    pub(crate) fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            let sent = match &mut self.socket {
                Socket::Unix(stream) => stream.write(&self.output),
                Socket::Tcp(stream) => stream.write(&self.output),
            };
            match sent {
                Ok(0) => return false,
                Ok(n) => drop(self.output.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        !self.closing
    }
}
