//! Counts of daemons below, merged with the counts of this machine.
//!
//! Connections put rows into the hub; the thread that writes the store takes them out of it: rows become part of jobs, final rows are stored, and
//! what is stored is acknowledged. What is counted here goes the other way, into the hub and up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use iotide_ledger::tree::{
    AskError, Group, Hub, KEPT_NS, LateGrowth, MOST_LEVELS, NodeNews, Place, Question,
};
use iotide_ledger::{Counters, JobKey, Limits, Name};
use iotide_private::Shares;
use iotide_wire::Fnv1a;
use tokio::sync::Notify;

use crate::below::{Below, OpenQuestion};
use crate::leaf::{Act, Earlier, Leaf, OwnRow};
use crate::predict::{Expectations, Expected};
use crate::store::{Store, StoreError};

/// The part of a daemon that is in a tree.
#[derive(Debug)]
pub struct Tree {
    hub: Mutex<Hub>,
    pub(crate) has_parent: bool,
    /// Notified when there is something to send to the daemon above.
    pub has_rows: Notify,
    children: Mutex<HashMap<Name, Arc<Below>>>,
    /// Places for those who ask nodes below here; what is asked from above has places of its own.
    pub askers: Shares,
    skew: Mutex<Option<(u64, i64)>>,
    notices: Mutex<Notices>,
}

/// Notices for the operator. The same notice is issued once, until [`Tree::note_again`].
#[derive(Debug, Default)]
struct Notices {
    waiting: VecDeque<String>,
    said: HashSet<String>,
}

/// Questions to nodes below that are open at once, of all users; one has a quarter.
const MOST_QUESTIONS: usize = 64;
/// Different notices that are remembered, and wait.
const MOST_NOTICES: usize = 256;

