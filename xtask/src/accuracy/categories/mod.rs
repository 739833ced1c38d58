//! How right the labels of a run are, on runs whose labels are known.
//!
//! A run is right on *temporality* if its labels of when it reads and writes are the true ones (where truth asserts any), on
//! *periodic or not* if reads and writes are called periodic exactly where they are, on *metadata* if those labels are the
//! true ones; on *all three* if it is right on each; and on *every label* if no label is missing or too many, magnitudes and
//! busy times included. Periods count as found within 10 %.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use iotide_analysis::{Access, Categories, Category, CategoryConfig, CategoryMethod, Observed, categorize};
use iotide_trace::JobInfo;

mod made;

pub fn run(args: &[String]) -> Result<(), String> {
    let verbose = args.iter().any(|arg| arg == "--verbose");
    let cases = if args.iter().any(|arg| arg == "--shared") {
        let folder = shared_folder().ok_or("the shared labelled traces are not here")?;
        read_labelled(&folder)?
    } else {
        made::runs(60, 1)
    };
    if let Some(at) = args.iter().position(|arg| arg == "--sweep") {
        let key = &args[at + 1];
        for value in args[at + 2].split(',') {
            let mut config = CategoryConfig::default();
            config.thresholds.set(key, value.parse().unwrap()).unwrap();
            let judged: Vec<Judged> = cases.iter().map(|case| judge(case, &config)).collect();
            let t = Table::of(&judged);
            println!(
                "{key} {value}: temp {:.4} per {:.4} all {:.4} every {:.4} rec {:.4} prec {:.4}",
                t.temporality, t.periodic, t.all_three, t.every_label, t.recall, t.precision
            );
        }
        return Ok(());
    }
    for method in [CategoryMethod::Auto, CategoryMethod::Mosaic] {
        let config = CategoryConfig { method, ..CategoryConfig::default() };
        let judged: Vec<Judged> = cases.iter().map(|case| judge(case, &config)).collect();
        println!("{}", Table::of(&judged).text(method.name()));
        if verbose && method == CategoryMethod::Auto {
            for one in judged.iter().filter(|one| {
                args.iter().any(|a| a == "--all")
                    || !one.every_label()
                    || one.n_found < one.n_true
                    || one.n_right_found < one.n_found
            }) {
                println!("{}", one.text());
            }
        }
    }
    Ok(())
}

/// A run whose labels are known.
pub struct Case {
    pub name: String,
    pub family: String,
    pub hard: Option<String>,
    pub observed: Observed,
    pub job: JobInfo,
    pub truth: Truth,
}

/// What is true of a run.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub labels: BTreeSet<Category>,
    /// Of which accesses the temporality is not asserted.
    pub any: Vec<Access>,
    /// The true periods where the run is periodic.
    pub periods_s: BTreeMap<Access, Vec<f64>>,
}

/// A run and how its labels compare.
pub struct Judged<'a> {
    case: &'a Case,
    found: Categories,
    pub temporality: bool,
    pub periodic: bool,
    pub metadata: bool,
    missing: Vec<Category>,
    surplus: Vec<Category>,
    pub n_true: usize,
    pub n_found: usize,
    n_told: usize,
    n_right_found: usize,
}

const ACCESSES: [Access; 2] = [Access::Read, Access::Write];

pub fn judge<'a>(case: &'a Case, config: &CategoryConfig) -> Judged<'a> {
    let found = categorize(&case.observed, &case.job, config);
    let asserted = |category: &Category| match category {
        Category::When(access, _) => !case.truth.any.contains(access),
        _ => true,
    };
    let labels: BTreeSet<Category> = found.labels.iter().map(|label| label.category).collect();
    let missing: Vec<Category> = case.truth.labels.difference(&labels).copied().filter(asserted).collect();
    let surplus: Vec<Category> = labels.difference(&case.truth.labels).copied().filter(asserted).collect();
    let right_on = |is_part: fn(&Category) -> bool| !missing.iter().chain(&surplus).any(is_part);
    let (mut n_true, mut n_found, mut n_told, mut n_right_found) = (0, 0, 0, 0);
    for access in ACCESSES {
        let told = match access {
            Access::Read => &found.read.periods,
            Access::Write => &found.write.periods,
        };
        let truths = case.truth.periods_s.get(&access).map_or(&[][..], Vec::as_slice);
        let agree = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.1;
        n_true += truths.len();
        n_found +=
            truths.iter().filter(|truth| told.iter().any(|told| agree(told.period_s, **truth))).count();
        n_told += told.len();
        n_right_found +=
            told.iter().filter(|told| truths.iter().any(|truth| agree(told.period_s, *truth))).count();
    }
    Judged {
        case,
        temporality: right_on(|category| matches!(category, Category::When(..))),
        periodic: right_on(|category| matches!(category, Category::Periodic(_))),
        metadata: right_on(|category| matches!(category, Category::Metadata(_))),
        found,
        missing,
        surplus,
        n_true,
        n_found,
        n_told,
        n_right_found,
    }
}

