//! Reading that somebody waits for.

use std::fmt;
use std::sync::Arc;

/// Hears of events as they are read, many at a time. It may unwind, which ends the reading.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(u64) + Send + Sync>);

impl Watch {
    /// It hears after so many events of a file.
    pub const EVERY: u64 = 1 << 16;

    /// Makes one that calls `hear` with the number of events since the last call.
    pub fn new(hear: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(crate) fn tell(&self, n_events: u64) {
        self.0(n_events);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
