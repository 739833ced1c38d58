//! Who loaded the storage and when, and how alike the runs of an application are labelled.

use iotide_look::Untrusted;
use serde::Serialize;

/// Runs in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeBucket {
    /// When it begins, in seconds since the Unix epoch.
    pub start_s: f64,
    /// How long it is.
    pub length_s: f64,
    /// Runs that began in it.
    pub n_runs: u64,
    /// Bytes that these runs read.
    pub bytes_read: f64,
    /// Bytes that these runs wrote.
    pub bytes_written: f64,
    /// Their run time times their processes, in hours.
    pub process_hours: f64,
}

/// A user and what their runs did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UserCount {
    /// Who; `None` where the source does not say.
    pub user: Option<Untrusted>,
    /// How many runs.
    pub n_runs: u64,
    /// How many different applications.
    pub n_applications: u64,
    /// Bytes that the runs read.
    pub bytes_read: f64,
    /// Bytes that the runs wrote.
    pub bytes_written: f64,
    /// Run time times processes, in hours.
    pub process_hours: f64,
}

/// An application and what its runs did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ApplicationLoad {
    /// Who ran it, if that is known.
    pub user: Option<Untrusted>,
    /// The program.
    pub application: Untrusted,
    /// How many runs.
    pub n_runs: u64,
    /// Bytes that the runs read.
    pub bytes_read: f64,
    /// Bytes that the runs wrote.
    pub bytes_written: f64,
    /// Run time times processes, in hours.
    pub process_hours: f64,
    /// The share of its runs that have the same labels as most of them.
    pub labelled_alike: f64,
    /// These labels.
    pub categories: Vec<&'static str>,
}

/// How many have no label, and how many the six commonest labels of time describe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    /// Which population: `unique`, `weighted` or `all`.
    pub population: &'static str,
    /// The share without any label.
    pub unlabelled_share: f64,
    /// The six labels of time (when is read, when is written) that most have.
    pub six_commonest: Vec<&'static str>,
    /// The share that has labels of time, and all of them among those six.
    pub by_six_share: f64,
}

/// Days, weeks or months, so that there are no more than a page shows.
pub fn folded(days: impl IntoIterator<Item = (i64, TimeBucket)>) -> Vec<TimeBucket> {
    const MOST: i64 = 130;
    const DAY_S: f64 = 86_400.0;
    let days: Vec<(i64, TimeBucket)> = days.into_iter().collect();
    let (Some(first), Some(last)) = (days.first().map(|day| day.0), days.last().map(|day| day.0)) else {
        return Vec::new();
    };
    let n_days = last - first + 1;
    let n_of = |per_bucket: i64| (n_days + per_bucket - 1) / per_bucket;
    let per_bucket =
        [1, 7, 30, 91, 365].into_iter().find(|days| n_of(*days) <= MOST).unwrap_or_else(|| n_of(MOST));
    let mut buckets: Vec<TimeBucket> = (0..n_of(per_bucket))
        .map(|i| TimeBucket {
            start_s: (first + i * per_bucket) as f64 * DAY_S,
            length_s: per_bucket as f64 * DAY_S,
            ..TimeBucket::default()
        })
        .collect();
    for (day, sums) in days {
        let Some(bucket) = buckets.get_mut(((day - first) / per_bucket) as usize) else { continue };
        bucket.n_runs += sums.n_runs;
        bucket.bytes_read += sums.bytes_read;
        bucket.bytes_written += sums.bytes_written;
        bucket.process_hours += sums.process_hours;
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_axis_has_no_more_bars_than_a_page_shows_and_loses_nothing() {
        for n_days in [1_i64, 130, 131, 900, 4000, 20_000, 140_000] {
            let days = (0..n_days)
                .map(|day| (day - 50, TimeBucket { n_runs: 2, bytes_read: 1.0, ..TimeBucket::default() }));
            let buckets = folded(days);
            assert!((1..=131).contains(&buckets.len()), "{n_days}: {}", buckets.len());
            assert_eq!(buckets.iter().map(|bucket| bucket.n_runs).sum::<u64>(), 2 * n_days as u64);
            assert_eq!(buckets[0].start_s, -50.0 * 86_400.0);
        }
        assert!(folded([]).is_empty());
    }
}
