//! Who loaded the storage and when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use iotide_report::{ApplicationLoad, Coverage, ResultLine, TimeBucket, Untrusted, UserCount, folded};

use crate::statistics::{Application, Named};

/// Sums over the runs of an archive by day, by user and by label.
#[derive(Default)]
pub(crate) struct Load {
    /// By days since the Unix epoch.
    days: BTreeMap<i64, TimeBucket>,
    pub(crate) n_without_start: u64,
    users: HashMap<Option<Box<str>>, User>,
    /// Labels as bits → how many applications, applications times runs, and runs have exactly these.
    sets: HashMap<u64, [u64; 3]>,
}

#[derive(Default)]
struct User {
    sums: Sums,
    /// Hashes of the names: more are not needed to count them.
    applications: BTreeSet<u64>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    n_runs: u64,
    bytes_read: f64,
    bytes_written: f64,
    process_hours: f64,
}

impl Sums {
    fn add(&mut self, line: &ResultLine<'_>) {
        self.n_runs += 1;
        self.bytes_read += line.source.bytes_read;
        self.bytes_written += line.source.bytes_written;
        self.process_hours += process_hours(line);
    }

    fn bytes(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }
}

fn process_hours(line: &ResultLine<'_>) -> f64 {
    line.run_time_s.max(0.0) * line.source.job.nprocs.unwrap_or(1).max(1) as f64 / 3600.0
}

/// Sums over the runs of an application, and their labels.
pub(crate) struct ApplicationSums {
    sums: Sums,
    /// Labels as bits, and how many runs have exactly these.
    sets: Vec<(u64, u64)>,
}

/// How many different sets of labels of one application are counted; the rest is other than the commonest.
const MOST_SETS: usize = 16;

impl ApplicationSums {
    pub(crate) fn of(line: &ResultLine<'_>, labels: u64) -> Self {
        let mut sums = Self { sums: Sums::default(), sets: Vec::new() };
        sums.add(line, labels);
        sums
    }

    pub(crate) fn add(&mut self, line: &ResultLine<'_>, labels: u64) {
        self.sums.add(line);
        match self.sets.iter().position(|(set, _)| *set == labels) {
            Some(at) => self.sets[at].1 += 1,
            None if self.sets.len() < MOST_SETS => self.sets.push((labels, 1)),
            None => {}
        }
    }

    /// The labels that most runs have, and how many those are; of equals the lower bits.
    fn commonest(&self) -> (u64, u64) {
        self.sets.iter().copied().max_by_key(|(set, n)| (*n, Reverse(*set))).unwrap_or_default()
    }
}

impl Load {
    /// Days from year 1980 to 2300. What is before was noted by a clock that nobody had set, and one such run would stretch the time
    /// axis of all others by decades; what is after is damage.
    const DAYS: std::ops::Range<i64> = 3652..120_530;
    /// How many users and applications are named.
    const MOST_NAMED: usize = 200;
    /// How many different sets of labels are counted.
    const MOST_SETS: usize = 1 << 16;

    pub(crate) fn add(&mut self, line: &ResultLine<'_>, labels: u64) {
        let day = line
            .source
            .job
            .start_time
            .filter(|start| *start > 0.0)
            .map(|start_s| (start_s / 86_400.0).floor() as i64);
        match day.filter(|day| Self::DAYS.contains(day)) {
            Some(day) => {
                let bucket = self.days.entry(day).or_default();
                bucket.n_runs += 1;
                bucket.bytes_read += line.source.bytes_read;
                bucket.bytes_written += line.source.bytes_written;
                bucket.process_hours += process_hours(line);
            }
            None => self.n_without_start += 1,
        }
        let user = self.users.entry(line.source.job.user.as_deref().map(Box::from)).or_default();
        user.sums.add(line);
        if let Some(application) = &line.application {
            user.applications.insert(iotide_wire::Fnv1a::of(application.as_bytes()).value());
        }
        self.count(labels, 2, 1);
    }

    /// Counts an application by the labels of its heaviest run.
    pub(crate) fn add_heaviest(&mut self, labels: u64, n_runs: u64) {
        self.count(labels, 0, 1);
        self.count(labels, 1, n_runs);
    }

