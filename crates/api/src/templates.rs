//! Runs of many programs and sizes as a few kinds of applications, and storage as a ladder shows it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iotide_analysis::{Bursts, Described, InFlight, Overlap, Overlaps, describe_bursts};
use iotide_formats::OpenOptions;
use iotide_num::{average_linkage, clusters_below, median};
use iotide_report::{FoundTemplate, RunOfTemplate, StorageEntry, TemplatesReport};
use iotide_scaling::{FitConfig, Measurement, fit};
use iotide_sim::system::{
    BinnedRun, BinnedRuns, Cell, Fitted, Ladder, Storage, StorageError, fit_storage, requests_per_s,
};
use iotide_trace::{Activity, Sampling, SamplingKind, Span, sample};

use crate::server_targets::ServerTargets;
use crate::{Error, Input, application, observe, read_text};

/// Between these, groups may be one kind or two: their figures are less than a quarter apart, or twice.
const ALIKE: f64 = 1.25;
/// See [`ALIKE`].
const APART: f64 = 2.0;
/// Growth with the number of processes is told from so many sizes.
const LEAST_SIZES: usize = 3;
/// The size of requests where nobody counts them.
const ASSUMED_REQUEST: f64 = 1_048_576.0;
/// Bins of a trace: enough for bursts of a thousandth of the run.
const BINS: f64 = 20_000.0;

/// Settings of the search for templates in runs.
#[derive(Clone, Debug, Default)]
pub struct TemplateOptions {
    /// A ladder of the storage.
    pub ladder: Option<PathBuf>,
    /// The number of processes at which runs are compared; `None` is as the input says, or the middle one.
    pub processes: Option<u64>,
}

/// Returns the storage that a ladder describes: `{"cells": […]}`.
pub fn storage_of_ladder(path: &Path) -> Result<Fitted, Error> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    let ladder = Ladder::from_json(&text).map_err(|why| Error::Workload { name: name.clone(), why })?;
    fit_storage(&ladder).map_err(|why| Error::Ladder { name, why })
}

/// Returns the storage that a ladder describes, or a system that `iotide templates` wrote.
pub fn storage_of_file(path: &Path) -> Result<Storage, Error> {
    let name = path.display().to_string();
    Storage::from_json(&read_text(path)?).map_err(|why| match why {
        StorageError::Description(why) => Error::Workload { name, why },
        StorageError::Cells(why) => Error::Ladder { name, why },
        other => Error::Setting { fault: other.to_string() },
    })
}

/// Describes runs, makes them comparable and puts those that are alike together.
pub fn templates(inputs: &[PathBuf], options: &TemplateOptions) -> Result<TemplatesReport, Error> {
    let mut all = BinnedRuns::default();
    let mut seen = StorageSeen::default();
    for path in inputs {
        let read = read_runs(path, &mut seen)?;
        all.p_ref = all.p_ref.or(read.p_ref);
        all.runs.extend(read.runs);
    }
    let mut report = TemplatesReport::new();
    let sizes: Vec<f64> = all.runs.iter().map(|run| run.processes as f64).collect();
    let p_ref =
        options.processes.or(all.p_ref).unwrap_or_else(|| median(&sizes).map_or(1, |middle| middle as u64));
    report.p_ref = p_ref;
    let described: Vec<Described> =
        all.runs.iter().map(|run| describe_bursts(run.dt_s, &run.ops, &run.bytes)).collect();
    let fitted = match options.ladder.as_deref() {
        Some(ladder) => Some(storage_of_ladder(ladder)?),
        None => storage_of_overlaps(&seen.overlaps, &mut report),
    };
    let mut points: Vec<Point> = Vec::new();
    for (index, (run, described)) in all.runs.iter().zip(&described).enumerate() {
        match described {
            Described::Bursts(bursts) => points.push(Point::new(index, run, bursts)),
            Described::Steady { requests_per_s: per_s, request_bytes } => {
                report.templates.push(steady(run, *per_s, *request_bytes, fitted.as_ref(), report.templates.len()));
                report.runs.push(RunOfTemplate::new(index, run, report.templates.len() - 1));
            }
            Described::TooFew(n) => report.lose(&format!(
                "run {index} ({}, {} processes) has {n} whole bursts: three are the least, so it is in no template",
                run.program, run.processes
            )),
        }
    }
    for note in normalise(&mut points, p_ref as f64) {
        report.notes.push(note);
    }
    let labels = labels(&points);
    let first = report.templates.len();
    for label in 0..labels.iter().max().map_or(0, |most| most + 1) {
        let those: Vec<&Point> =
            points.iter().zip(&labels).filter(|(_, of)| **of == label).map(|(point, _)| point).collect();
        report.templates.push(template(&those, p_ref, fitted.as_ref(), first + label));
    }
    for (point, label) in points.iter().zip(&labels) {
        report.runs.push(RunOfTemplate::new(point.index, &all.runs[point.index], first + label));
    }
    report.runs.sort_by_key(|run| run.index);
    report.storage = match &fitted {
        Some(fitted) => Some(StorageEntry::new(fitted)),
        None if !seen.targets.is_empty() => Some(storage_of_targets(&seen.targets, &mut report)),
        None => storage_of_bursts(&described, &mut report),
    };
    report.notes.append(&mut seen.notes);
    Ok(report)
}

