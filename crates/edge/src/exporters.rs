//! Metrics of others: exporters that are asked now and then, and what programs push. `/metrics` shows them beside ours.
//!
//! A thread for each exporter, so that one that hangs delays no other. What an exporter showed last is shown until it is asked again; when it does
//! not answer, it is shown no more, and that it does not.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_http::{AnswerLimits, Request, Url};
use iotide_ledger::{Exported, Exposition, Kind};
use iotide_private::Limits;

use crate::address::names;
use crate::answer::Viewer;
use crate::refusal::Refusal;
use crate::shared::{Shared, now_ns};
use iotide_daemon::gather::lock;

/// Bytes of an answer; beyond it there is none.
const MOST_ANSWER: u64 = 8 << 20;
/// Bytes that are pushed at once.
pub(crate) const MOST_PUSHED: usize = 256 << 10;
/// An exporter that has not answered after this, or after the time until the next question, does not.
const WITHIN: Duration = Duration::from_secs(10);
/// How soon a thread notices that the daemon ends.
const NAP: Duration = Duration::from_millis(200);
/// The forms of metrics that are read.
const ACCEPT: &str = "Accept: text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5\r\n";
/// What was pushed is shown for so long.
const PUSHED_FOR_NS: u64 = 5 * 60 * 1_000_000_000;
/// Sources that push, of one user and of all.
const SOURCES: Limits = Limits { places: 256, per_user: 16, reserve: 16 };
/// Bytes of the name of a source.
const MOST_NAME: usize = 128;

/// An exporter, as it was last asked.
#[derive(Debug)]
pub(crate) struct Exporter {
    address: Url,
    name: String,
    last: Mutex<Last>,
    n_refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Last {
    /// What it showed, unless it did not answer.
    exported: Option<Arc<Exported>>,
    took_s: f64,
    fault: Option<String>,
}

/// Metrics of others.
#[derive(Debug, Default)]
pub(crate) struct Exporters {
    all: Vec<Arc<Exporter>>,
    pushed: Mutex<BTreeMap<(u32, String), Pushed>>,
    n_left_out: AtomicU64,
}

#[derive(Debug)]
struct Pushed {
    at_ns: u64,
    user: String,
    exported: Arc<Exported>,
}

impl Exporters {
    /// None of them was asked yet.
    pub(crate) fn new(addresses: &[Url]) -> Self {
        let all = addresses.iter().zip(names(addresses)).map(|(address, name)| {
            Arc::new(Exporter {
                address: address.clone(),
                name,
                last: Mutex::default(),
                n_refused: AtomicU64::new(0),
            })
        });
        Self { all: all.collect(), ..Self::default() }
    }

    /// Starts the threads. They end soon after the daemon has; nobody waits for them.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
        for exporter in &shared.exporters.all {
            let (exporter, weak) = (Arc::clone(exporter), Arc::downgrade(shared));
            let every = shared.config.scrape_every;
            let thread = thread::Builder::new().name("iotide-scrape".to_owned());
            thread.spawn(move || exporter.run(&weak, every))?;
        }
        Ok(())
    }

    /// A program says how it is. What it said before under the name of this source is forgotten.
    pub(crate) fn push(&self, uid: u32, user: String, source: &str, text: &[u8]) -> Result<String, Refusal> {
        let refused = |why: &str| Err(Refusal::new(400, why));
        if source.is_empty() || source.len() > MOST_NAME {
            return refused("'source' is a name of at most 128 bytes");
        }
        let Ok(text) = std::str::from_utf8(text) else { return refused("what is pushed is no text") };
        let exported = Exported::read(text);
        if exported.n_samples() == 0 && exported.n_refused > 0 {
            return refused("no line of it is a sample as Prometheus reads it: name{label=\"value\"} number");
        }
        let said = format!("{} samples, {} lines refused\n", exported.n_samples(), exported.n_refused);
        let (mut pushed, at_ns) = (lock(&self.pushed), now_ns());
        pushed.retain(|_, it| at_ns.saturating_sub(it.at_ns) < PUSHED_FOR_NS);
        let key = (uid, source.to_owned());
        if !pushed.contains_key(&key) {
            let of_user = pushed.keys().filter(|(known, _)| *known == uid).count();
            if !SOURCES.allows(uid, of_user, pushed.len()) {
                return Err(Refusal::new(
                    429,
                    "there are too many sources; one is forgotten five minutes after it last pushed",
                ));
            }
        }
        pushed.insert(key, Pushed { at_ns, user, exported: Arc::new(exported) });
        Ok(said)
    }

