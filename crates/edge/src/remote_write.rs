//! Sends what `/metrics` shows to receivers of Prometheus' remote-write protocol, version 1.0.
//!
//! A thread for each receiver takes samples and sends them. What a receiver does not take for now waits, within a bound, and is tried again after a while that grows;
//! beyond the bound the oldest go, and are counted as lost. Nothing else waits for a receiver.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_http::Url;
use iotide_ledger::{Exposition, Format, Kind, WriteRequest, write_requests};

use iotide_http::post;

use crate::address::names;
use crate::answer::{Answers, Asked, Viewer};
use crate::shared::{Shared, now_ns};

/// Samples in one request, as Prometheus' own senders have it.
const MOST_SAMPLES: usize = 2000;
/// Bytes of requests that wait, compressed; beyond it the oldest go.
const MOST_BYTES: usize = 8 << 20;
/// After a failure nothing is tried for so long; twice as long after each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How soon a thread notices that the daemon ends.
const NAP: Duration = Duration::from_millis(200);
/// What remote-write wants to be told of a body.
const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n";

/// Sends a request; `Ok(false)` if it will never be taken.
fn send(target: &Url, body: &[u8]) -> io::Result<bool> {
    post(target, target.path(), HEADERS, body)
}

/// What became of the samples for one receiver.
#[derive(Debug, Default)]
pub(crate) struct Written {
    target: String,
    n_sent: AtomicU64,
    n_lost: AtomicU64,
    n_waiting: AtomicU64,
    is_failing: AtomicBool,
}

/// The receivers, as `/metrics` shows them.
pub(crate) fn exposition(text: &mut Exposition, all: &[Arc<Written>]) {
    let mut family = |name: &'static str, kind: Kind, help: &'static str, of: &dyn Fn(&Written) -> u64| {
        let mut family = text.family(name, kind, help);
        for written in all {
            family.sample(&[("target", &written.target)], of(written));
        }
    };
    family(
        "iotide_daemon_remote_write_samples_total",
        Kind::Counter,
        "Samples that a receiver of remote-write took.",
        &|it| it.n_sent.load(Ordering::Relaxed),
    );
    family(
        "iotide_daemon_remote_write_lost_samples_total",
        Kind::Counter,
        "Samples that a receiver refused, or that waited too long for it.",
        &|it| it.n_lost.load(Ordering::Relaxed),
    );
    family(
        "iotide_daemon_remote_write_waiting_samples",
        Kind::Gauge,
        "Samples that wait for a receiver.",
        &|it| it.n_waiting.load(Ordering::Relaxed),
    );
    family(
        "iotide_daemon_remote_write_failing",
        Kind::Gauge,
        "Whether a receiver did not take what it was last sent.",
        &|it| it.is_failing.load(Ordering::Relaxed).into(),
    );
}

/// What is known of receivers before anything was sent; no two have one name.
pub(crate) fn written(targets: &[Url]) -> Vec<Arc<Written>> {
    let name = |target| Arc::new(Written { target, ..Written::default() });
    names(targets).into_iter().map(name).collect()
}

/// Starts the threads. They end soon after the daemon has, unless a receiver does not answer: nobody waits for them.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    for (target, written) in shared.config.remote_write.iter().zip(&shared.written) {
        let mut sender = Sender {
            target: target.clone(),
            written: Arc::clone(written),
            waiting: Queue::default(),
            before: String::new(),
            wait: FIRST_WAIT,
            retry: Instant::now(),
        };
        let (shared, every) = (Arc::downgrade(shared), shared.config.remote_write_every);
        thread::Builder::new().name("iotide-write".to_owned()).spawn(move || sender.run(&shared, every))?;
    }
    Ok(())
}

struct Sender {
    target: Url,
    written: Arc<Written>,
    waiting: Queue,
    /// The exposition that was sampled last.
    before: String,
    wait: Duration,
    retry: Instant,
}

impl Sender {
    fn run(&mut self, shared: &Weak<Shared>, every: Duration) {
        let mut next = Instant::now();
        loop {
            // Held no longer than needed: a receiver that is slow must not keep a daemon that has ended.
            let Some(shared) = shared.upgrade() else { return };
            if Instant::now() >= next {
                // What was not in time is left out.
                next = Instant::now() + every;
                self.sample(shared);
            } else {
                drop(shared);
            }
            self.send();
            thread::sleep(NAP.min(every));
        }
    }

