//! `cargo xtask accuracy categories`: how right the labels of a run are, on runs whose labels are known.
//!
//! A run is right on *temporality* if its labels of when it reads and writes are the true ones (where truth asserts any), on
//! *periodic or not* if reads and writes are called periodic exactly where they are, on *metadata* if those labels are the
//! true ones; on *all three* if it is right on each; and on *every label* if none is missing and none too many, magnitudes
//! and busy times included. A period counts as found within 10 %.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iotide_analysis::{
    Access, Categories, Category, CategoryConfig, CategoryMethod, FoundPeriod, Observed, categorize,
};

use crate::readers::shared_data;
use crate::score::relative_error;
use crate::synthetic::labelled::{self, Case, Truth};

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut seed, mut repeat, mut shared, mut verbose, mut sweep) = (1, 60, false, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seed" => seed = value()?.parse().map_err(|e| format!("--seed: {e}"))?,
            "--repeat" => repeat = value()?.parse().map_err(|e| format!("--repeat: {e}"))?,
            "--shared" => shared = true,
            "--verbose" => verbose = true,
            "--sweep" => sweep = Some(value()?.clone()),
            other => return Err(format!("{other}?\n{HELP}")),
        }
    }
    let cases = if shared {
        read_labelled(&shared_data("categories").ok_or("the shared labelled traces are not here")?)?
    } else {
        labelled::runs(repeat, seed)
    };
    if let Some(sweep) = sweep {
        return sweep_setting(&cases, &sweep);
    }
    let methods = [CategoryMethod::Auto, CategoryMethod::Mosaic];
    let judged = methods.map(|method| {
        let config = CategoryConfig { method, ..CategoryConfig::default() };
        cases.iter().map(|case| judge(case, &config)).collect::<Vec<Judged>>()
    });
    let [auto, mosaic] = [Table::of(&judged[0]), Table::of(&judged[1])];
    println!("{} runs\n\n{}", cases.len(), summary(&auto, &mosaic));
    println!("{}\n{}", per_label(&auto, &mosaic), per_kind(&auto, &mosaic));
    if verbose {
        judged[0].iter().filter(|one| !one.is_right()).for_each(|one| println!("{}", one.text()));
    }
    Ok(())
}

/// Usage of `run`.
pub const HELP: &str = "accuracy categories [--seed N] [--repeat N] [--shared] [--verbose] [--sweep KEY=V,V…]
    labels of runs against the truth, by our method and by the rules of the MOSAIC paper; --shared: on the labelled traces
    beside the repository; --sweep: the same at several values of one threshold";

/// The shares at several values of one threshold.
fn sweep_setting(cases: &[Case], sweep: &str) -> Result<(), String> {
    let (key, values) = sweep.split_once('=').ok_or("--sweep needs KEY=V,V…")?;
    for value in values.split(',') {
        let mut config = CategoryConfig::default();
        let number = value.parse().map_err(|e| format!("{value}: {e}"))?;
        config.thresholds.set(key, number).map_err(|e| e.to_string())?;
        let judged: Vec<Judged> = cases.iter().map(|case| judge(case, &config)).collect();
        let shares = Table::of(&judged).shares().map(|(name, share)| format!("{name} {:.1}", 100.0 * share));
        println!("{key} = {value}: {}", shares.join(", "));
        let [odd, even, first, second] = halves(&judged).map(|share| 100.0 * share);
        println!(
            "    all three on every other run {odd:.1} and {even:.1}, on either half {first:.1} and {second:.1}"
        );
    }
    Ok(())
}

/// How many of the runs are right on all three: of the first, third, fifth …; of those between; of the first half; of the
/// second. A value that was chosen on one half can be judged on the other.
fn halves(judged: &[Judged]) -> [f64; 4] {
    let (first, second) = judged.split_at(judged.len() / 2);
    let (odd, even): (Vec<_>, Vec<_>) = judged.iter().enumerate().partition(|(i, _)| i % 2 == 0);
    let apart = |half: Vec<(usize, _)>| half.into_iter().map(|(_, one)| one).collect();
    let halves: [Vec<&Judged>; 4] =
        [apart(odd), apart(even), first.iter().collect(), second.iter().collect()];
    halves.map(|half| {
        let n_right = half.iter().filter(|one| one.all_three()).count();
        n_right as f64 / half.len().max(1) as f64
    })
}

