//! Models of applications, fitted anew whenever a run has ended.
//!
//! A thread of its own fits them from what the store has of an application's runs, and swaps what readers see: who asks for models that are there never
//! waits, also while they are being fitted anew. What is not there (after a restart, or of an unusual choice of runs) is fitted when it is
//! first asked for. Nothing is kept on disk but the measurements.
//!
//! An application belongs to a user: runs of others under the same name are another one's. Runs that were killed, or of which not all is known,
//! are no measurements: they are left out, and a note says so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::{io, thread};

use iotide_ledger::{JobKey, JobState, Metric, Name, Parameters};
use iotide_private::Shares;
use iotide_report::profile;
use iotide_scaling::{FitConfig, ModelSet, collect};
use tokio::sync::oneshot;

use crate::events::Events;
use crate::store::{Figure, Reader, RunQuery, StoreError, StoredJob};
use fitting::{Fitting, Question};

mod fitting;

/// Where a run says how often it was given another size: call path and metric.
pub const RESIZES: (&str, &str) = ("job", "resizes");

/// Whether a run had one size from its beginning to its end: what it took is no measurement of any size otherwise.
fn has_one_size(figures: &[Figure]) -> bool {
    !figures.iter().any(|figure| (figure.callpath.as_str(), figure.metric.as_str()) == RESIZES)
}

/// Values that the models of an application rest on: those of its latest runs.
pub const MOST_POINTS: usize = 10_000;
/// Runs of an application that are looked at, the latest.
const MOST_RUNS: usize = 1000;
/// Models of so many applications (or choices of their runs) are in memory, those used last.
const MOST_KEPT: usize = 256;
/// Models in memory have about so many bytes in all: those of sixty applications with a run or two, which is what every change of a command line makes, or of
/// a handful whose calls are many. Others are fitted when they are asked for, in less than a tenth of a second.
const MOST_BYTES: usize = 1 << 20;
/// Questions that wait for models to be fitted; of one user, a quarter.
const MOST_WAITING: usize = 64;
/// A run as a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// When it began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// How many processes it had.
    pub size: u32,
    /// Its own parameters.
    pub parameters: Parameters,
    /// Which binary ran.
    pub build: Name,
    /// Counts of the run. A count that only other runs have is 0 in this one.
    pub counted: Vec<Value>,
    /// Other measurements of the run; a missing one is not known.
    pub figures: Vec<Value>,
}

/// Call path, metric, value. Runs of an application have the same names, and share them: there may be a thousand runs.
pub type Value = (Arc<str>, Arc<str>, f64);

/// Names, each of which is in memory once.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn one(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }

    fn value(&mut self, callpath: &str, metric: &str, value: f64) -> Value {
        (self.one(callpath), self.one(metric), value)
    }
}

/// Runs of one binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRuns {
    /// Its build id, as digits.
    pub build: Name,
    /// How many.
    pub n_runs: usize,
    /// When the first began.
    pub first_ns: u64,
    /// When the last began.
    pub last_ns: u64,
}

/// Models of an application, with the measurements they rest on.
#[derive(Debug)]
pub struct Fitted {
    /// The models.
    pub set: ModelSet,
    /// How many runs they rest on.
    pub n_runs: usize,
    /// The binaries of these runs, the latest first.
    pub builds: Vec<BuildRuns>,
    /// Notes on what was left out.
    pub notes: Vec<String>,
    /// No other models have this number; later ones have a higher one.
    pub generation: u64,
    n_bytes: usize,
    used: AtomicU64,
}