/// Facts about the storage from traces and logs.
#[derive(Debug, Default)]
struct StorageSeen {
    overlaps: Overlaps,
    /// Bytes a second that targets moved at the most, by name.
    targets: BTreeMap<String, f64>,
    /// Assumptions.
    notes: Vec<String>,
}

/// A trace in bins.
pub(crate) fn read_trace(path: &Path) -> Result<Vec<BinnedRun>, Error> {
    Ok(read_runs(path, &mut StorageSeen::default())?.runs)
}

/// Runs that are described in JSON, or a trace.
fn read_runs(path: &Path, seen: &mut StorageSeen) -> Result<BinnedRuns, Error> {
    if path.extension().is_some_and(|end| end == "json") {
        let text = read_text(path)?;
        if text.contains("\"runs\"") && text.contains("\"dt_s\"") {
            let name = path.display().to_string();
            return BinnedRuns::from_json(&text).map_err(|why| Error::Workload { name, why });
        }
    }
    let input = Input::file(path);
    let observed = observe::<(Activity, (InFlight, ServerTargets))>(&input, &OpenOptions::default())?;
    let (activity, (in_flight, servers)) = observed.beside;
    seen.overlaps.add(&in_flight.finish());
    for (target, bps) in servers.fastest(&observed.info.files) {
        let most = seen.targets.entry(target.to_owned()).or_insert(0.0);
        *most = most.max(bps);
    }
    let sums = activity.finish(&observed.info);
    let signal = observed.reads.plus(&observed.writes);
    let Some(span) = signal.span() else { return Ok(BinnedRuns::default()) };
    let counted = [&sums.reads, &sums.writes];
    let bins = counted.iter().flat_map(|sizes| sizes.exact.iter().chain(&sizes.averaged));
    let (n_calls, bytes) = bins.fold((0, 0.0), |(n, bytes), bin| (n + bin.calls, bytes + bin.bytes));
    let counted = if n_calls > 0 { Some(bytes / n_calls as f64) } else { servers.request_bytes() };
    let request_bytes = counted.unwrap_or_else(|| {
        seen.notes.push(format!("{} does not tell how large requests were: 1 MiB is assumed", input.name()));
        ASSUMED_REQUEST
    });
    let job = &observed.info.job;
    // Computing before the first and after the last burst belongs to the run.
    let window = Span { start: span.start, end: span.end };
    let dt_s = (window.duration_s() / BINS).max(1e-6);
    let sampling = Sampling { rate_hz: 1.0 / dt_s, kind: SamplingKind::Mean };
    let Ok(sampled) = sample(&signal, window, sampling) else { return Ok(BinnedRuns::default()) };
    // A bin before the first byte: the first burst begins there, and is not cut.
    let mut bytes: Vec<f64> =
        std::iter::once(0.0).chain(sampled.values.iter().map(|bps| bps * dt_s)).collect();
    bytes.push(0.0);
    let stem = path.file_stem().map_or_else(|| input.name(), |stem| stem.to_string_lossy().into_owned());
    let run = BinnedRun {
        program: job.exe.as_deref().and_then(application).unwrap_or(stem),
        processes: observed.source.n_ranks.or(job.n_procs).unwrap_or(1).max(1),
        dt_s,
        ops: bytes.iter().map(|bytes| bytes / request_bytes).collect(),
        bytes,
        mpi_s: None,
    };
    Ok(BinnedRuns { p_ref: None, runs: vec![run] })
}

/// A run as its logarithms: compute_s, burst_bytes, request_bytes, burst_s.
struct Point {
    index: usize,
    program: String,
    processes: f64,
    values: [f64; 4],
    errors: [f64; 4],
    compute_cv: f64,
    mpi_share: Option<f64>,
}

const NAMES: [&str; 4] = ["compute_s", "burst_bytes", "request_bytes", "burst_s"];

