//! The thread that reads pages, merges what comes from below, writes the store, and says what there is.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};

use iotide_ledger::{JobId, JobKey, Name};

use crate::config::Config;
use crate::groups;
use crate::serve::RETRY;
use crate::shared::{Shared, now_ns};
use iotide_alarms::Second;
use iotide_daemon::collect::ROUND;
use iotide_daemon::collect::{Collector, GroupJob, ReportedGroups};
use iotide_daemon::gather::Gathering;
use iotide_daemon::gauges::Gauges;
use iotide_daemon::leaf::{Act, Earlier, Leaf, PageId, View, with_rows};
use iotide_daemon::memory;
use iotide_daemon::predict::{Expected, Predicting};
use iotide_daemon::series::{Last, Sampling};
use iotide_daemon::store::rebuild::Rebuild;
use iotide_daemon::store::{Store, StoreError};

/// Acts that are stored in one transaction.
const MOST_ACTS: usize = 512;
/// How often jobs are looked for that are too old, or too many.
const SWEEP_NS: u64 = 60_000_000_000;

/// The thread that reads pages and writes the store.
#[derive(Debug)]
pub(crate) struct Collecting {
    shared: Arc<Shared>,
    pub(crate) leaf: Leaf,
    pub(crate) collector: Collector,
    store: Store,
    predicting: Predicting,
    gauges: Gauges,
    sampling: Sampling,
    /// Where this daemon is part of a tree.
    gathering: Option<Gathering>,
    /// Pages that are removed, and that the store may forget.
    removed: Vec<PageId>,
    retry_ns: u64,
    /// When jobs are next looked at that may be too old.
    sweep_ns: u64,
    /// When the last sample was taken, in seconds since 1970.
    sampled_s: u64,
    /// How often memory is to be given back since jobs have ended, and when that was done last.
    n_to_give_back: u32,
    given_back_ns: u64,
    /// What is left of rebuilding a database that was damaged.
    rebuild: Option<Rebuild>,
    told_groups: ReportedGroups,
    /// Readings of cgroups that were told.
    n_groups_told: u64,
}

