//! Clients that ask without end and never read: whoever serves them must stay small, and must go on answering everybody else.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iotide_testkit::{is_root, program};
use iotide_wire::{GateHello, GateMessage};

use crate::util::Dir;

/// A server that is running; killed when it goes.
struct Server(Child);

impl Server {
    /// Starts it, and waits until it says where it listens.
    fn start<const N: usize>(dir: &Dir, args: [&str; N]) -> Self {
        let mut child = dir.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        words.read_line(&mut said).unwrap();
        assert!(said.starts_with("listening"), "{said}");
        // Whatever else it says is of no interest, and must not keep it.
        std::thread::spawn(move || std::io::copy(&mut words, &mut std::io::sink()));
        Self(child)
    }

    /// How much memory it has used at most, in MB.
    fn peak_mb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long a test that fails waits for an answer that does not come.
const NEVER: Duration = Duration::from_secs(60);

fn connect(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(NEVER)).unwrap();
    socket
}

/// Says `words` over and over and reads nothing, until the server hangs up or takes nothing more for a while.
fn flood(socket: &UnixStream, mut words: impl FnMut(u64) -> Vec<u8>) {
    socket.set_nonblocking(true).unwrap();
    let mut last = Instant::now();
    for i in 0..100_000 {
        let words = words(i);
        let mut rest = &words[..];
        while !rest.is_empty() {
            match (&*socket).write(rest) {
                Ok(n) => {
                    rest = &rest[n..];
                    last = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if last.elapsed() > Duration::from_millis(500) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return,
            }
        }
    }
}

/// Asks at a gate for a MiB, and returns the first answer other than "not yet".
fn asks(gate: &mut UnixStream, id: u64) -> GateMessage {
    gate.write_all(&GateMessage::Ask { id, bytes: 1 << 20, is_write: true }.encode()).unwrap();
    loop {
        let mut message = [0; GateMessage::SIZE];
        gate.read_exact(&mut message).expect("the arbiter answers");
        match GateMessage::decode(&message).unwrap() {
            GateMessage::Wait => {}
            answer => return answer,
        }
    }
}

fn is_served(gate: &mut UnixStream, id: u64) {
    assert!(matches!(asks(gate, id), GateMessage::Grant { id: granted, .. } if granted == id));
    gate.write_all(&GateMessage::Done { id, bytes: 1 << 20 }.encode()).unwrap();
}

fn enter(gate: &Path, job: &str) -> UnixStream {
    let mut socket = connect(gate);
    socket.write_all(&GateHello::new(1, job.as_bytes()).encode()).unwrap();
    socket
}

#[test]
fn programs_that_read_no_grant_keep_no_other_from_its_turn() {
    let dir = Dir::new();
    let arbiter = Server::start(&dir, ["arbiter", "unix:gate", "--control", "control"]);
    let gate = dir.path().join("gate");
    let mut victim = enter(&gate, "victim");
    is_served(&mut victim, 0);
    let before_mb = arbiter.peak_mb();
    let deaf: Vec<UnixStream> = (0..24).map(|i| enter(&gate, &format!("deaf-{i}"))).collect();
    for socket in &deaf {
        // It says that it is done, so that more is granted and nothing waits but the answers.
        flood(socket, |id| {
            let ask = GateMessage::Ask { id, bytes: 1, is_write: true }.encode();
            [ask, GateMessage::Done { id, bytes: 1 }.encode()].concat()
        });
    }
    for id in 1..20 {
        is_served(&mut victim, id);
    }
    // Those who watch are told, too, and those who do not read that keep nobody.
    let control = dir.path().join("control");
    let curious: Vec<UnixStream> = (0..8).map(|_| connect(&control)).collect();
    curious.iter().for_each(|socket| flood(socket, |_| b"jobs\n".repeat(100)));
    let mut other = connect(&control);
    other.write_all(b"jobs\n").unwrap();
    let mut answer = String::new();
    BufReader::new(other).read_line(&mut answer).unwrap();
    assert!(answer.contains("\"job\":\"victim\""), "{answer}");
    is_served(&mut victim, 20);
    let more_mb = arbiter.peak_mb() - before_mb;
    assert!(more_mb < 100, "{more_mb} MB");
}

/// Asks as often as one connection may, goes away, and comes back.
const COMES_BACK: &str = "
import socket, struct
hello = b'iogate01' + struct.pack('<IBxxx', 1, 3) + b'bad'.ljust(48, b'\\0')
asks = b''.join(struct.pack('<IIQQQ', 1, 1, i, 1, 0) for i in range(4000))
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    s.connect('gate')
    try:
        s.sendall(hello + asks)
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536): pass
    except OSError: pass
    s.close()
";

#[test]
fn what_was_asked_for_by_those_who_have_gone_counts() {
    if !is_root() {
        return;
    }
    let (Some(setpriv), true) = (program("setpriv"), Path::new("/usr/bin/python3").exists()) else { return };
    let dir = Dir::new();
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), everyone).unwrap();
    // Whoever comes first keeps the turn for as long as this test lasts.
    let arbiter = Server::start(
        &dir,
        [
            "arbiter",
            "unix:gate",
            "--socket-mode",
            "666",
            "--policy",
            "exclusive",
            "--phase-gap=1h",
            "--lull=1h",
        ],
    );
    let mut victim = enter(&dir.path().join("gate"), "victim");
    is_served(&mut victim, 0);
    let before_mb = arbiter.peak_mb();
    let mut attack = Command::new(setpriv);
    attack.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", COMES_BACK]);
    assert!(attack.current_dir(dir.path()).status().unwrap().success());
    is_served(&mut victim, 1);
    let more_mb = arbiter.peak_mb() - before_mb;
    assert!(more_mb < 64, "{more_mb} MB");
}

#[test]
fn those_who_ask_a_follower_and_do_not_read_keep_no_other_from_its_answer() {
    let dir = Dir::new();
    let follower = Server::start(&dir, ["detect", "--listen", "unix:live"]);
    let live = dir.path().join("live");
    let deaf: Vec<UnixStream> = (0..24).map(|_| connect(&live)).collect();
    let before_mb = follower.peak_mb();
    deaf.iter().for_each(|socket| flood(socket, |_| b"watch\n".repeat(1000)));
    let mut other = connect(&live);
    other.write_all(b"latest\n").unwrap();
    let mut answer = String::new();
    BufReader::new(other).read_line(&mut answer).unwrap();
    assert!(answer.ends_with('\n'), "{answer}");
    let more_mb = follower.peak_mb() - before_mb;
    assert!(more_mb < 100, "{more_mb} MB");
}
