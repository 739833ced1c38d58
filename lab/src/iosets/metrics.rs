//! The report's metrics, from what each job did when.

/// The stretch of time that is measured: from when the storage is busy to before jobs end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) begin_s: f64,
    pub(super) end_s: f64,
}

/// One I/O phase of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) bytes: f64,
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
    let length_s = frame.end_s - frame.begin_s;
    let mut stretches = Vec::new();
    let mut slowdowns = Vec::new();
    let mut computed_s = 0.0;
    for phases in jobs {
        let (mut cpu_s, mut bytes, mut computes_from_s) = (0.0, 0.0, 0.0_f64);
        for phase in phases {
            cpu_s += inside(frame, computes_from_s, phase.start_s);
            let share = inside(frame, phase.start_s, phase.end_s) / (phase.end_s - phase.start_s).max(1e-9);
            bytes += share * phase.bytes;
            computes_from_s = phase.end_s;
        }
        cpu_s += inside(frame, computes_from_s, f64::INFINITY);
        let io_s = bytes / bandwidth_bps;
        stretches.push(length_s / (cpu_s + io_s));
        if io_s > 0.0 {
            slowdowns.push((length_s - cpu_s) / io_s);
        }
        computed_s += cpu_s;
    }
    Metrics {
        max_stretch: stretches.iter().copied().fold(0.0, f64::max),
        geomean_stretch: geomean(&stretches),
        io_slowdown: geomean(&slowdowns),
        utilization: computed_s / (jobs.len() as f64 * length_s),
    }
}

fn inside(frame: Frame, from_s: f64, to_s: f64) -> f64 {
    (to_s.min(frame.end_s) - from_s.max(frame.begin_s)).max(0.0)
}

fn geomean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Returns the median bandwidth of the phases during which no other job had one, over all runs.
pub(super) fn isolated_bandwidth_bps(runs: &[&Vec<Vec<Phase>>]) -> Option<f64> {
    let mut alone = Vec::new();
    for run in runs {
        for (index, phases) in run.iter().enumerate() {
            let others =
                || run.iter().enumerate().filter(|(other, _)| *other != index).flat_map(|(_, other)| other);
            for phase in phases {
                if others().all(|other| other.end_s <= phase.start_s || other.start_s >= phase.end_s) {
                    alone.push(phase.bytes / (phase.end_s - phase.start_s));
                }
            }
        }
    }
    (!alone.is_empty()).then(|| median(&alone))
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
    fn a_job_alone_is_not_stretched() {
        let phases =
            (0..10).map(|n| f64::from(n) * 10.0).map(|at_s| phase(at_s + 8.0, at_s + 10.0, 200.0)).collect();
        let metrics = metrics(&[phases], Frame { begin_s: 20.0, end_s: 80.0 }, 100.0);
        for value in [metrics.max_stretch, metrics.geomean_stretch, metrics.io_slowdown] {
            assert!((value - 1.0).abs() < 1e-9, "{metrics:?}");
        }
        assert!((metrics.utilization - 0.8).abs() < 1e-9);
    }

    #[test]
    fn phases_over_the_edge_count_for_the_part_inside() {
        // Computes 0–8, I/O 8–12 at half the bandwidth; the frame cuts the phase in the middle.
        let metrics = metrics(&[vec![phase(8.0, 12.0, 200.0)]], Frame { begin_s: 0.0, end_s: 10.0 }, 100.0);
        assert!((metrics.io_slowdown - 2.0).abs() < 1e-9);
        assert!((metrics.max_stretch - 10.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn only_phases_that_nobody_shared_tell_the_bandwidth() {
        let run = vec![vec![phase(0.0, 1.0, 100.0), phase(5.0, 7.0, 100.0)], vec![phase(6.0, 8.0, 100.0)]];
        assert_eq!(isolated_bandwidth_bps(&[&run]), Some(100.0));
        assert_eq!(isolated_bandwidth_bps(&[]), None);
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
