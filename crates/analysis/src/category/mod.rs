//! Labels of a run, after MOSAIC (Jolivel et al., PDSW 2024): when it reads and writes, whether periodically, and what its
//! metadata server sees of it.

use iotide_trace::{JobInfo, Overlap};

use crate::StatedRun;

pub use config::{CategoryConfig, CategoryMethod, CategoryThresholds};
pub use label::{Access, BusyTime, Category, Evidence, Label, Magnitude, MetadataLoad, Temporality};
pub use metadata::MetadataFindings;
pub use observed::Observed;
pub use operations::Operation;
pub use periodicity::FoundPeriod;
pub use validity::Rejection;

mod config;
mod label;
mod mean_shift;
mod metadata;
mod observed;
mod operations;
mod periodicity;
mod temporality;
mod validity;

/// Returns the labels of a run, with what speaks for each.
pub fn categorize(mut observed: Observed, job: &JobInfo, config: &CategoryConfig) -> Categories {
    let run = Run::of(&observed, job);
    let thresholds = &config.thresholds;
    let mut labels = Vec::new();
    // One after the other: what the reads of a large trace took is free before its writes are looked at.
    let reads = std::mem::take(&mut observed.reads);
    let read = run.direction(Access::Read, reads, config, &mut labels);
    let writes = std::mem::take(&mut observed.writes);
    let write = run.direction(Access::Write, writes, config, &mut labels);
    let spread = config.method == CategoryMethod::Auto;
    let seconds = observed.requests.by_second(run.n_ranks, spread);
    let metadata = MetadataFindings::of(&seconds, observed.requests.total(), run.time_s, thresholds);
    label_metadata(&metadata, run.n_ranks, config, &mut labels);
    Categories {
        labels,
        read,
        write,
        metadata,
        run_time_s: run.time_s,
        n_ranks: run.n_ranks,
        rejected: validity::rejection(&observed, &run, thresholds),
    }
}

/// Categories of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Categories {
    /// The labels, in the order of [`Category::all`].
    pub labels: Vec<Label>,
    /// Findings that the labels of reads rest on.
    pub read: DirectionFindings,
    /// Findings that the labels of writes rest on.
    pub write: DirectionFindings,
    /// Findings that the labels of metadata rest on.
    pub metadata: MetadataFindings,
    /// How long the run took: as the source states, else from the first event to the last.
    pub run_time_s: f64,
    /// How many ranks it had: as the source states, else as many as were named.
    pub n_ranks: f64,
    /// Why the labels should not be counted, if they should not.
    pub rejected: Option<Rejection>,
}

impl Categories {
    /// Whether the run bears that label.
    pub fn has(&self, category: Category) -> bool {
        self.labels.iter().any(|label| label.category == category)
    }
}

/// Findings of reads, or of writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionFindings {
    /// Bytes moved.
    pub bytes: f64,
    /// Operations after overlapping and near ones were taken together.
    pub n_operations: usize,
    /// All periods that hold, the one that moves most bytes first.
    pub periods: Vec<FoundPeriod>,
}

/// Known data of a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// When it began, on the trace's clock.
    zero_s: f64,
    time_s: f64,
    n_ranks: f64,
    stated: StatedRun,
}

impl Run {
    fn of(observed: &Observed, job: &JobInfo) -> Self {
        let tally = observed.tally();
        let (first_s, last_s) = match (tally.start, tally.end) {
            (Some(start), Some(end)) => (start.as_secs(), end.as_secs()),
            _ => (0.0, 0.0),
        };
        let stated_s = job.run_time_s.filter(|time_s| *time_s > 0.0);
        // Where the length of the run is known, its clock counts from its start, unless it counts from the epoch.
        let zero_s = match (stated_s, job.start_time_unix_s) {
            (Some(_), Some(start_s)) if start_s > 0.0 && first_s >= start_s - 1.0 => start_s,
            (Some(_), _) => 0.0,
            (None, _) => first_s,
        };
        let time_s = stated_s.unwrap_or((last_s - zero_s).max(1e-9));
        let n_ranks = job.n_compared().map_or(tally.n_ranks() as f64, |n_procs| n_procs as f64).max(1.0);
        Self { zero_s, time_s, n_ranks, stated: StatedRun::of(tally, job) }
    }

