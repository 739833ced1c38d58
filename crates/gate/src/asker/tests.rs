use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use iotide_live::Address;
use iotide_private::OwnSocket;
use iotide_sched::Policy;
use iotide_testkit::FreshDir;

use crate::{Arbiter, ArbiterConfig, Gate, Storage, Turns, Who};

const MIB: u64 = 1 << 20;

/// A gate as a mount has it, which holds nobody itself and asks those that `map` names.
fn gate(map: &str, key: Option<&PathBuf>) -> Gate {
    let gate = Gate::open(&Turns::new(Policy::Unscheduled), Storage::default(), Crew::new(4)).unwrap();
    gate.scheduler().ask_first(Arbiters::read(map, Path::new("/scratch"), key).unwrap()).unwrap();
    gate
}

fn listener(path: &Path) -> OwnSocket {
    OwnSocket::bind(path, 0o600, None).unwrap()
}

fn arbiter(listen: &str, key: Option<&PathBuf>) -> Arbiter {
    let turns = Turns::new(Policy::Exclusive);
    let config =
        ArbiterConfig { key: key.cloned(), ..ArbiterConfig::new(listen.parse::<Address>().unwrap(), turns) };
    Arbiter::start(&config).unwrap()
}

/// Has a user write so many MiB from a position on; returns once it was let through and is over.
fn write(gate: &Gate, uid: u32, position: u64, mib: u64) {
    let (done, is_done) = channel();
    let who = Who { thread: 0, uid };
    gate.scheduler().schedule(who, Direction::Write, position, mib * MIB, move |_| done.send(()).unwrap());
    is_done.recv().unwrap();
}

/// Waits until an arbiter has heard of so many MiB of a job; a test that fails waits for ever.
fn wait_for(arbiter: &Arbiter, job: &str, mib: u64) {
    let heard = || arbiter.jobs().iter().find(|seen| seen.job == job).map_or(0, |seen| seen.bytes);
    while heard() != mib * MIB {
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn arbiters_hear_of_every_byte_of_a_mount_by_target_and_by_job() {
    let dir = FreshDir::new("asker-bytes");
    let [a, b] = ["a", "b"].map(|name| format!("unix:{}", dir.join(name).display()));
    let (first, second) = (arbiter(&a, None), arbiter(&b, None));
    let gate = gate(&format!("/scratch={a},{b}@1M"), None);
    for n in 0..5 {
        write(&gate, 4_000_001, 3 * n * MIB, 3);
    }
    write(&gate, 4_000_002, 0, 1);
    wait_for(&first, "uid:4000001/uid:4000001", 8);
    wait_for(&second, "uid:4000001/uid:4000001", 7);
    wait_for(&first, "uid:4000002/uid:4000002", 1);
    let core = gate.scheduler().downgrade();
    drop(gate);
    while core.strong_count() > 0 {
        thread::yield_now();
    }
}

#[test]
fn over_a_network_a_mount_proves_for_whom_it_asks() {
    let dir = FreshDir::new("asker-key");
    let [right, wrong] = ["5a", "5b"].map(|byte| {
        let path = dir.join(byte);
        iotide_private::write_secret(&path, &byte.repeat(32), None).unwrap();
        path
    });
    let arbiter = arbiter("tcp:127.0.0.1:0", Some(&right));
    let map = arbiter.address().to_string();
    // Nobody is held for ever by an arbiter that does not know them, and it hears nothing.
    write(&gate(&map, Some(&wrong)), 1001, 0, 1);
    write(&gate(&map, None), 1001, 0, 1);
    assert!(arbiter.jobs().is_empty());
    let gate = gate(&map, Some(&right));
    write(&gate, 1001, 0, 2);
    write(&gate, 1002, 0, 3);
    wait_for(&arbiter, "uid:1001", 2);
    wait_for(&arbiter, "uid:1002", 3);
}

#[test]
fn data_go_on_without_an_arbiter_that_is_away_hangs_up_or_says_nothing() {
    let dir = FreshDir::new("asker-away");
    let [away, rude, silent, alive] =
        ["away", "rude", "silent", "alive"].map(|name| format!("unix:{}", dir.join(name).display()));
    let _silent = listener(&dir.join("silent"));
    let rude_socket = listener(&dir.join("rude"));
    let rude_one = thread::spawn(move || {
        let (mut caller, _) = rude_socket.listener().accept().unwrap();
        caller.write_all(&GateMessage::Wait.encode()).unwrap();
        let _: UnixStream = caller;
    });
    let alive_one = arbiter(&alive, None);
    let gate = gate(&format!("/scratch={away},{rude},{silent},{alive}@1M"), None);
    for _ in 0..3 {
        write(&gate, 4_000_001, 0, 4);
    }
    rude_one.join().unwrap();
    wait_for(&alive_one, "uid:4000001/uid:4000001", 3);
    // Whoever still waits when the mount ends is let go of.
    let waiting = gate.scheduler().clone();
    drop(gate);
    drop(waiting);
}

#[test]
fn a_grant_that_comes_too_late_is_given_back_and_one_who_waits_is_let_go_in_time() {
    let dir = FreshDir::new("asker-late");
    let path = dir.join("gate");
    let socket = listener(&path);
    let map = format!("unix:{}", path.display());
    let mut arbiters = Arbiters::read(&map, Path::new("/scratch"), None).unwrap();
    arbiters.patience = Duration::from_millis(100);
    let gate = Gate::open(&Turns::new(Policy::Unscheduled), Storage::default(), Crew::new(4)).unwrap();
    gate.scheduler().ask_first(arbiters).unwrap();
    let slow = thread::spawn(move || {
        use std::io::Read;
        let (mut caller, _) = socket.listener().accept().unwrap();
        caller.read_exact(&mut [0; GateHello::SIZE]).unwrap();
        let mut message = [0; GateMessage::SIZE];
        let mut hear = |caller: &mut UnixStream| {
            caller.read_exact(&mut message).unwrap();
            GateMessage::decode(&message).unwrap()
        };
        let GateMessage::Ask { id, .. } = hear(&mut caller) else { panic!("no ask") };
        // The second ask comes once the first was given up.
        let GateMessage::Ask { id: second, .. } = hear(&mut caller) else { panic!("no second ask") };
        let grant = |id| GateMessage::Grant { id, bytes: MIB, lease_ns: 0 }.encode();
        caller.write_all(&grant(id)).unwrap();
        caller.write_all(&grant(second)).unwrap();
        [hear(&mut caller), hear(&mut caller)].map(|message| (message, id, second))
    });
    write(&gate, 1, 0, 1);
    write(&gate, 1, 0, 1);
    let [(first, id, second), (last, ..)] = slow.join().unwrap();
    assert_eq!(first, GateMessage::Done { id, bytes: 0 });
    assert!(matches!(last, GateMessage::Done { id, .. } if id == second));
}
