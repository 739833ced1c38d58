//! Random trees under random faults: the laws of the tree, over the very code that runs between machines, with a made clock and a made network.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::{About, Cell, Counters, JobId, JobKey, Limits, Metric, Name};

pub use seconds::try_seconds;

mod seconds;

const SECOND: u64 = 1_000_000_000;

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Counts of a node, which it keeps whatever happens to its daemon.
#[derive(Clone, Default)]
struct Counted {
    epoch: u64,
    /// By job and epoch.
    jobs: BTreeMap<(u8, u64), Run>,
}

#[derive(Clone, Copy, Default)]
struct Run {
    calls: u64,
    has_ended: bool,
    /// Whether the root is known to have it all.
    is_safe: bool,
}

/// Contents of a daemon's store.
#[derive(Default)]
struct Kept {
    rows: BTreeMap<RowKey, KeptRow>,
    /// Jobs that are known to have ended.
    closed: BTreeMap<JobId, bool>,
}

struct Daemon {
    place: Place,
    is_root: bool,
    hub: Hub,
    kept: Kept,
    counted: Counted,
    link: Option<Link>,
}

/// A connection to a parent. What is under way is lost when it is cut.
struct Link {
    parent: usize,
    up: Option<Uplink>,
    down: Option<Downlink>,
    upwards: VecDeque<u8>,
    downwards: VecDeque<u8>,
    inbox_up: Inbox,
    inbox_down: Inbox,
}

struct World {
    now_ns: u64,
    daemons: Vec<Daemon>,
    chance: Chance,
    /// Counts of each job that the root has shown in this life of it.
    shown: BTreeMap<JobId, u64>,
    events: Events,
}

fn key_of(job: u8) -> JobKey {
    JobKey {
        cluster: Name::default(),
        uid: 1000,
        id: JobId::made_of(&format!("j{job}")),
        start_ns: u64::from(job),
    }
}

fn counters_of(calls: u64) -> Counters {
    let metric = |name: &str| Metric::Mpi { function: name.into() };
    let mut counters: Counters =
        [(metric("MPI_Send"), Cell { calls, bytes: 3 * calls, ns: calls / 2 })].into_iter().collect();
    if calls > 40 {
        counters.add(metric("MPI_Recv"), Cell { calls: calls - 40, bytes: 0, ns: 1 });
    }
    counters
}

impl World {
    fn new(seed: u64, n: usize) -> Self {
        let daemons = (0..n).map(|index| {
            let place =
                Place { node: Name::cut(format!("n{index}").as_bytes()), instance: index as u64 + 100 };
            Daemon {
                hub: Hub::new(place.clone(), index == 0, Limits::default()),
                is_root: index == 0,
                place,
                kept: Kept::default(),
                counted: Counted::default(),
                link: None,
            }
        });
        let chance = Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        Self {
            now_ns: 1000 * SECOND,
            daemons: daemons.collect(),
            chance,
            shown: BTreeMap::new(),
            events: Events::default(),
        }
    }

    fn connect(&mut self, child: usize, parent: usize) {
        if child == 0 || child == parent || self.daemons[child].link.is_some() {
            return;
        }
        let mut link = Link {
            parent,
            up: None,
            down: None,
            upwards: VecDeque::new(),
            downwards: VecDeque::new(),
            inbox_up: Inbox::default(),
            inbox_down: Inbox::default(),
        };
        let mut bytes = Vec::new();
        Uplink::hello(&self.daemons[child].hub, Vec::new()).write(&mut bytes);
        link.upwards.extend(bytes);
        self.daemons[child].link = Some(link);
    }