    fn direction(
        &self,
        access: Access,
        overlap: Overlap,
        config: &CategoryConfig,
        labels: &mut Vec<Label>,
    ) -> DirectionFindings {
        let thresholds = &config.thresholds;
        let signal = &overlap.finish();
        let (mut bytes, mut n_stretches) = (0.0, 0);
        let stretches = operations::busy_stretches(signal, self.zero_s).inspect(|stretch| {
            bytes += stretch.bytes;
            n_stretches += 1;
        });
        let merged = operations::merge_neighbours(stretches, self.time_s, thresholds);
        let mut label = |category, confidence: f64, evidence: &[(&'static str, f64)]| {
            let evidence = evidence.iter().map(|&(name, value)| Evidence { name, value }).collect();
            labels.push(Label { category, confidence: confidence.clamp(0.0, 1.0), evidence });
        };
        if bytes < thresholds.insignificant_bytes {
            let confidence = 1.0 - 0.5 * bytes / thresholds.insignificant_bytes;
            label(Category::When(access, Temporality::Insignificant), confidence, &[("bytes", bytes)]);
            return DirectionFindings { bytes, n_operations: n_stretches, periods: Vec::new() };
        }
        let rhythms = match config.method {
            CategoryMethod::Auto => periodicity::find(signal, self.zero_s, &self.stated),
            CategoryMethod::Mosaic => mean_shift::find(&merged, thresholds),
        };
        match config.method {
            CategoryMethod::Auto => {
                let even = operations::even_stretches(signal, self.zero_s);
                let spread = periodicity::spread_over_periods(even, &rhythms, self.time_s);
                let found = temporality::nearest(spread, self.time_s);
                label(
                    Category::When(access, found.when),
                    found.confidence,
                    &[("bytes", bytes), ("distance", found.distance), ("next_distance", found.runner_up)],
                );
            }
            CategoryMethod::Mosaic => {
                if let Some((when, q)) = temporality::by_quarters(&merged, self.time_s, thresholds) {
                    let evidence = [
                        ("bytes", bytes),
                        ("first_quarter", q[0]),
                        ("second_quarter", q[1]),
                        ("third_quarter", q[2]),
                        ("last_quarter", q[3]),
                    ];
                    label(Category::When(access, when), 1.0, &evidence);
                }
            }
        }
        let periods: Vec<FoundPeriod> = rhythms.into_iter().map(|(period, _)| period).collect();
        if let Some(surest) = periods.iter().map(|p| p.confidence).reduce(f64::max) {
            let n = ("periods", periods.len() as f64);
            label(Category::Periodic(access), surest, &[n, ("period_s", periods[0].period_s)]);
        }
        for category in Category::all() {
            let bears = |period: &&FoundPeriod| match category {
                Category::Period(whose, magnitude) => {
                    whose == access && period.magnitude(thresholds) == magnitude
                }
                Category::Busy(whose, busy) => whose == access && period.busy(thresholds) == Some(busy),
                _ => false,
            };
            if let Some(period) = periods.iter().find(bears) {
                label(
                    category,
                    period.confidence,
                    &[("period_s", period.period_s), ("busy_share", period.busy_share)],
                );
            }
        }
        DirectionFindings { bytes, n_operations: merged.len(), periods }
    }
}

fn label_metadata(
    metadata: &MetadataFindings,
    n_ranks: f64,
    config: &CategoryConfig,
    labels: &mut Vec<Label>,
) {
    let found = metadata.labels(&config.thresholds);
    let evidence = || {
        [
            ("requests", metadata.requests),
            ("most_per_s", metadata.most_per_s),
            ("spikes", metadata.n_spikes),
            ("mean_per_s", metadata.mean_per_s),
            ("ranks", n_ranks),
        ]
        .map(|(name, value)| Evidence { name, value })
        .to_vec()
    };
    // The paper asks for fewer requests than ranks; we say that a load that makes no spike is not felt either.
    let too_few = metadata.requests < n_ranks;
    let insignificant = too_few || (config.method == CategoryMethod::Auto && found.is_empty());
    let mut label = |load, confidence: f64| {
        let (category, evidence) = (Category::Metadata(load), evidence());
        labels.push(Label { category, confidence, evidence });
    };
    if insignificant {
        let nearest = metadata.most_per_s / config.thresholds.high_spike_requests;
        label(MetadataLoad::Insignificant, (1.0 - 0.5 * nearest).clamp(0.5, 1.0));
    }
    for (load, ratio) in found {
        label(load, 1.0 - 0.5 / ratio.max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use iotide_trace::{Direction, Event, EventSink, Op, Rank, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::{RunConfig, analyse_run};

    fn write(rank: i32, start_s: f64, end_s: f64, bytes: f64) -> Event {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        Event::data(Op::Write, Rank(rank), at(start_s), at(end_s), bytes)
    }

    fn names(events: &[Event], run_time_s: f64) -> Vec<&'static str> {
        let mut observed = Observed::new();
        for event in events {
            let _ = observed.event(*event);
        }
        let job = JobInfo { run_time_s: Some(run_time_s), n_procs: Some(4), ..JobInfo::default() };
        let found = categorize(observed, &job, &CategoryConfig::default());
        assert!(found.labels.iter().all(|label| (0.0..=1.0).contains(&label.confidence)));
        found.labels.iter().map(|label| label.category.name()).collect()
    }

    #[test]
    fn a_run_with_checkpoints_bears_all_their_labels() {
        let checkpoints: Vec<Event> = (0..10)
            .flat_map(|i| (0..4).map(move |rank| (rank, 50.0 + 100.0 * f64::from(i))))
            .map(|(rank, start_s)| write(rank, start_s, start_s + 8.0, 1e9))
            .collect();
        assert_eq!(
            names(&checkpoints, 1010.0),
            [
                "read_insignificant",
                "write_steady",
                "write_periodic",
                "write_periodic_minute",
                "write_periodic_low_busy_time",
                "metadata_insignificant_load"
            ]
        );
    }

    #[test]
    fn the_periods_of_each_direction_are_those_of_detect() {
        // Two kinds of checkpoints and beats left out; reads in another rhythm; both on a clock of their own.
        let checkpoints = (0..40).filter(|i| i % 13 != 5).map(|i| (Op::Write, 40.0 * f64::from(i), 3.0, 1e9));
        let large = (0..6).map(|i| (Op::Write, 15.0 + 250.0 * f64::from(i), 15.0, 9e9));
        let reads = (0..90).map(|i| (Op::Read, 2.0 + 17.0 * f64::from(i), 1.0, 3e8));
        let (mut observed, mut read, mut written) = (Observed::new(), Overlap::new(), Overlap::new());
        for (op, start_s, length_s, bytes) in checkpoints.chain(large).chain(reads) {
            let event = Event { op, ..write(0, 5000.0 + start_s, 5000.0 + start_s + length_s, bytes) };
            let _ = observed.event(event);
            let sum = if op == Op::Read { &mut read } else { &mut written };
            sum.add(event.start, event.end, bytes);
        }
        let (read, written) = (read.finish(), written.finish());
        let found = categorize(observed, &JobInfo::default(), &CategoryConfig::default());
        for (direction, findings) in [(Direction::Read, &found.read), (Direction::Write, &found.write)] {
            let config = RunConfig { direction: Some(direction), ..RunConfig::default() };
            let rhythms = analyse_run(&read, &written, &config).unwrap().estimate.rhythms;
            assert!(!rhythms.is_empty(), "{direction:?}");
            let detected: Vec<_> =
                rhythms.iter().map(|r| (r.period_s, r.confidence, r.bytes, r.phases.len())).collect();
            let labelled: Vec<_> = (findings.periods.iter())
                .map(|period| (period.period_s, period.confidence, period.bytes, period.n_operations))
                .collect();
            assert_eq!(labelled, detected, "{direction:?}");
        }
    }

    #[test]
    fn by_the_paper_metadata_is_insignificant_only_below_one_request_a_rank() {
        let labels = |n_opens: i32, method| {
            let mut observed = Observed::new();
            for i in 0..n_opens {
                let _ = observed.event(Event {
                    op: Op::Open,
                    ..write(i % 4, 100.0 * f64::from(i), 100.0 * f64::from(i), 0.0)
                });
            }
            let job = JobInfo { run_time_s: Some(1000.0), n_procs: Some(4), ..JobInfo::default() };
            let found = categorize(observed, &job, &CategoryConfig { method, ..CategoryConfig::default() });
            found.has(Category::Metadata(MetadataLoad::Insignificant))
        };
        assert!(labels(1, CategoryMethod::Mosaic) && labels(1, CategoryMethod::Auto));
        assert!(!labels(8, CategoryMethod::Mosaic));
        assert!(labels(8, CategoryMethod::Auto), "eight opens in 1000 s are not felt");
    }

    #[test]
    fn a_log_kept_open_does_not_hide_when_the_bytes_were_moved() {
        let found = names(&[write(0, 1.0, 999.0, 1e8), write(1, 900.0, 990.0, 1e11)], 1000.0);
        assert!(found.contains(&"write_on_end"), "{found:?}");
    }

    #[test]
    fn labels_come_in_the_order_of_the_table() {
        let order: Vec<&str> = Category::all().map(Category::name).collect();
        let found = names(&[write(0, 1.0, 5.0, 1e9), write(0, 950.0, 990.0, 1e9)], 1000.0);
        let places: Vec<usize> =
            found.iter().map(|name| order.iter().position(|known| known == name).unwrap()).collect();
        assert!(places.is_sorted(), "{found:?}");
    }

    #[test]
    fn a_clock_that_counts_from_the_epoch_is_counted_from_the_start_of_the_job() {
        let mut observed = Observed::new();
        let _ = observed.event(write(0, 1.7e9 + 5.0, 1.7e9 + 20.0, 1e9));
        let job = JobInfo { run_time_s: Some(100.0), start_time_unix_s: Some(1.7e9), ..JobInfo::default() };
        let found = categorize(observed, &job, &CategoryConfig::default());
        assert!(found.has(Category::When(Access::Write, Temporality::OnStart)));
        assert_eq!(found.rejected, None);
    }

    #[test]
    fn nothing_at_all_still_has_an_answer() {
        let found = categorize(Observed::new(), &JobInfo::default(), &CategoryConfig::default());
        let names: Vec<&str> = found.labels.iter().map(|label| label.category.name()).collect();
        assert_eq!(names, ["read_insignificant", "write_insignificant", "metadata_insignificant_load"]);
        assert_eq!(found.rejected, Some(Rejection::Empty));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_order_of_events_means_nothing(
            parts in prop::collection::vec((0..4i32, 0.0..950.0f64, 0.1..40.0f64, 1e6..1e10f64), 1..40),
        ) {
            let events: Vec<Event> = parts
                .iter()
                .map(|&(rank, start_s, length_s, bytes)| write(rank, start_s, start_s + length_s, bytes.round()))
                .collect();
            let backward: Vec<Event> = events.iter().rev().copied().collect();
            prop_assert_eq!(names(&events, 1000.0), names(&backward, 1000.0));
        }

        #[test]
        fn any_events_give_finite_numbers(
            parts in prop::collection::vec((-5.0..2000.0f64, 0.0..500.0f64, -1.0..1e13f64), 0..30),
        ) {
            let mut observed = Observed::new();
            for (start_s, length_s, bytes) in parts {
                let _ = observed.event(write(0, start_s, start_s + length_s, bytes));
            }
            let job = JobInfo { run_time_s: Some(1000.0), ..JobInfo::default() };
            for method in [CategoryMethod::Auto, CategoryMethod::Mosaic] {
                let config = CategoryConfig { method, ..CategoryConfig::default() };
                for label in categorize(observed.clone(), &job, &config).labels {
                    prop_assert!(label.confidence.is_finite());
                    prop_assert!(label.evidence.iter().all(|evidence| evidence.value.is_finite()));
                }
            }
        }
    }
}