impl Tree {
    /// The place of this daemon in its tree.
    pub fn new(own: Place, has_parent: bool) -> Self {
        Self {
            hub: Mutex::new(Hub::new(own, !has_parent, Limits::default())),
            has_parent,
            has_rows: Notify::new(),
            children: Mutex::default(),
            askers: Shares::among_users(MOST_QUESTIONS),
            skew: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// The hub. It is held for as long as it takes to read or write some rows, and never while anything is waited for.
    pub fn hub(&self) -> MutexGuard<'_, Hub> {
        lock(&self.hub)
    }

    /// A child has come. The same one again takes the place of its former connection; another one of its name is refused.
    pub fn joined(&self, below: &Arc<Below>) -> Result<(), Name> {
        let mut children = lock(&self.children);
        let child = below.child();
        if let Some(former) = children.get(&child.node) {
            if former.child().instance != child.instance {
                return Err(child.node.clone());
            }
            former.leave.notify_one();
        }
        children.insert(child.node.clone(), Arc::clone(below));
        Ok(())
    }

    /// Whether another daemon of the same name is connected.
    pub fn is_taken(&self, by: &Place) -> bool {
        lock(&self.children).get(&by.node).is_some_and(|known| known.child().instance != by.instance)
    }

    /// A child is lost.
    pub fn left(&self, below: &Arc<Below>) {
        below.over();
        let mut children = lock(&self.children);
        let node = &below.child().node;
        if children.get(node).is_some_and(|known| Arc::ptr_eq(known, below)) {
            children.remove(node);
        }
    }

    /// Appends what is to be sent to a child.
    pub fn fill(&self, below: &Below, out: &mut Vec<u8>) {
        below.fill(&self.hub, out);
    }

    /// Asks a node below. `n_passed` daemons have passed the question on before.
    pub fn ask(&self, node: &Name, n_passed: u8, question: &Question) -> Result<OpenQuestion, AskError> {
        if usize::from(n_passed) >= MOST_LEVELS {
            return Err(AskError::NoNode);
        }
        let child = self.hub().child_towards(node).ok_or(AskError::NoNode)?;
        let below = lock(&self.children).get(&child).cloned().ok_or(AskError::Silent)?;
        below.ask(node, n_passed, question)
    }

    /// How long a question to the parent and its answer take, and how far our clock is ahead of its.
    pub fn set_skew(&self, skew: Option<(u64, i64)>) {
        *lock(&self.skew) = skew;
    }

    /// Adds a notice, unless it was issued already.
    pub fn note(&self, text: String) {
        let mut notices = lock(&self.notices);
        if notices.said.len() < MOST_NOTICES && notices.said.insert(text.clone()) {
            notices.waiting.push_back(text);
        }
    }

    /// Forgets which notices were issued: a fault that is over is reported again if it returns.
    pub fn note_again(&self) {
        lock(&self.notices).said.clear();
    }

    /// Takes the notices to be issued.
    pub fn take_notices(&self) -> Vec<String> {
        lock(&self.notices).waiting.drain(..).collect()
    }
}

/// Locks a mutex, even if a thread that held it has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often what this machine does as a whole is reported.
const NODE_NS: u64 = 3_000_000_000;
/// How often what is counted here goes up.
const OWN_NS: u64 = 1_000_000_000;
/// How often rows become part of jobs at least. They do sooner if they are final, or if that takes little.
const GATHER_NS: u64 = 1_000_000_000;
/// How much longer it takes until rows become part of jobs again than that took.
const PAUSE: u32 = 100;

/// Versions that the daemon above has not taken for so long are stored, and about as often.
const KEEP_NS: u64 = 10_000_000_000;
/// Rows that are stored at a time, unless their jobs have ended: those of a job more or less.
const MOST_ROWS: usize = 512;

/// Takes rows out of the hub, and puts what is counted here into it.
#[derive(Debug)]
pub struct Gathering {
    tree: Arc<Tree>,
    expectations: Expectations,
    /// Predictions for jobs elsewhere that nobody was sent yet.
    expected: Vec<(JobKey, Expected)>,
    gathered_ns: u64,
    /// When rows become part of jobs again, if some have come.
    pause_ns: u64,
    /// When what is counted here went up.
    sent_ns: u64,
    /// Where in a second it does: nodes with one clock do not all send at once.
    phase_ns: u64,
    /// When what this machine does was last reported, and who was above then.
    told_ns: u64,
    told_parent: Option<Place>,
    /// The jobs that rows became part of, and when they last did.
    jobs: HashMap<Group, (JobKey, u64)>,
    /// Whether the store has versions that the daemon above may not have, and when that was last looked at.
    has_stored: bool,
    kept_ns: u64,
    /// Data that remained to be sent up when the daemon ended.
    resumed: Option<Resumed>,
}

/// Data in the store for the daemon above.
#[derive(Debug)]
struct Resumed {
    /// Versions of rows, as the hub gave them.
    versions: Vec<u8>,
    /// Jobs that have ended.
    unsent: Vec<OwnRow>,
}

/// Counts of a job in some seconds of the past, beyond those that were shown.
#[derive(Clone, Debug)]
pub struct LateJob {
    /// Which job.
    pub key: JobKey,
    /// The first of these seconds since 1970.
    pub from_s: u64,
    /// The first second after them.
    pub until_s: u64,
    /// Counts beyond those that were shown.
    pub added: Counters,
}

/// Work that follows once acts are stored.
#[derive(Debug, Default)]
pub struct Afterwards {
    closed: Vec<Group>,
    finals: Vec<OwnRow>,
}

impl Gathering {
    /// Begins with what was under way when the daemon ended.
    pub fn start(
        tree: Arc<Tree>,
        expectations: Expectations,
        now_ns: u64,
        store: &Store,
        leaf: &mut Leaf,
    ) -> Result<Self, StoreError> {
        let phase_ns = Fnv1a::of(tree.hub().own.node.as_str().as_bytes()).value() % OWN_NS;
        let mut gathering = Self {
            tree,
            expectations,
            expected: Vec::new(),
            gathered_ns: 0,
            pause_ns: 0,
            sent_ns: 0,
            phase_ns,
            told_ns: 0,
            told_parent: None,
            jobs: HashMap::new(),
            has_stored: false,
            kept_ns: now_ns,
            resumed: None,
        };
        for (group, about, rows) in store.open_rows()? {
            gathering.tree.hub().restore(now_ns, &group, &about, rows);
        }
        if gathering.tree.has_parent {
            leaf.send_up();
            let (versions, unsent) = (store.kept_versions()?, store.unsent(leaf)?);
            gathering.has_stored = !versions.is_empty();
            // Once pages are read: then it is known which jobs run.
            (gathering.resumed, gathering.sent_ns) = (Some(Resumed { versions, unsent }), now_ns);
        }
        gathering.gather(now_ns, store, leaf)?;
        Ok(gathering)
    }

