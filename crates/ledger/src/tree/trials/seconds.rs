//! Counts that a root shows of each second, once all that it has missed has come: links are cut, stall, and lead elsewhere.

use super::*;
#[cfg(test)]
use crate::tree::missed::KEPT_NS;

const BEGIN_S: u64 = 1_700_000_000;

/// A daemon that counts for one job each second, and sends it to the one above.
struct Machine {
    hub: Hub,
    calls: u64,
    /// When its part of the job began.
    start_s: u64,
    parent: usize,
    link: Option<Wire>,
    /// Until when nothing arrives, on a link that stays.
    stalled_until_s: u64,
    cut_until_s: u64,
}

impl Machine {
    /// Its part of the job.
    fn opened(&self) -> Opened {
        let key = JobKey { start_ns: self.start_s * SECOND, ..key_of(0) };
        let (node, about) = (self.hub.own.node.clone(), About::default());
        Opened { node, epoch: 0, key, about, is_local: false, rank: 0, n_ranks: 0 }
    }

    /// Its daemon ends and is started again, with what its store has of it.
    fn restart(&mut self, now_ns: u64) {
        let versions = self.hub.kept_versions();
        self.link = None;
        self.hub = Hub::new(self.hub.own.clone(), false, Limits::default());
        if self.calls > 0 {
            self.hub.open(now_ns, &self.opened(), true).unwrap();
        }
        assert!(self.hub.restore_versions(now_ns, &versions));
    }
}

struct Wire {
    up: Uplink,
    down: Downlink,
    upwards: Vec<u8>,
    downwards: Vec<u8>,
    inboxes: [Inbox; 2],
}

struct Site {
    machines: Vec<Machine>,
    now_s: u64,
    /// Counts until each second: the true ones, and those that the root shows.
    truth: BTreeMap<u64, u64>,
    shown: BTreeMap<u64, u64>,
    /// Versions that were sent as missed.
    n_missed: u64,
    chance: Chance,
}

impl Site {
    fn new(seed: u64, n: usize) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let machines = (0..n).map(|index| {
            let place = Place { node: Name::cut(format!("n{index}").as_bytes()), instance: index as u64 + 9 };
            Machine {
                hub: Hub::new(place, index == 0, Limits::default()),
                calls: 0,
                start_s: BEGIN_S + chance.next() % 60,
                parent: 0,
                link: None,
                stalled_until_s: 0,
                cut_until_s: 0,
            }
        });
        let machines = machines.collect();
        let (truth, shown) = (BTreeMap::new(), BTreeMap::new());
        let mut site = Self { machines, now_s: BEGIN_S, truth, shown, n_missed: 0, chance };
        (1..n).for_each(|index| site.move_to(index));
        site
    }

    /// Chooses a parent, nearer to the root and not too deep.
    fn move_to(&mut self, index: usize) {
        self.machines[index].parent = self.chance.below(index.min(3));
    }

    /// A second passes: all count, and send what they have, those far from the root first.
    fn second(&mut self) {
        self.now_s += 1;
        let now_ns = self.now_s * SECOND + SECOND / 3;
        for index in (0..self.machines.len()).rev() {
            if index > 0 {
                // Each shows what is below it.
                let hub = &mut self.machines[index].hub;
                for group in hub.changed(now_ns) {
                    hub.news(now_ns, &group);
                }
                hub.take_late(self.now_s);
                self.count(index, now_ns);
                self.talk(index, now_ns);
            }
            self.machines[index].hub.tick(now_ns);
        }
        self.truth.insert(self.now_s, self.machines.iter().map(|machine| machine.calls).sum());
        self.look(now_ns);
    }

    fn count(&mut self, index: usize, now_ns: u64) {
        let machine = &mut self.machines[index];
        if self.now_s < machine.start_s {
            return;
        }
        // Now and then nothing.
        let calls = self.chance.next() % 8;
        machine.calls += calls.saturating_sub(2);
        let opened = machine.opened();
        let metric = |name: &str| Metric::Mpi { function: name.into() };
        let cell = |calls| Cell { calls, bytes: 0, ns: 0 };
        // Another metric comes later.
        let [sent, received] = [machine.calls.min(20), machine.calls.saturating_sub(20)].map(cell);
        let mut counters: Counters = [(metric("MPI_Send"), sent)].into_iter().collect();
        if received.calls > 0 {
            counters.add(metric("MPI_Recv"), received);
        }
        machine.hub.put_own(now_ns, &opened, &counters, 1, false, None);
    }

    fn talk(&mut self, index: usize, now_ns: u64) {
        let parent = self.machines[index].parent;
        let Ok([machine, parent]) = self.machines.get_disjoint_mut([index, parent]) else { return };
        if self.now_s < machine.cut_until_s {
            return;
        }
        let Machine { hub, link, .. } = machine;
        let wire = link.get_or_insert_with(|| {
            let hello = Hello { versions: VERSIONS, place: hub.own.clone(), proof: Vec::new() };
            let (down, version) = Downlink::begin(&parent.hub, &hello).unwrap();
            let path = Downlink::path(&parent.hub);
            let up = Uplink::begin(hub, &Welcome { version, path, proof: Vec::new() }).unwrap();
            let (upwards, downwards) = (Vec::new(), Vec::new());
            Wire { up, down, upwards, downwards, inboxes: Default::default() }
        });
        // Both ends say something, hear it, and say what that made them say.
        for _ in 0..3 {
            let mut is_all = false;
            while !is_all {
                let mut piece = Vec::new();
                is_all = wire.up.fill(now_ns, hub, 1 << 8, &mut piece).unwrap();
                wire.upwards.append(&mut piece);
            }
            if self.now_s < machine.stalled_until_s {
                return;
            }
            let [from_below, from_above] = &mut wire.inboxes;
            let (up, down) = (&mut wire.up, &mut wire.down);
            let n_missed = &mut self.n_missed;
            let heard = from_below.take(&wire.upwards, |frame| {
                *n_missed += u64::from(matches!(frame, Frame::Missed(_)));
                down.heard(now_ns, frame, &mut parent.hub)
            });
            heard.unwrap();
            down.fill(&parent.hub, &mut wire.downwards);
            from_above.take(&wire.downwards, |frame| up.heard(now_ns, frame, hub)).unwrap();
            (wire.upwards, wire.downwards) = (Vec::new(), Vec::new());
        }
    }

    /// The root takes a sample, and puts right what it has learnt of earlier ones.
    fn look(&mut self, now_ns: u64) {
        let hub = &mut self.machines[0].hub;
        let mut sum = self.shown.last_key_value().map_or(0, |(_, sum)| *sum);
        for group in hub.changed(now_ns) {
            sum = hub.news(now_ns, &group).unwrap().sum.mpi().calls;
        }
        self.shown.insert(self.now_s, sum);
        for late in hub.take_late(self.now_s) {
            for (_, shown) in self.shown.range_mut(late.from_s..late.until_s) {
                *shown += late.added.mpi().calls;
            }
        }
        assert!(self.shown.values().is_sorted(), "no second has less than one before");
        for (second, shown) in &self.shown {
            assert!(*shown <= self.truth[second], "{second}: {shown} of {}", self.truth[second]);
        }
    }

    fn cut(&mut self, index: usize, until_s: u64, is_sent: bool) {
        if is_sent && self.now_s >= self.machines[index].cut_until_s {
            // What is sent last does not arrive.
            let now_ns = self.now_s * SECOND + SECOND / 2;
            let machine = &mut self.machines[index];
            if let Some(wire) = &mut machine.link {
                wire.up.fill(now_ns, &machine.hub, usize::MAX, &mut Vec::new()).unwrap();
            }
        }
        let machine = &mut self.machines[index];
        machine.link = None;
        machine.cut_until_s = until_s;
    }
}

