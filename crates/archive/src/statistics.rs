//! Sums over the runs of an archive.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::rc::Rc;

use crate::load::{ApplicationSums, Load};
use iotide_analysis::{Category, Severity};
use iotide_pages::{ListedRun, rests};
use iotide_report::{
    ApplicationCount, ArchiveStatistics, IssueCount, IssueShare, LabelledRun, Population, RejectedLog,
    RejectionCount, ResultLine, Untrusted,
};

/// Returns what a few runs add up to; those whose labels should not be counted are rejected.
pub fn statistics_of<'a>(runs: impl IntoIterator<Item = &'a LabelledRun>) -> ArchiveStatistics {
    let mut sums = Sums::new();
    for run in runs {
        let line = match &run.rejected {
            Some(why) => RejectedLog::new(run.source.path.as_said(), None, why.as_said()).to_line(),
            None if !run.has_finite_sums() => continue,
            None => run.to_line(),
        };
        let added = ResultLine::parse(line.trim_end().as_bytes()).and_then(|line| sums.add(&line));
        debug_assert_eq!(added, Ok(()), "what was just written can be read: {line}");
    }
    sums.finish().0
}

/// Adds up lines of results.
///
/// The same lines in the same order give the same sums; results are always added in the order of their paths. Memory grows
/// with the number of applications (a few hundred bytes each), not with that of runs.
pub(crate) struct Sums {
    labels: Vec<&'static str>,
    positions: HashMap<&'static str, usize>,
    statistics: ArchiveStatistics,
    /// By user and program.
    applications: HashMap<Named, Application>,
    /// Runs whose source names no program.
    alone: Population,
    /// Reason with its numbers taken out → how many, and the first log.
    rejections: BTreeMap<String, (u64, String)>,
    /// By id.
    issues: Option<BTreeMap<String, Found>>,
    examples: Examples,
    load: Load,
}

/// A user, if known, and a program.
pub(crate) type Named = (Option<Box<str>>, Box<str>);

#[derive(Default)]
struct Found {
    n_runs: u64,
    n_high: u64,
    core_hours: f64,
    heaviest: (f64, String),
    /// Runs and core-hours by user and program.
    applications: BTreeMap<(Option<String>, Option<String>), (u64, f64)>,
}

impl Found {
    fn count((id, found): (String, Self)) -> IssueCount {
        let Self { n_runs, n_high, core_hours, heaviest: (_, example), applications } = found;
        let share = |((user, application), (n_runs, core_hours)): ((Option<String>, Option<String>), _)| {
            let named = |name: Option<String>| name.map(Untrusted::from);
            IssueShare { user: named(user), application: named(application), n_runs, core_hours }
        };
        let mut applications: Vec<IssueShare> = applications.into_iter().map(share).collect();
        applications.sort_by(|a, b| b.core_hours.total_cmp(&a.core_hours).then(b.n_runs.cmp(&a.n_runs)));
        applications.truncate(Sums::MOST_NAMED);
        IssueCount { id, n_runs, n_high, core_hours, example: example.into(), applications }
    }
}

pub(crate) struct Application {
    pub(crate) n_runs: u64,
    heaviest: ListedRun,
    pub(crate) load: ApplicationSums,
}

impl Sums {
    /// How many reasons are told apart; the rest is counted together.
    const MOST_REASONS: usize = 200;
    /// How many applications of an issue are told apart; the rest is counted together.
    const MOST_APPLICATIONS: usize = 4096;
    /// How many applications of an issue are named.
    const MOST_NAMED: usize = 10;
    /// How many of the applications that ran most often are named.
    const MOST_RUN: usize = 20;

    pub(crate) fn new() -> Self {
        let labels: Vec<&'static str> = Category::all().map(Category::name).collect();
        let n = labels.len();
        Self {
            positions: labels.iter().enumerate().map(|(i, label)| (*label, i)).collect(),
            statistics: ArchiveStatistics { all: Population::of(n), ..ArchiveStatistics::default() },
            applications: HashMap::new(),
            alone: Population::of(n),
            rejections: BTreeMap::new(),
            issues: None,
            examples: Examples::new(&labels),
            load: Load::default(),
            labels,
        }
    }