    /// Stores versions that the daemon above may not have, so that a restart does not lose them: at the end, and now and then while it is not heard.
    pub fn keep_versions(&mut self, now_ns: u64, store: &mut Store, is_end: bool) -> Result<(), StoreError> {
        if self.resumed.is_some() {
            // Nobody has taken out yet what is there.
            return Ok(());
        }
        let frames = {
            let hub = self.tree.hub();
            let waited_ns = hub.kept_since_ns().map(|since_ns| now_ns.saturating_sub(since_ns));
            // The more there is, the more seldom it is written.
            let pause_ns = KEEP_NS * (1 + hub.kept_bytes() as u64 / (1 << 20));
            let is_late = waited_ns.is_some_and(|waited_ns| waited_ns >= KEEP_NS);
            let is_due = is_end || now_ns.saturating_sub(self.kept_ns) >= pause_ns;
            if !self.tree.has_parent || !is_due || !is_late && !self.has_stored && !is_end {
                return Ok(());
            }
            self.kept_ns = now_ns;
            if is_late || is_end { hub.kept_versions() } else { Vec::new() }
        };
        if self.has_stored || !frames.is_empty() {
            store.keep_versions(&frames)?;
        }
        self.has_stored = !frames.is_empty();
        Ok(())
    }

    /// Rows become part of jobs; returns what is to be stored of them.
    pub fn gather(&mut self, now_ns: u64, store: &Store, leaf: &mut Leaf) -> Result<Vec<Act>, StoreError> {
        self.tell_node(now_ns, leaf);
        self.send_own(now_ns, leaf);
        let waited_ns = now_ns.saturating_sub(self.gathered_ns);
        let is_due = {
            let mut hub = self.tree.hub();
            let has_finals = hub.take_has_finals();
            waited_ns >= GATHER_NS || has_finals || waited_ns >= self.pause_ns && hub.take_has_news()
        };
        if !is_due {
            return Ok(Vec::new());
        }
        self.gathered_ns = now_ns;
        let begun = Instant::now();
        let changed = self.tree.hub().changed(now_ns);
        for group in changed {
            self.take_in(now_ns, &group, store, leaf)?;
        }
        let (mut acts, mut n_rows) = (Vec::new(), 0);
        for (key, group, is_over) in leaf.groups() {
            // When thousands come at once, what is not urgent waits for its turn.
            if n_rows >= MOST_ROWS && !is_over {
                continue;
            }
            let rows = self.tree.hub().to_store(&group, is_over);
            n_rows += rows.len();
            if !rows.is_empty() || is_over {
                acts.extend(leaf.rows_act(&key, rows));
            }
        }
        self.tree.hub().tick(now_ns);
        self.pause_ns = (PAUSE * begun.elapsed()).as_nanos() as u64;
        Ok(acts)
    }

    /// Says how this machine is: now and then, and when another daemon is above it.
    fn tell_node(&mut self, now_ns: u64, leaf: &Leaf) {
        let mut hub = self.tree.hub();
        let is_moved = hub.path().first() != self.told_parent.as_ref();
        if is_moved || now_ns.saturating_sub(self.told_ns) >= NODE_NS {
            (self.told_ns, self.told_parent) = (now_ns, hub.path().first().cloned());
            let news = self.own_news(&hub, leaf, now_ns);
            hub.node_heard(now_ns, news);
            self.tree.has_rows.notify_one();
        }
    }

