//! Phases of I/O, from a heat map that tells when bytes were moved.

use iotide_trace::ActivitySums;

/// A stretch of bins in which bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) start_s: f64,
    pub(super) seconds: f64,
    pub(super) read: f64,
    pub(super) written: f64,
}

/// Returns the phases of a run; none if the source does not tell when bytes were moved.
pub(super) fn phases(seen: &ActivitySums) -> Vec<Phase> {
    let heat = &seen.heat;
    if !seen.has_phases || heat.n_bins == 0 {
        return Vec::new();
    }
    let sum = |of: fn(&iotide_trace::HeatRow) -> &Vec<f64>| {
        let mut sums = vec![0.0; heat.n_bins];
        for row in &heat.rows {
            sums.iter_mut().zip(of(row)).for_each(|(sum, bytes)| *sum += bytes);
        }
        sums
    };
    let (read, written) = (sum(|row| &row.read), sum(|row| &row.written));
    let total: f64 = read.iter().chain(&written).sum();
    // A bin with next to nothing lies between phases.
    let least = 1e-4 * total / heat.n_bins as f64;
    let mut phases: Vec<Phase> = Vec::new();
    let mut is_open = false;
    for (bin, (read, written)) in read.iter().zip(&written).enumerate() {
        if read + written <= least {
            is_open = false;
            continue;
        }
        let start_s = heat.start_s + bin as f64 * heat.bin_s;
        match phases.last_mut().filter(|_| is_open) {
            Some(phase) => {
                phase.seconds += heat.bin_s;
                phase.read += read;
                phase.written += written;
            }
            None => phases.push(Phase { start_s, seconds: heat.bin_s, read: *read, written: *written }),
        }
        is_open = true;
    }
    phases
}