/// Fits a function to everything that runs of an application measured; the earliest run first.
pub fn fit(runs: &[MeasuredRun], notes: Vec<String>) -> Fitted {
    let names: Vec<String> = runs
        .first()
        .map_or_else(Vec::new, |run| run.parameters.iter().map(|(name, _)| name.to_owned()).collect());
    let parameters: Vec<String> = std::iter::once(Parameters::SIZE.to_owned()).chain(names).collect();
    let point = |run: &MeasuredRun| -> Vec<f64> {
        std::iter::once(f64::from(run.size)).chain(run.parameters.iter().map(|(_, value)| value)).collect()
    };
    let points: Vec<Vec<f64>> = runs.iter().map(point).collect();
    // Of what no run did, nothing is said.
    let done: BTreeSet<(&str, &str)> = (runs.iter().flat_map(|run| &run.counted))
        .filter(|(_, _, value)| *value != 0.0)
        .map(|(callpath, metric, _)| (&**callpath, &**metric))
        .collect();
    let mut rows: Vec<(&[f64], &str, &str, f64)> = Vec::new();
    for (run, point) in runs.iter().zip(&points) {
        let counted: HashMap<(&str, &str), f64> = (run.counted.iter())
            .map(|(callpath, metric, value)| ((&**callpath, &**metric), *value))
            .collect();
        rows.extend(done.iter().map(|&(callpath, metric)| {
            (point.as_slice(), callpath, metric, counted.get(&(callpath, metric)).copied().unwrap_or(0.0))
        }));
        let figures = run.figures.iter();
        rows.extend(
            figures.map(|(callpath, metric, value)| (point.as_slice(), &**callpath, &**metric, *value)),
        );
    }
    let mut set = ModelSet::for_one_question(parameters.clone(), FitConfig::default());
    if let Ok(experiment) = collect(parameters, rows) {
        // The parameters are the same by the lines above.
        let _ = set.absorb(vec![experiment], NonZeroUsize::MIN);
    }
    let mut builds: Vec<BuildRuns> = Vec::new();
    for run in runs {
        match builds.iter_mut().find(|known| known.build == run.build) {
            Some(known) => {
                known.n_runs += 1;
                known.last_ns = known.last_ns.max(run.start_ns);
            }
            None => builds.push(BuildRuns {
                build: run.build.clone(),
                n_runs: 1,
                first_ns: run.start_ns,
                last_ns: run.start_ns,
            }),
        }
    }
    builds.sort_by_key(|known| std::cmp::Reverse(known.last_ns));
    let n_bytes = set.settle();
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    Fitted { set, n_runs: runs.len(), builds, notes, generation, n_bytes, used: AtomicU64::new(0) }
}

/// Which runs of which application are asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wanted {
    /// Whose runs.
    pub uid: u32,
    /// Of which application.
    pub app: Name,
    /// Of the binary whose build id begins so.
    pub build: Option<String>,
    /// The last so many.
    pub last: Option<usize>,
    /// Those begun at or after this time.
    pub since_ns: Option<u64>,
}

impl Wanted {
    /// All runs of an application.
    pub fn all(uid: u32, app: Name) -> Self {
        Self { uid, app, build: None, last: None, since_ns: None }
    }

    fn is_of(&self, uid: u32, app: &Name) -> bool {
        self.uid == uid && self.app == *app
    }
}

type Kept = HashMap<Wanted, Arc<Fitted>>;
/// Models that were waited for, or why there are none.
pub type Waited = Result<Arc<Fitted>, String>;

/// Handle on the models: for questions, and for runs that end.
#[derive(Debug)]
pub struct Models {
    kept: Arc<RwLock<Arc<Kept>>>,
    clock: AtomicU64,
    work: Sender<Work>,
    /// Places of questions that wait.
    pub askers: Shares,
    watchers: Watchers,
    /// Whether models were fitted, which takes memory for a moment.
    has_fitted: Arc<AtomicBool>,
}

/// Receivers of the names of applications that were fitted anew.
type Watchers = Arc<Mutex<Vec<SyncSender<(u32, Name)>>>>;

enum Work {
    Ended(JobKey),
    Asked(Question),
}

/// Where measurements come from.
trait Source: Send {
    fn app_of(&mut self, key: &JobKey) -> Option<Name>;
    fn fit(&mut self, wanted: &Wanted) -> Waited;
}

impl Models {
    /// Starts the thread. It ends when this is dropped.
    pub fn start(store: PathBuf, events: Events) -> io::Result<Self> {
        Self::start_with(Box::new(FromStore { directory: store, reader: None }), events)
    }

    fn start_with(source: Box<dyn Source>, events: Events) -> io::Result<Self> {
        let (work, todo) = channel();
        let fitting = Fitting::new(source, events);
        let (kept, watchers) = (Arc::clone(&fitting.kept), Arc::clone(&fitting.watchers));
        let has_fitted = Arc::clone(&fitting.has_fitted);
        thread::Builder::new().name("iotide-models".to_owned()).spawn(move || {
            crate::priority::give_way();
            fitting.run(&todo);
        })?;
        let askers = Shares::among_users(MOST_WAITING);
        Ok(Self { kept, clock: AtomicU64::new(0), work, askers, watchers, has_fitted })
    }

