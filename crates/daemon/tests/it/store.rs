use std::fs;

use iotide_daemon::leaf::{Act, PageId};
use iotide_daemon::store::{DATABASE, JobLimits, Query, Reader, Store};
use iotide_ledger::{JobId, JobKey, JobState, Name};
use iotide_testkit::FreshDir;

use crate::crashes::{process, written};

fn key(id: &str, uid: u32, start_s: u64) -> JobKey {
    JobKey { cluster: Name::default(), uid, id: JobId::new(id).unwrap(), start_ns: start_s * 1_000_000_000 }
}

fn job(key: &JobKey) -> Act {
    Act::Job { key: key.clone(), about: process(1).about }
}

#[test]
fn what_is_stored_twice_counts_once_and_an_ended_job_can_be_asked_for() {
    let dir = FreshDir::new("store-twice");
    let mut store = Store::open(dir.path(), "n1", 1).unwrap();
    let (key, page) = (key("7", 1000, 5), PageId::new("1.page:1"));
    let counters = std::sync::Arc::new(written(100));
    let acts = [
        job(&key),
        Act::Page { page: page.clone(), key: key.clone() },
        Act::Keep { page: page.clone(), key: key.clone(), counters: std::sync::Arc::new(written(60)) },
        Act::Finish { page: page.clone(), key: key.clone(), counters, loss: None },
    ];
    store.store(1, &acts).unwrap();
    store.store(2, &acts).unwrap();
    store
        .store(3, &[Act::End { key: key.clone(), end_ns: 9_000_000_000, silent: Vec::new(), own: None }])
        .unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let stored = &reader.job(&key.id, None).unwrap()[0];
    assert_eq!((stored.state, stored.end_ns, stored.n_processes), (JobState::Ended, Some(9_000_000_000), 1));
    assert_eq!(reader.counters(stored.number).unwrap().io().write.bytes, 100);
    assert!(reader.job(&key.id, Some(1001)).unwrap().is_empty(), "another user sees nothing of it");
    assert_eq!(store.done_pages().unwrap(), [page]);
    // A page that nobody registered is no page that is counted.
    let unknown =
        Act::Finish { page: PageId::new("2.page:2"), key, counters: std::sync::Arc::default(), loss: None };
    assert!(store.store(4, &[unknown]).unwrap_err().is_missing_rows());
}

#[test]
fn jobs_that_are_too_old_go_and_then_those_of_the_user_with_most() {
    let dir = FreshDir::new("store-sweep");
    let mut store = Store::open(dir.path(), "n1", 1).unwrap();
    let run = |n: u64, uid: u32, start_s: u64| -> Vec<Act> {
        let (key, page) = (key(&format!("j{n}"), uid, start_s), PageId::new(format!("{n}.page:{n}")));
        let counters = std::sync::Arc::new(written(100));
        vec![
            job(&key),
            Act::Page { page: page.clone(), key: key.clone() },
            Act::Finish { page, key: key.clone(), counters, loss: None },
            Act::End { end_ns: key.start_ns + 1_000_000_000, key, silent: Vec::new(), own: None },
        ]
    };
    // Two old ones, one that runs since then, a few of a user, very many of another.
    let mut acts: Vec<Act> = (0..2).flat_map(|n| run(n, 1000, 1)).collect();
    acts.push(job(&key("runs", 1000, 1)));
    acts.extend((2..12).flat_map(|n| run(n, 1000, 10_000 + n)));
    acts.extend((100..2100).flat_map(|n| run(n, 2000, 20_000 + n)));
    store.store(1, &acts).unwrap();
    let now_ns = 30_000_000_000_000;
    let usual = JobLimits::default();
    assert_eq!(store.sweep(now_ns, &usual).unwrap(), 0);
    let count = |uid: u32| {
        let query = Query { only_uid: Some(uid), limit: 10_000, ..Query::default() };
        Reader::open(dir.path()).unwrap().jobs(&query).unwrap().len()
    };
    assert_eq!(store.sweep(now_ns, &JobLimits { age_s: 25_000, ..usual }).unwrap(), 2);
    assert_eq!((count(1000), count(2000)), (11, 2000));
    // As long as there is too much, some of the user with most go, the oldest first; the other one loses nothing.
    let small = JobLimits { all_bytes: 400 << 10, ..usual };
    while store.sweep(now_ns, &small).unwrap() > 0 {}
    let left = count(2000);
    assert!(count(1000) == 11 && (10..1000).contains(&left), "{left}");
    let reader = Reader::open(dir.path()).unwrap();
    assert!(reader.job(&JobId::new("j100").unwrap(), None).unwrap().is_empty());
    let last = &reader.job(&JobId::new("j2099").unwrap(), None).unwrap()[0];
    assert_eq!(reader.counters(last.number).unwrap().io().write.bytes, 100);
}

