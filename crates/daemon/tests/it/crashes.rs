use std::collections::BTreeMap;
use std::path::Path;

use iotide_daemon::leaf::{Act, Claim, Earlier, Leaf, PageId, Process};
use iotide_daemon::store::{Query, Reader, Store};
use iotide_ledger::{
    About, Cell, Counters, JobId, JobKey, JobState, Limits, Metric, Name, Parameters, Refusal, Trust,
};
use iotide_testkit::FreshDir;
use proptest::prelude::*;

pub(crate) fn process(job: u8) -> Process {
    Process {
        uid: 1000,
        cluster: Name::default(),
        claim: Claim::Job(JobId::new(format!("job{job}")).unwrap()),
        start_ns: 5,
        rank: None,
        n_ranks: None,
        about: About {
            user: Name::cut(b"ada"),
            app: Name::cut(b"0123"),
            name: Name::cut(b"sim"),
            command: "sim -x".to_owned(),
            run_dir: "/home/ada".to_owned(),
            partition: Name::default(),
            account: Name::cut(b"chem"),
            alias: Name::cut(b"4711_3"),
            size: 4,
            trust: Trust::Claimed,
            build: Name::cut(b"0123abcd"),
            parameters: Parameters::read(b"nx=512"),
        },
    }
}

pub(crate) fn written(bytes: u64) -> Counters {
    let name = |text: &str| Name::cut(text.as_bytes());
    let metric = Metric::Io { op: "write".into(), layer: "posix".into(), fs: name("/scratch") };
    [(metric, Cell { calls: 1, bytes, ns: 7 })].into_iter().collect()
}

/// World outside the daemon, which outlives it.
struct World<'a> {
    store: &'a Path,
    now_ns: u64,
    /// Pages that exist: their job, what they have counted, whether their process runs.
    pages: BTreeMap<PageId, (u8, u64, bool)>,
    truth: BTreeMap<u8, u64>,
    n_pages: u64,
}

struct Daemon {
    leaf: Leaf,
    store: Store,
}