    /// Brings some of the bytes under way on a link to its end; a frame that is not right cuts it.
    fn deliver(&mut self, child: usize, most: usize) {
        let Some(mut link) = self.daemons[child].link.take() else { return };
        let now = self.now_ns;
        let n = link.upwards.len().min(most);
        self.events.bytes += n as u64;
        let bytes: Vec<u8> = link.upwards.drain(..n).collect();
        let hub = &mut self.daemons[link.parent].hub;
        let (down, downwards) = (&mut link.down, &mut link.downwards);
        let mut is_fine = link
            .inbox_up
            .take(&bytes, |frame| match (down.as_mut(), frame) {
                (None, Frame::Hello(hello)) => {
                    let (begun, version) = Downlink::begin(hub, hello)?;
                    let welcome = Welcome { version, path: Downlink::path(hub), proof: Vec::new() };
                    let mut bytes = Vec::new();
                    Frame::Welcome(welcome).write(&mut bytes);
                    downwards.extend(bytes);
                    *down = Some(begun);
                    Ok(())
                }
                (None, _) => Err(LinkError::Protocol("a child says hello first")),
                (Some(down), frame) => down.heard(now, frame, hub),
            })
            .is_ok();
        let n = link.downwards.len().min(most);
        let bytes: Vec<u8> = link.downwards.drain(..n).collect();
        let hub = &mut self.daemons[child].hub;
        let up = &mut link.up;
        is_fine &= link
            .inbox_down
            .take(&bytes, |frame| match (up.as_mut(), frame) {
                (None, Frame::Welcome(welcome)) => {
                    *up = Some(Uplink::begin(hub, welcome)?);
                    Ok(())
                }
                (None, _) => Err(LinkError::Protocol("a parent says welcome first")),
                (Some(up), frame) => up.heard(now, frame, hub),
            })
            .is_ok();
        if is_fine {
            self.daemons[child].link = Some(link);
        } else {
            self.daemons[child].hub.set_path(Vec::new());
        }
    }

    fn cut(&mut self, child: usize) {
        if self.daemons[child].link.take().is_some() {
            self.daemons[child].hub.set_path(Vec::new());
            self.events.cuts += 1;
        }
    }

    /// Runs one second of a daemon.
    fn tick(&mut self, index: usize) {
        let now = self.now_ns;
        let daemon = &mut self.daemons[index];
        if !daemon.is_root {
            for (&(job, epoch), run) in &mut daemon.counted.jobs {
                // What was counted before the machine was started anew is gone with its memory.
                if epoch != daemon.counted.epoch || run.is_safe {
                    continue;
                }
                let opened = Opened {
                    node: daemon.place.node.clone(),
                    epoch,
                    key: key_of(job),
                    about: About { size: 1, ..About::default() },
                    is_local: false,
                    rank: 0,
                    n_ranks: 0,
                };
                daemon.hub.put_own(now, &opened, &counters_of(run.calls), 1, run.has_ended, None);
            }
            for key in daemon.hub.take_safe() {
                let epoch = daemon.counted.epoch;
                let mut runs = daemon.counted.jobs.iter_mut();
                if let Some((_, run)) = runs.find(|((job, of), _)| key_of(*job) == key && *of == epoch) {
                    run.is_safe = run.has_ended;
                }
            }
        }
        self.settle(index);
        let daemon = &mut self.daemons[index];
        daemon.hub.tick(now);
        let Some(link) = &mut daemon.link else { return };
        let mut bytes = Vec::new();
        if let Some(up) = &mut link.up {
            let most = if self.chance.below(4) == 0 { 40 } else { 1 << 16 };
            let is_fine = link.upwards.len() > 4000 || up.fill(now, &daemon.hub, most, &mut bytes).is_ok();
            link.upwards.extend(bytes.drain(..));
            assert!(is_fine);
        }
        let parent = link.parent;
        if let Ok([child, parent]) = self.daemons.get_disjoint_mut([index, parent])
            && let Some(link) = &mut child.link
            && let Some(down) = &mut link.down
        {
            down.fill(&parent.hub, &mut bytes);
            link.downwards.extend(bytes);
        }
    }