#[test]
fn a_text_is_found_among_many_jobs_however_old_they_are() {
    let dir = FreshDir::new("store-text");
    let mut store = Store::open(dir.path(), "n1", 1).unwrap();
    let acts: Vec<Act> = (0..12_000u64)
        .map(|n| {
            let mut about = process(1).about;
            about.command = match n {
                5 => "old 100% 'quoted' Case".to_owned(),
                _ => format!("program --input {n}.in"),
            };
            Act::Job { key: key(&format!("job-{n}"), 1000, 10 + n), about }
        })
        .collect();
    store.store(1, &acts).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let find = |text: &str| -> Vec<String> {
        let query = Query { text: Some(text.to_owned()), limit: 3, ..Query::default() };
        reader.jobs(&query).unwrap().iter().map(|job| job.key.id.to_string()).collect()
    };
    assert_eq!(find("program --"), ["job-11999", "job-11998", "job-11997"]);
    for text in ["100%", "'quoted'", "Case", "' C", "job-5", "old 1"] {
        let expected = if text == "job-5" { "job-5999" } else { "job-5" };
        assert_eq!(find(text).first().map(String::as_str), Some(expected), "{text}");
    }
    assert_eq!(find("case"), [""; 0], "letters are what they are");
    assert_eq!(find("%%%"), [""; 0]);
    assert_eq!(find("a\0b"), [""; 0]);
    assert_eq!(find(" 7.in"), ["job-7"]);
    // The same as by looking at all, a part at a time, whether many jobs have it or few, by user and by application too.
    for text in ["7.in", "77.in", "777", "input 99", "old", "x.in", "7"] {
        let expected: Vec<String> = (0..12_000u64)
            .rev()
            .filter(|n| {
                format!("job-{n} program --input {n}.in").contains(text) && *n != 5
                    || *n == 5 && text == "old"
            })
            .map(|n| format!("job-{n}"))
            .collect();
        for query in [
            Query::default(),
            Query {
                only_uid: Some(1000),
                app: Some("sim".into()),
                user: Some("ada".into()),
                ..Query::default()
            },
        ] {
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let query = Query { text: Some(text.to_owned()), limit: 700, before, ..query.clone() };
                let jobs = reader.jobs(&query).unwrap();
                found.extend(jobs.iter().map(|job| job.key.id.to_string()));
                before = jobs.last().map(|job| (job.key.start_ns, job.number));
                if jobs.len() < 700 {
                    break;
                }
            }
            assert_eq!(found, expected, "{text}");
        }
    }
    // What is known of a job changes, and so does what it is found by.
    let mut about = process(1).about;
    about.command = "changed".to_owned();
    store.store(2, &[Act::Job { key: key("job-5", 1000, 15), about }]).unwrap();
    assert_eq!((find("'quoted'"), find("changed")), (vec![], vec!["job-5".to_owned()]));
}

#[test]
fn jobs_are_found_by_user_application_state_time_and_text() {
    let dir = FreshDir::new("store-search");
    let mut store = Store::open(dir.path(), "n1", 1).unwrap();
    for (id, uid, start) in [("1", 1000, 10), ("2", 1001, 20), ("3", 1000, 30)] {
        store.store(1, &[job(&key(id, uid, start))]).unwrap();
    }
    let reader = Reader::open(dir.path()).unwrap();
    let find = |query: Query| -> Vec<String> {
        let jobs = reader.jobs(&Query { limit: 10, ..query }).unwrap();
        jobs.iter().map(|job| job.key.id.to_string()).collect()
    };
    assert_eq!(find(Query::default()), ["3", "2", "1"]);
    assert_eq!(find(Query { only_uid: Some(1000), ..Query::default() }), ["3", "1"]);
    assert_eq!(find(Query { since_ns: Some(20_000_000_000), ..Query::default() }), ["3", "2"]);
    assert_eq!(
        find(Query { app: Some("sim".into()), user: Some("ada".into()), ..Query::default() }).len(),
        3
    );
    assert_eq!(
        find(Query { text: Some("-x".into()), state: Some(JobState::Running), ..Query::default() }).len(),
        3
    );
    assert!(find(Query { text: Some("' OR 1 --".into()), ..Query::default() }).is_empty());
    let first = reader.jobs(&Query { limit: 2, ..Query::default() }).unwrap();
    let before = Some((first[1].key.start_ns, first[1].number));
    assert_eq!(find(Query { before, ..Query::default() }), ["1"]);
}