    /// Adds a line; a label that is not known is an error and says which.
    pub(crate) fn add(&mut self, line: &ResultLine<'_>) -> Result<(), String> {
        self.statistics.n_logs += 1;
        if let Some(reason) = &line.rejected {
            self.reject(reason, &line.source.path);
            return Ok(());
        }
        let mut labels = 0;
        for name in &line.categories {
            let at = self.positions.get(&**name).ok_or_else(|| format!("there is no label {name:?}"))?;
            labels |= 1 << at;
        }
        self.statistics.bytes_read += line.source.bytes_read;
        self.statistics.bytes_written += line.source.bytes_written;
        self.statistics.all.add(labels, 1);
        self.add_issues(line);
        self.load.add(line, labels);
        let run = || listed(line, labels);
        self.examples.consider(line.bytes_moved(), labels, run);
        let Some(application) = &line.application else {
            self.alone.add(labels, 1);
            self.load.add_heaviest(labels, 1);
            self.examples.consider_unique(line.bytes_moved(), labels, || ListedRun { n_runs: 1, ..run() });
            self.statistics.n_without_application += 1;
            return Ok(());
        };
        let user = line.source.job.user.as_deref().map(Box::from);
        match self.applications.entry((user, Box::from(&**application))) {
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(Application {
                    n_runs: 1,
                    heaviest: run(),
                    load: ApplicationSums::of(line, labels),
                });
            }
            std::collections::hash_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.n_runs += 1;
                known.load.add(line, labels);
                // Of runs that move the same, the first by its path stays.
                if line.bytes_moved() > known.heaviest.bytes_moved() {
                    known.heaviest = run();
                }
            }
        }
        Ok(())
    }

    fn add_issues(&mut self, line: &ResultLine<'_>) {
        let Some(issues) = &line.issues else { return };
        let known = self.issues.get_or_insert_default();
        for issue in issues {
            // The ids are our own; what others wrote must not fill the memory.
            if known.len() >= Self::MOST_REASONS && !known.contains_key(&*issue.id) {
                continue;
            }
            let found = known.entry(issue.id.to_string()).or_default();
            let hours = issue.gain.map_or(0.0, |gain| gain.of_run) * line.core_hours.unwrap_or(0.0);
            found.n_runs += 1;
            found.n_high += u64::from(issue.severity == Severity::High.name());
            found.core_hours += hours;
            if found.n_runs == 1 || hours > found.heaviest.0 {
                found.heaviest = (hours, line.source.path.to_string());
            }
            let of = |name: Option<&str>| name.map(str::to_owned);
            let mut key = (of(line.source.job.user.as_deref()), of(line.application.as_deref()));
            if found.applications.len() >= Self::MOST_APPLICATIONS && !found.applications.contains_key(&key) {
                key = (None, None);
            }
            let sums = found.applications.entry(key).or_default();
            *sums = (sums.0 + 1, sums.1 + hours);
        }
    }

    fn reject(&mut self, reason: &str, path: &str) {
        self.statistics.n_rejected += 1;
        let mut kind = without_numbers(reason);
        if self.rejections.len() >= Self::MOST_REASONS && !self.rejections.contains_key(&kind) {
            kind = "other reasons".to_owned();
        }
        self.rejections.entry(kind).or_insert_with(|| (0, path.to_owned())).0 += 1;
    }

    /// Returns the sums, and the runs that a page lists.
    pub(crate) fn finish(mut self) -> (ArchiveStatistics, Vec<ListedRun>) {
        let mut unique = self.alone.clone();
        let mut weighted = self.alone;
        let mut applications: Vec<_> = self.applications.into_iter().collect();
        applications
            .sort_by(|(a, one), (b, other)| (Reverse(one.n_runs), a).cmp(&(Reverse(other.n_runs), b)));
        let mut most_run = Vec::new();
        let heaviest_applications = self.load.applications(&applications, &self.labels);
        for ((user, name), Application { n_runs, heaviest, .. }) in applications {
            self.load.add_heaviest(heaviest.labels, n_runs);
            unique.add(heaviest.labels, 1);
            weighted.add(heaviest.labels, n_runs);
            if most_run.len() < Self::MOST_RUN {
                let bears = |label: &usize| heaviest.labels >> label & 1 == 1;
                most_run.push(ApplicationCount {
                    user: user.map(|user| Untrusted::from(String::from(user))),
                    application: String::from(name).into(),
                    n_runs,
                    bytes_moved: heaviest.bytes_moved(),
                    categories: (0..self.labels.len())
                        .filter(bears)
                        .map(|label| self.labels[label])
                        .collect(),
                });
            }
            let run = ListedRun { n_runs, ..heaviest };
            self.examples.consider_unique(run.bytes_moved(), run.labels, || run.clone());
        }
        let mut rejections: Vec<_> = (self.rejections.into_iter())
            .map(|(reason, (n_logs, example))| RejectionCount {
                reason: reason.into(),
                n_logs,
                example: example.into(),
            })
            .collect();
        rejections.sort_by_key(|rejection| Reverse(rejection.n_logs));
        let issues = self.issues.map(|known| {
            let mut issues: Vec<IssueCount> = known.into_iter().map(Found::count).collect();
            issues.sort_by(|a, b| b.core_hours.total_cmp(&a.core_hours).then(b.n_runs.cmp(&a.n_runs)));
            issues
        });
        let statistics = ArchiveStatistics {
            unique,
            weighted,
            rejections,
            most_run,
            issues,
            heaviest_applications,
            coverage: self.load.coverage(&self.labels),
            n_without_start: self.load.n_without_start,
            n_more_users: self.load.n_more_users(),
            users: self.load.users(),
            timeline: self.load.timeline(),
            labels: self.labels,
            ..self.statistics
        };
        (statistics, self.examples.finish())
    }
}