    fn sample(&mut self, shared: Arc<Shared>) {
        let node = shared.config.node.clone();
        let now_ns = now_ns();
        let Ok(answer) = Answers::new(shared).metrics(Viewer::All, &Asked::default(), Format::Text) else {
            return;
        };
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let at_ms = (now_ns / 1_000_000) as i64;
        for request in write_requests(&text, &self.before, &node, at_ms, MOST_SAMPLES) {
            let n_lost = self.waiting.push(&request);
            self.written.n_lost.fetch_add(n_lost, Ordering::Relaxed);
        }
        self.before = text;
    }

    /// Sends what waits, as far as it is taken.
    fn send(&mut self) {
        while Instant::now() >= self.retry
            && let Some((body, n_samples)) = self.waiting.requests.front()
        {
            let n_samples = *n_samples as u64;
            let sent = send(&self.target, body);
            self.written.is_failing.store(!matches!(sent, Ok(true)), Ordering::Relaxed);
            match sent {
                Ok(is_taken) => {
                    let count = if is_taken { &self.written.n_sent } else { &self.written.n_lost };
                    count.fetch_add(n_samples, Ordering::Relaxed);
                    self.waiting.pop();
                    self.wait = FIRST_WAIT;
                }
                Err(_) => {
                    self.retry = Instant::now() + self.wait;
                    self.wait = (self.wait * 2).min(LONGEST_WAIT);
                }
            }
        }
        self.written.n_waiting.store(self.waiting.n_samples() as u64, Ordering::Relaxed);
    }
}

/// Requests that wait, compressed, with how many samples they hold.
#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<(Vec<u8>, usize)>,
    n_bytes: usize,
}

impl Queue {
    /// Adds a request. Returns how many samples had to go for it.
    fn push(&mut self, request: &WriteRequest) -> u64 {
        let Ok(body) = snap::raw::Encoder::new().compress_vec(&request.bytes) else {
            return request.n_samples as u64; // larger than 4 GiB: never
        };
        self.n_bytes += body.len();
        self.requests.push_back((body, request.n_samples));
        let mut n_lost = 0;
        while self.n_bytes > MOST_BYTES
            && let Some(n_samples) = self.pop()
        {
            n_lost += n_samples as u64;
        }
        n_lost
    }

    fn pop(&mut self) -> Option<usize> {
        let (body, n_samples) = self.requests.pop_front()?;
        self.n_bytes -= body.len();
        Some(n_samples)
    }

    fn n_samples(&self) -> usize {
        self.requests.iter().map(|(_, n_samples)| n_samples).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn what_waits_is_bounded_and_the_oldest_goes_first() {
        let mut queue = Queue::default();
        let mut state = 1u64;
        let mut n_lost = 0;
        for n in 0..40 {
            // What cannot be compressed.
            let bytes = (0..1 << 20).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            });
            n_lost += queue.push(&WriteRequest { bytes: bytes.collect(), n_samples: 1 << n.min(10) });
        }
        assert!(queue.n_bytes <= MOST_BYTES && queue.requests.len() <= 8);
        let n_all: usize = (0..40).map(|n| 1 << n.min(10)).sum();
        assert_eq!(n_lost as usize + queue.n_samples(), n_all);
    }

    #[test]
    fn an_answer_says_whether_to_try_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/write", listener.local_addr().unwrap());
        let answers = ["204 No Content", "400 Bad Request", "429 Too Many Requests", "503 x", "junk"];
        let server = thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut heard = Vec::new();
                while !heard.ends_with(b"body") {
                    let mut buffer = [0; 1024];
                    let n = stream.read(&mut buffer).unwrap();
                    heard.extend_from_slice(&buffer[..n]);
                }
                let heard = String::from_utf8(heard).unwrap();
                assert!(
                    heard.starts_with("POST /write HTTP/1.1\r\n") && heard.contains("Content-Length: 4\r\n")
                );
                let version = if answer == "junk" { "" } else { "HTTP/1.1 " };
                write!(stream, "{version}{answer}\r\n\r\n").unwrap();
            }
        });
        let target = url.parse::<Url>().unwrap();
        let said: Vec<_> = answers.iter().map(|_| send(&target, b"body").ok()).collect();
        assert_eq!(said, [Some(true), Some(false), None, None, None]);
        server.join().unwrap();
        assert!(send(&target, b"body").is_err(), "nobody is there");
    }
}
