//! `[act]` in the settings: rules in plain TOML.

use std::path::PathBuf;

use iotide_report::RulePlace;
use iotide_sched::act::{Actor, Limits, Pattern, Rule, Scope};
use iotide_sched::jobs::{JobPolicy, ResizeCost};
use toml::{Table, Value};

use crate::actuators::Manner;
use crate::sizes::policy_named;
use crate::slurm::{checked_signal, plain_word};
use crate::stagers::Template;
use iotide_look::quantity::{parse_seconds, parse_size};

/// What may be done, and how often it is thought of.
#[derive(Clone, Debug, PartialEq)]
pub struct ActSettings {
    pub(crate) is_dry_run: bool,
    pub(crate) every_s: f64,
    pub(crate) rules: Vec<Rule>,
    /// Where each rule acts.
    pub(crate) places: Vec<Place>,
}

/// Where a rule acts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// At the control socket of an arbiter or a mount.
    Control {
        socket: PathBuf,
        /// What its storage moves in a second; otherwise the highest that was seen.
        bandwidth_bps: Option<f64>,
    },
    /// Between two folders of each job.
    Stage(StagePlace),
    /// At this machine's Slurm.
    Resize(ResizePlace),
}

/// Where results of jobs come from and go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StagePlace {
    pub(crate) from: Template,
    pub(crate) to: Template,
    /// What the destination takes in a second.
    pub(crate) bandwidth_bps: f64,
    /// Whose turn it is at the destination: as `iotide stage out --gate --control`.
    pub(crate) gate: Option<String>,
    pub(crate) control: Option<PathBuf>,
}

/// How sizes are changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResizePlace {
    pub(crate) policy: JobPolicy,
    pub(crate) cost: ResizeCost,
    pub(crate) manner: Manner,
    /// A job that was given another size keeps it for so long.
    pub(crate) rest_s: f64,
    /// A command of Slurm that takes longer is ended.
    pub(crate) timeout_s: f64,
}

impl Place {
    /// For those who ask where a rule acts.
    pub(crate) fn shown(&self) -> RulePlace {
        let (words, control) = match self {
            Self::Control { socket, .. } => (socket.display().to_string(), Some(socket)),
            Self::Stage(place) => {
                (format!("{} to {}", place.from.as_str(), place.to.as_str()), place.control.as_ref())
            }
            Self::Resize(place) => (format!("Slurm, by {}", place.policy.name()), None),
        };
        RulePlace { words, control: control.map(|socket| socket.display().to_string()) }
    }
}

impl ActSettings {
    /// Rules at most.
    const MOST_RULES: usize = 64;

    /// Reads the table; says what is wrong with it.
    pub fn read(value: &Value) -> Result<Self, String> {
        let Some(table) = value.as_table() else { return Err("a table: [act]".to_owned()) };
        let mut settings = Self { is_dry_run: true, every_s: 2.0, rules: Vec::new(), places: Vec::new() };
        for (name, value) in table {
            match name.as_str() {
                "dry_run" => settings.is_dry_run = value.as_bool().ok_or("'dry_run' is true or false")?,
                "every" => {
                    let every = value.as_str().ok_or("'every' is a time in quotes, as in \"2s\"")?;
                    settings.every_s = parse_seconds(every).map_err(|why| format!("'every': {why}"))?;
                    if !(0.1..=60.0).contains(&settings.every_s) {
                        return Err("'every' is between 100ms and 60s".to_owned());
                    }
                }
                "rule" => {
                    let rules = value.as_array().ok_or("rules are written as [[act.rule]]")?;
                    if rules.len() > Self::MOST_RULES {
                        return Err(format!("there are at most {} rules", Self::MOST_RULES));
                    }
                    for (n, rule) in rules.iter().enumerate() {
                        settings.add(n, rule).map_err(|why| format!("rule {}: {why}", n + 1))?;
                    }
                }
                _ => return Err(format!("there is no setting '{name}' in it (dry_run, every, rule)")),
            }
        }
        if settings.rules.is_empty() {
            return Err("there is no [[act.rule]], so nothing may be done".to_owned());
        }
        Ok(settings)
    }

    /// What may be done, in a line.
    pub fn in_words(&self) -> String {
        let rules: Vec<String> = self
            .rules
            .iter()
            .zip(&self.places)
            .map(|(rule, place)| format!("{} ({} at {})", rule.name, rule.actor.name(), place.shown().words))
            .collect();
        let dry = if self.is_dry_run { "dry run: " } else { "" };
        format!("{dry}{}", rules.join(", "))
    }

