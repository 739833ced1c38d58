//! The live connection: a listener gets blocks as they fill; without one, or with a slow one, the file does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iotide_wire::BlockHeader;

use crate::support::{Moved, Process, Trace, compile_c, directory, run};

/// Runs a program that writes 5000 times, with the stream going to `target`.
fn write_much(directory: &Path, program: &Path, target: &str) -> Output {
    let mut command = Command::new("env");
    command.arg(format!("IOTIDE_STREAM={target}")).arg(program).args(["return", "5000"]);
    let output = run(directory, command);
    assert!(output.status.success());
    output
}

/// Takes one connection at a unix socket and everything that comes on it.
fn listen_at(socket: &Path) -> JoinHandle<Vec<u8>> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || everything(listener.accept().unwrap().0))
}

fn everything(mut connection: impl Read) -> Vec<u8> {
    let mut received = Vec::new();
    connection.read_to_end(&mut received).unwrap();
    received
}

/// Checks the blocks of a connection and those of the file together: each block is in one of them.
fn check(directory: &Path, output: &Output, received: &[u8], all_received: bool) {
    let listened = Process::from_bytes(received);
    let file = Trace::read(&directory.join("trace"));
    if all_received {
        let said = Moved::said(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(Trace(vec![listened]).moved(), said);
        assert_eq!(file.records().count(), 0, "what the listener has, the file need not keep");
    } else {
        let n = listened.records.len() + file.records().count();
        assert_eq!(n as u64, file.0[0].end.or(listened.end).unwrap().n_records);
    }
}

#[test]
fn a_listener_on_a_unix_socket_gets_everything() {
    let Some(program) = compile_c("ends.c") else { return };
    let directory = directory("stream_unix");
    let socket = directory.join("socket");
    let listening = listen_at(&socket);
    let output = write_much(&directory, &program, &format!("unix:{}", socket.display()));
    check(&directory, &output, &listening.join().unwrap(), true);
}

#[test]
fn a_listener_on_a_tcp_port_gets_everything() {
    let Some(program) = compile_c("ends.c") else { return };
    let directory = directory("stream_tcp");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listening = thread::spawn(move || everything(listener.accept().unwrap().0));
    let output = write_much(&directory, &program, &format!("tcp:{address}"));
    check(&directory, &output, &listening.join().unwrap(), true);
}

#[test]
fn what_a_listener_that_does_not_read_leaves_is_in_the_file() {
    let Some(program) = compile_c("ends.c") else { return };
    let directory = directory("stream_slow");
    let socket = directory.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // The connection comes about by itself; nobody reads until the program has ended.
    let output = write_much(&directory, &program, &format!("unix:{}", socket.display()));
    check(&directory, &output, &everything(listener.accept().unwrap().0), false);
}

#[test]
fn blocks_of_many_threads_stay_whole_for_a_listener_that_reads_slowly() {
    let Some(program) = compile_c("threads.c") else { return };
    let directory = directory("stream_threads");
    let socket = directory.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    // Each connection until the next one comes, in sips.
    let listening = thread::spawn(move || {
        let mut connections = Vec::new();
        loop {
            let (mut connection, mut received) = (listener.accept().unwrap().0, Vec::new());
            let mut sip = [0; 3000];
            while let n @ 1.. = connection.read(&mut sip).unwrap() {
                received.extend_from_slice(&sip[..n]);
                thread::sleep(Duration::from_micros(300));
            }
            if received == b"over" {
                return connections;
            }
            connections.push(Process::from_bytes(&received));
        }
    });
    let mut command = Command::new("env");
    command.arg(format!("IOTIDE_STREAM=unix:{}", socket.display())).arg(program).arg("30000");
    let output = run(&directory, command);
    assert!(output.status.success());
    UnixStream::connect(&socket).unwrap().write_all(b"over").unwrap();
    let connections = listening.join().unwrap();
    for connection in &connections {
        // A block that was not taken in time is cut; it stands in the file.
        assert!(connection.n_damaged < BlockHeader::SIZE + 64 * 1024, "{} bytes", connection.n_damaged);
        assert_ne!(connection.pid, 0, "the facts come first");
    }
    let mut all = Trace::read(&directory.join("trace"));
    all.0.extend(connections);
    assert_eq!(all.moved(), Moved::said(&String::from_utf8_lossy(&output.stdout)));
}

#[test]
fn with_keep_the_file_has_what_the_listener_has() {
    let Some(program) = compile_c("ends.c") else { return };
    let directory = directory("stream_keep");
    let socket = directory.join("socket");
    let listening = listen_at(&socket);
    let mut command = Command::new("env");
    command.arg(format!("IOTIDE_STREAM=unix:{}", socket.display())).arg("IOTIDE_KEEP=1");
    command.arg(&program).args(["return", "5000"]);
    let output = run(&directory, command);
    let listened = Process::from_bytes(&listening.join().unwrap());
    let file = Trace::read(&directory.join("trace"));
    file.assert_whole();
    assert_eq!(file.moved(), Moved::said(&String::from_utf8_lossy(&output.stdout)));
    assert_eq!(listened.records.len(), file.records().count());
}

#[test]
fn without_a_listener_everything_is_in_the_file() {
    let Some(program) = compile_c("ends.c") else { return };
    let directory = directory("stream_none");
    let output = write_much(&directory, &program, "unix:/no/such/socket");
    let trace = Trace::read(&directory.join("trace"));
    trace.assert_whole();
    assert_eq!(trace.moved(), Moved::said(&String::from_utf8_lossy(&output.stdout)));
}
