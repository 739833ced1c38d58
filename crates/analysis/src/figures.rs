//! Figures measured in a run, to be compared between runs of one program at several sizes.
//!
//! After FTIO's `ioparse` and "FTIO meets Extra-P" (ADMIRE deliverable 5.5, sections 3.4.3 and 3.5.8).

use iotide_trace::{ActivitySums, FunctionSums, LayerTimes, Op, StepSignal};

use crate::{Demand, Need, RunAnalysis};

/// Known data of a run; unknown data yields no figure.
#[derive(Clone, Copy, Debug)]
pub struct KnownRun<'a> {
    /// Its processes.
    pub n_processes: u64,
    /// How long it ran, if its source says so; otherwise it counts from its first event to its last.
    pub run_time_s: Option<f64>,
    /// Its reads, each byte once.
    pub reads: &'a StepSignal,
    /// Its writes, each byte once.
    pub writes: &'a StepSignal,
    /// Activity of the run, each byte once.
    pub activity: &'a ActivitySums,
    /// Activity of the run in every layer that saw it.
    pub layers: &'a ActivitySums,
    /// Bandwidth that its asynchronous requests needed.
    pub demand: Option<&'a Demand>,
    /// Its rhythm.
    pub analysis: Option<&'a RunAnalysis>,
    /// Grouping of the calls of a layer.
    pub by: FigureGroups,
}

/// Grouping of the calls of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FigureGroups {
    /// Their operation: `posix->write`.
    #[default]
    Operation,
    /// The function, by its own name: `posix->pwrite64`. Where a source names none, as by operation.
    Function,
}

/// One measured quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of what: `run`, or parts joined by `->`, such as `posix->write`.
    pub callpath: String,
    /// The quantity with its unit.
    pub metric: &'static str,
    /// How much.
    pub value: f64,
}

/// Returns the figures of a run, the whole first, then layer by layer and call by call.
///
/// Times are summed over processes: what a run has in all is its processes times its run time, and what it did not spend in
/// calls it computed (or waited elsewhere). A bandwidth is bytes over the time a process spent on them on average.
pub fn figures(run: &KnownRun<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut push = |callpath: &str, metric: &'static str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            figures.push(Figure { callpath: callpath.to_owned(), metric, value });
        }
    };
    of_the_whole(run, &mut push);
    // A source that names functions names them all.
    let names_functions = run.layers.access.iter().any(|facts| !facts.functions.is_empty());
    if run.by == FigureGroups::Function && names_functions {
        by_function(run, &mut push);
    } else {
        by_layer(run, &mut push);
    }
    figures
}

/// The run as a whole: its time, what it moved, its phases, and what went on beside it.
fn of_the_whole(run: &KnownRun<'_>, push: &mut Push<'_>) {
    let span_s = run.activity.span.map(|span| span.end.secs_since(span.start));
    let run_time_s = run.run_time_s.or(span_s);
    let processes = run.n_processes as f64;
    let in_calls_s = time_in_calls(run.activity);
    push("run", "time (s)", run_time_s);
    push("run->I/O", "time over processes (s)", in_calls_s);
    let computing_s = run_time_s.zip(in_calls_s).map(|(run_s, calls_s)| processes * run_s - calls_s);
    push("run->compute", "time over processes (s)", computing_s.map(|s| s.max(0.0)));
    for (callpath, op, signal) in [("run->read", Op::Read, run.reads), ("run->write", Op::Write, run.writes)]
    {
        let bytes = bytes_of(run.activity, op);
        if bytes == 0.0 {
            continue;
        }
        push(callpath, "bytes", Some(bytes));
        let time_s = run.activity.times.iter().filter_map(|times| time_of(times, op)).sum::<f64>();
        let each_s = if time_s > 0.0 { time_s / processes } else { active_s(signal) };
        push(callpath, "bandwidth (B/s)", (each_s > 0.0).then(|| bytes / each_s));
    }
    if let Some(analysis) = run.analysis {
        push("run->phases", "period (s)", analysis.estimate.period_s);
        push(
            "run->phases",
            "bytes per period",
            analysis.estimate.period_s.and(analysis.scores.bytes_per_period),
        );
    }
    let demand = run.demand;
    for (callpath, need) in [
        ("asynchronous->read", demand.and_then(|demand| demand.read)),
        ("asynchronous->write", demand.and_then(|demand| demand.write)),
    ] {
        let Some(Need { bytes, throughput_bps, required_bps, lost_s, .. }) = need else { continue };
        push(callpath, "bytes", Some(bytes));
        push(callpath, "throughput (B/s)", throughput_bps);
        push(callpath, "required bandwidth (B/s)", required_bps);
        push(callpath, "time lost over processes (s)", Some(lost_s));
    }
}

