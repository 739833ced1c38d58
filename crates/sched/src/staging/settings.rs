//! Settings of a controller that the user chooses.

/// When data is moved while the job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Between the I/O phases, as fast as possible.
    Gap,
    /// Between the I/O phases, only as fast as needed to be done before the next one.
    Deadline,
    /// At once.
    Immediate,
    /// When the buffer is fuller than the high-water mark.
    Space,
    /// When the job is over.
    End,
}

impl Policy {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Immediate, Self::End, Self::Space, Self::Gap, Self::Deadline];

    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Deadline => "deadline",
            Self::Immediate => "immediate",
            Self::Space => "space",
            Self::End => "end",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// How a controller behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// When data is moved while the job runs.
    pub policy: Policy,
    /// Capacity of the buffer; `None` if it cannot be full.
    pub capacity_bytes: Option<f64>,
    /// The share of the capacity that should not be exceeded.
    pub high_water: f64,
    /// Whether what was moved is then removed. If not, moving in a phase makes no room, and is not done.
    pub is_purged: bool,
    /// Without predictions: this long after the job's last I/O, data may be moved.
    pub quiet_s: f64,
    /// With predictions: this long after the job's last I/O, data may be moved.
    pub recent_s: f64,
    /// The highest rate at which data may be moved.
    pub bandwidth_bps: Option<f64>,
    /// How long one piece takes to move; what was begun is not interrupted.
    pub chunk_s: f64,
}

impl Settings {
    /// Returns the usual settings of a policy, for a buffer without a limit.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            capacity_bytes: None,
            high_water: 0.85,
            is_purged: true,
            quiet_s: 1.0,
            recent_s: 0.25,
            bandwidth_bps: None,
            chunk_s: 0.05,
        }
    }

    /// The fill level that should not be exceeded.
    pub fn high_water_bytes(&self) -> Option<f64> {
        self.capacity_bytes.map(|capacity_bytes| self.high_water * capacity_bytes)
    }
}