fn listed(line: &ResultLine<'_>, labels: u64) -> ListedRun {
    ListedRun {
        path: line.source.path.as_ref().into(),
        user: line.source.job.user.as_deref().map(Untrusted::from),
        application: line.application.as_deref().map(Untrusted::from),
        bytes_read: line.source.bytes_read,
        bytes_written: line.source.bytes_written,
        run_time_s: line.run_time_s,
        n_procs: line.source.job.nprocs,
        start_time: line.source.job.start_time,
        labels,
        n_runs: 0,
    }
}

/// Reasons of one kind differ in numbers only.
fn without_numbers(reason: &str) -> String {
    let mut kind = String::new();
    for c in reason.chars().take(200) {
        match c {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            '.' if kind.ends_with('#') => {}
            c => kind.push(c),
        }
    }
    kind
}

/// The runs that move most bytes for each label and each pair of labels.
struct Examples {
    n_labels: usize,
    /// Labels as bits: runs that bear none of them are wanted, too.
    rests: Vec<u64>,
    /// Of all runs, and of the heaviest run of each application; by pair of labels, of which a label and itself is one,
    /// and after these by `rests`.
    all: Vec<Best>,
    unique: Vec<Best>,
}

type Best = BinaryHeap<Reverse<Weighed>>;

impl Examples {
    /// How many are kept for each.
    const PER_CELL: usize = 25;

    fn new(labels: &[&'static str]) -> Self {
        let (n_labels, rests) = (labels.len(), rests(labels));
        let cells = || (0..n_labels * n_labels + rests.len()).map(|_| Best::new()).collect();
        Self { n_labels, all: cells(), unique: cells(), rests }
    }

    fn consider(&mut self, bytes: f64, labels: u64, run: impl FnOnce() -> ListedRun) {
        let cells = cells_of(self.n_labels, &self.rests, labels);
        consider(&mut self.all, cells, bytes, run);
    }

    fn consider_unique(&mut self, bytes: f64, labels: u64, run: impl FnOnce() -> ListedRun) {
        let cells = cells_of(self.n_labels, &self.rests, labels);
        consider(&mut self.unique, cells, bytes, run);
    }

    /// Returns each run once, those of applications with their number of runs, heaviest first.
    fn finish(self) -> Vec<ListedRun> {
        let mut runs: BTreeMap<Untrusted, Rc<ListedRun>> = BTreeMap::new();
        // Those of applications come last, and know more.
        for best in self.all.into_iter().chain(self.unique) {
            for Reverse(Weighed(run)) in best {
                runs.insert(run.path.clone(), run);
            }
        }
        let mut runs: Vec<ListedRun> = runs.into_values().map(|run| (*run).clone()).collect();
        runs.sort_by(|a, b| b.bytes_moved().total_cmp(&a.bytes_moved()).then_with(|| a.path.cmp(&b.path)));
        runs
    }
}

/// Where a run with these labels belongs.
fn cells_of(n_labels: usize, rests: &[u64], labels: u64) -> impl Iterator<Item = usize> {
    let bears = move |label: &usize| labels >> label & 1 == 1;
    let pairs = (0..n_labels)
        .filter(bears)
        .flat_map(move |a| (a..n_labels).filter(bears).map(move |b| a * n_labels + b));
    let none_of = rests.iter().enumerate().filter(move |(_, rest)| labels & **rest == 0);
    pairs.chain(none_of.map(move |(i, _)| n_labels * n_labels + i))
}

fn consider(
    best_of: &mut [Best],
    cells: impl Iterator<Item = usize>,
    bytes: f64,
    run: impl FnOnce() -> ListedRun,
) {
    let mut made: Option<Rc<ListedRun>> = None;
    let mut run = Some(run);
    for cell in cells {
        let best = &mut best_of[cell];
        let full = best.len() >= Examples::PER_CELL;
        if full && best.peek().is_some_and(|Reverse(least)| least.0.bytes_moved() > bytes) {
            continue;
        }
        let made = made.get_or_insert_with(|| Rc::new(run.take().map(|run| run()).unwrap_or_default()));
        best.push(Reverse(Weighed(made.clone())));
        if full {
            best.pop();
        }
    }
}

/// Runs in the order of bytes moved; of equals, the first by its path is more.
struct Weighed(Rc<ListedRun>);

impl Ord for Weighed {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.0, &other.0);
        a.bytes_moved().total_cmp(&b.bytes_moved()).then_with(|| b.path.cmp(&a.path))
    }
}