impl Collecting {
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        leaf: Leaf,
        collector: Collector,
        store: Store,
        sampling: Sampling,
        gathering: Option<Gathering>,
    ) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::clone(shared),
            leaf,
            collector,
            predicting: Predicting::start(shared.expectations.clone(), shared.events.clone())?,
            gauges: Gauges::default(),
            sampling,
            gathering,
            removed: Vec::new(),
            retry_ns: 0,
            sweep_ns: shared.started_ns + SWEEP_NS,
            sampled_s: 0,
            n_to_give_back: 0,
            given_back_ns: shared.started_ns,
            rebuild: Rebuild::begin(&store),
            store,
            told_groups: ReportedGroups::default(),
            n_groups_told: 0,
        })
    }

    pub(crate) fn run(mut self, until_stopped: &Receiver<()>) {
        loop {
            self.round();
            match until_stopped.recv_timeout(ROUND) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break,
            }
        }
        self.round();
        // With the last samples of jobs that have just ended.
        let now = now_ns();
        self.sample(now, Arc::new(self.leaf.view(now)));
        self.keep_versions(now, true);
        self.store.checkpoint();
    }

    pub(crate) fn round(&mut self) {
        let now = now_ns();
        let store = &self.store;
        let mut fault = None;
        let mut earlier = |cluster: &Name, uid: u32, id: &JobId| {
            store.earlier(cluster, uid, id).unwrap_or_else(|error| {
                fault = Some(error);
                Earlier::default()
            })
        };
        self.collector.round(now, &mut self.leaf, &mut earlier);
        let n_readings = self.shared.n_group_readings.load(Ordering::Acquire);
        if n_readings != self.n_groups_told {
            self.n_groups_told = n_readings;
            let groups = self.shared.groups();
            self.told_groups.tell(now, &groups, &mut self.leaf, &mut earlier);
            for key in self.leaf.keys() {
                let reading = GroupJob::of(&groups, key).map(|group| &group.reading);
                if let Some((reading, bytes)) = reading.and_then(|it| Some((it, it.memory_bytes?))) {
                    let most = reading.memory_peak_bytes.map(|bytes| bytes as f64);
                    self.gauges.see_of(key, groups::MEMORY, bytes as f64, most);
                }
            }
        }
        if let Some(fault) = fault {
            self.store_failed(now, &fault);
        }
        let moved = self.leaf.moved_here();
        self.gauges.see(now, moved.iter().map(|(key, _)| key), || self.shared.node());
        self.predicting.tell(now, moved);
        let rows = self.gather(now);
        self.take_late(now);
        let acts = with_rows(self.leaf.tick(now), rows);
        // What has come from below is shown at once.
        let mut has_changed = self.gathering.as_ref().is_some_and(|it| it.gathered_ns() == now);
        let has_more = self.removed.len() > 64 || self.shared.series.has_losses();
        if now >= self.retry_ns && (!acts.is_empty() || has_more) {
            match self.store_in_parts(now, &acts) {
                Ok(()) => has_changed = true,
                Err(error) => self.store_failed(now, &error),
            }
        }
        self.sweep(now);
        self.keep_versions(now, false);
        self.go_on_rebuilding(now);
        self.shared.events.tick();
        // Once in each second of the clock: none is without a sample.
        let is_old = now / 1_000_000_000 != self.shared.view().at_ns / 1_000_000_000;
        if has_changed || is_old {
            let view = Arc::new(self.leaf.view(now));
            *self.shared.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&view);
            if now / 1_000_000_000 != self.sampled_s {
                self.shared.events.rates(&view);
                self.sample(now, view);
            }
        }
        if now.saturating_sub(self.given_back_ns) >= memory::GIVE_BACK_NS && self.has_to_give_back() {
            memory::give_back();
            (self.n_to_give_back, self.given_back_ns) = (self.n_to_give_back.saturating_sub(1), now);
        }
        self.shared.beat_ns.store(now, Ordering::Relaxed);
    }

    /// Stores acts some at a time, in their order: a transaction is as large as its acts.
    fn store_in_parts(&mut self, now: u64, acts: &[Act]) -> Result<(), StoreError> {
        let (first, rest) = acts.split_at(acts.len().min(MOST_ACTS));
        self.store_acts(now, first)?;
        rest.chunks(MOST_ACTS).try_for_each(|acts| self.store_acts(now, acts))
    }

    /// Whether somebody has used memory for a while that is free now.
    fn has_to_give_back(&self) -> bool {
        let has_answered = self.shared.has_answered.swap(false, Ordering::Relaxed);
        // Models may be fitted long after their last run has ended.
        let has_fitted = self.shared.models.take_has_fitted();
        has_answered || has_fitted || self.n_to_give_back > 0
    }

    /// What daemons below have counted becomes part of the jobs; returns what is to be stored of it.
    fn gather(&mut self, now: u64) -> Vec<Act> {
        let Some(gathering) = &mut self.gathering else { return Vec::new() };
        let safe = gathering.take_safe();
        let sent = if safe.is_empty() { Ok(()) } else { self.store.sent(&safe) };
        let gathered = sent.and_then(|()| gathering.gather(now, &self.store, &mut self.leaf));
        for (key, expected) in gathering.take_expected() {
            self.shared.events.expected(&key, &expected);
        }
        gathered.unwrap_or_else(|error| {
            self.store_failed(now, &error);
            Vec::new()
        })
    }

    /// What daemons below could not say in time is put where it belongs.
    fn take_late(&mut self, now: u64) {
        let Some(gathering) = self.gathering.as_mut().filter(|it| it.gathered_ns() == now) else { return };
        let late = gathering.take_late(now, now / 1_000_000_000 == self.sampled_s);
        self.sampling.tell_late(late);
    }

    /// Keeps what the daemon above may not have, for the time after a restart.
    fn keep_versions(&mut self, now: u64, is_end: bool) {
        let Some(gathering) = self.gathering.as_mut().filter(|_| now >= self.retry_ns) else { return };
        if let Err(error) = gathering.keep_versions(now, &mut self.store, is_end) {
            self.store_failed(now, &error);
        }
    }

    /// Rebuilds a little of a database that was damaged. Pages have been read before: what runs is known.
    fn go_on_rebuilding(&mut self, now: u64) {
        let knows_groups = self.n_groups_told > 0 || self.shared.config.cgroups.is_none();
        let is_time = now >= self.retry_ns && knows_groups;
        let Some(rebuild) = self.rebuild.as_mut().filter(|_| is_time) else { return };
        let running: HashSet<(&Name, u32, &JobId)> =
            self.leaf.keys().map(|key| (&key.cluster, key.uid, &key.id)).collect();
        let runs = |key: &JobKey| running.contains(&(&key.cluster, key.uid, &key.id));
        match rebuild.step(now, &mut self.store, runs) {
            Ok(false) => {}
            Ok(true) => self.rebuild = None,
            Err(error) => self.store_failed(now, &error),
        }
    }

    /// Removes jobs that are too old or too many, some at a time.
    fn sweep(&mut self, now: u64) {
        if now < self.retry_ns || now < self.sweep_ns {
            return;
        }
        match self.store.sweep(now, &self.shared.config.jobs) {
            Ok(0) => self.sweep_ns = now + SWEEP_NS,
            Ok(_) => {}
            Err(error) => self.store_failed(now, &error),
        }
    }

    fn sample(&mut self, now: u64, view: Arc<View>) {
        self.sampled_s = now / 1_000_000_000;
        let second =
            Second { view: Arc::clone(&view), node: self.shared.node(), groups: self.shared.groups() };
        self.shared.alarms.tell(second);
        self.sampling.tell(now, view, self.shared.node(), self.shared.groups());
    }

    fn store_acts(&mut self, now: u64, acts: &[Act]) -> Result<(), StoreError> {
        let ended: Vec<&JobKey> = acts.iter().filter_map(Act::ended).collect();
        let last: Vec<Last> = ended
            .iter()
            .filter_map(|key| {
                Some(Last { now_ns: now, key: (*key).clone(), counters: self.leaf.ended_sum(key)? })
            })
            .collect();
        for key in &ended {
            let mut figures = self.gauges.of(key);
            figures.extend(self.shared.expectations.of(key).iter().flat_map(Expected::figures));
            figures.extend(self.shared.steering.resizes_of(key));
            self.store.put_figures(key, &figures)?;
        }
        self.store.store(now, acts)?;
        let afterwards = self.gathering.as_ref().map(|gathering| gathering.before_stored(acts, &self.leaf));
        self.leaf.stored(acts);
        if let (Some(gathering), Some(afterwards)) = (&self.gathering, afterwards) {
            gathering.stored(now, acts, afterwards);
        }
        self.shared.events.acted(acts);
        for act in acts {
            if let Act::Finish { page, .. } = act
                && self.collector.remove(page)
            {
                self.removed.push(page.clone());
            }
        }
        if !last.is_empty() {
            self.n_to_give_back = memory::TIMES;
        }
        last.into_iter().for_each(|last| self.sampling.tell_last(last));
        for key in ended {
            self.gauges.forget(key);
            self.shared.steering.forget_resizes(key);
            self.shared.models.ended(key);
        }
        self.store.forget_pages(&self.removed)?;
        self.removed.clear();
        let mut losses = self.shared.series.take_losses();
        while let Some((key, what)) = losses.pop() {
            if let Err(error) = self.store.lose(now, key.as_ref(), &what) {
                losses.push((key, what));
                self.shared.series.give_back(losses);
                return Err(error);
            }
        }
        *self.shared.store_fault.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Nothing is lost yet: what could not be stored is still in the pages. It is tried again.
    fn store_failed(&mut self, now: u64, error: &StoreError) {
        self.retry_ns = now + RETRY.as_nanos() as u64;
        *self.shared.store_fault.write().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        if error.is_damage() {
            let Config { store, node, .. } = &self.shared.config;
            match Store::begin_anew(store, node, now, error) {
                Ok(store) => {
                    self.store = store;
                    self.rebuild = Rebuild::begin(&self.store);
                }
                Err(_) => return,
            }
            if let Some(tree) = &self.shared.tree {
                // It is the same daemon, for those above and below.
                let _ = self.store.instance(tree.hub().own.instance);
            }
        } else if !error.is_missing_rows() {
            return;
        }
        if let Some(gathering) = &self.gathering {
            gathering.store_was_lost();
        }
        let done = self.leaf.store_was_lost();
        // What ends now is known to more than the store, and waits for the next time.
        let acts: Vec<Act> = self.leaf.tick(now).into_iter().filter(|act| act.ended().is_none()).collect();
        if self.store.store(now, &acts).is_ok() {
            self.leaf.stored(&acts);
            for (key, counters) in done {
                let _ = self.store.put_done(&key, &counters);
            }
        }
    }
}