    /// Sends the counts of this machine up.
    fn send_own(&mut self, now_ns: u64, leaf: &Leaf) {
        let second = |at_ns: u64| (at_ns + self.phase_ns) / OWN_NS;
        if !self.tree.has_parent || second(now_ns) == second(self.sent_ns) {
            return;
        }
        self.sent_ns = now_ns;
        let mut hub = self.tree.hub();
        let own_rows = leaf.own_rows();
        if let Some(resumed) = self.resumed.take() {
            self.resume(now_ns, &mut hub, &own_rows, resumed);
        }
        for own in own_rows {
            let row = hub.put_own(now_ns, &own.opened, &own.counters, own.n_running, false, own.ended_ns);
            if let (Some(row), Some(outlook)) = (row, self.expectations.outlook_here(&own.opened.key)) {
                hub.set_outlook(row, outlook);
            }
        }
        drop(hub);
        self.tree.has_rows.notify_one();
    }

    /// Goes on with what was to go up when the daemon ended, before anything newer is known of these rows.
    fn resume(&self, now_ns: u64, hub: &mut Hub, own_rows: &[OwnRow], resumed: Resumed) {
        for own in own_rows.iter().chain(&resumed.unsent) {
            // If there are too many rows, that is counted.
            let _ = hub.open(now_ns, &own.opened, true);
        }
        if !hub.restore_versions(now_ns, &resumed.versions) {
            self.tree.note(
                "seconds that the daemon above has missed are lost: they are damaged in the store".to_owned(),
            );
        }
        for own in &resumed.unsent {
            hub.put_own(now_ns, &own.opened, &own.counters, 0, true, own.ended_ns);
        }
    }

    /// Returns the late counts of jobs, after rows became part of them. `is_sampled` says whether this second is sampled already.
    pub fn take_late(&mut self, now_ns: u64, is_sampled: bool) -> Vec<LateJob> {
        let until_s = now_ns / 1_000_000_000 + u64::from(is_sampled);
        let late = self.tree.hub().take_late(until_s);
        let of_job = |it: LateGrowth| {
            let (key, _) = self.jobs.get(&it.group)?;
            let LateGrowth { from_s, until_s, added, .. } = it;
            Some(LateJob { key: key.clone(), from_s, until_s, added })
        };
        let late = late.into_iter().filter_map(of_job).collect();
        // A job that has ended may be told of for as long as something is kept.
        self.jobs.retain(|_, (_, seen_ns)| now_ns.saturating_sub(*seen_ns) < KEPT_NS);
        late
    }

    /// Takes the new predictions for jobs elsewhere.
    pub fn take_expected(&mut self) -> Vec<(JobKey, Expected)> {
        std::mem::take(&mut self.expected)
    }

    /// When rows last became part of jobs.
    pub fn gathered_ns(&self) -> u64 {
        self.gathered_ns
    }

    /// Merges the rows that have come for a job into it.
    fn take_in(
        &mut self,
        now_ns: u64,
        group: &Group,
        store: &Store,
        leaf: &mut Leaf,
    ) -> Result<(), StoreError> {
        if !leaf.knows_elsewhere(group) {
            // A job that has ended, perhaps: then what is known of it joins what has come. The store is asked while nobody waits for the hub.
            let (about, rows) = store.rows_of(group)?;
            if !rows.is_empty() {
                let mut hub = self.tree.hub();
                hub.restore(now_ns, group, &about, rows);
                if hub.is_as_stored(group) {
                    hub.closed(now_ns, group);
                    return Ok(());
                }
            }
        }
        let Some(news) = self.tree.hub().news(now_ns, group) else { return Ok(()) };
        let outlook = news.outlook;
        let mut fault = None;
        let taken = leaf.elsewhere(now_ns, news, |cluster, uid, id| {
            store.earlier(cluster, uid, id).unwrap_or_else(|error| {
                fault = Some(error);
                Earlier::default()
            })
        });
        // If there are too many jobs, that is counted; it is tried again when something is new of this one.
        if let Ok(key) = taken {
            let expected = outlook.and_then(|outlook| self.expectations.set_below(&key, outlook));
            self.expected.extend(expected.map(|expected| (key.clone(), expected)));
            self.jobs.insert(group.clone(), (key, now_ns));
        }
        fault.map_or(Ok(()), Err)
    }

