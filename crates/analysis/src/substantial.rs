//! What of a signal is I/O that matters, and what is noise beside it (section II-C of the FTIO paper).

use iotide_trace::SampledSignal;

/// A signal told apart by its own mean bandwidth `V/L`: what exceeds it is substantial.
pub(crate) struct Substantial {
    /// The samples, cut to the sampled time.
    pub(crate) pieces: Vec<Piece>,
    /// How much time they cover: the paper's `L(T)`.
    pub(crate) duration_s: f64,
}

/// A sample, with what it stands for.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) duration_s: f64,
    pub(crate) bytes: f64,
    pub(crate) is_substantial: bool,
}

impl Substantial {
    pub(crate) fn of(signal: &SampledSignal) -> Self {
        let step_s = 1.0 / signal.rate_hz;
        let mut pieces: Vec<Piece> = signal
            .values
            .iter()
            .enumerate()
            .map(|(i, value)| Piece {
                // The last bin may reach beyond the sampled time; its volume lies within.
                duration_s: (signal.duration_s - i as f64 * step_s).clamp(0.0, step_s),
                bytes: value * step_s,
                is_substantial: false,
            })
            // What is left of a bin by rounding has a volume but no bandwidth to speak of.
            .filter(|piece| piece.duration_s > 1e-6 * step_s)
            .collect();
        let duration_s: f64 = pieces.iter().map(|piece| piece.duration_s).sum();
        let bytes: f64 = pieces.iter().map(|piece| piece.bytes).sum();
        // A constant signal never exceeds its mean, whatever the last digit says.
        let threshold_bps = bytes / duration_s * (1.0 + 1e-9);
        for piece in &mut pieces {
            piece.is_substantial = piece.bytes > threshold_bps * piece.duration_s;
        }
        Self { pieces, duration_s }
    }

    /// The share of the time with substantial I/O, the paper's `R_IO`; `None` without time.
    pub(crate) fn time_ratio(&self) -> Option<f64> {
        (self.duration_s > 0.0).then(|| (self.sum(|piece| piece.duration_s) / self.duration_s).min(1.0))
    }

    /// Adds up something over the substantial pieces.
    pub(crate) fn sum(&self, of: fn(&Piece) -> f64) -> f64 {
        self.pieces.iter().filter(|piece| piece.is_substantial).map(of).sum()
    }
}