    /// A run has ended: its application is fitted anew, soon. Nobody waits.
    pub fn ended(&self, key: &JobKey) {
        // Without the thread there are no models; everything else goes on.
        let _ = self.work.send(Work::Ended(key.clone()));
    }

    /// Whether models were fitted since this was last asked: what that took is free.
    pub fn take_has_fitted(&self) -> bool {
        self.has_fitted.swap(false, Ordering::Relaxed)
    }

    /// Which applications are fitted anew from now on, of whom. Who does not read in time misses some.
    pub fn watch(&self) -> Receiver<(u32, Name)> {
        let (told, changed) = sync_channel(MOST_KEPT);
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        changed
    }

    /// Applications whose models are there.
    pub fn applications(&self) -> Vec<(u32, Name)> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let all = kept.keys().filter(|wanted| **wanted == Wanted::all(wanted.uid, wanted.app.clone()));
        all.map(|wanted| (wanted.uid, wanted.app.clone())).collect()
    }

    /// Models that are there.
    pub fn now(&self, wanted: &Wanted) -> Option<Arc<Fitted>> {
        let kept = Arc::clone(&self.kept.read().unwrap_or_else(PoisonError::into_inner));
        let found = kept.get(wanted)?;
        found.used.store(self.clock.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(Arc::clone(found))
    }

    /// Asks for models that are not there; `None` if too many wait already.
    pub fn ask(&self, wanted: Wanted, asker: u32) -> Option<oneshot::Receiver<Waited>> {
        let place = self.askers.take(asker)?;
        let (reply, answer) = oneshot::channel();
        self.work.send(Work::Asked(Question { wanted, asker, reply, place })).ok()?;
        Some(answer)
    }
}

/// Measurements as the store has them.
struct FromStore {
    directory: PathBuf,
    /// Opened anew after it has failed: a damaged database is replaced by another.
    reader: Option<Reader>,
}

impl FromStore {
    fn ask<T>(&mut self, ask: impl FnOnce(&Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(&self.directory)?,
        };
        let answer = ask(&reader)?;
        self.reader = Some(reader);
        Ok(answer)
    }
}

impl Source for FromStore {
    fn app_of(&mut self, key: &JobKey) -> Option<Name> {
        self.ask(|reader| reader.app_of(key)).ok().flatten()
    }

    fn fit(&mut self, wanted: &Wanted) -> Waited {
        let (runs, notes) = self.ask(|reader| measured(reader, wanted)).map_err(|error| error.to_string())?;
        Ok(Arc::new(fit(&runs, notes)))
    }
}

/// The runs that are wanted, the earliest first, and what is left out.
fn measured(reader: &Reader, wanted: &Wanted) -> Result<(Vec<MeasuredRun>, Vec<String>), StoreError> {
    let query = RunQuery { uid: wanted.uid, app: &wanted.app, since_ns: wanted.since_ns, limit: MOST_RUNS };
    let mut stored = reader.runs(&query)?;
    let has_all = stored.len() < MOST_RUNS;
    if let Some(build) = &wanted.build {
        stored.retain(|run| !build.is_empty() && run.about.build.as_str().starts_with(build.as_str()));
    }
    let names = common_parameters(&stored);
    let n_wanted = wanted.last.unwrap_or(usize::MAX);
    let (mut left_out, mut has_room) = (LeftOut::default(), has_all);
    let mut runs: Vec<MeasuredRun> = Vec::new();
    let mut series: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
    let mut known = Names::default();
    for run in &stored {
        if runs.len() >= n_wanted {
            break;
        }
        if run.about.parameters.iter().map(|(name, _)| name).ne(names.iter().map(String::as_str)) {
            left_out.n_others += 1;
            continue;
        }
        let counters = reader.counters(run.number)?;
        if run.state != JobState::Ended || counters.get(&Metric::Lost).calls > 0 {
            left_out.n_incomplete += 1;
            continue;
        }
        if counters.n_killed() > 0 {
            left_out.n_killed += 1;
            continue;
        }
        let run_time_s = run.end_ns.map(|end_ns| end_ns.saturating_sub(run.key.start_ns) as f64 / 1e9);
        let counted = profile(&counters, run_time_s).into_iter().filter(|value| value.value != 0.0);
        let counted: Vec<Value> =
            counted.map(|value| known.value(&value.callpath, value.metric, value.value)).collect();
        let figures = reader.figures(run.number)?;
        if !has_one_size(&figures) {
            left_out.n_resized += 1;
            continue;
        }
        let figures: Vec<Value> =
            figures.iter().map(|it| known.value(&it.callpath, &it.metric, it.value)).collect();
        let measured = counted.iter().chain(&figures);
        series.extend(measured.map(|(callpath, metric, _)| (Arc::clone(callpath), Arc::clone(metric))));
        if (runs.len() + 1) * series.len() > MOST_POINTS {
            has_room = false;
            break;
        }
        runs.push(MeasuredRun {
            start_ns: run.key.start_ns,
            size: run.about.size,
            parameters: run.about.parameters.clone(),
            build: run.about.build.clone(),
            counted,
            figures,
        });
    }
    runs.reverse();
    let mut notes = left_out.notes(&names);
    if !has_room && runs.len() < n_wanted {
        notes.push(format!("earlier runs than the last {} are left out", runs.len()));
    }
    Ok((runs, notes))
}