    fn count(&mut self, labels: u64, population: usize, n: u64) {
        if self.sets.len() < Self::MOST_SETS || self.sets.contains_key(&labels) {
            self.sets.entry(labels).or_default()[population] += n;
        }
    }

    pub(crate) fn timeline(&self) -> Vec<TimeBucket> {
        folded(self.days.iter().map(|(day, bucket)| (*day, *bucket)))
    }

    pub(crate) fn users(&self) -> Vec<UserCount> {
        let mut users: Vec<_> = self.users.iter().collect();
        users.sort_by(|(a, one), (b, other)| {
            other.sums.bytes().total_cmp(&one.sums.bytes()).then_with(|| a.cmp(b))
        });
        let count = |(name, user): (&Option<Box<str>>, &User)| UserCount {
            user: name.as_deref().map(Untrusted::from),
            n_runs: user.sums.n_runs,
            n_applications: user.applications.len() as u64,
            bytes_read: user.sums.bytes_read,
            bytes_written: user.sums.bytes_written,
            process_hours: user.sums.process_hours,
        };
        users.into_iter().take(Self::MOST_NAMED).map(count).collect()
    }

    pub(crate) fn n_more_users(&self) -> u64 {
        self.users.len().saturating_sub(Self::MOST_NAMED) as u64
    }