    /// Does the work of the thread that writes the store, with a store that is a map.
    fn settle(&mut self, index: usize) {
        let now = self.now_ns;
        let Daemon { hub, kept, .. } = &mut self.daemons[index];
        for group in hub.changed(now) {
            let Some(mut news) = hub.news(now, &group) else { continue };
            let Group { id, .. } = &group;
            let of_job: Vec<KeptRow> =
                kept.rows.values().filter(|row| row.key.key.id == *id).cloned().collect();
            if kept.closed.get(id) == Some(&true) {
                // Something came after the end: what is known joins it.
                hub.restore(now, &news.group, &news.about, of_job);
                if hub.is_as_stored(&news.group) {
                    hub.closed(now, &news.group);
                    continue;
                }
                kept.closed.insert(id.clone(), false);
                news = hub.news(now, &group).unwrap_or(news);
            }
            let is_over = news.n_live == 0;
            for row in hub.to_store(&news.group, is_over) {
                hub.stored(&row.key, row.seq, row.is_final);
                let known = kept.rows.entry(row.key.clone()).or_insert_with(|| row.clone());
                known.counters.raise_all(&row.counters, &Limits::default());
                (known.seq, known.is_final) = (row.seq, row.is_final);
            }
            if is_over {
                kept.closed.insert(id.clone(), true);
                hub.closed(now, &news.group);
            }
        }
        if index == 0 {
            self.look();
        }
    }

    /// The sums that the root shows: nothing falls, nothing is too much.
    fn look(&mut self) {
        let Daemon { hub, kept, .. } = &self.daemons[0];
        let mut sums: BTreeMap<JobId, BTreeMap<RowKey, u64>> = BTreeMap::new();
        for row in kept.rows.values() {
            sums.entry(row.key.key.id.clone()).or_default().insert(row.key.clone(), row.counters.mpi().calls);
        }
        for (_, row) in hub.rows() {
            let of_job = sums.entry(row.opened.key.id.clone()).or_default();
            let calls: u64 = row.cells().iter().map(|(_, cell)| cell.calls).sum();
            let known = of_job.entry(row.key()).or_default();
            *known = (*known).max(calls);
        }
        // Now and then, whether the sum that is kept along is that of the rows.
        let mut copy = self.now_ns.is_multiple_of(16).then(|| hub.clone());
        let mut all = Vec::new();
        for copy in copy.iter_mut() {
            all.extend(copy.changed(self.now_ns).iter().filter_map(|group| copy.news(self.now_ns, group)));
        }
        for news in all {
            let rows: u64 = hub
                .rows()
                .filter(|(_, row)| row.opened.key.id == news.group.id)
                .flat_map(|(_, row)| row.cells().iter().map(|(_, cell)| cell.calls))
                .sum();
            assert_eq!(news.sum.mpi().calls, rows);
        }
        for (id, rows) in sums {
            let sum: u64 = rows.values().sum();
            let truth = self.truth(&id).0;
            assert!(sum <= truth, "{id}: {sum} is more than {truth} that were counted");
            let before = self.shown.insert(id.clone(), sum).unwrap_or(0);
            assert!(sum >= before, "{id} fell from {before} to {sum}");
        }
    }

    /// Returns the counts of a job in all, and those of them that are not lost with the memory of a restarted machine.
    fn truth(&self, id: &JobId) -> (u64, u64) {
        let mut truth = (0, 0);
        for daemon in &self.daemons[1..] {
            for (&(job, epoch), run) in &daemon.counted.jobs {
                if key_of(job).id == *id {
                    let calls = counters_of(run.calls).mpi().calls;
                    truth.0 += calls;
                    truth.1 += if epoch == daemon.counted.epoch { calls } else { 0 };
                }
            }
        }
        truth
    }

    fn kill(&mut self, index: usize) {
        self.events.kills += 1;
        let Daemon { place, is_root, .. } = &self.daemons[index];
        let mut hub = Hub::new(place.clone(), *is_root, Limits::default());
        // Jobs that ran are known to run, and their rows to be missing.
        let kept = &self.daemons[index].kept;
        for (id, is_closed) in &kept.closed {
            assert!(kept.rows.values().any(|row| row.key.key.id == *id) || *is_closed);
        }
        let mut of_job: BTreeMap<JobId, Vec<KeptRow>> = BTreeMap::new();
        for row in kept.rows.values() {
            if kept.closed.get(&row.key.key.id) != Some(&true) {
                of_job.entry(row.key.key.id.clone()).or_default().push(row.clone());
            }
        }
        for (id, rows) in of_job {
            let group = Group { cluster: Name::default(), uid: 1000, id, is_own: false };
            hub.restore(self.now_ns, &group, &About::default(), rows);
        }
        self.daemons[index].hub = hub;
        self.cut(index);
        for child in 1..self.daemons.len() {
            if self.daemons[child].link.as_ref().is_some_and(|link| link.parent == index) {
                self.cut(child);
            }
        }
        if index == 0 {
            self.shown.clear();
        }
    }