/// Each function that the source names.
fn by_function(run: &KnownRun<'_>, push: &mut Push<'_>) {
    let processes = run.n_processes as f64;
    for facts in &run.layers.access {
        for FunctionSums { name, calls, bytes, seconds } in &facts.functions {
            let callpath = format!("{}->{name}", facts.layer.name());
            let time_s = (*seconds > 0.0).then_some(*seconds);
            push(&callpath, "bytes", (*bytes > 0.0).then_some(*bytes));
            push(&callpath, "operations", (*calls > 0).then_some(*calls as f64));
            push(&callpath, "time over processes (s)", time_s);
            let bandwidth = time_s.filter(|_| *bytes > 0.0).map(|time_s| bytes / (time_s / processes));
            push(&callpath, "bandwidth (B/s)", bandwidth);
        }
    }
}

/// Each kind of operation on each layer, and the metadata of each layer.
fn by_layer(run: &KnownRun<'_>, push: &mut Push<'_>) {
    let processes = run.n_processes as f64;
    for seen in &run.layers.ops {
        let callpath = format!("{}->{}", seen.layer.name(), seen.op.name());
        if seen.op.moves_data() {
            push(&callpath, "bytes", Some(seen.sums.bytes));
        }
        push(&callpath, "operations", (seen.sums.calls > 0).then_some(seen.sums.calls as f64));
        let times = run.layers.times.iter().find(|times| times.layer == seen.layer);
        let time_s = times.and_then(|times| time_of(times, seen.op)).filter(|time_s| *time_s > 0.0);
        push(&callpath, "time over processes (s)", time_s);
        if seen.op.moves_data() {
            push(&callpath, "bandwidth (B/s)", time_s.map(|time_s| seen.sums.bytes / (time_s / processes)));
        }
    }
    for times in &run.layers.times {
        let callpath = format!("{}->metadata", times.layer.name());
        push(&callpath, "time over processes (s)", times.metadata_s);
    }
}

/// Takes a figure by call path and metric; nothing where there is no value.
type Push<'a> = dyn FnMut(&str, &'static str, Option<f64>) + 'a;

/// Time in reads or writes; that in other calls is known only for all of them together.
fn time_of(times: &LayerTimes, op: Op) -> Option<f64> {
    match op {
        Op::Read => times.read_s,
        Op::Write => times.write_s,
        _ => None,
    }
}

/// Time in calls of any kind; `None` if the source tells none.
fn time_in_calls(activity: &ActivitySums) -> Option<f64> {
    let times = activity.times.iter().flat_map(|times| [times.read_s, times.write_s, times.metadata_s]);
    times.flatten().fold(None, |sum, time_s| Some(sum.unwrap_or(0.0) + time_s))
}

/// Bytes moved in one direction, over all layers.
fn bytes_of(activity: &ActivitySums, op: Op) -> f64 {
    activity.ops.iter().filter(|seen| seen.op == op).map(|seen| seen.sums.bytes).sum()
}

/// How long anything was on its way.
fn active_s(signal: &StepSignal) -> f64 {
    signal.pieces().filter(|(.., rate)| *rate > 0.0).map(|(start, end, _)| end.secs_since(start)).sum()
}

