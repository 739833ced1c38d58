use super::*;
use iotide_ledger::{Cell, Counters, Metric, Name, SystemCounter};

pub(crate) fn document() -> JobDocument {
    let entry = JobEntry {
        job: "4711".into(),
        user: "ada".into(),
        app: "0123456789abcdef".into(),
        name: "lmp".into(),
        program: "lmp".into(),
        partition: "".into(),
        size: 4,
        nodes: vec!["n1".into()],
        state: JobState::Running,
        trust: Trust::Claimed,
        start_unix_s: 1_700_000_000.0,
        end_unix_s: None,
        read_bps: Some(0.0),
        write_bps: Some(2e9),
        cpu_s: None,
        memory_bytes: None,
        period_s: None,
        next_phase_unix_s: None,
        bytes_per_phase: None,
        confidence: None,
        losses: Vec::new(),
        staging: Vec::new(),
    };
    JobDocument {
        entry,
        uid: 1000,
        command: "lmp -in evil\u{1b}[31m\nname".into(),
        run_dir: "/home/ada".into(),
        account: "".into(),
        alias: "".into(),
        cluster: "".into(),
        n_running: 4,
        n_killed: 0,
        io: JobIo::default(),
        mpi: JobMpi::default(),
        time: JobTime::default(),
        own: Vec::new(),
        build: "0123456789abcdef".into(),
        parameters: "nx=512".into(),
        cgroup: None,
        earlier: Vec::new(),
        rates: None,
        run_time_s: None,
        why: None,
        issues: None,
    }
}

fn counters() -> Counters {
    let name = |text: &str| Name::cut(text.as_bytes());
    let io = |op: &str, layer: &str| Metric::Io { op: op.into(), layer: layer.into(), fs: name("/scratch") };
    [
        (io("write", "posix"), Cell { calls: 10, bytes: 5_000_000_123, ns: 2_000_000_000 }),
        (io("write", "beneath"), Cell { calls: 7, bytes: 9, ns: 1 }),
        (io("open", "posix"), Cell { calls: 4, bytes: 0, ns: 1_000_000_000 }),
        (Metric::Mpi { function: "MPI_Bcast".into() }, Cell { calls: 3, bytes: 96, ns: 1_000_000_000 }),
        (Metric::Threads, Cell { calls: 0, bytes: 0, ns: 40_000_000_000 }),
        (Metric::Lost, Cell { calls: 2, bytes: 0, ns: 0 }),
    ]
    .into_iter()
    .collect()
}

#[test]
fn words_of_a_newer_daemon_are_read_with_care() {
    let json = document().to_json();
    for (ours, state) in
        [("running", JobState::Running), ("ended", JobState::Ended), ("lost", JobState::Partial)]
    {
        let json = json.replace("\"state\": \"running\"", &format!("\"state\": \"{ours}\""));
        assert_eq!(JobDocument::from_json(json.as_bytes()).unwrap().entry.state, state);
    }
    for (ours, trust) in [("cgroup", Trust::Cgroup), ("claimed", Trust::Claimed), ("signed", Trust::Claimed)]
    {
        let json = json.replace("\"trust\": \"claimed\"", &format!("\"trust\": \"{ours}\""));
        assert_eq!(JobDocument::from_json(json.as_bytes()).unwrap().entry.trust, trust);
    }
}

#[test]
fn each_number_of_the_system_has_one_field() {
    let cell = Cell { calls: 3, bytes: 4096, ns: 2_000_000_000 };
    let counter = |counter: SystemCounter| (Metric::System(counter.into()), cell);
    let mut job = document();
    job.count(&SystemCounter::ALL.into_iter().map(counter).collect());
    let json = job.to_json();
    for (_, value) in SystemCounter::values() {
        assert_eq!(json.matches(&format!("\"{}\":", value.field)).count(), 1, "{}: {json}", value.field);
    }
    assert_eq!(JobDocument::from_json(json.as_bytes()).unwrap().cgroup, job.cgroup);
    // One of a newer daemon, and one that has no field here.
    let mut cgroup = job.cgroup.unwrap();
    cgroup.others.insert("of_tomorrow".to_owned(), "text".into());
    cgroup.others.insert("device_reads".to_owned(), 5.into());
    let shown = ("device reads".to_owned(), "5 (requests that read from devices)".to_owned());
    assert!(cgroup.others().any(|other| other == shown));
    assert!(cgroup.others().all(|(name, _)| name != "of tomorrow"));
}