impl Judged<'_> {
    fn all_three(&self) -> bool {
        self.temporality && self.periodic && self.metadata
    }

    fn every_label(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty()
    }

    fn text(&self) -> String {
        let names = |labels: &[Category]| labels.iter().map(|l| l.name()).collect::<Vec<_>>().join(" ");
        let periods = |access: Access| {
            let told = match access {
                Access::Read => &self.found.read.periods,
                Access::Write => &self.found.write.periods,
            };
            let told: Vec<String> = told
                .iter()
                .map(|p| {
                    format!(
                        "{:.4}({:.2},n{},b{:.2})",
                        p.period_s,
                        (p.confidence / (1.0 - p.confidence)).ln(),
                        p.n_operations,
                        p.busy_share
                    )
                })
                .collect();
            let truth = self.case.truth.periods_s.get(&access);
            format!("[{}]={truth:.4?}", told.join(" "))
        };
        format!(
            "{} {} {}: missing {}; surplus {}; read {} write {} ops {}/{}",
            self.case.name,
            self.case.family,
            self.case.hard.as_deref().unwrap_or(""),
            names(&self.missing),
            names(&self.surplus),
            periods(Access::Read),
            periods(Access::Write),
            self.found.read.n_operations,
            self.found.write.n_operations,
        )
    }
}

/// Shares of right answers.
pub struct Table {
    n: usize,
    pub temporality: f64,
    pub periodic: f64,
    pub metadata: f64,
    pub all_three: f64,
    pub every_label: f64,
    pub recall: f64,
    pub precision: f64,
    families: BTreeMap<String, (usize, usize, usize, usize, usize, usize, usize)>,
    labels: BTreeMap<Category, (usize, usize, usize)>,
}

impl Table {
    pub fn of(judged: &[Judged]) -> Self {
        let share = |right: fn(&Judged) -> bool| {
            judged.iter().filter(|one| right(one)).count() as f64 / judged.len().max(1) as f64
        };
        let sum = |count: fn(&Judged) -> usize| judged.iter().map(count).sum::<usize>() as f64;
        let mut families: BTreeMap<String, (usize, usize, usize, usize, usize, usize, usize)> =
            BTreeMap::new();
        for one in judged {
            let f = families.entry(one.case.family.clone()).or_default();
            f.0 += 1;
            f.1 += usize::from(one.all_three());
            f.2 += usize::from(one.every_label());
            f.3 += one.n_true;
            f.4 += one.n_found;
            f.5 += one.n_told;
            f.6 += one.n_right_found;
        }
        let mut labels: BTreeMap<Category, (usize, usize, usize)> = BTreeMap::new();
        for one in judged {
            for label in &one.case.truth.labels {
                if !(matches!(label, Category::When(access, _) if one.case.truth.any.contains(access))) {
                    labels.entry(*label).or_default().0 += 1;
                }
            }
            for label in &one.missing {
                labels.entry(*label).or_default().1 += 1;
            }
            for label in &one.surplus {
                labels.entry(*label).or_default().2 += 1;
            }
        }
        Self {
            n: judged.len(),
            temporality: share(|one| one.temporality),
            periodic: share(|one| one.periodic),
            metadata: share(|one| one.metadata),
            all_three: share(|one| one.all_three()),
            every_label: share(|one| one.every_label()),
            recall: sum(|one| one.n_found) / sum(|one| one.n_true),
            precision: sum(|one| one.n_right_found) / sum(|one| one.n_told),
            families,
            labels,
        }
    }

    fn text(&self, method: &str) -> String {
        use std::fmt::Write;
        let mut out = format!("{} runs, method {method}\n", self.n);
        for (name, share) in [
            ("temporality", self.temporality),
            ("periodic or not", self.periodic),
            ("metadata", self.metadata),
            ("all three", self.all_three),
            ("every label", self.every_label),
            ("periods: recall", self.recall),
            ("periods: precision", self.precision),
        ] {
            let _ = writeln!(out, "  {name:<20} {:>6.1} %", 100.0 * share);
        }
        for (name, f) in &self.families {
            let _ = writeln!(
                out,
                "    {name:<26} n {:>3} three {:>3} every {:>3}  true {:>3} found {:>3} told {:>3} right {:>3}",
                f.0, f.1, f.2, f.3, f.4, f.5, f.6
            );
        }
        for (label, (n, missing, surplus)) in &self.labels {
            let _ =
                writeln!(out, "    {:<32} n {n:>3} missing {missing:>3} surplus {surplus:>3}", label.name());
        }
        out
    }
}

/// Where the shared labelled traces are, if they are.
pub fn shared_folder() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|dir| dir.join("shared/data/categories")).find(|dir| dir.is_dir())
}

/// Reads traces and what `labels.json` says of them.
pub fn read_labelled(folder: &Path) -> Result<Vec<Case>, String> {
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
            family: entry["family"].as_str().unwrap_or("").to_owned(),
            hard: entry["hard"].as_str().map(str::to_owned),
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
    for access in ACCESSES {
        let name = match access {
            Access::Read => "read",
            Access::Write => "write",
        };
        let periods = entry["truth"]["periods"][name].as_array().into_iter().flatten();
        // A file kept open hides its rhythm from its record: what nobody can see is not asked for.
        if truth.labels.contains(&Category::Periodic(access)) {
            truth.periods_s.insert(access, periods.filter_map(serde_json::Value::as_f64).collect());
        }
    }
    Ok(truth)
}