impl Point {
    fn new(index: usize, run: &BinnedRun, bursts: &Bursts) -> Self {
        let run_s = run.dt_s * run.bytes.len() as f64;
        let between_s = bursts.compute_s.value * (bursts.n_bursts as f64 + 1.0);
        Self {
            index,
            program: run.program.clone(),
            processes: run.processes as f64,
            values: [
                bursts.compute_s.value.max(1e-9),
                bursts.burst_bytes.value,
                bursts.request_bytes.max(1e-9),
                bursts.burst_s.value.max(1e-9),
            ]
            .map(f64::ln),
            errors: [bursts.compute_s.error, bursts.burst_bytes.error, 0.0, bursts.burst_s.error],
            compute_cv: bursts.compute_cv,
            mpi_share: run.mpi_s.map(|mpi_s| (mpi_s / between_s.min(run_s)).min(1.0)),
        }
    }
}

/// Brings the figures of each program to one number of processes, where they change with it; says what was done.
fn normalise(points: &mut [Point], p_ref: f64) -> Vec<String> {
    let mut programs: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, point) in points.iter().enumerate() {
        programs.entry(point.program.clone()).or_default().push(i);
    }
    let mut notes = Vec::new();
    for (program, those) in programs {
        let mut sizes: Vec<f64> = those.iter().map(|i| points[*i].processes).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() < LEAST_SIZES {
            if sizes.iter().any(|size| *size != p_ref) {
                notes.push(format!(
                    "{program}: {} of processes say nothing of growth; its figures are taken as they are",
                    if sizes.len() == 1 {
                        "one number".to_owned()
                    } else {
                        format!("{} numbers", sizes.len())
                    }
                ));
            }
            continue;
        }
        for (figure, name) in NAMES.iter().enumerate() {
            let measurements: Vec<Measurement> = (sizes.iter())
                .map(|size| {
                    let values = those.iter().filter(|i| points[**i].processes == *size);
                    let values: Vec<f64> = values.map(|i| points[*i].values[figure].exp()).collect();
                    Measurement::new([*size], values)
                })
                .collect();
            let Ok(model) = fit(&measurements, &FitConfig::default()) else { continue };
            let at = |size: f64| model.function.at(&[size]);
            if sizes.iter().chain([&p_ref]).any(|size| !(at(*size) > 0.0 && at(*size).is_finite())) {
                notes.push(format!(
                    "{program}: {name} has no model that is positive everywhere; taken as it is"
                ));
                continue;
            }
            if sizes.iter().all(|size| at(*size) == at(p_ref)) {
                continue;
            }
            notes.push(format!("{program}: {name} = {}", model.function.to_text(&["p"])));
            for i in &those {
                let point = &mut points[*i];
                point.values[figure] += (at(p_ref) / at(point.processes)).ln();
            }
        }
    }
    notes
}

/// Which runs are of one kind: average linkage, cut in the widest relative gap between merges that could mean either.
fn labels(points: &[Point]) -> Vec<usize> {
    let n = points.len();
    let merges = average_linkage(n, |i, j| {
        let apart = points[i].values.iter().zip(&points[j].values).map(|(a, b)| (a - b).abs());
        apart.fold(0.0, f64::max)
    });
    let (low, high) = (ALIKE.ln(), APART.ln());
    let mut heights: Vec<f64> =
        merges.iter().map(|merge| merge.height).filter(|height| (low..=high).contains(height)).collect();
    heights.extend([low, high]);
    heights.sort_by(f64::total_cmp);
    let widest = heights.windows(2).max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])));
    let cut = widest.map_or(low, |pair| (pair[0] * pair[1]).sqrt());
    clusters_below(n, &merges, cut)
}

/// How long a process thinks between requests: what of its time the storage does not explain.
fn think_s(in_flight: f64, burst_s: f64, requests: f64, request_bytes: f64, fitted: Option<&Fitted>) -> f64 {
    let Some(fitted) = fitted else { return 0.0 };
    let n = (in_flight.round() as u64).clamp(1, 4096);
    let response_s = n as f64 / requests_per_s(&fitted.target, n, request_bytes);
    (in_flight * burst_s / requests - response_s).max(0.0)
}

