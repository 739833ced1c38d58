//! Known facts about a job before it runs: sizes, times, and how its time changes with its size.

/// Permitted changes of a job's size, and by whom (Feitelson & Rudolph, 1996).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobKind {
    /// Nothing: it runs at one size.
    #[default]
    Rigid,
    /// The scheduler chooses its size at the start.
    Moldable,
    /// The scheduler may also change its size while it runs.
    Malleable,
    /// The job asks for other sizes while it runs.
    Evolving,
}

impl JobKind {
    /// The name people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rigid => "rigid",
            Self::Moldable => "moldable",
            Self::Malleable => "malleable",
            Self::Evolving => "evolving",
        }
    }

    /// The kind that people mean by a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Rigid, Self::Moldable, Self::Malleable, Self::Evolving]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// How a job's time changes with its number of nodes; only ratios count.
#[derive(Clone, Debug, PartialEq)]
pub enum Speedup {
    /// Amdahl's law: this share of the work gains nothing from more nodes.
    SerialFraction(f64),
    /// Times at some sizes, in ascending order: linear between them, constant outside.
    Times(Vec<(u32, f64)>),
}

impl Speedup {
    /// Returns a time that stands in the right ratio to those at other sizes.
    pub fn relative_time(&self, nodes: u32) -> f64 {
        match self {
            Self::SerialFraction(serial) => serial + (1.0 - serial) / f64::from(nodes.max(1)),
            Self::Times(times) => {
                let above = times.partition_point(|&(at, _)| at < nodes);
                match (above.checked_sub(1).map(|below| times[below]), times.get(above)) {
                    (_, Some(&(at, time))) if at == nodes => time,
                    (Some((low, low_time)), Some(&(high, high_time))) => {
                        let share = f64::from(nodes - low) / f64::from(high - low);
                        low_time + (high_time - low_time) * share
                    }
                    (Some((_, time)), None) | (None, Some(&(_, time))) => time,
                    (None, None) => 1.0,
                }
            }
        }
    }
}

/// A job as a scheduler sees it. Times are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchJob {
    /// Permitted changes of its size.
    pub kind: JobKind,
    /// When it is submitted.
    pub submit_ms: i64,
    /// The preferred size, cut to the machine.
    pub nodes: u32,
    /// The least size.
    pub nodes_min: u32,
    /// The largest size, cut to the machine.
    pub nodes_max: u32,
    /// The size at which it takes [`BatchJob::runtime_ms`]: the preferred one before it was cut.
    pub reference_nodes: u32,
    /// Its time, alone, at the reference size.
    pub runtime_ms: f64,
    /// Its limit at the reference size.
    pub walltime_ms: f64,
    /// Time that earlier runs suggest; decisions are made by it.
    pub recorded_ms: f64,
    /// Higher goes first.
    pub priority: i64,
    /// How its time changes with its size.
    pub speedup: Speedup,
    /// Bytes it reads and writes in all, if known.
    pub io_bytes: Option<f64>,
    /// How far what decisions are made by is off the truth.
    pub errors: EstimateErrors,
}

/// How far what is believed of a job is off the truth; decisions are made by what is believed, and work is done as it is in truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateErrors {
    /// Its time is believed to be `(n/reference)^scaling` times what it is on n nodes.
    pub scaling: f64,
    /// Its I/O is believed to be so many times what it is.
    pub io: f64,
}

impl Default for EstimateErrors {
    /// The truth.
    fn default() -> Self {
        Self { scaling: 0.0, io: 1.0 }
    }
}

impl BatchJob {
    /// Returns how long it is believed to take at a size, alone, relative to its time at the reference size.
    pub(super) fn believed_ms(&self, nodes: u32) -> f64 {
        let time_ms = self.time_ms(nodes);
        if self.errors.scaling == 0.0 || nodes == self.reference_nodes {
            return time_ms;
        }
        time_ms * (f64::from(nodes) / f64::from(self.reference_nodes)).powf(self.errors.scaling)
    }

    /// Returns what it is believed to read and write in all, if anything is known of it.
    pub(super) fn believed_io(&self) -> Option<f64> {
        Some(self.io_bytes? * self.errors.io)
    }

    /// Returns how long it takes at a size, alone.
    pub fn time_ms(&self, nodes: u32) -> f64 {
        if nodes == self.reference_nodes {
            return self.runtime_ms;
        }
        self.runtime_ms * self.speedup.relative_time(nodes) / self.speedup.relative_time(self.reference_nodes)
    }

    /// Returns how much of its work fits into its limit; more than 1 is room to spare.
    pub fn limit_share(&self) -> f64 {
        if self.runtime_ms > 0.0 { self.walltime_ms / self.runtime_ms } else { 1.0 }
    }

    /// Returns how long a run at a size may take.
    pub fn limit_ms(&self, nodes: u32) -> i64 {
        whole_ms(self.limit_share() * self.time_ms(nodes))
    }

    /// Returns the share of the recorded time that is left once `done` of the work is done.
    pub fn left(&self, done: f64) -> f64 {
        if self.recorded_ms > 0.0 { (1.0 - done * self.runtime_ms / self.recorded_ms).max(0.0) } else { 0.0 }
    }

    /// Returns the estimated time to the end at a size once `done` of the work is done.
    pub fn remaining_ms(&self, done: f64, nodes: u32) -> f64 {
        if self.runtime_ms > 0.0 {
            self.left(done) * self.recorded_ms * self.believed_ms(nodes) / self.runtime_ms
        } else {
            0.0
        }
    }

    /// Whether the scheduler may choose its size at the start.
    pub fn is_sizeable(&self) -> bool {
        matches!(self.kind, JobKind::Moldable | JobKind::Malleable)
    }

    /// Returns the least size at which it can start.
    pub fn least_nodes(&self) -> u32 {
        if self.is_sizeable() { self.nodes_min } else { self.nodes }
    }
}

/// Ends lie on whole milliseconds; what is over by less than a rounding error is not over.
pub(super) fn whole_ms(time_ms: f64) -> i64 {
    ((time_ms - 1e-4).ceil() as i64).min(NEVER_MS)
}

/// Later than anything: times beyond it are not told apart, and sums of them do not overflow.
const NEVER_MS: i64 = i64::MAX / 4;

/// Cost of a change of size for the job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResizeCost {
    /// Each time.
    pub fixed_ms: f64,
    /// For each node that comes or goes.
    pub per_node_ms: f64,
}

impl ResizeCost {
    /// Returns what a change by so many nodes costs.
    pub fn of(self, changed: u32) -> f64 {
        self.fixed_ms + self.per_node_ms * f64::from(changed)
    }
}