/// Links are cut for less than five minutes and stall, daemons without others below are restarted; if `moves`, they also lead elsewhere. In the end each second is shown as it was; where machines have
/// moved, one may be shown with the next.
///
/// # Panics
///
/// If it is not, or if anything shown falls or is more than was counted then.
pub fn try_seconds(seed: u64, n_machines: usize, n_seconds: u64, moves: bool) {
    let mut site = Site::new(seed, n_machines);
    for _ in 0..n_seconds {
        site.second();
        let index = 1 + site.chance.below(n_machines - 1);
        let until_s = site.now_s + 1 + site.chance.next() % 100;
        match site.chance.below(40) {
            0 => site.cut(index, until_s, false),
            1 => site.cut(index, until_s, true),
            2 => {
                site.cut(index, site.now_s, false);
                if moves {
                    site.move_to(index);
                }
            }
            3 => site.machines[index].stalled_until_s = site.now_s + 1 + site.chance.next() % 5,
            // Nobody was ever below these.
            4 | 5 if index >= 3 || index + 1 == n_machines => {
                let now_ns = site.now_s * SECOND + SECOND / 2;
                site.machines[index].restart(now_ns);
            }
            _ => {}
        }
    }
    site.machines.iter_mut().for_each(|machine| (machine.cut_until_s, machine.stalled_until_s) = (0, 0));
    (0..10).for_each(|_| site.second());
    let late = site.truth.iter().filter(|(second, truth)| site.shown[second] != **truth);
    let late: Vec<u64> = late.map(|(second, _)| *second).collect();
    assert!(late.len() <= if moves { 2 } else { 0 }, "{late:?}");
    assert!(late.windows(2).all(|pair| pair[0] + 1 < pair[1]), "{late:?}");
    assert!(site.machines.iter().all(|machine| machine.hub.n_missed() == 0));
}

#[cfg(test)]
#[test]
fn each_second_is_shown_as_it_was_once_all_that_was_missed_has_come() {
    for seed in 0..300 {
        let outcome =
            std::panic::catch_unwind(|| try_seconds(seed, 2 + (seed % 7) as usize, 200, seed % 3 == 0));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[cfg(test)]
#[test]
fn of_a_longer_silence_the_oldest_seconds_are_lost_and_counted() {
    for is_below in [false, true] {
        let mut site = Site::new(7, 3);
        for machine in &mut site.machines {
            (machine.parent, machine.start_s) = (0, BEGIN_S);
        }
        site.machines[2].parent = 1;
        (0..20).for_each(|_| site.second());
        assert_eq!(site.n_missed, 0, "what comes in time is sent once");
        let cut = if is_below { 2 } else { 1 };
        let (from_s, to_s) = (site.now_s, site.now_s + 400);
        site.cut(cut, to_s + 1, false);
        (0..420).for_each(|_| site.second());
        // Of the seconds that are lost nothing is shown until the first that is not.
        let kept_s = to_s + 1 - KEPT_NS / SECOND;
        let lost: Vec<u64> =
            site.truth.keys().copied().filter(|it| site.shown[it] < site.truth[it]).collect();
        // In some seconds nothing was counted: these are shown with the next.
        assert!(lost[0] <= from_s + 4 && lost.is_sorted(), "{lost:?}");
        let last = lost[lost.len() - 1];
        assert!((kept_s - 1..kept_s + 4).contains(&last), "{last} is not near {kept_s}");
        assert_eq!(lost.len() as u64, last - lost[0] + 1, "all before it: {lost:?}");
        assert!(site.machines[cut].hub.n_missed() > 60, "{}", site.machines[cut].hub.n_missed());
        assert_eq!(site.machines[3 - cut].hub.n_missed(), 0);
    }
}