impl World<'_> {
    fn start(&mut self) -> Daemon {
        let mut store = Store::open(self.store, "n1", self.now_ns).unwrap();
        let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
        for earlier in store.running().unwrap() {
            leaf.restore(self.now_ns, earlier);
        }
        let done = store.done_pages().unwrap();
        self.pages.retain(|page, _| !done.contains(page));
        store.forget_pages(&done).unwrap();
        Daemon { leaf, store }
    }

    fn spawn(&mut self, job: u8) {
        self.n_pages += 1;
        self.pages.insert(PageId::new(format!("{}.page:{}", self.n_pages, self.n_pages)), (job, 0, true));
    }

    /// One round: pages are seen and read, what follows is stored, pages go. A crash may come between any two of these.
    fn round(&mut self, daemon: &mut Daemon, ends: Option<Ends>) {
        let Daemon { leaf, store } = daemon;
        for (page, (job, bytes, is_running)) in &self.pages {
            let earlier = |cluster: &Name, uid, id: &JobId| store.earlier(cluster, uid, id).unwrap();
            let process = Process { start_ns: self.now_ns, ..process(*job) };
            leaf.adopt(self.now_ns, page.clone(), process, earlier).unwrap();
            leaf.count(page, &written(*bytes));
            if !is_running {
                leaf.gone(self.now_ns, page, None);
            }
        }
        if ends == Some(Ends::BeforeStoring) {
            return;
        }
        let acts = leaf.tick(self.now_ns);
        store.store(self.now_ns, &acts).unwrap();
        if ends == Some(Ends::AfterStoring) {
            return;
        }
        leaf.stored(&acts);
        let finished: Vec<PageId> = acts
            .iter()
            .filter_map(|act| match act {
                Act::Finish { page, .. } => Some(page.clone()),
                _ => None,
            })
            .collect();
        self.pages.retain(|page, _| !finished.contains(page));
        if ends == Some(Ends::BeforeForgetting) {
            return;
        }
        store.forget_pages(&finished).unwrap();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    BeforeStoring,
    AfterStoring,
    BeforeForgetting,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Spawn(u8),
    Write(usize, u64),
    Kill(usize),
    Round(u64),
    DaemonEnds(Ends),
    StoreFails,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let ends = prop_oneof![Just(Ends::BeforeStoring), Just(Ends::AfterStoring), Just(Ends::BeforeForgetting)];
    let event = prop_oneof![
        3 => (0u8..3).prop_map(Event::Spawn),
        6 => (any::<usize>(), 1u64..1_000_000).prop_map(|(page, bytes)| Event::Write(page, bytes)),
        3 => any::<usize>().prop_map(Event::Kill),
        6 => prop_oneof![Just(100_000_000u64), Just(3_000_000_000), Just(100_000_000_000_000)].prop_map(Event::Round),
        2 => ends.prop_map(Event::DaemonEnds),
        1 => Just(Event::StoreFails),
    ];
    prop::collection::vec(event, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Processes write and are killed, the daemon is killed and started again, at any moment between any two of its steps. Once all is quiet, the
    /// store has what was written, to the byte; before, it shows no more than was written, and never less than it showed.
    #[test]
    fn the_store_has_exactly_what_was_written(events in events()) {
        let dir = FreshDir::new("daemon-crashes");
        let mut world =
            World { store: dir.path(), now_ns: 1_000_000_000_000, pages: BTreeMap::new(), truth: BTreeMap::new(), n_pages: 0 };
        let mut daemon = world.start();
        for event in events {
            let running: Vec<PageId> =
                world.pages.iter().filter(|(_, (_, _, runs))| *runs).map(|(page, _)| page.clone()).collect();
            let pick = |index: usize| running.get(index % running.len().max(1)).cloned();
            match event {
                Event::Spawn(job) => world.spawn(job),
                Event::Write(index, bytes) => if let Some(page) = pick(index) {
                    let (job, counted, _) = world.pages.get_mut(&page).unwrap();
                    *counted += bytes;
                    *world.truth.entry(*job).or_default() += bytes;
                },
                Event::Kill(index) => if let Some(page) = pick(index) {
                    world.pages.get_mut(&page).unwrap().2 = false;
                },
                Event::Round(later_ns) => {
                    world.now_ns += later_ns;
                    world.round(&mut daemon, None);
                }
                Event::DaemonEnds(ends) => {
                    world.round(&mut daemon, Some(ends));
                    drop(daemon);
                    daemon = world.start();
                }
                Event::StoreFails => {
                    // What was asked for and not stored is asked for again.
                    let _ = daemon.leaf.tick(world.now_ns);
                }
            }
            for job in daemon.leaf.view(world.now_ns).jobs {
                let id = job.key.id.as_str().strip_prefix("job").unwrap().parse::<u8>().unwrap();
                let truth = world.truth.get(&id).copied().unwrap_or(0);
                prop_assert!(job.counters.io().write.bytes <= truth);
            }
        }
        world.pages.values_mut().for_each(|page| page.2 = false);
        for _ in 0..4 {
            world.now_ns += 2_000_000_000;
            world.round(&mut daemon, None);
        }
        prop_assert!(world.pages.is_empty());
        prop_assert!(daemon.store.done_pages().unwrap().is_empty());
        let reader = Reader::open(dir.path()).unwrap();
        let mut stored: BTreeMap<u8, u64> = BTreeMap::new();
        for job in reader.jobs(&Query { limit: 1000, ..Query::default() }).unwrap() {
            prop_assert_eq!(job.state, JobState::Ended);
            let id = job.key.id.as_str().strip_prefix("job").unwrap().parse::<u8>().unwrap();
            *stored.entry(id).or_default() += reader.counters(job.number).unwrap().io().write.bytes;
        }
        stored.retain(|_, bytes| *bytes > 0);
        prop_assert_eq!(stored, world.truth);
    }
}

#[test]
fn a_page_that_vanishes_while_the_daemon_is_away_counts_as_it_was_last_kept() {
    let dir = FreshDir::new("daemon-vanished");
    let none = |_: &Name, _, _: &JobId| Earlier::default();
    let (page, second) = (PageId::new("1.page:1"), 1_000_000_000);
    let mut now = 100 * second;
    let mut store = Store::open(dir.path(), "n1", now).unwrap();
    let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
    leaf.adopt(now, page.clone(), process(1), none).unwrap();
    leaf.count(&page, &written(500));
    let acts = leaf.tick(now);
    store.store(now, &acts).unwrap();
    drop((leaf, store));

    now += 60 * second;
    let mut store = Store::open(dir.path(), "n1", now).unwrap();
    let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
    for earlier in store.running().unwrap() {
        leaf.restore(now, earlier);
    }
    assert_eq!(leaf.view(now).jobs[0].counters.io().write.bytes, 500);
    leaf.gone(now, &page, Some(iotide_ledger::Refusal::PageGone));
    for _ in 0..3 {
        now += 2 * second;
        let acts = leaf.tick(now);
        store.store(now, &acts).unwrap();
        leaf.stored(&acts);
    }
    let reader = Reader::open(dir.path()).unwrap();
    let job = &reader.job(&JobId::new("job1").unwrap(), None).unwrap()[0];
    assert_eq!((job.state, reader.counters(job.number).unwrap().io().write.bytes), (JobState::Partial, 500));
    assert!(reader.losses(Some(job.number)).unwrap()[0].contains("removed or cut while their process ran"));
}

#[test]
fn too_many_pages_of_one_user_do_not_keep_out_another() {
    let limits = Limits { pages: 8, pages_of_user: 3, ..Limits::default() };
    let mut leaf = Leaf::new(Name::cut(b"n1"), limits);
    let mut adopt = |index: u32, uid: u32| {
        let page = PageId::new(format!("{index}.page:{index}"));
        leaf.adopt(1, page, Process { uid, ..process(1) }, |_, _, _| Earlier::default()).is_ok()
    };
    assert_eq!((0..5).filter(|index| adopt(*index, 1000)).count(), 3);
    assert_eq!((5..10).filter(|index| adopt(*index, 1001)).count(), 3);
    assert_eq!((10..20).filter(|index| adopt(*index, 1002 + index)).count(), 2);
    assert_eq!(leaf.view(1).not_counted().count(), 0, "they may be tried again");
}

#[test]
fn too_many_jobs_of_one_user_do_not_keep_out_another() {
    let limits = Limits { begun_a_minute: 6, ..Limits::default() }.with_jobs(32);
    let minute = 60_000_000_000;
    let adopt = |leaf: &mut Leaf, now_ns: u64, index: u32, uid: u32| {
        let claim = Claim::Job(JobId::new(index.to_string()).unwrap());
        let page = PageId::new(format!("{index}.page:{index}"));
        leaf.adopt(now_ns, page, Process { uid, claim, ..process(1) }, |_, _, _| Earlier::default())
    };
    let leaf = &mut Leaf::new(Name::cut(b"n1"), limits);
    let refused = Err(Refusal::JobsOfUser);
    // Six in a minute; in the next two more, then the share is full.
    assert_eq!((0..20).filter(|index| adopt(leaf, minute, *index, 1000).is_ok()).count(), 6);
    assert_eq!((20..40).filter(|index| adopt(leaf, 2 * minute, *index, 1000).is_ok()).count(), 2);
    assert_eq!(adopt(leaf, 9 * minute, 50, 1000), refused);
    assert_eq!(adopt(leaf, 9 * minute, 51, 1001), Ok(()), "another user's");
    for (at, uid) in (1002..1010).enumerate() {
        for index in 0..6 {
            let _ = adopt(leaf, 9 * minute, 100 + 10 * at as u32 + index, uid);
        }
    }
    assert_eq!(adopt(leaf, 9 * minute, 90, 1020), Err(Refusal::Jobs));
    assert_eq!(adopt(leaf, 9 * minute, 91, 0), Ok(()), "root has a reserve");
}

#[test]
fn jobs_beyond_the_limit_are_refused_until_others_have_ended() {
    let second = 1_000_000_000;
    let mut leaf = Leaf::new(Name::cut(b"n1"), Limits { jobs: 2, ..Limits::default() });
    let page = |job: u32, index: u32| PageId::new(format!("{job}.{index}.page:{index}"));
    let adopt = |leaf: &mut Leaf, job: u32, index: u32| {
        let claim = Claim::Job(JobId::new(job.to_string()).unwrap());
        leaf.adopt(second, page(job, index), Process { claim, ..process(1) }, |_, _, _| Earlier::default())
    };
    assert_eq!((adopt(&mut leaf, 1, 0), adopt(&mut leaf, 2, 0)), (Ok(()), Ok(())));
    assert_eq!(adopt(&mut leaf, 3, 0), Err(Refusal::Jobs));
    assert_eq!(adopt(&mut leaf, 1, 1), Ok(()), "one that is known may have more processes");
    assert_eq!(leaf.view(second).not_counted().count(), 0, "it may be tried again");
    leaf.gone(second, &page(2, 0), None);
    for at in [second, 3 * second] {
        let acts = leaf.tick(at);
        leaf.stored(&acts);
    }
    assert_eq!(adopt(&mut leaf, 3, 0), Ok(()));
    assert_eq!(leaf.view(second).not_counted().next(), None, "it is counted now");
}

#[test]
fn siblings_without_an_id_are_one_job_and_the_next_run_is_another() {
    let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
    let none = |_: &Name, _, _: &JobId| Earlier::default();
    let sibling = |start_ns| Process { claim: Claim::Siblings { parent_pid: 77 }, start_ns, ..process(1) };
    let page = |index: u32| PageId::new(format!("{index}.page:{index}"));
    leaf.adopt(10, page(1), sibling(5), none).unwrap();
    leaf.adopt(10, page(2), sibling(6), none).unwrap();
    let jobs = |leaf: &Leaf| leaf.view(0).jobs.iter().map(|job| job.key.clone()).collect::<Vec<JobKey>>();
    assert_eq!(jobs(&leaf).iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["sim.77"]);
    for now in [20, 3_000_000_000, 6_000_000_000] {
        leaf.gone(now, &page(1), None);
        leaf.gone(now, &page(2), None);
        let acts = leaf.tick(now);
        leaf.stored(&acts);
    }
    assert!(jobs(&leaf).is_empty());
    leaf.adopt(7_000_000_000, page(3), sibling(6_900_000_000), none).unwrap();
    assert_eq!(jobs(&leaf)[0].start_ns, 6_900_000_000);
}

#[test]
fn the_lowest_rank_speaks_for_a_job_in_whatever_order_processes_are_met() {
    let none = |_: &Name, _, _: &JobId| Earlier::default();
    let of = |rank: Option<u32>, name: &str, start_ns| {
        let base = process(1);
        let n_ranks = rank.map(|_| 2);
        let about = About { name: Name::cut(name.as_bytes()), size: n_ranks.unwrap_or(1), ..base.about };
        Process { rank, n_ranks, start_ns, about, ..base }
    };
    let all = [of(None, "mpirun", 1), of(Some(1), "b", 3), of(Some(0), "a", 4), of(None, "sh", 2)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
        for index in order {
            leaf.adopt(9, PageId::new(format!("{index}.page:{index}")), all[index].clone(), none).unwrap();
        }
        let view = leaf.view(9);
        assert_eq!((view.jobs[0].about.name.as_str(), view.jobs[0].about.size), ("a", 2), "{order:?}");
    }
}

#[test]
fn a_job_ended_when_its_last_process_did_and_not_when_that_was_noticed() {
    let second = 1_000_000_000;
    let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
    let page = |index: u32| PageId::new(format!("{index}.page:{index}"));
    for index in [1, 2, 3] {
        leaf.adopt(second, page(index), process(1), |_, _, _| Earlier::default()).unwrap();
    }
    // Two say when they ended, in another order than they are found gone; of the third nobody knows more than that it is gone.
    leaf.ended(5 * second, &page(1));
    leaf.ended(4 * second, &page(2));
    let ended = |leaf: &mut Leaf, now, gone: &[u32]| {
        gone.iter().for_each(|&index| leaf.gone(now, &page(index), None));
        let acts = leaf.tick(now);
        leaf.stored(&acts);
        acts.iter().find_map(|act| if let Act::End { end_ns, .. } = act { Some(*end_ns) } else { None })
    };
    let mut another = Leaf::new(Name::cut(b"n1"), Limits::default());
    another.adopt(second, page(3), process(2), |_, _, _| Earlier::default()).unwrap();
    assert_eq!(ended(&mut another, 6 * second, &[3]), None);
    assert_eq!(ended(&mut another, 8 * second, &[]), Some(6 * second), "since when it was not seen");
    assert_eq!(ended(&mut leaf, 6 * second, &[1, 2]), None);
    assert_eq!(ended(&mut leaf, 7 * second, &[3]), None, "the next step may begin");
    assert_eq!(ended(&mut leaf, 9 * second, &[]), Some(7 * second));
    let mut leaf = Leaf::new(Name::cut(b"n1"), Limits::default());
    leaf.adopt(second, page(1), process(1), |_, _, _| Earlier::default()).unwrap();
    leaf.ended(5 * second, &page(1));
    assert_eq!(ended(&mut leaf, 6 * second, &[1]), None);
    assert_eq!(ended(&mut leaf, 8 * second, &[]), Some(5 * second));
}