    /// Adds what a viewer may see: exporters of the machine to those who see all, what was pushed also to who pushed it.
    pub(crate) fn exposition(&self, text: &mut Exposition, node: &str, viewer: Viewer) {
        if [Viewer::Sums, Viewer::Controller].contains(&viewer) {
            return;
        }
        let now_ns = now_ns();
        let pushed: Vec<(String, String, Arc<Exported>)> = lock(&self.pushed)
            .iter()
            .filter(|(_, it)| now_ns.saturating_sub(it.at_ns) < PUSHED_FOR_NS)
            .filter(|((uid, _), _)| viewer.only_uid().is_none_or(|only| only == *uid))
            .map(|((_, source), it)| (it.user.clone(), source.clone(), Arc::clone(&it.exported)))
            .collect();
        let shown: Vec<&Exporter> =
            if viewer == Viewer::All { self.all.iter().map(Arc::as_ref).collect() } else { Vec::new() };
        let answers: Vec<Option<Arc<Exported>>> =
            shown.iter().map(|it| lock(&it.last).exported.clone()).collect();
        let mut family =
            |name: &'static str, kind: Kind, help: &'static str, of: &dyn Fn(&Exporter) -> f64| {
                let mut family = text.family(name, kind, help);
                for exporter in &shown {
                    family.sample_f64(&[("node", node), ("exporter", &exporter.name)], of(exporter));
                }
            };
        family(
            "iotide_exporter_up",
            Kind::Gauge,
            "Whether an exporter answered when it was last asked.",
            &|it| f64::from(u8::from(lock(&it.last).exported.is_some())),
        );
        family("iotide_exporter_seconds", Kind::Gauge, "How long an exporter took to answer.", &|it| {
            lock(&it.last).took_s
        });
        family("iotide_exporter_samples", Kind::Gauge, "Samples that an exporter shows.", &|it| {
            lock(&it.last).exported.as_ref().map_or(0.0, |it| it.n_samples() as f64)
        });
        family(
            "iotide_exporter_refused_total",
            Kind::Counter,
            "Lines of an exporter that could not be read or were too many.",
            &|it| it.n_refused.load(Ordering::Relaxed) as f64,
        );
        if viewer == Viewer::All {
            text.family(
                "iotide_exporter_left_out_samples",
                Kind::Gauge,
                "Samples of names that another exporter uses for another kind of metric, when this was last asked for.",
            )
            .sample(&[("node", node)], self.n_left_out.load(Ordering::Relaxed));
        }
        let mut all: Vec<(Vec<(&str, &str)>, &Exported)> = Vec::new();
        for (exporter, answer) in shown.iter().zip(&answers) {
            if let Some(answer) = answer {
                all.push((vec![("node", node), ("exporter", &exporter.name)], answer));
            }
        }
        for (user, source, exported) in &pushed {
            all.push((vec![("node", node), ("user", user), ("source", source)], exported));
        }
        let n_left_out = text.exported(&all);
        if viewer == Viewer::All {
            self.n_left_out.store(n_left_out, Ordering::Relaxed);
        }
    }

    /// Exporters that do not answer, in words.
    pub(crate) fn faults(&self) -> Vec<String> {
        let fault =
            |it: &Arc<Exporter>| Some(format!("exporter {}: {}", it.name, lock(&it.last).fault.clone()?));
        self.all.iter().filter_map(fault).collect()
    }
}

impl Exporter {
    fn run(&self, shared: &Weak<Shared>, every: Duration) {
        let mut next = Instant::now();
        while shared.strong_count() > 0 {
            if Instant::now() >= next {
                // What was not in time is left out.
                next = Instant::now() + every;
                self.ask(every.min(WITHIN));
            }
            thread::sleep(NAP.min(every));
        }
    }