    fn step(&mut self) {
        let n = self.daemons.len();
        let index = 1 + self.chance.below(n - 1);
        self.now_ns += self.chance.next() % (2 * SECOND);
        match self.chance.below(100) {
            0..25 => {
                let job = self.chance.below(3) as u8;
                let calls = self.chance.next() % 50;
                let counted = &mut self.daemons[index].counted;
                let run = counted.jobs.entry((job, counted.epoch)).or_default();
                // Some go on after their end: another step of the same job.
                if !run.has_ended || calls.is_multiple_of(5) {
                    *run = Run { calls: run.calls + calls, ..Run::default() };
                }
            }
            25..30 => {
                if let Some(run) = self.daemons[index].counted.jobs.values_mut().next_back() {
                    run.has_ended = true;
                }
            }
            30..55 => self.tick(index),
            55..62 => self.tick(0),
            62..84 => {
                let most = 1 + self.chance.below(400);
                self.deliver(index, most);
            }
            84..90 => {
                let parent = self.chance.below(n);
                self.connect(index, parent);
            }
            90..94 => self.cut(index),
            94..96 => self.kill(index),
            96 => self.kill(0),
            97 => self.now_ns += 100 * SECOND,
            98 => {
                // The machine itself is started anew: what it counted and had not sent is lost.
                self.daemons[index].counted.epoch += 1;
                self.kill(index);
            }
            _ => {}
        }
    }

    /// No more faults: all find a parent, and everything comes home.
    fn heal(&mut self) {
        for daemon in &mut self.daemons {
            daemon.counted.jobs.values_mut().for_each(|run| run.has_ended = true);
        }
        for round in 0..45 {
            self.now_ns += 2 * SECOND;
            for index in 1..self.daemons.len() {
                if self.daemons[index].link.is_none() {
                    // Somebody nearer to the root, so that there is no loop.
                    let parent = if round < 3 { self.chance.below(index) } else { 0 };
                    self.connect(index, parent);
                }
                self.deliver(index, usize::MAX);
                self.tick(index);
            }
            self.tick(0);
        }
    }
}

/// Events in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Daemons that were killed and started anew.
    pub kills: u64,
    /// Connections that were cut.
    pub cuts: u64,
    /// Bytes that came to their end.
    pub bytes: u64,
    /// Calls that were counted, and that the root shows in the end.
    pub calls: u64,
}

/// Lets so many daemons count for so many steps under faults, then mends everything. The same seed does the same.
///
/// # Panics
///
/// If a sum at the root falls, exceeds what was counted, or is not the whole of it in the end.
pub fn try_out(seed: u64, n_daemons: usize, n_steps: usize) -> Events {
    let mut world = World::new(seed, n_daemons);
    for _ in 0..n_steps {
        world.step();
    }
    world.heal();
    for job in 0..3 {
        let id = key_of(job).id;
        let shown = world.shown.get(&id).copied().unwrap_or(0);
        let (most, least) = world.truth(&id);
        assert!((least..=most).contains(&shown), "{id}: {shown} of {least} to {most}");
    }
    for (index, daemon) in world.daemons.iter().enumerate().skip(1) {
        let waits =
            daemon.hub.rows().find(|(_, row)| row.is_final && !row.is_acked() && row.behind().is_none());
        let link = daemon.link.as_ref().map(|link| (link.parent, link.up.is_some(), link.down.is_some()));
        assert!(waits.is_none(), "a row waits for ever at {index} {link:?}: {waits:?}");
    }
    world.events.calls = world.shown.values().sum();
    world.events
}

/// Conservation, no fall, nothing twice: over random trees with cut connections, killed daemons, moves and late arrivals.
#[cfg(test)]
#[test]
fn a_root_sum_never_falls_never_exceeds_and_in_the_end_is_the_truth() {
    for seed in 0..10_000 {
        let outcome = std::panic::catch_unwind(|| try_out(seed, 2 + (seed % 6) as usize, 120));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