#[cfg(test)]
mod tests {
    use iotide_trace::{
        AccessFacts, Activity, Event, EventSink, Layer, Rank, ReadWrite, Timestamp, TraceInfo,
    };

    use super::*;

    fn value(figures: &[Figure], callpath: &str, metric: &str) -> Option<f64> {
        let found = figures.iter().find(|figure| figure.callpath == callpath && figure.metric == metric);
        found.map(|figure| figure.value)
    }

    /// Returns the data of a run of two processes and ten seconds.
    fn known<'a>(
        reads: &'a StepSignal,
        writes: &'a StepSignal,
        activity: &'a ActivitySums,
        by: FigureGroups,
    ) -> KnownRun<'a> {
        KnownRun {
            n_processes: 2,
            run_time_s: Some(10.0),
            reads,
            writes,
            activity,
            layers: activity,
            demand: None,
            analysis: None,
            by,
        }
    }

    #[test]
    fn what_processes_did_not_spend_in_calls_they_computed() {
        let mut sinks = (ReadWrite::default(), Activity::new());
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        for rank in 0..2 {
            let mut event = Event::data(Op::Write, Rank(rank), at(4.0), at(6.0), 8e6);
            event.layer = Layer::Posix;
            let _ = sinks.event(event);
        }
        let activity = sinks.1.finish(&TraceInfo::default());
        let (reads, writes) = (sinks.0.read.finish(), sinks.0.write.finish());
        let run = known(&reads, &writes, &activity, FigureGroups::Operation);
        let figures = figures(&run);
        assert_eq!(value(&figures, "run", "time (s)"), Some(10.0));
        assert_eq!(value(&figures, "run->I/O", "time over processes (s)"), Some(4.0));
        assert_eq!(value(&figures, "run->compute", "time over processes (s)"), Some(16.0));
        assert_eq!(value(&figures, "run->write", "bytes"), Some(16e6));
        assert_eq!(value(&figures, "run->write", "bandwidth (B/s)"), Some(8e6)); // 16 MB in the 2 s each process took
        assert_eq!(value(&figures, "posix->write", "operations"), Some(2.0));
        assert_eq!(value(&figures, "run->read", "bytes"), None);
        assert_eq!(value(&figures, "run->phases", "period (s)"), None);
        // A source without names has its operations, asked as one likes.
        assert_eq!(super::figures(&KnownRun { by: FigureGroups::Function, ..run }), figures);
    }

    #[test]
    fn functions_have_figures_of_their_own() {
        let function =
            |name: &str, calls, bytes, seconds| FunctionSums { name: name.into(), calls, bytes, seconds };
        let mut activity = Activity::new();
        for (layer, functions) in [
            (Layer::Posix, vec![function("close", 2, 0.0, 1e-6), function("pwrite64", 4, 8e6, 2.0)]),
            (Layer::MpiIo, vec![function("MPI_File_write_at_all", 2, 8e6, 4.0)]),
        ] {
            activity.access_facts(&AccessFacts { layer, functions, ..AccessFacts::default() });
        }
        let activity = activity.finish(&TraceInfo::default());
        let nothing = StepSignal::default();
        let figures = figures(&known(&nothing, &nothing, &activity, FigureGroups::Function));
        assert_eq!(value(&figures, "posix->pwrite64", "bytes"), Some(8e6));
        assert_eq!(value(&figures, "posix->pwrite64", "operations"), Some(4.0));
        assert_eq!(value(&figures, "posix->pwrite64", "time over processes (s)"), Some(2.0));
        assert_eq!(value(&figures, "posix->pwrite64", "bandwidth (B/s)"), Some(8e6));
        assert_eq!(value(&figures, "mpi-io->MPI_File_write_at_all", "operations"), Some(2.0));
        assert_eq!(value(&figures, "posix->close", "bytes"), None);
    }
}