#[test]
fn a_damaged_database_is_set_aside_and_named_as_a_loss() {
    let dir = FreshDir::new("store-damaged");
    let mut store = Store::open(dir.path(), "n1", 1).unwrap();
    for index in 0..200 {
        store.store(1, &[job(&key(&format!("j{index}"), 1000, index))]).unwrap();
    }
    store.checkpoint();
    drop(store);
    let path = dir.join(DATABASE);
    let whole = fs::read(&path).unwrap();
    for (index, damage) in ["zeros", "text", "middle"].into_iter().enumerate() {
        let mut bytes = whole.clone();
        match damage {
            "zeros" => bytes[..4096].fill(0),
            "text" => bytes = b"this is no database, and never was one".repeat(100),
            _ => {
                let middle = bytes.len() / 2;
                bytes[middle / 4096 * 4096..][..8192].fill(0x5a);
            }
        }
        fs::write(&path, bytes).unwrap();
        let now_ns = (index as u64 + 2) * 1_000_000_000;
        let mut store = Store::open(dir.path(), "n1", now_ns).unwrap();
        let aside = format!("{DATABASE}.damaged-{}", index + 2);
        assert!(dir.names().contains(&aside), "{damage}: {:?}", dir.names());
        store.store(1, &[job(&key("new", 1000, 1))]).unwrap();
        let losses = Reader::open(dir.path()).unwrap().losses(None).unwrap();
        assert!(losses.len() == 1 && losses[0].contains(&aside), "{damage}: {losses:?}");
    }
}

#[test]
fn a_database_that_vanishes_beside_other_files_is_a_loss() {
    for left in [None, Some(""), Some("x")] {
        let dir = FreshDir::new("store-gone");
        let mut store = Store::open(dir.path(), "n1", 1).unwrap();
        store.store(1, &[job(&key("j", 1000, 1))]).unwrap();
        drop(store);
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(dir.join(format!("{DATABASE}{end}")));
        }
        fs::remove_file(dir.join(DATABASE)).unwrap();
        if let Some(left) = left {
            fs::write(dir.join(DATABASE), left).unwrap();
        }
        // Alone it might be a first start.
        dir.write("alarms.db", "");
        Store::open(dir.path(), "n1", 5_000_000_000).unwrap();
        let losses = Reader::open(dir.path()).unwrap().losses(None).unwrap();
        assert!(losses.len() == 1 && losses[0].contains("missing or empty"), "{left:?}: {losses:?}");
        // It is said once.
        Store::open(dir.path(), "n1", 6_000_000_000).unwrap();
        assert_eq!(Reader::open(dir.path()).unwrap().losses(None).unwrap().len(), 1);
    }
    let dir = FreshDir::new("store-new");
    Store::open(dir.path(), "n1", 1).unwrap();
    assert!(
        Reader::open(dir.path()).unwrap().losses(None).unwrap().is_empty(),
        "a first start loses nothing"
    );
}

#[test]
fn a_database_that_is_cut_anywhere_is_read_or_set_aside() {
    let dir = FreshDir::new("store-cut");
    let mut store = Store::open(dir.path(), "n1", 1).unwrap();
    for index in 0..50 {
        store.store(1, &[job(&key(&format!("j{index}"), 1000, index))]).unwrap();
    }
    store.checkpoint();
    drop(store);
    let whole = fs::read(dir.join(DATABASE)).unwrap();
    for end in (0..whole.len()).step_by(1777) {
        let dir = FreshDir::new("store-cut-at");
        fs::write(dir.join(DATABASE), &whole[..end]).unwrap();
        let mut store = Store::open(dir.path(), "n1", 5_000_000_000).unwrap();
        store.store(1, &[job(&key("new", 1000, 1))]).unwrap();
        let reader = Reader::open(dir.path()).unwrap();
        assert_eq!(reader.job(&JobId::new("new").unwrap(), None).unwrap().len(), 1, "cut at {end}");
        let is_told = !reader.losses(None).unwrap().is_empty();
        // A page of the file without anything in it is no loss.
        let n_jobs = reader.jobs(&Query { limit: 100, ..Query::default() }).unwrap().len();
        assert!(is_told || n_jobs == 51 || end == 0, "cut at {end}: what is missing is told; {n_jobs} jobs");
    }
}

#[test]
fn a_store_that_others_could_read_is_closed_and_one_they_could_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = FreshDir::new("store-closed");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let own = dir.join("own");
    std::fs::create_dir(&own).unwrap();
    set(&own, 0o755);
    drop(Store::open(&own, "n", 1).unwrap());
    let database = own.join("iotide.db");
    assert_eq!((mode(&own), mode(&database)), (0o700, 0o600));
    // As an earlier version left it.
    set(&own, 0o755);
    set(&database, 0o644);
    let store = Store::open(&own, "n", 2).unwrap();
    assert_eq!((mode(&own), mode(&database), mode(&own.join("iotide.db-wal"))), (0o700, 0o600, 0o600));
    drop(store);
    // A directory with other things in it is not ours to close; its files are.
    let shared = dir.join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("of others"), "").unwrap();
    set(&shared, 0o755);
    drop(Store::open(&shared, "n", 1).unwrap());
    assert_eq!((mode(&shared), mode(&shared.join("iotide.db"))), (0o755, 0o600));
    set(&shared, 0o777);
    let refused = Store::open(&shared, "n", 1).unwrap_err().to_string();
    assert!(
        refused.ends_with("other users may replace files in it; name a directory of your own with mode 700"),
        "{refused}"
    );
}
