//! The report's metrics, from what each job did when.

use iotide_sim::RealJob;

pub(super) use iotide_analysis::Phase;

/// The stretch of time that is measured: from when the storage is busy to before jobs end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) begin_s: f64,
    pub(super) end_s: f64,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Metrics {
    pub(super) max_stretch: f64,
    pub(super) geomean_stretch: f64,
    pub(super) io_slowdown: f64,
    pub(super) utilization: f64,
}

/// Returns the metrics of a run on a frame, where `bandwidth_bps` is what a job has when it is alone.
///
/// Phases that reach over an end of the frame count for the part inside.
pub(super) fn metrics(jobs: &[Vec<Phase>], frame: Frame, bandwidth_bps: f64) -> Metrics {
    let outcome = iotide_sim::measure(&real_jobs(jobs), [frame.begin_s, frame.end_s], bandwidth_bps);
    Metrics {
        max_stretch: outcome.max_stretch.unwrap_or(f64::NAN),
        geomean_stretch: outcome.geomean_stretch.unwrap_or(f64::NAN),
        io_slowdown: outcome.io_slowdown.unwrap_or(f64::NAN),
        utilization: outcome.utilization,
    }
}

/// All jobs are there from the beginning, and run on after the experiment has ended.
fn real_jobs(jobs: &[Vec<Phase>]) -> Vec<RealJob> {
    let job = |phases: &Vec<Phase>| RealJob {
        name: String::new(),
        there_s: [0.0, f64::INFINITY],
        phases: phases.clone(),
    };
    jobs.iter().map(job).collect()
}

/// Returns the median bandwidth of the phases during which no other job had one, over all runs.
pub(super) fn isolated_bandwidth_bps(runs: &[&Vec<Vec<Phase>>]) -> Option<f64> {
    let runs: Vec<Vec<RealJob>> = runs.iter().map(|jobs| real_jobs(jobs)).collect();
    iotide_sim::bandwidth_alone_bps(runs.iter().map(Vec::as_slice))
}

/// Returns the median; the mean of the two in the middle of an even number.
pub(super) fn median(values: &[f64]) -> f64 {
    iotide_num::median(values).unwrap_or(f64::NAN)
}

/// Returns the first and the third quartile (by interpolation); of fewer than four values the least and the greatest.
pub(super) fn spread(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return (f64::NAN, f64::NAN) };
    if sorted.len() < 4 {
        return (sorted[0], sorted[last]);
    }
    let at = |share: f64| {
        let place = share * last as f64;
        let below = place.floor() as usize;
        sorted[below] + (place - place.floor()) * (sorted[(below + 1).min(last)] - sorted[below])
    };
    (at(0.25), at(0.75))
}

/// Returns the phases in an event table that `iotide ioskel` wrote: operations further apart than `gap_s` belong to two.
pub(super) fn phases_of(table: &str, started_s: f64, gap_s: f64) -> Result<Vec<Phase>, String> {
    let mut phases: Vec<Phase> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, op, start, end, bytes, ..] = cells[..] else { return Err(format!("no event: {line}")) };
        if op != "write" && op != "sync" {
            continue;
        }
        let number = |cell: &str| cell.parse::<f64>().map_err(|_| format!("no number in {line}"));
        let (start_s, end_s, bytes) = (started_s + number(start)?, started_s + number(end)?, number(bytes)?);
        match phases.last_mut() {
            Some(last) if start_s - last.end_s <= gap_s => {
                // Of several processes the one that began last need not end last.
                last.end_s = last.end_s.max(end_s);
                last.bytes += bytes;
            }
            _ => phases.push(Phase { start_s, end_s, bytes }),
        }
    }
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(start_s: f64, end_s: f64, bytes: f64) -> Phase {
        Phase { start_s, end_s, bytes }
    }

    #[test]
    fn a_spread_is_that_of_quartiles_where_there_are_enough_values() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 3.0));
        assert_eq!(spread(&[5.0, 1.0, 2.0, 4.0, 3.0]), (2.0, 4.0));
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0]), (1.75, 3.25));
    }

    #[test]
    fn operations_far_apart_belong_to_two_phases() {
        let table = "# exe=x\nrank,op,start,end,bytes,file\n0,open,0,0.1,0,f\n0,write,1,1.5,10,f\n0,sync,1.5,2,0,f\n0,write,9,9.5,10,f\n";
        let phases = phases_of(table, 100.0, 1.0).unwrap();
        assert_eq!(phases, [phase(101.0, 102.0, 10.0), phase(109.0, 109.5, 10.0)]);
    }
}