#[test]
fn a_job_is_told_with_its_exact_bytes_and_nothing_that_steers_a_terminal() {
    let mut job = document();
    job.count(&counters());
    insta::assert_snapshot!(job.to_text(100), @r"
    job 4711 of ada
      state      running, 4 processes
      program    lmp (application 0123456789abcdef)
      command    lmp -in evil\u{1b}[31m\nname
      directory  /home/ada
      size       4 processes; nx=512
      build      0123456789ab
      nodes      n1
      started    2023-11-14 22:13:20 UTC
      job id     as the program says

    I/O
      read     0 B (0 bytes) in 0 calls, 0 s in these calls; now 0 B/s
      written  5 GB (5000000123 bytes) in 10 calls, 2 s in these calls; now 2 GB/s

      operation  layer    file system  calls  bytes  time
      open       posix    /scratch         4    0 B   1 s
      write      beneath  /scratch         7    9 B  1 ns
      write      posix    /scratch        10   5 GB   2 s

    Time of all threads
      not in I/O or MPI  36 s (90 %)
      I/O                3 s (8 %)
      MPI                1 s (2 %)

      MPI function  calls  bytes  time
      MPI_Bcast         3   96 B   1 s

    losses: 2 calls could not be counted
    ");
    let read = JobDocument::from_json(job.to_json().as_bytes()).unwrap();
    assert_eq!(
        (read.io.bytes_written, read.io.calls_written, read.io.seconds_other),
        (5_000_000_123, 10, 1.0)
    );
    assert_eq!(read.to_text(100), job.to_text(100));
    assert_eq!(read.time.compute_s, 36.0);
}

#[test]
fn a_list_and_who_loads_the_machine() {
    let busy = document().entry;
    let mut ended = busy.clone();
    (ended.state, ended.end_unix_s, ended.write_bps) = (JobState::Ended, Some(1_700_000_060.0), None);
    let mut light = busy.clone();
    (light.job, light.write_bps) = ("12".into(), Some(5e8));
    (light.period_s, light.next_phase_unix_s) = (Some(20.0), Some(1_700_000_033.0));
    let list = JobList { jobs: vec![light, busy, ended], next: None };
    insta::assert_snapshot!(list.to_text(1_700_000_030.4), @r"
      job   user  name  procs  state                      start  run time   read     write
      12    ada   lmp       4  running  2023-11-14 22:13:20 UTC      30 s  0 B/s  500 MB/s
      4711  ada   lmp       4  running  2023-11-14 22:13:20 UTC      30 s  0 B/s    2 GB/s
      4711  ada   lmp       4  ended    2023-11-14 22:13:20 UTC      60 s  0 B/s         –
    ");
    insta::assert_snapshot!(list.to_top(1_700_000_030.0), @r"
    2 jobs running, 2.5 GB/s in all
      job   user  name  procs   read     write  share  period  next phase in
      4711  ada   lmp       4  0 B/s    2 GB/s   80 %       –              –
      12    ada   lmp       4  0 B/s  500 MB/s   20 %    20 s            3 s
    ");
    assert_eq!(JobList::default().to_text(0.0), "no jobs\n");
    assert_eq!(JobList::from_json(list.to_json().as_bytes()).unwrap().to_json(), list.to_json());
}

#[test]
fn a_phase_that_was_due_is_followed_by_the_next_one() {
    let mut job = document().entry;
    (job.period_s, job.next_phase_unix_s) = (Some(20.0), Some(1_700_000_033.0));
    let at = |now_s: f64| job.next_phase_in(1_700_000_000.0 + now_s);
    assert_eq!([at(30.0), at(32.8), at(33.0), at(34.9)], ["3 s", "due", "due", "due"]);
    assert_eq!([at(36.0), at(93.0 + 5.0)], ["17 s", "15 s"]);
    job.period_s = None;
    assert_eq!(job.next_phase_in(1_700_000_030.0), "–");
}

#[test]
fn an_application_is_called_what_its_user_calls_it() {
    let called = |app: &str, program: &str| called(&app.into(), &program.into()).as_said().to_owned();
    assert_eq!(called("climate", "sh"), "climate");
    assert_eq!(called("0cde865ffd377d26", "lmp"), "lmp", "made of the command");
    assert_eq!(called("", "lmp"), "lmp");
    assert_eq!(called("0123456789abcdefg", "lmp"), "0123456789abcdefg");
}