/// A run and how its labels compare.
pub struct Judged<'a> {
    case: &'a Case,
    found: Categories,
    missing: Vec<Category>,
    surplus: Vec<Category>,
    periods: Periods,
}

/// Counts of true periods and of told ones.
#[derive(Clone, Copy, Debug, Default)]
struct Periods {
    n_true: usize,
    n_true_found: usize,
    n_told: usize,
    n_told_right: usize,
}

const ACCESSES: [Access; 2] = [Access::Read, Access::Write];

/// Labels a run and compares.
pub fn judge<'a>(case: &'a Case, config: &CategoryConfig) -> Judged<'a> {
    let found = categorize(case.observed.clone(), &case.job, config);
    let asserted = |category: &Category| match category {
        Category::When(access, _) => !case.truth.any.contains(access),
        _ => true,
    };
    let labels: BTreeSet<Category> = found.labels.iter().map(|label| label.category).collect();
    let missing = case.truth.labels.difference(&labels).copied().filter(asserted).collect();
    let surplus = labels.difference(&case.truth.labels).copied().filter(asserted).collect();
    let agree = |a: f64, b: f64| relative_error(a, b) <= 0.1;
    let mut periods = Periods::default();
    for access in ACCESSES {
        let told = periods_of(&found, access);
        let truths = case.truth.periods_s.get(&access).map_or(&[][..], Vec::as_slice);
        periods.n_true += truths.len();
        periods.n_true_found +=
            truths.iter().filter(|truth| told.iter().any(|told| agree(told.period_s, **truth))).count();
        periods.n_told += told.len();
        periods.n_told_right +=
            told.iter().filter(|told| truths.iter().any(|truth| agree(told.period_s, *truth))).count();
    }
    Judged { case, found, missing, surplus, periods }
}

fn periods_of(found: &Categories, access: Access) -> &[FoundPeriod] {
    match access {
        Access::Read => &found.read.periods,
        Access::Write => &found.write.periods,
    }
}

impl Judged<'_> {
    fn is_right_on(&self, is_part: fn(&Category) -> bool) -> bool {
        !self.missing.iter().chain(&self.surplus).any(is_part)
    }

    fn all_three(&self) -> bool {
        PARTS.iter().all(|(_, is_part)| self.is_right_on(*is_part))
    }

    fn every_label(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty()
    }

    fn is_right(&self) -> bool {
        let Periods { n_true, n_true_found, n_told, n_told_right } = self.periods;
        self.every_label() && n_true == n_true_found && n_told == n_told_right
    }

    fn text(&self) -> String {
        let names =
            |labels: &[Category]| labels.iter().map(|label| label.name()).collect::<Vec<_>>().join(" ");
        let periods = ACCESSES.map(|access| {
            let told: Vec<String> = periods_of(&self.found, access)
                .iter()
                .map(|p| {
                    format!("{:.2} s ({:.0} %, n = {})", p.period_s, 100.0 * p.confidence, p.n_operations)
                })
                .collect();
            format!("told [{}], true {:.2?}", told.join(", "), self.case.truth.periods_s.get(&access))
        });
        let (missing, surplus) = (names(&self.missing), names(&self.surplus));
        let Case { name, kind, .. } = self.case;
        format!(
            "{name} ({kind}): missing [{missing}], surplus [{surplus}]; read {}; write {}",
            periods[0], periods[1]
        )
    }
}

type IsPart = fn(&Category) -> bool;

const PARTS: [(&str, IsPart); 3] = [
    ("temporality", |category| matches!(category, Category::When(..))),
    ("periodic or not", |category| matches!(category, Category::Periodic(_))),
    ("metadata", |category| matches!(category, Category::Metadata(_))),
];

