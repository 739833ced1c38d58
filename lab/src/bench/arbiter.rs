//! Costs of an arbiter for jobs that all move data: memory of each, and CPU time of a request.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use iotide_wire::{GateChallenge, GateClaim, GateHello, GateKey, GateMessage, key_bytes};

use super::{Bed, Goal, Line};
use crate::product::Server;

const N_JOBS: u32 = 1000;
/// Of one user no more than 256 jobs are kept apart.
const JOBS_OF_USER: u32 = 125;
const REQUEST: u64 = 1 << 20;
const MEASURED: Duration = Duration::from_secs(60);
const KEY: &str = "6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1";

/// A thousand jobs that ask in turn, for a minute.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let said = |error: std::io::Error| error.to_string();
    let key_file = bed.folder.join("site.key");
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&key_file).map_err(said)?;
    writeln!(file, "{KEY}").map_err(said)?;
    let site = key_bytes(KEY.as_bytes()).ok_or("the key is none")?;
    // Whoever takes it in between makes this fail, and nothing worse.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(said)?;
    let mut command = Command::new(&bed.iotide);
    command.args(["arbiter", &format!("tcp:{port}"), "--key"]).arg(&key_file);
    let (arbiter, _stderr) = Server::start(command, None, "listening")?;
    let before_mb = resident_mb(arbiter.id())?;
    let mut programs: Vec<TcpStream> = (0..N_JOBS)
        .map(|job| {
            let mut stream = TcpStream::connect(port).map_err(said)?;
            stream.set_nodelay(true).map_err(said)?;
            prove(&mut stream, &site, job)?;
            Ok(stream)
        })
        .collect::<Result<_, String>>()?;
    let (began, cpu_before_s) = (Instant::now(), cpu_s(arbiter.id())?);
    let mut n_requests = 0;
    while began.elapsed() < MEASURED {
        for program in &mut programs {
            n_requests += 1;
            ask(program, n_requests)?;
        }
    }
    let each_us = (cpu_s(arbiter.id())? - cpu_before_s) * 1e6 / n_requests as f64;
    let mb = resident_mb(arbiter.id())? - before_mb;
    eprintln!("arbiter: {n_requests} requests of {N_JOBS} jobs in {:.0} s", began.elapsed().as_secs_f64());
    let line = |what: &str, unit, iotide, goal| Line {
        what: format!("arbiter, {N_JOBS} jobs: {what}"),
        unit,
        iotide,
        peer: None,
        goal,
    };
    Ok(vec![
        line("CPU a request", "µs", each_us, Goal::AtMost(40.0)),
        line("memory", "MB", mb, Goal::AtMost(40.0)),
    ])
}

/// Says who asks, and proves it.
fn prove(stream: &mut TcpStream, site: &[u8; 32], job: u32) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let user = 10_000 + job / JOBS_OF_USER;
    let mut nonce = [0; 32];
    nonce[..4].copy_from_slice(&job.to_le_bytes());
    let claim = GateClaim { hello: GateHello::new(1, job.to_string().as_bytes()), user, nonce };
    stream.write_all(&claim.encode()).map_err(said)?;
    let mut challenge = [0; GateChallenge::SIZE];
    stream.read_exact(&mut challenge).map_err(said)?;
    let proof = GateChallenge::answer(&challenge, &GateKey::of_user(site, user), &claim);
    stream.write_all(&proof.ok_or("the arbiter does not know the key")?).map_err(said)
}

/// One request, from the question to its end.
fn ask(stream: &mut TcpStream, id: u64) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    stream.write_all(&GateMessage::Ask { id, bytes: REQUEST, is_write: true }.encode()).map_err(said)?;
    let mut answer = [0; GateMessage::SIZE];
    loop {
        stream.read_exact(&mut answer).map_err(said)?;
        match GateMessage::decode(&answer) {
            Some(GateMessage::Wait) => {}
            Some(GateMessage::Grant { .. }) => break,
            other => return Err(format!("instead of a grant: {other:?}")),
        }
    }
    stream.write_all(&GateMessage::Done { id, bytes: REQUEST }.encode()).map_err(said)
}

fn resident_mb(process: u32) -> Result<f64, String> {
    let status = read(process, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(kib.ok_or("no VmRSS")? * 1024.0 / 1e6)
}

/// User and system time of all threads.
fn cpu_s(process: u32) -> Result<f64, String> {
    let stat = read(process, "stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no stat")?.1.split_whitespace().collect();
    // Fields 14 and 15 of proc(5), of which two are gone; in hundredths of a second.
    let ticks: Option<u64> = [11, 12].iter().map(|&at| fields.get(at)?.parse::<u64>().ok()).sum();
    Ok(ticks.ok_or("no times")? as f64 / 100.0)
}

fn read(process: u32, file: &str) -> Result<String, String> {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).map_err(|error| error.to_string())
}
