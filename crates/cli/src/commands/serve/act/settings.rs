//! `[act]` in the settings: rules in plain TOML.

use std::path::PathBuf;

use iotide_sched::act::{Actor, Limits, Pattern, Rule, Scope};
use toml::{Table, Value};

use crate::commands::ioskel::{parse_seconds, parse_size};

/// What may be done, and how often it is thought of.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::commands::serve) struct ActSettings {
    pub(super) is_dry_run: bool,
    pub(super) every_s: f64,
    pub(super) rules: Vec<Rule>,
    /// Where each rule acts.
    pub(super) places: Vec<Place>,
}

/// Where a rule acts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// At the control socket of an arbiter or a mount.
    Control {
        socket: PathBuf,
        /// What its storage moves in a second; otherwise the highest that was seen.
        bandwidth_bps: Option<f64>,
    },
}

impl Place {
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Control { socket, .. } => socket.display().to_string(),
        }
    }
}

impl ActSettings {
    /// Rules at most.
    const MOST_RULES: usize = 64;

    /// Reads the table; says what is wrong with it.
    pub(in crate::commands::serve) fn read(value: &Value) -> Result<Self, String> {
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
    pub(in crate::commands::serve) fn in_words(&self) -> String {
        let rules: Vec<String> = self
            .rules
            .iter()
            .zip(&self.places)
            .map(|(rule, place)| format!("{} ({} at {})", rule.name, rule.actor.name(), place.in_words()))
            .collect();
        let dry = if self.is_dry_run { "dry run: " } else { "" };
        format!("{dry}{}", rules.join(", "))
    }

    fn add(&mut self, n: usize, value: &Value) -> Result<(), String> {
        let Some(table) = value.as_table() else { return Err("a table: [[act.rule]]".to_owned()) };
        let actor = text(table, "actor")?.ok_or("'actor' says who acts: 'sets'")?;
        let Some(actor) = Actor::from_name(actor) else {
            return Err(format!("'actor' is 'sets', not '{actor}'"));
        };
        let own: &[&str] = match actor {
            Actor::Sets => &["control", "bandwidth"],
            Actor::Stage | Actor::Resize => {
                return Err(format!("'actor': '{}' cannot be left to a controller yet", actor.name()));
            }
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
            Actor::Sets | Actor::Stage | Actor::Resize => {
                let socket = text(table, "control")?
                    .ok_or("'control' is the control socket of an `iotide arbiter` or `iotide mount`")?;
                let bandwidth = text(table, "bandwidth")?.map(parse_size).transpose();
                Place::Control {
                    socket: socket.into(),
                    bandwidth_bps: bandwidth
                        .map_err(|why| format!("'bandwidth': {why}"))?
                        .map(|bytes| bytes as f64),
                }
            }
        });
        self.rules.push(Rule { name, actor, scope: scope(table)?, limits: limits(table)? });
        Ok(())
    }
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
            ("[act]\n[[act.rule]]\nactor = \"magic\"", "rule 1: 'actor' is 'sets', not 'magic'"),
            ("[act]\n[[act.rule]]\ncontrol = \"/x\"", "rule 1: 'actor' says who acts: 'sets'"),
            (
                "[act]\n[[act.rule]]\nactor = \"sets\"",
                "rule 1: 'control' is the control socket of an `iotide arbiter` or `iotide mount`",
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
