//! What is counted on the way: how long how many were where.

/// Beyond this many requests at operations, their distribution is not kept.
const MOST_COUNTED: usize = 4096;

/// How many are somewhere, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Area {
    now: f64,
    since_s: f64,
    /// Number times seconds.
    area: f64,
}

impl Area {
    #[inline]
    fn set(&mut self, at_s: f64, now: f64) {
        self.area += self.now * (at_s - self.since_s);
        self.since_s = at_s;
        self.now = now;
    }
}

/// Sums since the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) at_s: f64,
    /// Requests at operations, by kind, times seconds.
    pub(super) at_op: Vec<f64>,
    /// Requests that move bytes, by kind, times seconds.
    pub(super) moving: Vec<f64>,
    /// Requests beyond the servers, at all targets, times seconds.
    pub(super) waiting: f64,
    /// Share of the servers that are busy, by target, times seconds.
    pub(super) op_busy: Vec<f64>,
    /// Share of the bandwidth that is used, by target, times seconds.
    pub(super) move_busy: Vec<f64>,
    /// Requests done, by group.
    pub(super) completed: Vec<u64>,
    /// Bursts done and the time they took, by group.
    pub(super) bursts: Vec<(u64, f64)>,
}

/// Counts on the way.
#[derive(Debug)]
pub(super) struct Tally {
    at_op: Vec<Area>,
    moving: Vec<Area>,
    waiting: Vec<Area>,
    op_busy: Vec<Area>,
    move_busy: Vec<Area>,
    pub(super) completed: Vec<u64>,
    bursts: Vec<(u64, f64)>,
    n_at_op: usize,
    at_op_since_s: f64,
    pub(super) distribution_s: Vec<f64>,
}

impl Tally {
    pub(super) fn new(n_kinds: usize, n_targets: usize, n_groups: usize) -> Self {
        let areas = |n| vec![Area::default(); n];
        Self {
            at_op: areas(n_kinds),
            moving: areas(n_kinds),
            waiting: areas(n_targets),
            op_busy: areas(n_targets),
            move_busy: areas(n_targets),
            completed: vec![0; n_groups],
            bursts: vec![(0, 0.0); n_groups],
            n_at_op: 0,
            at_op_since_s: 0.0,
            distribution_s: vec![0.0; 64],
        }
    }

    /// One more or fewer is at the operations of a target, which are `n` now.
    #[inline]
    pub(super) fn at_op(
        &mut self,
        at_s: f64,
        target: usize,
        kind: usize,
        is_more: bool,
        n: usize,
        servers: usize,
    ) {
        let area = &mut self.at_op[kind];
        area.set(at_s, if is_more { area.now + 1.0 } else { area.now - 1.0 });
        let busy = n.min(servers);
        self.op_busy[target].set(at_s, busy as f64 / servers as f64);
        self.waiting[target].set(at_s, (n - busy) as f64);
        self.distribute(at_s);
        self.n_at_op = if is_more { self.n_at_op + 1 } else { self.n_at_op - 1 };
    }

    #[inline]
    fn distribute(&mut self, at_s: f64) {
        if self.n_at_op >= self.distribution_s.len() && self.n_at_op < MOST_COUNTED {
            self.distribution_s.resize(2 * self.n_at_op, 0.0);
        }
        if let Some(sum_s) = self.distribution_s.get_mut(self.n_at_op) {
            *sum_s += at_s - self.at_op_since_s;
        }
        self.at_op_since_s = at_s;
    }

    /// One more or fewer moves bytes at a target, of whose bandwidth a share is used now.
    #[inline]
    pub(super) fn moving(&mut self, at_s: f64, target: usize, kind: usize, is_more: bool, busy: f64) {
        let area = &mut self.moving[kind];
        area.set(at_s, if is_more { area.now + 1.0 } else { area.now - 1.0 });
        self.move_busy[target].set(at_s, busy);
    }

    pub(super) fn burst(&mut self, group: usize, took_s: f64) {
        let (n, sum_s) = &mut self.bursts[group];
        *n += 1;
        *sum_s += took_s;
    }

    pub(super) fn forget_distribution(&mut self) {
        self.distribution_s.fill(0.0);
    }

    /// All sums at a time.
    pub(super) fn sums(&mut self, at_s: f64) -> Sums {
        let settled = |areas: &mut [Area]| -> Vec<f64> {
            areas
                .iter_mut()
                .map(|area| {
                    area.set(at_s, area.now);
                    area.area
                })
                .collect()
        };
        self.distribute(at_s);
        Sums {
            at_s,
            at_op: settled(&mut self.at_op),
            moving: settled(&mut self.moving),
            waiting: settled(&mut self.waiting).iter().sum(),
            op_busy: settled(&mut self.op_busy),
            move_busy: settled(&mut self.move_busy),
            completed: self.completed.clone(),
            bursts: self.bursts.clone(),
        }
    }
}
