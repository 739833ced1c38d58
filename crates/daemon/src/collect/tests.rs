//! Users who mean harm beside one who does not, at the directory of pages.

use std::os::unix::fs::chown;
use std::path::PathBuf;

use iotide_ledger::Limits;
use iotide_testkit::{Alive, FreshDir, is_root};
use iotide_wire::Op;
use iotide_wire::page::{About as PageAbout, PageLayer, Texts, lane_at, word};

use super::*;

/// Somebody else.
const NOBODY: u32 = 65534;
/// A name space of processes in which nobody is.
const NOWHERE: u64 = 4242;

/// A directory of pages, and what reads it.
struct Site {
    dir: FreshDir,
    collector: Collector,
    leaf: Leaf,
    now_ns: u64,
}

impl Site {
    fn new(limits: Limits) -> Self {
        let dir = FreshDir::new("collect");
        let folder = OpenDir::make(&dir.join("pages")).unwrap();
        let collector = Collector::new(folder, Proc("/proc".into()), Shares::among_users(4096));
        let leaf = Leaf::new(Name::cut(b"n1"), limits);
        Self { dir, collector, leaf, now_ns: 1_800_000_000_000_000_000 }
    }

    fn page(&self, name: &str) -> PathBuf {
        self.dir.join("pages").join(name).with_extension(EXTENSION)
    }

    /// Writes the page of a job, a file with holes, which has used so many lanes and has written a byte in the first.
    fn write(&self, job: &str, uid: u32, process: (u32, u64, u64), n_lanes: usize) {
        let (pid, start_ticks, pid_namespace) = process;
        let mut texts = Texts::default();
        texts.set(PageText::Job, job.as_bytes());
        let about = PageAbout {
            n_lanes: n_lanes as u32,
            pid,
            start_ticks,
            pid_namespace,
            uid,
            texts,
            ..PageAbout::default()
        };
        let file = File::create(self.page(job)).unwrap();
        file.write_all_at(&about.whole_header(n_lanes), 0).unwrap();
        let bytes_at = lane_at(0) + 8 * (word::io(PageLayer::Posix, Op::Write, 0).unwrap() + 1);
        file.write_all_at(&1u64.to_le_bytes(), bytes_at as u64).unwrap();
        file.set_len(lane_at(n_lanes) as u64).unwrap();
        chown(self.page(job), Some(uid), None).unwrap();
    }

    /// Runs a round; returns the jobs, each with the bytes it has written.
    fn round(&mut self) -> Vec<(String, u64)> {
        self.now_ns += 100_000_000;
        // However long the last look took beside other tests.
        self.collector.rests_until = None;
        self.collector.round(self.now_ns, &mut self.leaf, &mut |_, _, _| Earlier::default());
        let view = self.leaf.view(self.now_ns);
        view.jobs.iter().map(|job| (job.key.id.to_string(), job.counters.io().write.bytes)).collect()
    }

    /// Takes it that everything was stored, and removes pages that are done.
    fn store(&mut self) {
        self.now_ns += 2_000_000_000;
        let acts = self.leaf.tick(self.now_ns);
        self.leaf.stored(&acts);
        for act in acts {
            if let crate::leaf::Act::Finish { page, .. } = act {
                assert!(self.collector.remove(&page));
            }
        }
    }

    fn losses(&self) -> Vec<(Refusal, u64)> {
        self.leaf.view(self.now_ns).not_counted().collect()
    }
}

/// Facts about a process that runs, for its page.
fn process(alive: &Alive) -> (u32, u64, u64) {
    (alive.0.id(), Proc("/proc".into()).started(alive.0.id()).unwrap(), 0)
}

#[test]
fn pages_of_one_user_do_not_keep_out_the_job_of_another() {
    if !is_root() {
        return;
    }
    let mut site = Site::new(Limits::default().with_jobs(32));
    let (alive, victim) = (Alive::of(NOBODY), Alive::of(1));
    for index in 0..40 {
        site.write(&format!("u{index:02}"), NOBODY, process(&alive), 1);
    }
    site.write("victim", 1, process(&victim), 1);
    let jobs = site.round();
    assert!(jobs.contains(&("victim".to_owned(), 1)), "{jobs:?}");
    assert_eq!(
        (jobs.len(), site.losses()),
        (9, vec![(Refusal::JobsOfUser, 32)]),
        "a quarter, and the other user's"
    );

    // More often than a file is looked at that is no page: they are taken in when there is room, and nothing is lost.
    for _ in 0..2 * TRIES {
        site.round();
        site.collector.tried = None;
    }
    drop(alive);
    for _ in 0..10 {
        site.round();
        site.store();
        site.collector.tried = None;
    }
    assert_eq!(site.losses(), []);
    assert_eq!(site.round(), [("victim".to_owned(), 1)]);
}