    /// Returns the state of this machine as a whole.
    fn own_news(&self, hub: &Hub, leaf: &Leaf, now_ns: u64) -> NodeNews {
        let view = leaf.view(now_ns);
        let io = view.total.io();
        let (round_trip_ns, skew_ns) = lock(&self.tree.skew).unwrap_or_default();
        NodeNews {
            node: hub.own.node.clone(),
            parent: hub.path().first().map(|parent| parent.node.clone()).unwrap_or_default(),
            version: Name::cut(env!("CARGO_PKG_VERSION").as_bytes()),
            skew_ns,
            round_trip_ns,
            jobs: view.n_jobs_here() as u64,
            processes: view.n_pages as u64,
            bytes_read: io.read.bytes,
            bytes_written: io.write.bytes,
            losses: view.not_counted().map(|(_, n)| n).sum::<u64>() + hub.n_refused() + hub.n_missed(),
            silent_ns: 0,
        }
    }

    /// Returns the work to do once these are stored; it is collected before, because the leaf then forgets jobs that have ended.
    pub fn before_stored(&self, acts: &[Act], leaf: &Leaf) -> Afterwards {
        let mut afterwards = Afterwards::default();
        for act in acts {
            if let Act::End { key, own, end_ns, .. } = act {
                afterwards.closed.extend(leaf.group_of(key).cloned());
                if let Some(own) = own {
                    let counters = leaf.done(key).cloned().unwrap_or_default();
                    afterwards.finals.push(OwnRow {
                        opened: (**own).clone(),
                        counters,
                        n_running: 0,
                        ended_ns: Some(*end_ns),
                    });
                }
            }
        }
        afterwards
    }

    /// These are stored, and on disk.
    pub fn stored(&self, now_ns: u64, acts: &[Act], afterwards: Afterwards) {
        let mut hub = self.tree.hub();
        let has_finals = !afterwards.finals.is_empty();
        for act in acts {
            if let Act::Rows { rows, .. } = act {
                rows.iter().for_each(|row| hub.stored(&row.key, row.seq, row.is_final));
            }
        }
        for own in afterwards.finals {
            hub.put_own(now_ns, &own.opened, &own.counters, 0, true, own.ended_ns);
        }
        for group in afterwards.closed {
            hub.closed(now_ns, &group);
        }
        drop(hub);
        if has_finals {
            self.tree.has_rows.notify_one();
        }
    }

    /// The store was begun anew: it has no row.
    pub fn store_was_lost(&self) {
        self.tree.hub().store_was_lost();
    }

