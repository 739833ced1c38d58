//! Waiting times of a controller: evaluations in frames, while jobs run and end and models are fitted again; and the same question over HTTP.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use iotide_wire::{RPC_MAGIC, RpcFields, RpcHeader, RpcKind, put_rpc_text};

use super::serve::Daemon;
use super::{Bed, Goal, Line};

/// How long each figure is measured.
const MEASURED: Duration = Duration::from_secs(8);
/// From the end of a job to the start of the next.
const BETWEEN_JOBS: Duration = Duration::from_millis(40);
/// Runs before the measurement: models rest on them.
const SIZES: [u32; 6] = [1, 2, 3, 5, 8, 13];

/// Wall times of single questions and evaluations a second, with jobs and fits beside.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let daemon = Daemon::start_with(bed, "rpc", &[])?;
    for (n, size) in SIZES.into_iter().enumerate() {
        run(bed, &daemon, &format!("first-{n}"), size)?;
    }
    let began = Instant::now();
    let mut client = Client::connect(&daemon)?;
    let handle = loop {
        match client.resolve("writer", "stdio->write", "size") {
            Ok(handle) => break handle,
            Err(why) if began.elapsed() > Duration::from_secs(60) => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let (is_over, n_runs) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Jobs that end all the time, and with each end a fit, as far as the daemon allows itself. Not as fast as one can start them: on two cores a controller
        // would wait for the processor rather than for the daemon.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let n = n_runs.fetch_add(1, Ordering::Relaxed);
                let size = SIZES[n as usize % SIZES.len()];
                if run(bed, &daemon, &format!("beside-{n}"), size).is_err() {
                    return;
                }
                std::thread::sleep(BETWEEN_JOBS);
            }
        });
        let measured = measure(&daemon, &mut client, handle);
        is_over.store(true, Ordering::Relaxed);
        measured
    })
}

fn measure(daemon: &Daemon, client: &mut Client, handle: u32) -> Result<Vec<Line>, String> {
    let first = client.evaluate(handle, 1)?;
    let (mut single, mut last) = (Vec::new(), first);
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        let asked = Instant::now();
        last = client.evaluate(handle, 1)?;
        single.push(asked.elapsed());
        // As a controller asks: now and then, not without a break.
        std::thread::sleep(Duration::from_micros(200));
    }
    let n_fits = last - first;
    if n_fits == 0 {
        return Err("no model was fitted anew meanwhile".to_owned());
    }
    let mut n_values = 0.0;
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        client.evaluate(handle, RpcHeader::MAX_POINTS)?;
        n_values += RpcHeader::MAX_POINTS as f64;
    }
    let each_ns = began.elapsed().as_secs_f64() * 1e9 / n_values;
    let mut http = http(daemon)?;
    let rank = |times: &mut Vec<Duration>, share: f64| {
        times.sort_unstable();
        times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6
    };
    eprintln!("rpc: {} single evaluations, {} over HTTP, {n_fits} fits meanwhile", single.len(), http.len());
    let line = |what: &str, unit: &'static str, iotide: f64, peer: Option<f64>, goal: Goal| Line {
        what: format!("rpc: {what}"),
        unit,
        iotide,
        peer,
        goal,
    };
    let (median, late) = (rank(&mut http, 0.5), rank(&mut http, 0.99));
    Ok(vec![
        line("one evaluation, p50 (peer: HTTP)", "µs", rank(&mut single, 0.5), Some(median), Goal::None),
        line(
            "one evaluation, p99 (peer: HTTP)",
            "µs",
            rank(&mut single, 0.99),
            Some(late),
            Goal::AtMost(200.0),
        ),
        // A million a second.
        line("an evaluation, 1,024 in a message", "ns", each_ns, None, Goal::AtMost(1000.0)),
    ])
}

