//! How much memory other people's names may take.
//!
//! The number of names in a trace is bounded, and so is a line; but four million names of a megabyte are four terabytes, which pack to very
//! little. So whatever keeps names counts their bytes, too.

/// Bytes left for the names of one table.
#[derive(Debug)]
pub(crate) struct NameBudget {
    left: usize,
}

impl NameBudget {
    /// For the files of a trace: four million with names of sixty bytes.
    pub(crate) const FILES: usize = 256 << 20;
    /// For anything else that has a name.
    pub(crate) const OTHER: usize = 32 << 20;
    /// No path is longer on any system that is traced.
    pub(crate) const LONGEST: usize = 64 << 10;

    pub(crate) const fn new(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes what a name needs. Returns whether there is room for it.
    pub(crate) fn takes(&mut self, name: &[u8]) -> bool {
        let fits = name.len() <= Self::LONGEST && name.len() <= self.left;
        if fits {
            self.left -= name.len();
        }
        fits
    }

    /// Gives back what a name needed.
    pub(crate) fn give_back(&mut self, name: &[u8]) {
        self.left += name.len();
    }
}

impl Default for NameBudget {
    fn default() -> Self {
        Self::new(Self::OTHER)
    }
}