    /// Jobs that need not be sent again.
    pub fn take_safe(&self) -> Vec<JobKey> {
        if self.tree.has_parent { self.tree.hub().take_safe() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::tree::{Opened, SILENT_NS};
    use iotide_ledger::{About, Cell, JobId, JobState, Metric};
    use iotide_testkit::FreshDir;

    use crate::leaf::with_rows;
    use crate::store::Reader;

    const SECOND: u64 = 1_000_000_000;
    const BEGIN: u64 = 1_700_000_000 * SECOND;

    /// A root whose clock is ours: the machine and the store of a daemon, without its threads.
    struct Root {
        dir: FreshDir,
        now_ns: u64,
        leaf: Leaf,
        store: Store,
        gathering: Gathering,
    }

    impl Root {
        fn new(name: &str) -> Self {
            let dir = FreshDir::new(name);
            let (leaf, store, gathering) = Self::parts(&dir, BEGIN);
            Self { dir, now_ns: BEGIN, leaf, store, gathering }
        }

        fn parts(dir: &FreshDir, now_ns: u64) -> (Leaf, Store, Gathering) {
            let store = Store::open(dir.path(), "root", now_ns).unwrap();
            let mut leaf = Leaf::new(Name::cut(b"root"), Limits::default());
            for earlier in store.running().unwrap() {
                leaf.restore(now_ns, earlier);
            }
            let tree = Arc::new(Tree::new(Place { node: Name::cut(b"root"), instance: 1 }, false));
            let gathering =
                Gathering::start(tree, Expectations::default(), now_ns, &store, &mut leaf).unwrap();
            (leaf, store, gathering)
        }

        /// Killed, and started again.
        fn restart(&mut self) {
            (self.leaf, self.store, self.gathering) = Self::parts(&self.dir, self.now_ns);
        }

        fn pass(&mut self, seconds: u64) {
            for _ in 0..seconds {
                self.now_ns += SECOND;
                let rows = self.gathering.gather(self.now_ns, &self.store, &mut self.leaf).unwrap();
                let acts = with_rows(self.leaf.tick(self.now_ns), rows);
                self.store.store(self.now_ns, &acts).unwrap();
                let afterwards = self.gathering.before_stored(&acts, &self.leaf);
                self.leaf.stored(&acts);
                self.gathering.stored(self.now_ns, &acts, afterwards);
            }
        }

        fn hear(&self, node: &str, calls: u64, is_final: bool) {
            let id = JobId::made_of("4711");
            let opened = Opened {
                node: Name::cut(node.as_bytes()),
                epoch: 0,
                key: JobKey { cluster: Name::default(), uid: 1000, id, start_ns: BEGIN },
                about: About { size: 2, ..About::default() },
                is_local: false,
                rank: 0,
                n_ranks: 0,
            };
            let mut hub = self.gathering.tree.hub();
            let row = hub.open(self.now_ns, &opened, false).unwrap();
            let metric = Metric::Mpi { function: "MPI_Send".into() };
            let cell = hub.cell_of(row, &metric).unwrap();
            hub.raise(row, [(cell, Cell { calls, bytes: 10 * calls, ns: calls })]);
            hub.heard(self.now_ns, row, self.now_ns, self.now_ns, is_final, 2);
        }

        /// The state of the job in the store, its calls, and what is missing.
        fn stored(&self) -> (JobState, u64, Vec<String>) {
            let reader = Reader::open(self.dir.path()).unwrap();
            let job = reader.job(&JobId::made_of("4711"), None).unwrap().remove(0);
            let counters: Counters = reader.counters(job.number).unwrap();
            (job.state, counters.mpi().calls, reader.losses(Some(job.number)).unwrap())
        }
    }

    #[test]
    fn a_node_that_falls_silent_makes_the_job_partial_and_a_late_word_of_it_puts_that_right() {
        let mut root = Root::new("gather-silent");
        root.hear("one", 10, false);
        root.hear("two", 5, false);
        root.pass(2);
        assert_eq!(root.stored(), (JobState::Running, 15, Vec::new()));
        root.hear("one", 20, true);
        root.pass(SILENT_NS / SECOND + 3);
        let (state, calls, losses) = root.stored();
        assert_eq!((state, calls, losses.len()), (JobState::Partial, 25, 1));
        assert!(losses[0].starts_with("node two: not heard of"), "{losses:?}");
        // The connection comes back, hours later, and everything else is long forgotten.
        root.pass(60);
        root.restart();
        root.now_ns += 5 * 3600 * SECOND;
        root.hear("two", 40, true);
        root.pass(3);
        assert_eq!(root.stored(), (JobState::Ended, 60, Vec::new()));
        // It was acknowledged, but the word was lost: the same row again changes nothing.
        root.pass(60);
        root.hear("two", 40, true);
        root.pass(3);
        assert_eq!(root.stored(), (JobState::Ended, 60, Vec::new()));
    }

    #[test]
    fn a_root_that_is_started_again_waits_for_the_nodes_it_knew() {
        let mut root = Root::new("gather-restart");
        root.hear("one", 10, true);
        root.hear("two", 5, false);
        root.pass(2);
        root.restart();
        root.pass(30);
        assert_eq!(root.stored().0, JobState::Running, "two is expected back");
        root.hear("two", 7, true);
        root.pass(3);
        assert_eq!(root.stored(), (JobState::Ended, 17, Vec::new()));
        // What goes on after its end is the same job.
        root.hear("one", 30, false);
        root.pass(2);
        assert_eq!((root.stored().0, root.stored().1), (JobState::Running, 37));
        root.hear("one", 31, true);
        root.pass(3);
        assert_eq!(root.stored(), (JobState::Ended, 38, Vec::new()));
        let view = root.leaf.view(root.now_ns);
        assert_eq!(view.elsewhere.mpi().calls, 38, "what went on is not in the machine's sum twice");
    }
}
