//! Separation of a signal into I/O that matters and noise (section II-C of the FTIO paper).

use iotide_trace::SampledSignal;

/// Values that differ by less are the same, whatever the last digits say.
const ROUNDING: f64 = 1e-9;

/// A signal told apart by a bandwidth, most often its own mean `V/L`: what exceeds it is substantial.
pub(crate) struct Substantial<'a> {
    signal: &'a SampledSignal,
    threshold_bps: f64,
    /// How much time the samples cover: the paper's `L(T)`.
    pub(crate) duration_s: f64,
    /// How much of it exceeds the threshold: `L(S)`.
    pub(crate) io_time_s: f64,
    /// Bytes moved in that time: `V(S)`.
    pub(crate) io_bytes: f64,
}

/// A sample, cut to the sampled time.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) duration_s: f64,
    pub(crate) bytes: f64,
    pub(crate) is_substantial: bool,
}

impl<'a> Substantial<'a> {
    /// Without a threshold it is the mean, as in the paper.
    pub(crate) fn of(signal: &'a SampledSignal, threshold_bps: Option<f64>) -> Self {
        let mut parts = Self { signal, threshold_bps: 0.0, duration_s: 0.0, io_time_s: 0.0, io_bytes: 0.0 };
        let (mut duration_s, mut bytes) = (0.0, 0.0);
        for piece in parts.pieces() {
            duration_s += piece.duration_s;
            bytes += piece.bytes;
        }
        parts.duration_s = duration_s;
        let mean_bps = bytes / duration_s;
        parts.threshold_bps = threshold_bps.unwrap_or(mean_bps) * (1.0 + ROUNDING);
        let mut above = parts.sums_above();
        // Nothing of a constant signal exceeds its mean, yet all of it is I/O.
        if threshold_bps.is_none() && above.0 == 0.0 && mean_bps > 0.0 {
            parts.threshold_bps = mean_bps * (1.0 - ROUNDING);
            above = parts.sums_above();
        }
        (parts.io_time_s, parts.io_bytes) = above;
        parts
    }

    /// Time and bytes of what exceeds the threshold.
    fn sums_above(&self) -> (f64, f64) {
        let pieces = self.pieces().filter(|piece| piece.is_substantial);
        pieces.fold((0.0, 0.0), |(time_s, bytes), piece| (time_s + piece.duration_s, bytes + piece.bytes))
    }

    /// The share of the time with substantial I/O, the paper's `R_IO`; `None` without time.
    pub(crate) fn time_ratio(&self) -> Option<f64> {
        (self.duration_s > 0.0).then(|| (self.io_time_s / self.duration_s).min(1.0))
    }

    /// The samples in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let step_s = 1.0 / self.signal.rate_hz;
        self.signal
            .values
            .iter()
            .enumerate()
            .map(move |(i, value)| {
                // The last bin may reach beyond the sampled time; its volume lies within.
                let duration_s = (self.signal.duration_s - i as f64 * step_s).clamp(0.0, step_s);
                let bytes = value * step_s;
                Piece { duration_s, bytes, is_substantial: bytes > self.threshold_bps * duration_s }
            })
            // What is left of a bin by rounding has a volume but no bandwidth to speak of.
            .take_while(move |piece| piece.duration_s > 1e-6 * step_s)
    }
}