    fn ask(&self, within: Duration) {
        let began = Instant::now();
        let answer = self.answer(within);
        let took_s = began.elapsed().as_secs_f64();
        let (exported, fault) = match answer {
            Ok(text) => (Some(Arc::new(Exported::read(&text))), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if let Some(exported) = &exported {
            self.n_refused.fetch_add(exported.n_refused, Ordering::Relaxed);
        }
        *lock(&self.last) = Last { exported, took_s, fault };
    }

    fn answer(&self, within: Duration) -> io::Result<String> {
        let request = Request { headers: ACCEPT, ..Request::get(self.address.path()) };
        let answer = iotide_http::ask(&self.address, &request, AnswerLimits::within(within, MOST_ANSWER))?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("it answers with status {}", answer.status)));
        }
        String::from_utf8(answer.body).map_err(|_| io::Error::other("its answer is no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn exporter_of(answers: Vec<Vec<u8>>) -> (Exporter, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut heard = Vec::new();
                while !heard.ends_with(b"\r\n\r\n") {
                    let mut buffer = [0; 1024];
                    let n = stream.read(&mut buffer).unwrap();
                    heard.extend_from_slice(&buffer[..n]);
                }
                assert!(heard.starts_with(b"GET /metrics HTTP/1.1\r\n"));
                // Who is given too much hangs up.
                let _ = stream.write_all(&answer);
            }
        });
        let address: Url = url.parse().unwrap();
        let name = address.authority();
        (Exporter { address, name, last: Mutex::default(), n_refused: AtomicU64::new(0) }, server)
    }

    #[test]
    fn an_exporter_that_does_not_answer_as_it_should_is_shown_no_more() {
        let ok = |body: &str| format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answers = vec![
            ok("a 1\nb{} 2\nwrong\n").into_bytes(),
            b"HTTP/1.1 503 x\r\n\r\n".to_vec(),
            ok("a 2\n").into_bytes(),
            b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\na 1\n".to_vec(),
            b"junk".to_vec(),
            b"HTTP/1.0 200 OK\r\n\r\n\xff 1\n".to_vec(),
            [b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), vec![b'\n'; MOST_ANSWER as usize + (64 << 10)]].concat(),
        ];
        let n = answers.len();
        let (exporter, server) = exporter_of(answers);
        let seen: Vec<(Option<usize>, String)> = (0..n)
            .map(|_| {
                exporter.ask(Duration::from_secs(20));
                let last = lock(&exporter.last);
                (last.exported.as_ref().map(|it| it.n_samples()), last.fault.clone().unwrap_or_default())
            })
            .collect();
        server.join().unwrap();
        let fault = |text: &str| (None, text.to_owned());
        assert_eq!(
            seen,
            [
                (Some(2), String::new()),
                fault("it answers with status 503"),
                (Some(1), String::new()),
                fault("the answer ends early"),
                fault("the head of the answer does not end"),
                fault("its answer is no text"),
                fault("the answer is longer than 8 MiB"),
            ]
        );
        assert_eq!(exporter.n_refused.load(Ordering::Relaxed), 1);
        exporter.ask(Duration::from_secs(1));
        assert!(lock(&exporter.last).fault.is_some(), "nobody is there");
    }

    #[test]
    fn what_is_pushed_belongs_to_who_pushed_it() {
        let exporters = Exporters::default();
        exporters.push(1000, "ada".to_owned(), "sim", b"# TYPE steps counter\nsteps 100\n").unwrap();
        exporters.push(1000, "ada".to_owned(), "sim", b"# TYPE steps counter\nsteps 100\n").unwrap();
        exporters.push(1001, "bob".to_owned(), "sim", b"steps 7\n").unwrap();
        let shown = |viewer| {
            let mut text = Exposition::default();
            exporters.exposition(&mut text, "n1", viewer);
            let text = text.finish();
            let lines = text.lines().filter(|line| line.starts_with("steps"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let (ada, bob) = (
            "steps{node=\"n1\",user=\"ada\",source=\"sim\"} 100",
            "steps{node=\"n1\",user=\"bob\",source=\"sim\"} 7",
        );
        assert_eq!(shown(Viewer::User(1000)), [ada]);
        assert_eq!(shown(Viewer::User(1001)), [bob]);
        assert_eq!(shown(Viewer::All), [ada], "bob does not say that it is a counter");
        assert!(shown(Viewer::Sums).is_empty());
        for (source, text) in [("", "a 1"), ("x", "nothing"), ("x", "\u{1}")] {
            assert!(exporters.push(1, String::new(), source, text.as_bytes()).is_err(), "{source} {text}");
        }
        let of_one =
            (0..40).filter(|n| exporters.push(5, String::new(), &n.to_string(), b"a 1").is_ok()).count();
        assert_eq!(of_one, SOURCES.per_user);
    }
}