/// Shares of right answers.
pub struct Table {
    temporality: f64,
    periodic: f64,
    metadata: f64,
    all_three: f64,
    every_label: f64,
    recall: f64,
    precision: f64,
    /// Per kind of run: how many, how many right on all three, counts of periods.
    kinds: BTreeMap<String, (usize, usize, Periods)>,
    /// Per label: how often true, missing, surplus.
    labels: BTreeMap<Category, [usize; 3]>,
}

impl Table {
    /// Counts.
    pub fn of(judged: &[Judged]) -> Self {
        let share = |right: &dyn Fn(&Judged) -> bool| {
            judged.iter().filter(|one| right(one)).count() as f64 / judged.len().max(1) as f64
        };
        let part = |index: usize| share(&|one: &Judged| one.is_right_on(PARTS[index].1));
        let mut all = Periods::default();
        let mut kinds: BTreeMap<String, (usize, usize, Periods)> = BTreeMap::new();
        let mut labels: BTreeMap<Category, [usize; 3]> = BTreeMap::new();
        for one in judged {
            let (n, n_right, periods) = kinds.entry(one.case.kind.clone()).or_default();
            *n += 1;
            *n_right += usize::from(one.all_three());
            periods.add(one.periods);
            all.add(one.periods);
            let lists =
                [&one.case.truth.labels.iter().copied().collect::<Vec<_>>(), &one.missing, &one.surplus];
            for (column, list) in lists.into_iter().enumerate() {
                list.iter().for_each(|label| labels.entry(*label).or_default()[column] += 1);
            }
        }
        Self {
            temporality: part(0),
            periodic: part(1),
            metadata: part(2),
            all_three: share(&|one: &Judged| one.all_three()),
            every_label: share(&|one: &Judged| one.every_label()),
            recall: all.n_true_found as f64 / all.n_true.max(1) as f64,
            precision: all.n_told_right as f64 / all.n_told.max(1) as f64,
            kinds,
            labels,
        }
    }

    fn shares(&self) -> [(&'static str, f64); 7] {
        [
            ("temporality", self.temporality),
            ("periodic or not", self.periodic),
            ("metadata", self.metadata),
            ("all three", self.all_three),
            ("every label", self.every_label),
            ("periods: recall", self.recall),
            ("periods: precision", self.precision),
        ]
    }
}

impl Periods {
    fn add(&mut self, other: Self) {
        self.n_true += other.n_true;
        self.n_true_found += other.n_true_found;
        self.n_told += other.n_told;
        self.n_told_right += other.n_told_right;
    }
}

/// Results of others on the shared labelled traces: MOSAIC's published code, and the paper taken literally.
const PUBLISHED: [(&str, &str); 7] =
    [("93", "94"), ("96", "84"), ("71", "97"), ("64", "74"), ("–", "–"), ("71", "86"), ("62", "61")];

fn summary(auto: &Table, mosaic: &Table) -> String {
    let mut out =
        "| | iotide | `--method mosaic` | MOSAIC's code ¹ | literal paper ¹ |\n|---|---|---|---|---|\n"
            .to_owned();
    for (((name, ours), (_, theirs)), (code, paper)) in
        auto.shares().iter().zip(mosaic.shares()).zip(PUBLISHED)
    {
        out += &format!("| {name} | {:.1} % | {:.1} % | {code} | {paper} |\n", 100.0 * ours, 100.0 * theirs);
    }
    out + "\n¹ on the shared labelled traces, in per cent\n"
}

fn per_label(auto: &Table, mosaic: &Table) -> String {
    let mut out =
        "| label | true of | missed | surplus | mosaic: missed | surplus |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for category in Category::all() {
        let of = |table: &Table| table.labels.get(&category).copied().unwrap_or_default();
        let ([n, missed, surplus], [_, their_missed, their_surplus]) = (of(auto), of(mosaic));
        out += &format!(
            "| `{}` | {n} | {missed} | {surplus} | {their_missed} | {their_surplus} |\n",
            category.name()
        );
    }
    out
}