/// The same question over HTTP, on one connection.
fn http(daemon: &Daemon) -> Result<Vec<Duration>, String> {
    let failed = |error: std::io::Error| format!("HTTP: {error}");
    let mut times = Vec::new();
    let mut stream = UnixStream::connect(daemon.folder.join("socket")).map_err(failed)?;
    let question = "GET /api/1/evaluate?app=writer&callpath=stdio-%3Ewrite&metric=size&at=size=64 HTTP/1.1\r\nHost: x\r\n\r\n";
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        let asked = Instant::now();
        stream.write_all(question.as_bytes()).map_err(failed)?;
        let mut answer = Vec::new();
        // One line of JSON ends the answer.
        while !answer.ends_with(b"}\n") {
            let mut piece = [0; 4096];
            let n = stream.read(&mut piece).map_err(failed)?;
            if n == 0 {
                return Err("HTTP: the connection ended".to_owned());
            }
            answer.extend_from_slice(&piece[..n]);
        }
        times.push(asked.elapsed());
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(times)
}

/// A run of the application `writer`, from its begin to its end.
fn run(bed: &Bed, daemon: &Daemon, id: &str, size: u32) -> Result<(), String> {
    let library = bed.iotide.with_file_name("deps").join("libiotide.so");
    let mut command = Command::new("head");
    command.args(["-c", &(size * 100_000).to_string(), "/dev/zero"]);
    command.env("LD_PRELOAD", library).env("IOTIDE_LIVE", daemon.folder.join("pages"));
    command.env("IOTIDE_JOB_ID", id).env("IOTIDE_APP", "writer");
    command.env("PMI_RANK", "0").env("PMI_SIZE", size.to_string());
    let out =
        std::fs::File::create(daemon.folder.join("files").join(id)).map_err(|error| error.to_string())?;
    let status = command.stdout(Stdio::from(out)).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("a run failed: {status}")) }
}

struct Client(UnixStream);

impl Client {
    fn connect(daemon: &Daemon) -> Result<Self, String> {
        let connect = || {
            let mut stream = UnixStream::connect(daemon.folder.join("socket.rpc"))?;
            stream.write_all(&RPC_MAGIC)?;
            Ok(Self(stream))
        };
        connect().map_err(|error: std::io::Error| format!("RPC: {error}"))
    }

    fn ask(&mut self, kind: RpcKind, payload: &[u8], expected: RpcKind) -> Result<Vec<u8>, String> {
        let head = RpcHeader { payload: payload.len(), kind: kind as u8, flags: 0, id: 1 };
        let mut talk = || {
            self.0.write_all(&[&head.encode(), payload].concat())?;
            let mut head = [0; RpcHeader::SIZE];
            self.0.read_exact(&mut head)?;
            let header = RpcHeader::decode(&head, RpcHeader::MAX_FRAME);
            let header = header.ok_or(std::io::ErrorKind::InvalidData)?;
            let mut answer = vec![0; header.payload];
            self.0.read_exact(&mut answer)?;
            Ok((header.kind, answer))
        };
        let (kind, answer) = talk().map_err(|error: std::io::Error| format!("RPC: {error}"))?;
        if kind == expected as u8 { Ok(answer) } else { Err(String::from_utf8_lossy(&answer).into_owned()) }
    }

    fn resolve(&mut self, app: &str, callpath: &str, metric: &str) -> Result<u32, String> {
        let mut payload = vec![0];
        [app, callpath, metric].iter().for_each(|text| put_rpc_text(&mut payload, text));
        payload.push(0);
        let answer = self.ask(RpcKind::Resolve, &payload, RpcKind::Resolved)?;
        RpcFields(&answer).u32().ok_or_else(|| "the answer is cut".to_owned())
    }

    /// Evaluates so many points; returns the generation of the models.
    fn evaluate(&mut self, handle: u32, n: usize) -> Result<u64, String> {
        let mut payload = handle.to_le_bytes().to_vec();
        payload.extend((n as u32).to_le_bytes());
        (0..n).for_each(|i| payload.extend((64.0 + i as f64).to_le_bytes()));
        let answer = self.ask(RpcKind::Evaluate, &payload, RpcKind::Values)?;
        let mut fields = RpcFields(&answer);
        let generation = fields.u64().filter(|_| answer.len() == 12 + 8 * n);
        generation.ok_or_else(|| "the answer is cut".to_owned())
    }
}