    /// The applications whose runs moved most bytes together, and those that ran most often, each once, heaviest first.
    pub(crate) fn applications(
        &self,
        applications: &[(Named, Application)],
        labels: &[&'static str],
    ) -> Vec<ApplicationLoad> {
        let mut heaviest: Vec<&(Named, Application)> = applications.iter().collect();
        heaviest.sort_by(|(a, one), (b, other)| {
            other.load.sums.bytes().total_cmp(&one.load.sums.bytes()).then_with(|| a.cmp(b))
        });
        let mut often: Vec<&(Named, Application)> = applications.iter().collect();
        often.sort_by(|(a, one), (b, other)| (Reverse(one.n_runs), a).cmp(&(Reverse(other.n_runs), b)));
        often.truncate(Self::MOST_NAMED / 4);
        let often: BTreeSet<&Named> = often.iter().map(|(name, _)| name).collect();
        let shown = heaviest
            .into_iter()
            .enumerate()
            .filter(|(i, (name, _))| *i < Self::MOST_NAMED || often.contains(name));
        let load = |(_, ((user, name), application)): (usize, &(Named, Application))| {
            let (set, n_alike) = application.load.commonest();
            let sums = application.load.sums;
            ApplicationLoad {
                user: user.as_deref().map(Untrusted::from),
                application: Untrusted::from(&**name),
                n_runs: application.n_runs,
                bytes_read: sums.bytes_read,
                bytes_written: sums.bytes_written,
                process_hours: sums.process_hours,
                labelled_alike: n_alike as f64 / application.n_runs.max(1) as f64,
                categories: (0..labels.len())
                    .filter(|label| set >> label & 1 == 1)
                    .map(|label| labels[label])
                    .collect(),
            }
        };
        shown.map(load).collect()
    }

    /// For each population how many have no label, and how many six labels of time describe.
    pub(crate) fn coverage(&self, labels: &[&'static str]) -> Vec<Coverage> {
        let of_time = |label: &str| !label.starts_with("metadata_") && !label.contains("_periodic");
        let time: u64 = labels
            .iter()
            .enumerate()
            .filter(|(_, label)| of_time(label))
            .fold(0, |bits, (i, _)| bits | 1 << i);
        let of = |(i, population): (usize, &'static str)| {
            let all: u64 = self.sets.values().map(|counts| counts[i]).sum();
            let share = |n: u64| if all == 0 { 0.0 } else { n as f64 / all as f64 };
            let n_of = |label: usize| -> u64 {
                self.sets.iter().filter(|(set, _)| *set >> label & 1 == 1).map(|(_, counts)| counts[i]).sum()
            };
            let mut commonest: Vec<(u64, usize)> = (0..labels.len())
                .filter(|label| time >> label & 1 == 1)
                .map(|label| (n_of(label), label))
                .collect();
            commonest.sort_by_key(|(n, label)| (Reverse(*n), *label));
            commonest.truncate(6);
            commonest.retain(|(n, _)| *n > 0);
            let six: u64 = commonest.iter().fold(0, |bits, (_, label)| bits | 1 << label);
            let is_described = |set: u64| set & time != 0 && set & time & !six == 0;
            let by_six =
                self.sets.iter().filter(|(set, _)| is_described(**set)).map(|(_, counts)| counts[i]).sum();
            Coverage {
                population,
                unlabelled_share: share(self.sets.get(&0).map_or(0, |counts| counts[i])),
                six_commonest: commonest.iter().map(|(_, label)| labels[*label]).collect(),
                by_six_share: share(by_six),
            }
        };
        ["unique", "weighted", "all"].into_iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::statistics::Sums;
    use iotide_report::ResultLine;

    fn line(path: &str, user: &str, application: &str, start_s: f64, categories: &[&str]) -> String {
        serde_json::json!({
            "source": {"path": path, "bytes_read": 10, "bytes_written": 20,
                       "job": {"user": user, "nprocs": 4, "start_time": start_s}},
            "application": application,
            "categories": categories,
            "run_time_s": 1800.0,
        })
        .to_string()
    }

    #[test]
    fn load_is_counted_by_day_user_and_application() {
        let day = 86_400.0;
        let lines = [
            line("a", "u", "lmp", 20_010.0 * day, &["write_steady", "read_on_start"]),
            line("b", "u", "lmp", 20_010.5 * day, &["write_steady", "read_on_start"]),
            line("c", "u", "lmp", 20_012.0 * day, &["write_on_end"]),
            line("d", "v", "wrf", 0.0, &[]),
            // Three minutes after a clock began that nobody had set.
            line("e", "v", "wrf", 169.0, &[]),
        ];
        let mut sums = Sums::new();
        for line in &lines {
            sums.add(&ResultLine::parse(line.as_bytes()).unwrap()).unwrap();
        }
        let statistics = sums.finish().0;
        let days: Vec<(f64, u64)> =
            statistics.timeline.iter().map(|bucket| (bucket.start_s / day, bucket.n_runs)).collect();
        assert_eq!(days, [(20_010.0, 2), (20_011.0, 0), (20_012.0, 1)]);
        assert_eq!(statistics.n_without_start, 2);
        let users: Vec<_> = statistics
            .users
            .iter()
            .map(|user| (user.n_runs, user.n_applications, user.process_hours))
            .collect();
        assert_eq!(users, [(3, 1, 6.0), (2, 1, 4.0)]);
        let lmp = &statistics.heaviest_applications[0];
        assert_eq!((lmp.n_runs, lmp.bytes_written, lmp.labelled_alike), (3, 60.0, 2.0 / 3.0));
        assert_eq!(lmp.categories, ["read_on_start", "write_steady"]);
        let all = &statistics.coverage[2];
        assert_eq!((all.unlabelled_share, all.by_six_share), (0.4, 0.6));
        assert_eq!(all.six_commonest, ["read_on_start", "write_steady", "write_on_end"]);
        let at = |name| statistics.labels.iter().position(|label| *label == name).unwrap();
        assert_eq!(statistics.all.conditional(at("write_steady"), at("read_on_start")), 1.0);
    }

    #[test]
    fn seven_labels_of_time_are_more_than_six() {
        let labels = [
            "read_on_start",
            "read_on_end",
            "read_steady",
            "write_on_start",
            "write_on_end",
            "write_steady",
            "write_before_end",
        ];
        let mut sums = Sums::new();
        for (i, label) in labels.iter().enumerate() {
            // The last is the rarest.
            for run in i..8 {
                let line = line(&format!("{i}-{run}"), "u", &format!("app{i}-{run}"), 1.0, &[label]);
                sums.add(&ResultLine::parse(line.as_bytes()).unwrap()).unwrap();
            }
        }
        let statistics = sums.finish().0;
        for coverage in &statistics.coverage {
            assert_eq!(coverage.six_commonest.len(), 6);
            assert_eq!(coverage.by_six_share, 33.0 / 35.0, "{}", coverage.population);
        }
    }
}