fn template(points: &[&Point], p_ref: u64, fitted: Option<&Fitted>, index: usize) -> FoundTemplate {
    let n = points.len() as f64;
    let value = |figure: usize| (points.iter().map(|point| point.values[figure]).sum::<f64>() / n).exp();
    let error = |figure: usize| {
        let mean = points.iter().map(|point| point.values[figure]).sum::<f64>() / n;
        let between = points.iter().map(|point| (point.values[figure] - mean).powi(2)).sum::<f64>();
        let own = points.iter().map(|point| point.errors[figure].powi(2)).sum::<f64>().sqrt() / n;
        // How far runs lie apart, where there are several; how regular each is, where there is one.
        let apart = if n > 1.0 { (between / (n - 1.0) / n).sqrt() } else { 0.0 };
        apart.max(own)
    };
    let (burst_bytes, request_bytes, burst_s) = (value(1), value(2), value(3));
    let requests = (burst_bytes / request_bytes).round().max(1.0);
    let in_flight = (p_ref as f64).min(requests);
    let shares: Vec<f64> = points.iter().filter_map(|point| point.mpi_share).collect();
    let mpi_share = if shares.is_empty() { 0.0 } else { shares.iter().sum::<f64>() / shares.len() as f64 };
    FoundTemplate {
        name: format!("template {index}"),
        compute_s: value(0) * (1.0 - mpi_share),
        mpi_s: value(0) * mpi_share,
        compute_cv: points.iter().map(|point| point.compute_cv).sum::<f64>() / n,
        processes: p_ref,
        requests: Some(requests as u64),
        burst_bytes: Some(burst_bytes),
        request_bytes,
        burst_s: Some(burst_s),
        think_s: think_s(in_flight, burst_s, requests, request_bytes, fitted),
        runs: points.len(),
        errors: [error(0), error(1), error(2)],
    }
}

fn steady(
    run: &BinnedRun,
    per_s: f64,
    request_bytes: f64,
    fitted: Option<&Fitted>,
    index: usize,
) -> FoundTemplate {
    FoundTemplate {
        name: format!("template {index}"),
        compute_s: 0.0,
        mpi_s: 0.0,
        compute_cv: 0.0,
        processes: run.processes,
        requests: None,
        burst_bytes: None,
        request_bytes,
        burst_s: None,
        think_s: match fitted {
            Some(_) => think_s(run.processes as f64, 1.0, per_s, request_bytes, fitted),
            None => run.processes as f64 / per_s,
        },
        runs: 1,
        errors: [0.0; 3],
    }
}

/// Without a ladder, how requests of traces overlapped says what the storage can do, if different numbers of them were in flight.
fn storage_of_overlaps(overlaps: &Overlaps, report: &mut TemplatesReport) -> Option<Fitted> {
    let cell =
        |Overlap { n, request_bytes, seconds, completions }| Cell { n, request_bytes, seconds, completions };
    let cells: Vec<Cell> = overlaps.cells().into_iter().map(cell).collect();
    let mut numbers: Vec<u64> = cells.iter().map(|cell| cell.n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() < LEAST_NUMBERS {
        return None;
    }
    let most = numbers.last().copied().unwrap_or(1);
    let fitted = fit_storage(&Ladder { cells }).ok()?;
    report.notes.push(format!(
        "no ladder of the storage was given: its figures are from how up to {most} requests in flight overlapped in the traces, each of which is taken to have had the storage to itself"
    ));
    Some(fitted)
}

/// So many different numbers of requests in flight tell how storage shares itself.
const LEAST_NUMBERS: usize = 3;

/// Targets that a note names.
const MOST_NAMED: usize = 8;

/// Logs of servers tell what each of their targets moved at the most.
fn storage_of_targets(targets: &BTreeMap<String, f64>, report: &mut TemplatesReport) -> StorageEntry {
    let mut named = targets.keys().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if targets.len() > MOST_NAMED {
        named += &format!(" and {} more", targets.len() - MOST_NAMED);
    }
    report.notes.push(format!(
        "no ladder of the storage was given: its targets are {named}, each with the most it moved in the logs, which is the least it can move"
    ));
    StorageEntry::at_least(targets.values().copied())
}

/// Without that, all that is known of the storage is what the fastest burst got.
fn storage_of_bursts(described: &[Described], report: &mut TemplatesReport) -> Option<StorageEntry> {
    let fastest = described.iter().filter_map(|described| match described {
        Described::Bursts(bursts) => Some(bursts.burst_bytes.value / bursts.burst_s.value),
        Described::Steady { requests_per_s, request_bytes } => Some(requests_per_s * request_bytes),
        Described::TooFew(_) => None,
    });
    let fastest_bps = fastest.filter(|bps| bps.is_finite()).fold(0.0, f64::max);
    (fastest_bps > 0.0).then(|| {
        report.notes.push(
            "no ladder of the storage was given: its bandwidth is taken to be what the fastest burst got, which is the least it can be"
                .to_owned(),
        );
        StorageEntry::at_least([fastest_bps])
    })
}
