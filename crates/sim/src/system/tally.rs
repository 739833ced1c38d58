//! Sums over the run: how long how many were where.

/// Beyond this many requests at operations, their distribution is not kept.
const MOST_COUNTED: usize = 4096;

/// How many are somewhere, summed over time.
///
/// Number times seconds up to a time T is T times the number then, less each change times when it came: a change costs one
/// product, and nobody has to know when the one before it was.
#[derive(Clone, Copy, Debug, Default)]
struct Area {
    now: f64,
    /// Changes times when they came.
    moment: f64,
}

impl Area {
    #[inline]
    fn change(&mut self, at_s: f64, by: f64) {
        self.moment += by * at_s;
        self.now += by;
    }

    /// Sets a number that is no count, so that sums of changes would gather roundings.
    #[inline]
    fn set(&mut self, at_s: f64, now: f64) {
        self.moment += (now - self.now) * at_s;
        self.now = now;
    }

    fn until(&self, at_s: f64) -> f64 {
        self.now * at_s - self.moment
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
    waiting: Area,
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
            waiting: Area::default(),
            op_busy: areas(n_targets),
            move_busy: areas(n_targets),
            completed: vec![0; n_groups],
            bursts: vec![(0, 0.0); n_groups],
            n_at_op: 0,
            at_op_since_s: 0.0,
            distribution_s: vec![0.0; 64],
        }
    }

    /// One more (`by` is 1) or fewer (−1) is at the operations of a target; a share of its servers is busy now, or that is as it was.
    #[inline]
    pub(super) fn at_op(&mut self, at_s: f64, target: usize, kind: usize, by: f64, busy: Option<f64>) {
        self.at_op[kind].change(at_s, by);
        match busy {
            Some(share) => self.op_busy[target].set(at_s, share),
            None => self.waiting.change(at_s, by),
        }
        self.distribute(at_s);
        self.n_at_op = if by > 0.0 { self.n_at_op + 1 } else { self.n_at_op - 1 };
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

    /// One more (`by` is 1) or fewer (−1) moves bytes at a target, of whose bandwidth a share is used now.
    #[inline]
    pub(super) fn moving(&mut self, at_s: f64, target: usize, kind: usize, by: f64, busy: f64) {
        self.moving[kind].change(at_s, by);
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
        let until = |areas: &[Area]| -> Vec<f64> { areas.iter().map(|area| area.until(at_s)).collect() };
        self.distribute(at_s);
        Sums {
            at_s,
            at_op: until(&self.at_op),
            moving: until(&self.moving),
            waiting: self.waiting.until(at_s),
            op_busy: until(&self.op_busy),
            move_busy: until(&self.move_busy),
            completed: self.completed.clone(),
            bursts: self.bursts.clone(),
        }
    }
}