fn per_kind(auto: &Table, mosaic: &Table) -> String {
    let mut out =
        "| kind | runs | all three right | mosaic | periods found | told in vain |\n|---|---|---|---|---|---|\n".to_owned();
    for (kind, (n, n_right, periods)) in &auto.kinds {
        let theirs = mosaic.kinds.get(kind).map_or(0, |(_, n_right, _)| *n_right);
        let Periods { n_true, n_true_found, n_told, n_told_right } = periods;
        let vain = n_told - n_told_right;
        out += &format!("| {kind} | {n} | {n_right} | {theirs} | {n_true_found} of {n_true} | {vain} |\n");
    }
    out
}

/// Reads traces and what `labels.json` says of them.
fn read_labelled(folder: &Path) -> Result<Vec<Case>, String> {
    let path = folder.join("labels.json");
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| fault(&error))?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|error| fault(&error))?;
    let runs = document.as_object().ok_or_else(|| fault(&"not an object"))?;
    let mut cases: Vec<Case> = Vec::with_capacity(runs.len());
    for (name, entry) in runs {
        let mut observed = Observed::new();
        let trace = folder.join(format!("{name}.csv"));
        let reader = iotide_formats::open(&trace).map_err(|error| error.to_string())?;
        let info = reader.read(&mut observed).map_err(|error| error.to_string())?;
        cases.push(Case {
            name: name.clone(),
            kind: entry["family"].as_str().unwrap_or("").to_owned(),
            observed,
            job: info.job,
            truth: truth_of(entry).map_err(|error| fault(&error))?,
        });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn truth_of(entry: &serde_json::Value) -> Result<Truth, String> {
    let mut truth = Truth::default();
    for label in entry["labels"].as_array().into_iter().flatten() {
        match label.as_str().unwrap_or_default() {
            "read_any" => truth.any.push(Access::Read),
            "write_any" => truth.any.push(Access::Write),
            name => {
                truth.labels.insert(Category::from_name(name).ok_or_else(|| format!("no label {name:?}"))?);
            }
        }
    }
    for (access, name) in ACCESSES.into_iter().zip(["read", "write"]) {
        // A file kept open hides its rhythm from its record: what nobody can see is not asked for.
        if truth.labels.contains(&Category::Periodic(access)) {
            let periods = entry["truth"]["periods"][name].as_array().into_iter().flatten();
            truth.periods_s.insert(access, periods.filter_map(serde_json::Value::as_f64).collect());
        }
    }
    Ok(truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cases: &[Case]) -> Table {
        let config = CategoryConfig::default();
        Table::of(&cases.iter().map(|case| judge(case, &config)).collect::<Vec<_>>())
    }

    fn assert_goals(table: &Table) {
        let goals = [0.99, 0.97, 0.99, 0.96, 0.96, 0.9, 0.9];
        for ((name, share), goal) in table.shares().into_iter().zip(goals) {
            assert!(share >= goal, "{name}: {share:.4} < {goal}");
        }
    }

    #[test]
    fn labels_of_made_runs_are_right_as_often_as_promised() {
        assert_goals(&table(&labelled::runs(20, 7)));
    }

    #[test]
    fn labels_of_the_shared_runs_are_right_as_often_as_promised() {
        let Some(folder) = iotide_testkit::shared_data("categories") else { return };
        let cases = read_labelled(&folder).unwrap();
        assert!(cases.len() >= 600, "{}", cases.len());
        assert_goals(&table(&cases));
    }

    #[test]
    fn a_wrong_label_counts_as_missing_and_as_surplus() {
        let mut cases = labelled::runs(1, 1);
        let case = cases.iter_mut().find(|case| case.kind == "kept open").unwrap();
        case.truth.labels = BTreeSet::new();
        let table = table(std::slice::from_ref(case));
        assert_eq!((table.every_label, table.all_three), (0.0, 0.0));
        assert!(table.labels.values().all(|[n, missed, surplus]| (*n, *missed, *surplus) == (0, 0, 1)));
    }
}