/// How many runs are in no model, and why.
#[derive(Default)]
struct LeftOut {
    n_incomplete: usize,
    n_killed: usize,
    n_resized: usize,
    n_others: usize,
}

impl LeftOut {
    /// A sentence for each reason there is. `names` are the parameters that runs must have beside their size.
    fn notes(&self, names: &[String]) -> Vec<String> {
        let names: Vec<&str> =
            std::iter::once(Parameters::SIZE).chain(names.iter().map(String::as_str)).collect();
        let reasons = [
            (self.n_incomplete, "not all of the counts are known".to_owned()),
            (self.n_killed, "a process was killed or aborted".to_owned()),
            (self.n_resized, "the size was changed meanwhile".to_owned()),
            (self.n_others, format!("the parameters are not {}", names.join(", "))),
        ];
        let there = reasons.into_iter().filter(|(n, _)| *n > 0);
        let of_runs = |n: usize| if n == 1 { "1 run is".to_owned() } else { format!("{n} runs are") };
        there.map(|(n, reason)| format!("{} left out: {reason}", of_runs(n))).collect()
    }
}

/// The names of parameters that most runs have; of those that are as frequent, what the latest run has.
fn common_parameters(runs: &[StoredJob]) -> Vec<String> {
    let names = |run: &StoredJob| -> Vec<String> {
        run.about.parameters.iter().map(|(name, _)| name.to_owned()).collect()
    };
    let mut counts: BTreeMap<Vec<String>, (usize, std::cmp::Reverse<usize>)> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        counts.entry(names(run)).or_insert((0, std::cmp::Reverse(index))).0 += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(names, _)| names).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::JobId;

    fn key(app: &str) -> JobKey {
        JobKey { cluster: Name::default(), uid: 7, id: JobId::new(app).unwrap(), start_ns: 5 }
    }

    fn app(name: &str) -> Name {
        Name::cut(name.as_bytes())
    }

    /// As many runs as there are sizes; each has written `factor` bytes a process.
    fn runs(sizes: &[u32], factor: f64) -> Vec<MeasuredRun> {
        let run = |size: &u32| MeasuredRun {
            start_ns: u64::from(*size),
            size: *size,
            parameters: Parameters::default(),
            build: Name::cut(format!("{factor}").as_bytes()),
            counted: vec![("posix->write".into(), "size".into(), factor * f64::from(*size))],
            figures: Vec::new(),
        };
        sizes.iter().map(run).collect()
    }

    fn at_1024(fitted: &Fitted) -> f64 {
        let (_, model) = fitted.set.iter().next().unwrap();
        model.as_ref().unwrap().function.at(&[1024.0])
    }

    /// A source that is as slow as the test likes, and answers with as many bytes a process as it was asked before.
    struct Slow {
        enters: Sender<()>,
        may_go_on: Receiver<()>,
        n_asked: u32,
    }

    impl Source for Slow {
        fn app_of(&mut self, key: &JobKey) -> Option<Name> {
            Some(app(key.id.as_str()))
        }

        fn fit(&mut self, _: &Wanted) -> Waited {
            self.n_asked += 1;
            self.enters.send(()).unwrap();
            self.may_go_on.recv().unwrap();
            Ok(Arc::new(fit(&runs(&[1, 2, 4, 8, 16], f64::from(self.n_asked)), Vec::new())))
        }
    }

    #[test]
    fn who_asks_while_models_are_fitted_anew_gets_the_old_ones_at_once() {
        let ((enters, entered), (go_on, may_go_on)) = (channel(), channel());
        let models =
            Models::start_with(Box::new(Slow { enters, may_go_on, n_asked: 0 }), Events::default()).unwrap();
        let wanted = Wanted::all(7, app("a"));
        assert!(models.now(&wanted).is_none() && !models.take_has_fitted());
        models.ended(&key("a"));
        entered.recv().unwrap();
        go_on.send(()).unwrap();
        let old = loop {
            match models.now(&wanted) {
                Some(found) => break found,
                None => thread::yield_now(),
            }
        };
        assert!((at_1024(&old) - 1024.0).abs() < 1.0, "{}", at_1024(&old));
        assert!(models.take_has_fitted() && !models.take_has_fitted());
        // The thread stands in the midst of the next fit.
        models.ended(&key("a"));
        entered.recv().unwrap();
        for _ in 0..1000 {
            assert!(Arc::ptr_eq(&old, &models.now(&wanted).unwrap()));
        }
        let wait = models.ask(Wanted { last: Some(3), ..wanted.clone() }, 7).unwrap();
        go_on.send(()).unwrap();
        while Arc::ptr_eq(&old, &models.now(&wanted).unwrap()) {
            thread::yield_now();
        }
        assert!((at_1024(&models.now(&wanted).unwrap()) - 2048.0).abs() < 1.0);
        // What had to wait is answered, and kept until the next run ends.
        entered.recv().unwrap();
        go_on.send(()).unwrap();
        assert!((at_1024(&wait.blocking_recv().unwrap().unwrap()) - 3072.0).abs() < 1.0);
        assert!(models.take_has_fitted());
        let third = Wanted { last: Some(3), ..wanted };
        assert!(models.now(&third).is_some());
        models.ended(&key("a"));
        entered.recv().unwrap();
        go_on.send(()).unwrap();
        while models.now(&third).is_some() {
            thread::yield_now();
        }
    }

    #[test]
    fn one_user_cannot_fill_the_line() {
        let ((enters, entered), (go_on, may_go_on)) = (channel(), channel());
        let models =
            Models::start_with(Box::new(Slow { enters, may_go_on, n_asked: 0 }), Events::default()).unwrap();
        let wanted = |last| Wanted { last: Some(last), ..Wanted::all(7, app("a")) };
        let first = models.ask(wanted(0), 7).unwrap();
        entered.recv().unwrap();
        let waiting: Vec<_> = (1..=16).map(|last| models.ask(wanted(last), 7).unwrap()).collect();
        assert!(models.ask(wanted(17), 7).is_none());
        let other = models.ask(wanted(18), 8).unwrap();
        // Who hangs up costs nothing.
        drop(waiting);
        go_on.send(()).unwrap();
        first.blocking_recv().unwrap().unwrap();
        entered.recv().unwrap();
        go_on.send(()).unwrap();
        other.blocking_recv().unwrap().unwrap();
        assert!(models.ask(wanted(19), 7).is_some());
        // The thread that waits for the test ends with it.
        drop(go_on);
    }

    /// Fits at once, and says what.
    struct Quick(Sender<(u32, Name)>, Receiver<()>);

    impl Source for Quick {
        fn app_of(&mut self, key: &JobKey) -> Option<Name> {
            Some(app(key.id.as_str()))
        }

        fn fit(&mut self, wanted: &Wanted) -> Waited {
            self.0.send((wanted.uid, wanted.app.clone())).unwrap();
            self.1.recv().map_err(|error| error.to_string())?;
            Ok(Arc::new(fit(&runs(&[1, 2, 4], 1.0), Vec::new())))
        }
    }

    #[test]
    fn refits_and_questions_of_one_user_come_between_those_of_others() {
        let ((fits, fitted), (go_on, may_go_on)) = (channel(), channel());
        let models = Models::start_with(Box::new(Quick(fits, may_go_on)), Events::default()).unwrap();
        let of = |uid: u32, name: &str| JobKey { uid, ..key(name) };
        models.ended(&of(7, "first"));
        fitted.recv().unwrap();
        // The thread stands in a fit while hundreds of applications of one user, and then two of another, are told of.
        (0..300).for_each(|i| models.ended(&of(7, &format!("app{i}"))));
        models.ended(&of(8, "own1"));
        models.ended(&of(8, "own2"));
        let wanted = |uid, last| Wanted { last: Some(last), ..Wanted::all(uid, app("asked")) };
        let asked: Vec<_> = (1..=10).map(|last| models.ask(wanted(7, last), 7).unwrap()).collect();
        let other = models.ask(wanted(8, 1), 8).unwrap();
        let mut order = Vec::new();
        while order.iter().filter(|(uid, _)| *uid == 8).count() < 3 {
            go_on.send(()).unwrap();
            order.push(fitted.recv().unwrap());
        }
        assert!(order.len() <= 8, "{order:?}");
        go_on.send(()).unwrap();
        other.blocking_recv().unwrap().unwrap();
        drop((asked, go_on));
    }

    #[test]
    fn memory_is_bounded_and_what_was_used_last_stays() {
        struct None_;
        impl Source for None_ {
            fn app_of(&mut self, _: &JobKey) -> Option<Name> {
                None
            }
            fn fit(&mut self, _: &Wanted) -> Waited {
                Err(String::new())
            }
        }
        let fitting = Fitting::new(Box::new(None_), Events::default());
        let kept = Arc::clone(&fitting.kept);
        let small = Arc::new(fit(&runs(&[1, 2, 4], 1.0), Vec::new()));
        for i in 0..2 * MOST_KEPT {
            let fitted = Fitted {
                n_bytes: 10,
                set: small.set.clone(),
                n_runs: 3,
                builds: Vec::new(),
                notes: Vec::new(),
                generation: 0,
                used: AtomicU64::new(0),
            };
            fitting.keep(Wanted::all(7, app(&i.to_string())), Arc::new(fitted), |_| false);
            // The first is asked for again and again.
            kept.read().unwrap()[&Wanted::all(7, app("0"))].used.store(i as u64 + 1, Ordering::Relaxed);
        }
        assert_eq!(kept.read().unwrap().len(), MOST_KEPT);
        // Another user's few stay, however many come.
        let own = Wanted::all(8, app("own"));
        fitting.keep(own.clone(), Arc::clone(&small), |_| false);
        for i in 0..2 * MOST_KEPT {
            let many = Arc::new(fit(&runs(&[1, 2, 4], 1.0), Vec::new()));
            let used = Arc::clone(&many);
            fitting.keep(Wanted::all(7, app(&format!("more{i}"))), many, |_| false);
            used.used.store((10 * MOST_KEPT + i) as u64, Ordering::Relaxed);
        }
        assert!(kept.read().unwrap().contains_key(&own));
        let large = Fitted {
            n_bytes: 2 * MOST_BYTES,
            set: small.set.clone(),
            n_runs: 3,
            builds: Vec::new(),
            notes: Vec::new(),
            generation: 0,
            used: AtomicU64::new(0),
        };
        fitting.keep(Wanted::all(7, app("large")), Arc::new(large), |_| false);
        assert_eq!(kept.read().unwrap().len(), 1, "what was asked for last is answered, whatever its size");
    }

    #[test]
    fn what_a_run_did_not_do_it_did_no_time_and_figures_that_are_missing_are_unknown() {
        let mut runs = runs(&[1, 2, 4, 8], 1.0);
        runs[3].counted.push(("mpi->MPI_Bcast".into(), "hits".into(), 5.0));
        runs[2].counted.push(("posix->open".into(), "size".into(), 0.0));
        runs[1].figures.push(("io".into(), "period".into(), 2.5));
        let fitted = fit(&runs, Vec::new());
        let n_points: Vec<(String, usize)> = (fitted.set.iter())
            .map(|(series, _)| (format!("{} {}", series.callpath, series.metric), series.measurements.len()))
            .collect();
        let expected = [("mpi->MPI_Bcast hits", 4), ("posix->write size", 4), ("io period", 1)];
        assert_eq!(n_points, expected.map(|(name, n)| (name.to_owned(), n)));
        assert_eq!(fitted.builds.len(), 1);
        assert_eq!(fit(&[], Vec::new()).set.iter().count(), 0);
    }
}
