use std::io::{BufRead, BufReader, Read, Write};
use std::thread;

use iotide_private::OwnSocket;
use iotide_testkit::FreshDir;
use iotide_wire::{RpcHeader, RpcKind, RpcRhythm};

use super::*;

fn parse(text: &str) -> Result<Source, String> {
    Source::parse(text, || ("/run/own".into(), true))
}

#[test]
fn sources_are_told_apart_by_how_they_are_written() {
    assert_eq!(parse("jobs.csv"), Ok(Source::Path("jobs.csv".into())));
    assert_eq!(parse("daemon"), Ok(Source::Daemon { socket: "/run/own".into(), is_ours: true }));
    assert_eq!(parse("daemon:/x"), Ok(Source::Daemon { socket: "/x".into(), is_ours: false }));
    assert_eq!(parse("unix:/x"), Ok(Source::Detector(Address::Unix("/x".into()))));
    for wrong in ["", "daemon:", "tcp:x", "unix:", "zmq:tcp://*:5555"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_table_is_read_or_named_with_its_fault() {
    let dir = FreshDir::new("source-table");
    let ask = |text: &str| Source::Path(dir.write("jobs.csv", text)).ask();
    let jobs = ask("job,seconds\n7,20\n8,\n").unwrap();
    let about: Vec<_> = jobs.iter().map(|job| (job.job.as_str(), job.period_s, job.confidence)).collect();
    assert_eq!(about, [("7", Some(20.0), None), ("8", None, None)]);
    let error = ask("7,soon\n").unwrap_err().to_string();
    assert!(error.ends_with("jobs.csv: line 1: \"soon\" is no positive time"), "{error}");
    let error = Source::Path(dir.join("none")).ask().unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}

/// Answers the first question of each caller with some bytes, and hangs up.
fn answering(dir: &FreshDir, name: &str, answer: Vec<u8>) {
    let listener = OwnSocket::bind(&dir.join(name), 0o600, None).unwrap();
    thread::spawn(move || {
        for caller in listener.listener().incoming() {
            let mut caller = caller.unwrap();
            let _ = caller.read(&mut [0; 64]);
            let _ = caller.write_all(&answer);
        }
    });
}

fn frame(kind: RpcKind, payload: &[u8]) -> Vec<u8> {
    let head = RpcHeader { payload: payload.len(), kind: kind as u8, flags: 0, id: 1 };
    [&head.encode()[..], payload].concat()
}

#[test]
fn a_daemon_says_rhythms_and_whatever_else_it_says_is_strange() {
    let dir = FreshDir::new("source-daemon");
    let rhythm = RpcRhythm {
        job: "7",
        uid: 1000,
        period_s: 20.0,
        confidence: 0.9,
        age_s: 1.0,
        start_in_s: 5.0,
        earliest_in_s: 4.0,
        latest_in_s: 6.0,
        duration_s: 2.0,
        bytes: 1e9,
        idle_probability: 0.8,
    };
    let mut payload = 2u32.to_le_bytes().to_vec();
    rhythm.put(&mut payload);
    RpcRhythm { job: "8", period_s: f64::NAN, confidence: f64::NAN, age_s: f64::NAN, ..rhythm }
        .put(&mut payload);
    answering(&dir, "good.rpc", frame(RpcKind::RhythmsNow, &payload));
    let good = Source::Daemon { socket: dir.join("good"), is_ours: true };
    let jobs = good.ask().unwrap();
    assert_eq!((jobs[0].uid, jobs[0].period_s, jobs[0].age_s), (Some(1000), Some(20.0), 1.0));
    let forecast = jobs[0].forecast.unwrap();
    assert_eq!((forecast.at_s, forecast.start_s, forecast.start_interval_s), (-1.0, 5.0, (4.0, 6.0)));
    assert_eq!((jobs[1].period_s, jobs[1].confidence, jobs[1].forecast), (None, Some(0.0), None));
    for (name, answer, said) in [
        ("cut", frame(RpcKind::RhythmsNow, &payload[..20]), "its answer is cut"),
        ("other", frame(RpcKind::LoadNow, &[0; 28]), "it answers another question"),
        ("refused", frame(RpcKind::Refused, b"\x90\x01\x02\x00no"), "it refuses: no"),
        ("web", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "what it says is no frame"),
        ("short", b"HTTP".to_vec(), "does not answer"),
    ] {
        answering(&dir, &format!("{name}.rpc"), answer);
        let error = Source::Daemon { socket: dir.join(name), is_ours: false }.ask().unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
    let error = Source::Daemon { socket: dir.join("nobody"), is_ours: false }.ask().unwrap_err();
    assert!(matches!(error, SourceError::Silent { .. }), "{error}");
}

#[test]
fn a_socket_is_asked_for_jobs_whoever_listens_there() {
    let dir = FreshDir::new("source-line");
    answering(&dir, "detector", b"{\"jobs\":[]}\n".to_vec());
    assert_eq!(Source::Path(dir.join("detector")).ask().unwrap(), []);
    answering(&dir, "refuses", b"{\"error\":\"not you\"}\n".to_vec());
    let error = Source::Path(dir.join("refuses")).ask().unwrap_err().to_string();
    assert!(error.ends_with("gives no list of jobs: {\"error\":\"not you\"}"), "{error}");
    answering(&dir, "hangs up", Vec::new());
    assert!(matches!(Source::Path(dir.join("hangs up")).ask(), Err(SourceError::Silent { .. })));
}

#[test]
fn one_that_accepts_nobody_or_says_little_is_given_up_on() {
    let dir = FreshDir::new("source-slow");
    let within = Duration::from_millis(50);
    let address = Address::Unix(dir.join("full"));
    let _listener = OwnSocket::bind(&dir.join("full"), 0o600, None).unwrap();
    // Until its queue is full, and then once more.
    let mut held = Vec::new();
    let error = loop {
        match Line::connect(&address, within, 100) {
            Ok(line) => held.push(line),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
    let error = held[0].ask_line(b"jobs\n").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    // One that sends for ever.
    let listener = OwnSocket::bind(&dir.join("long"), 0o600, None).unwrap();
    let sending = thread::spawn(move || {
        let (mut caller, _) = listener.listener().accept().unwrap();
        BufReader::new(caller.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
        while caller.write_all(&[b'x'; 1000]).is_ok() {}
    });
    let mut line = Line::connect(&Address::Unix(dir.join("long")), WITHIN, 5000).unwrap();
    assert_eq!(line.ask_line(b"jobs\n").unwrap_err().to_string(), "the answer is too long");
    drop(line);
    sending.join().unwrap();
}