#[test]
fn a_page_of_a_name_space_in_which_its_owner_has_no_process_is_that_of_a_process_that_is_gone() {
    if !is_root() || Proc("/proc".into()).own_namespace() != Some(Proc::FIRST_NAMESPACE) {
        return;
    }
    let mut site = Site::new(Limits::default());
    for index in 0..20 {
        site.write(&format!("u{index:02}"), NOBODY, (7, 77, NOWHERE), 1);
    }
    assert_eq!(site.round().len(), 20, "what they say is counted");
    site.store();
    site.store();
    assert_eq!(site.round(), []);
    assert_eq!(site.losses(), []);
}

#[test]
fn sparse_pages_with_many_lanes_do_not_slow_down_the_reading_of_another_users() {
    if !is_root() {
        return;
    }
    let mut site = Site::new(Limits::default());
    let (alive, victim) = (Alive::of(NOBODY), Alive::of(1));
    for index in 0..200 {
        site.write(&format!("u{index:03}"), NOBODY, process(&alive), MAX_LANES);
    }
    site.round();
    site.write("victim", 1, process(&victim), 4);
    let mut seen = 0;
    for round in 1..=4 {
        let jobs = site.round();
        seen = jobs.iter().find(|(id, _)| id == "victim").map_or(0, |(_, bytes)| *bytes);
        if seen > 0 {
            assert!(round <= 2, "in every round");
            break;
        }
    }
    assert_eq!(seen, 1);
}

#[test]
fn files_of_one_user_that_are_no_pages_do_not_hide_the_page_of_another() {
    if !is_root() {
        return;
    }
    let mut site = Site::new(Limits::default());
    let victim = Alive::of(1);
    for index in 0..STRANGERS_OF_USER + 500 {
        let path = site.page(&format!("junk{index}"));
        std::fs::write(&path, "no page").unwrap();
        chown(&path, Some(NOBODY), None).unwrap();
    }
    site.round();
    site.write("victim", 1, process(&victim), 1);
    assert_eq!(site.round(), [("victim".to_owned(), 1)]);
    assert_eq!(site.losses(), [(Refusal::FilesOfUser, 500)], "it is said that some are not looked at");
    assert_eq!(site.collector.strangers.len(), STRANGERS_OF_USER);
}

#[test]
fn processes_beyond_the_pages_of_their_user_wait_are_named_and_are_counted_later() {
    if !is_root() {
        return;
    }
    let mut site = Site::new(Limits { pages_of_user: 3, ..Limits::default() });
    let alive = Alive::of(NOBODY);
    for index in 0..5 {
        site.write(&format!("u{index}"), NOBODY, process(&alive), 1);
    }
    for _ in 0..2 * TRIES {
        assert_eq!(site.round().len(), 3);
        assert_eq!(site.losses(), [(Refusal::PagesOfUser, 2)]);
    }
    drop(alive);
    site.round();
    site.store();
    site.collector.tried = None;
    site.round();
    assert_eq!(site.losses(), []);
}

#[test]
fn descriptors_are_shared_and_pages_that_find_none_wait_for_them() {
    if !is_root() {
        return;
    }
    let mut site = Site::new(Limits::default());
    site.collector.descriptors = Shares::among_users(32);
    let (mut alive, victim) = (Alive::of(NOBODY), Alive::of(1));
    (0..100).for_each(|index| site.write(&format!("u{index:02}"), NOBODY, process(&alive), 1));
    site.write("victim", 1, process(&victim), 1);
    let jobs = site.round();
    assert!(jobs.contains(&("victim".to_owned(), 1)), "{jobs:?}");
    assert_eq!(jobs.len(), 9, "a quarter of the places are one user's");
    assert_eq!(site.losses(), [(Refusal::Descriptors, 92)]);
    // They are read once others are done.
    let _ = (alive.0.kill(), alive.0.wait());
    let mut counted = HashSet::new();
    for _ in 0..20 {
        site.collector.tried = None;
        counted.extend(site.round());
        site.store();
    }
    assert_eq!(counted.len(), 101);
    assert_eq!(site.losses(), []);
}