    fn add(&mut self, n: usize, value: &Value) -> Result<(), String> {
        let Some(table) = value.as_table() else { return Err("a table: [[act.rule]]".to_owned()) };
        let actor = text(table, "actor")?.ok_or("'actor' says who acts: 'sets', 'stage' or 'resize'")?;
        let Some(actor) = Actor::from_name(actor) else {
            return Err(format!("'actor' is 'sets', 'stage' or 'resize', not '{actor}'"));
        };
        let own: &[&str] = match actor {
            Actor::Sets => &["control", "bandwidth"],
            Actor::Stage => &["from", "to", "bandwidth", "gate", "control"],
            Actor::Resize => &["policy", "alpha", "signal", "grace", "wait", "rest", "timeout"],
        };
        const COMMON: [&str; 9] = [
            "name",
            "actor",
            "jobs",
            "users",
            "partitions",
            "most_jobs",
            "most_per_hour",
            "least_gain",
            "least_confidence",
        ];
        if let Some(odd) =
            table.keys().find(|key| !COMMON.contains(&key.as_str()) && !own.contains(&key.as_str()))
        {
            return Err(format!(
                "there is no setting '{odd}' for '{}' ({}, {})",
                actor.name(),
                COMMON.join(", "),
                own.join(", ")
            ));
        }
        let name = text(table, "name")?.map_or_else(|| format!("{}-{}", actor.name(), n + 1), str::to_owned);
        if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
            return Err("'name' has 1 to 64 letters".to_owned());
        }
        if self.rules.iter().any(|rule| rule.name == name) {
            return Err(format!("another rule is called '{name}', too"));
        }
        self.places.push(match actor {
            Actor::Sets => {
                let socket = text(table, "control")?
                    .ok_or("'control' is the control socket of an `iotide arbiter` or `iotide mount`")?;
                Place::Control { socket: socket.into(), bandwidth_bps: bandwidth(table)? }
            }
            Actor::Stage => Place::Stage(stage_place(table)?),
            Actor::Resize => Place::Resize(resize_place(table)?),
        });
        let scope = scope(table)?;
        if let (Actor::Resize, Some(partition)) = (actor, scope.only_partition()) {
            plain_word(partition).map_err(|why| format!("'partitions': {partition:?} {why}"))?;
        }
        self.rules.push(Rule { name, actor, scope, limits: limits(table)? });
        Ok(())
    }
}

fn bandwidth(table: &Table) -> Result<Option<f64>, String> {
    let bytes = text(table, "bandwidth")?.map(parse_size).transpose();
    Ok(bytes.map_err(|why| format!("'bandwidth': {why}"))?.map(|bytes| bytes as f64))
}

fn stage_place(table: &Table) -> Result<StagePlace, String> {
    let folder = |name: &str, what: &str| {
        let path = text(table, name)?
            .ok_or_else(|| format!("'{name}' is {what}, as in \"/scratch/{{user}}/{{job}}\""))?;
        Template::parse(path).map_err(|why| format!("'{name}' {why}"))
    };
    let from = folder("from", "the buffer of a job")?;
    let to = folder("to", "where its results are safe")?;
    let bandwidth_bps = bandwidth(table)?
        .filter(|bytes| *bytes > 0.0)
        .ok_or("'bandwidth' is what the destination takes in a second, as in \"2GB\"")?;
    let gate = text(table, "gate")?.map(str::to_owned);
    let control = text(table, "control")?.map(PathBuf::from);
    Ok(StagePlace { from, to, bandwidth_bps, gate, control })
}

fn resize_place(table: &Table) -> Result<ResizePlace, String> {
    let seconds = |name: &str, usual: f64| match text(table, name)? {
        None => Ok(usual),
        Some(time) => parse_seconds(time)
            .ok()
            .filter(|time| (0.0..=86_400.0).contains(time))
            .ok_or_else(|| format!("'{name}' is a time of up to a day, as in \"10s\"")),
    };
    let policy = text(table, "policy")?.unwrap_or("tide");
    let signal = text(table, "signal")?.unwrap_or("USR1");
    Ok(ResizePlace {
        policy: policy_named(policy).map_err(|why| format!("'policy': {why}"))?,
        cost: ResizeCost { fixed_ms: 1e3 * seconds("alpha", 5.0)?, per_node_ms: 0.0 },
        manner: Manner {
            signal: checked_signal(signal).map_err(|why| format!("'signal': {signal:?} {why}"))?,
            grace_s: seconds("grace", 10.0)?,
            wait_s: seconds("wait", 20.0)?,
        },
        rest_s: seconds("rest", 60.0)?,
        timeout_s: seconds("timeout", 30.0)?.max(1.0),
    })
}

fn text<'a>(table: &'a Table, name: &str) -> Result<Option<&'a str>, String> {
    match table.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| format!("'{name}' is a text in quotes")),
    }
}

