//! Which layers' bytes add up to what a run moved: the same bytes may pass through several.

use crate::{Layer, Op};

/// Layers that move bytes beside each other, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Low,
    MpiIo,
    Library,
}

impl Level {
    pub(super) fn of(layer: Layer) -> Self {
        match layer {
            Layer::Unknown | Layer::Posix | Layer::Stdio | Layer::Server => Level::Low,
            Layer::MpiIo => Level::MpiIo,
            Layer::Library => Level::Library,
        }
    }
}

/// Which levels saw bytes of a file, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenBy(u8);

impl SeenBy {
    #[inline]
    pub(super) fn add(&mut self, op: Op, layer: Layer) {
        let way = if op == Op::Read { 0 } else { 3 };
        self.0 |= 1 << (way + Level::of(layer) as u8);
    }

    pub(super) fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether the same bytes may have been seen twice.
    pub(super) fn is_several(self) -> bool {
        (self.0 & 7).count_ones() > 1 || (self.0 >> 3).count_ones() > 1
    }
}

/// The levels whose bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels([bool; 3]);

impl Levels {
    /// All of them, unless they saw the same bytes: then the lowest that saw as many as those above it.
    pub(super) fn of(bytes: [f64; 3], overlap: bool) -> Self {
        if !overlap {
            return Self([true; 3]);
        }
        let [low, mpi_io, library] = bytes;
        Self(match () {
            () if low >= mpi_io && low >= library => [true, false, false],
            () if mpi_io >= library => [false, true, false],
            () => [false, false, true],
        })
    }

    pub(super) fn counts(self, layer: Layer) -> bool {
        self.0[Level::of(layer) as usize]
    }

    pub(super) fn sum(self, bytes: [f64; 3]) -> f64 {
        bytes.iter().zip(self.0).map(|(bytes, counts)| if counts { *bytes } else { 0.0 }).sum()
    }
}