impl PartialOrd for Weighed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Weighed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Weighed {}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, user: &str, application: &str, bytes: f64, categories: &[&str]) -> String {
        serde_json::json!({
            "source": {"path": path, "bytes_read": 0, "bytes_written": bytes, "job": {"user": user}},
            "application": (!application.is_empty()).then_some(application),
            "categories": categories,
        })
        .to_string()
    }

    fn sums(lines: &[String]) -> (ArchiveStatistics, Vec<ListedRun>) {
        let mut sums = Sums::new();
        for line in lines {
            sums.add(&ResultLine::parse(line.as_bytes()).unwrap()).unwrap();
        }
        sums.finish()
    }

    #[test]
    fn an_application_is_its_heaviest_run_and_weighs_as_many_as_there_are() {
        let (statistics, runs) = sums(&[
            line("a", "u", "app", 10.0, &["write_on_end"]),
            line("b", "u", "app", 30.0, &["write_steady"]),
            line("c", "u", "app", 20.0, &["write_on_end"]),
            line("d", "v", "app", 5.0, &["write_on_end"]),
            line("e", "v", "", 1.0, &["write_on_end"]),
        ]);
        let at = |name| statistics.labels.iter().position(|label| *label == name).unwrap();
        let counts = |name| {
            let at = at(name);
            [&statistics.unique, &statistics.weighted, &statistics.all]
                .map(|population| population.of_label[at])
        };
        assert_eq!(counts("write_steady"), [1, 3, 1]);
        assert_eq!(counts("write_on_end"), [2, 2, 4]);
        assert_eq!((statistics.unique.n, statistics.weighted.n, statistics.all.n), (3, 5, 5));
        assert_eq!(statistics.n_without_application, 1);
        assert_eq!(statistics.most_run[0].n_runs, 3);
        let listed: Vec<_> = runs.iter().map(|run| (run.path.as_said(), run.n_runs)).collect();
        assert_eq!(listed, [("b", 3), ("c", 0), ("a", 0), ("d", 1), ("e", 1)]);
    }

    #[test]
    fn reasons_of_one_kind_are_counted_together() {
        let rejected = |path: &str, why: &str| {
            serde_json::json!({"source": {"path": path}, "rejected": why}).to_string()
        };
        let (statistics, _) = sums(&[
            rejected("a", "byte 12: 3.5 s"),
            rejected("b", "byte 7: 11 s"),
            rejected("c", "is empty"),
        ]);
        assert_eq!((statistics.n_logs, statistics.n_rejected, statistics.all.n), (3, 3, 0));
        let [first, second] = &statistics.rejections[..] else { panic!("{:?}", statistics.rejections) };
        assert_eq!((first.reason.as_said(), first.n_logs, first.example.as_said()), ("byte #: # s", 2, "a"));
        assert_eq!(second.reason, "is empty");
    }

    #[test]
    fn a_page_lists_the_heaviest_runs_of_each_cell_and_no_more() {
        let lines: Vec<String> = (0..500)
            .map(|i| line(&format!("{i:03}"), "u", "app", f64::from(i), &["write_on_end", "read_steady"]))
            .collect();
        let (_, runs) = sums(&lines);
        assert_eq!(runs.len(), Examples::PER_CELL);
        assert_eq!((runs[0].path.as_said(), runs[24].path.as_said()), ("499", "475"));
    }

    #[test]
    fn a_label_nobody_knows_is_an_error() {
        let line = line("a", "u", "app", 1.0, &["write_sometimes"]);
        let error = Sums::new().add(&ResultLine::parse(line.as_bytes()).unwrap()).unwrap_err();
        assert_eq!(error, "there is no label \"write_sometimes\"");
    }
}