fn scope(table: &Table) -> Result<Scope, String> {
    let list = |name: &str| -> Result<Vec<Pattern>, String> {
        let wrong = || format!("'{name}' is a list of names, as in [\"lmp*\"]");
        match table.get(name) {
            None => Ok(Vec::new()),
            Some(value) => {
                let names = value.as_array().filter(|names| names.len() <= 1000).ok_or_else(wrong)?;
                let one = |name: &Value| name.as_str().filter(|name| name.len() <= 256).map(Pattern::new);
                names.iter().map(|name| one(name).ok_or_else(wrong)).collect()
            }
        }
    };
    Ok(Scope { jobs: list("jobs")?, users: list("users")?, partitions: list("partitions")? })
}

fn limits(table: &Table) -> Result<Limits, String> {
    let usual = Limits::default();
    let whole = |name: &str, usual: usize| match table.get(name) {
        None => Ok(usual),
        Some(value) => value
            .as_integer()
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| (1..=100_000).contains(number))
            .ok_or_else(|| format!("'{name}' is a whole number above zero")),
    };
    let share = |name: &str, usual: f64| match table.get(name) {
        None => Ok(usual),
        Some(value) => value
            .as_float()
            .or(value.as_integer().map(|number| number as f64))
            .filter(|number| (0.0..=1.0).contains(number))
            .ok_or_else(|| format!("'{name}' is between 0 and 1")),
    };
    Ok(Limits {
        most_jobs: whole("most_jobs", usual.most_jobs)?,
        most_per_hour: whole("most_per_hour", usual.most_per_hour)?,
        least_gain: share("least_gain", usual.least_gain)?,
        least_confidence: share("least_confidence", usual.least_confidence)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ActSettings, String> {
        ActSettings::read(&text.parse::<Table>().unwrap()["act"])
    }

    #[test]
    fn a_rule_is_read_and_nothing_is_done_unless_someone_says_so() {
        let settings = read(
            "[act]\n[[act.rule]]\nactor = \"sets\"\ncontrol = \"/run/x\"\njobs = [\"lmp*\"]\nleast_gain = 0.1\nbandwidth = \"1MiB\"\n",
        )
        .unwrap();
        assert!(settings.is_dry_run);
        let rule = &settings.rules[0];
        assert_eq!((rule.name.as_str(), rule.limits.least_gain), ("sets-1", 0.1));
        assert_eq!(rule.scope.jobs, [Pattern::new("lmp*")]);
        assert_eq!(
            settings.places,
            [Place::Control { socket: "/run/x".into(), bandwidth_bps: Some(1_048_576.0) }]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("act = 5", "a table: [act]"),
            ("[act]", "there is no [[act.rule]], so nothing may be done"),
            ("[act]\ndry_run = 1", "'dry_run' is true or false"),
            ("[act]\nevery = \"1ms\"", "'every' is between 100ms and 60s"),
            ("[act]\nfast = true", "there is no setting 'fast' in it (dry_run, every, rule)"),
            (
                "[act]\n[[act.rule]]\nactor = \"magic\"",
                "rule 1: 'actor' is 'sets', 'stage' or 'resize', not 'magic'",
            ),
            (
                "[act]\n[[act.rule]]\ncontrol = \"/x\"",
                "rule 1: 'actor' says who acts: 'sets', 'stage' or 'resize'",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"sets\"",
                "rule 1: 'control' is the control socket of an `iotide arbiter` or `iotide mount`",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"stage\"\nto = \"/pfs/{job}\"",
                "rule 1: 'from' is the buffer of a job, as in \"/scratch/{user}/{job}\"",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"stage\"\nfrom = \"/b/{job}\"\nto = \"/pfs\"",
                "rule 1: 'to' has {job} in it: each job has a folder of its own",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"stage\"\nfrom = \"/b/{job}\"\nto = \"/pfs/{job}\"",
                "rule 1: 'bandwidth' is what the destination takes in a second, as in \"2GB\"",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"resize\"\ngrace = \"soon\"",
                "rule 1: 'grace' is a time of up to a day, as in \"10s\"",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"resize\"\nsignal = \"-9\"",
                "rule 1: 'signal': \"-9\" is not the name of a signal, such as USR1",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"resize\"\npartitions = [\"a b\"]",
                "rule 1: 'partitions': \"a b\" is not the name of a partition",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"sets\"\ncontrol = \"/x\"\nleast_gain = 2",
                "rule 1: 'least_gain' is between 0 and 1",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"sets\"\ncontrol = \"/x\"\njobs = \"a\"",
                "rule 1: 'jobs' is a list of names, as in [\"lmp*\"]",
            ),
            (
                "[act]\n[[act.rule]]\nactor = \"sets\"\ncontrol = \"/x\"\n[[act.rule]]\nname = \"sets-1\"\nactor = \"sets\"\ncontrol = \"/y\"",
                "rule 2: another rule is called 'sets-1', too",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), why, "{text}");
        }
    }
}
