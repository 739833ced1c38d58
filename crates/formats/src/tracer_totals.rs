//! Totals of the processes of a trace, kept beside their records: read from the end of each stream, without reading the records.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use iotide_private::open_ordinary;
use iotide_wire::{Payload, Step, Total, Totals, next_block, skip_torn};

use crate::tracer::streams_in;

/// Totals of the processes of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracerTotals {
    /// Bytes that the kernel counted, in the processes that say how many: read and written by calls.
    pub kernel_bytes: f64,
    /// Of those, what passed the tracer, recorded or left out.
    pub seen_bytes: f64,
    /// Calls that moved data on paths that are left out.
    pub excluded_calls: u64,
    /// Bytes of those calls.
    pub excluded_bytes: f64,
    /// Seconds the tracer took, in all processes together: its own work, and writing.
    pub overhead_s: f64,
    /// Seconds it took in the process where it took most.
    pub worst_overhead_s: f64,
    /// Outcome of requests to the arbiter of the storage.
    pub gate: GateTotals,
}

/// Outcome of requests to the arbiter of the storage, in all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GateTotals {
    /// Times its socket was there and could not be used for want of permission.
    pub n_denied: u64,
    /// Times it could not be reached, or went silent.
    pub n_unreached: u64,
    /// Requests that went on without its leave.
    pub n_skipped: u64,
    /// Seconds that requests waited for its leave.
    pub waited_s: f64,
}

/// Adds up what the processes of a traced directory say of themselves. A process that was killed says nothing.
pub fn tracer_totals(directory: &Path) -> io::Result<TracerTotals> {
    let mut sum = TracerTotals::default();
    for stream in streams_in(directory)? {
        let totals = totals_of(&open_ordinary(&stream)?)?;
        let of = |total| totals.get(total) as f64;
        let kernel = of(Total::KernelRead) + of(Total::KernelWritten);
        if kernel > 0.0 {
            sum.kernel_bytes += kernel;
            // What is counted and seen a moment apart may differ by a few bytes in either direction.
            sum.seen_bytes += (of(Total::SeenRead) + of(Total::SeenWritten)).min(kernel);
        }
        sum.excluded_calls += totals.get(Total::ExcludedCalls);
        sum.excluded_bytes += of(Total::ExcludedBytes);
        let overhead_s = (of(Total::HookNanos) + of(Total::FlushNanos)) * 1e-9;
        sum.overhead_s += overhead_s;
        sum.gate.n_denied += totals.get(Total::GateDenied);
        sum.gate.n_unreached += totals.get(Total::GateUnreached);
        sum.gate.n_skipped += totals.get(Total::GateSkipped);
        sum.gate.waited_s += of(Total::GateNanos) * 1e-9;
        sum.worst_overhead_s = sum.worst_overhead_s.max(overhead_s);
    }
    Ok(sum)
}

/// The totals at the end of a stream or, if there was no room for them, at its beginning.
fn totals_of(file: &File) -> io::Result<Totals> {
    const NEAR: u64 = 8 << 10;
    let length = file.metadata()?.len();
    let mut totals = Totals::default();
    for from in [length.saturating_sub(NEAR), 0] {
        let mut bytes = vec![0; NEAR.min(length - from) as usize];
        file.read_exact_at(&mut bytes, from)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let used = match next_block(rest) {
                Step::Block { header, payload, used } => {
                    if let Ok(Payload::Totals(found)) = Payload::of(&header, payload) {
                        totals.raise(&found);
                    }
                    used
                }
                Step::Need(_) => skip_torn(rest),
                Step::Damaged { skip, .. } => skip,
            };
            rest = &rest[used..];
        }
    }
    Ok(totals)
}
