//! Many users beside one another, one of whom means harm: what they share is divided.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::{Alive, FreshDir, Missing, is_root, program, skip};
use iotide_wire::page::{About, PageText, Texts, lane_at};

use super::{Daemon, IOTIDE, unix_get};

/// One means harm, the other does not.
const ATTACKER: u32 = 65534;
const VICTIM: u32 = 1;

/// Writes the page of a process that runs.
fn forge(pages: &Path, job: &str, uid: u32, process: &Alive) {
    let pid = process.0.id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start_ticks = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
    let mut texts = Texts::default();
    texts.set(PageText::Job, job.as_bytes());
    let about = About { n_lanes: 1, pid, start_ticks, uid, texts, ..About::default() };
    let path = pages.join(format!("{job}.page"));
    let file = File::create(&path).unwrap();
    file.set_len(lane_at(1) as u64).unwrap();
    chown(&path, Some(uid), None).unwrap();
    // Last, as the tracer does: what is not whole yet is looked at again.
    file.write_all_at(&about.whole_header(1), 0).unwrap();
}

#[test]
fn with_few_descriptors_a_thousand_pages_of_one_user_leave_room_for_another_and_for_http() {
    if !is_root() {
        return;
    }
    let dir = FreshDir::new("crowds-descriptors");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 512 && exec \"$0\" \"$@\"", IOTIDE]);
    let daemon = Daemon::start_by(&dir, command);
    let (alive, victim) = (Alive::of(ATTACKER), Alive::of(VICTIM));
    (0..1000).for_each(|index| forge(&dir.join("pages"), &format!("u{index:03}"), ATTACKER, &alive));
    forge(&dir.join("pages"), "victim", VICTIM, &victim);
    daemon.job("victim", "running");
    let refused = "iotide_daemon_refused_total{resource=\"descriptors\",uid=\"65534\"} ";
    loop {
        let (status, metrics) = unix_get(&dir, "/metrics");
        assert_eq!(status, 200);
        assert_eq!(daemon.get_tcp("/metrics", "").0, 200);
        if metrics.contains(refused) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let losses = unix_get(&dir, "/api/1/losses").1;
    assert!(losses.contains("the daemon may open too few files"), "{losses}");
    let n_open = fs::read_dir(format!("/proc/{}/fd", daemon.child.id())).unwrap().count();
    assert!(n_open < 300, "{n_open} of 512 descriptors are in use");
}

#[test]
fn a_full_directory_of_pages_is_said_by_record_and_among_the_losses() {
    if program("unshare").is_none() || !is_root() {
        return;
    }
    let dir = FreshDir::new("crowds-full");
    fs::create_dir(dir.join("pages")).unwrap();
    let script = "mount -t tmpfs -o size=1m,mode=1733 none \"$0\" && exec \"$@\"";
    let around = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(dir.join("pages")).arg(program);
        command
    };
    if !around("true").output().unwrap().status.success() {
        return skip(Missing::Data, "of a tmpfs of its own: no right to mount one");
    }
    let daemon = Daemon::start_by(&dir, around(IOTIDE));
    // The daemon's own view of its pages.
    let pages = PathBuf::from(format!("/proc/{}/root{}", daemon.child.id(), dir.join("pages").display()));
    let write = |job: &str| {
        let mut command = Command::new(IOTIDE);
        command.args(["record", "--live", "--", "sh", "-c", "echo x > out"]).current_dir(dir.path());
        command.env_remove("LD_PRELOAD").env("IOTIDE_LIVE", &pages).env("IOTIDE_JOB_ID", job);
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let mut ballast = File::create(pages.join("ballast")).unwrap();
    while ballast.write_all(&[b'x'; 4096]).is_ok() {}
    let said = write("without");
    assert!(said.contains("without counters") && said.contains("No space left"), "{said}");
    loop {
        let losses = unix_get(&dir, "/api/1/losses").1;
        if losses.contains("1 time the page directory was full") {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    ballast.set_len(0).unwrap();
    write("with");
    daemon.job("with", "ended");
}

/// Over loopback all users have one address: questions of one, without a name, do not count as those of another.
#[test]
fn anonymous_questions_of_one_user_over_loopback_keep_no_other_from_asking() {
    let Some(python) = program("/usr/bin/python3") else { return };
    if !is_root() {
        return;
    }
    const FLOOD: &str = "import http.client, sys\nc = http.client.HTTPConnection(sys.argv[1], timeout=60)\nwhile True:\n    c.request('GET', '/metrics')\n    r = c.getresponse()\n    r.read()\n    if r.status == 429: print('refused', flush=True)";
    let dir = FreshDir::new("crowds-loopback");
    let daemon = Daemon::start(&dir);
    let mut flood = Command::new(python);
    flood.args(["-c", FLOOD, &daemon.http]).uid(ATTACKER).current_dir("/").stdout(Stdio::piped());
    let mut flood = Alive(flood.spawn().unwrap());
    let mut said = BufReader::new(flood.0.stdout.take().unwrap()).lines();
    for _ in 0..20 {
        assert_eq!(said.next().unwrap().unwrap(), "refused");
        assert_eq!(daemon.get_tcp("/metrics", "").0, 200);
    }
}
