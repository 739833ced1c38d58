//! Rules for alarms, and the values they watch.

use std::fmt;
use std::sync::Arc;

use crate::about::About;
use crate::identity::{JobKey, Name};

/// The name of a rule: `[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName(Arc<str>);

impl RuleName {
    /// The longest name.
    pub const MAX_BYTES: usize = 64;

    /// Returns the name, if the text is one.
    pub fn new(text: &str) -> Result<Self, RuleError> {
        let fits = |(index, byte): (usize, u8)| {
            byte.is_ascii_alphanumeric() || byte == b'_' || index > 0 && b".:-".contains(&byte)
        };
        if text.is_empty() || text.len() > Self::MAX_BYTES || !text.bytes().enumerate().all(fits) {
            return Err(RuleError::Name);
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why something is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The name.
    #[error("'name' has 1 to {} letters, digits, '_' and, not first, '.', ':', '-'", RuleName::MAX_BYTES)]
    Name,
    /// The condition is not one.
    #[error(
        "'expr' is a condition, as in 'rate(write_bytes) > 2GB', 'memory_bytes > 64GB', 'predicted_load > 1GB', 'slowdown(others) > 2', 'label(write_periodic)' or 'issue(small_writes)': {0}"
    )]
    Expr(&'static str),
    /// The clear level is on the wrong side.
    #[error("'clear' must be {0} the level of the condition: it says when the alarm ends")]
    Clear(&'static str),
    /// A number that is none.
    #[error("'{0}' must be a finite number")]
    Number(&'static str),
    /// Too long.
    #[error("'for' is at most 30 days")]
    For,
    /// A text that is too long.
    #[error("'{0}' has at most {most} bytes", most = Name::MAX_BYTES)]
    Long(&'static str),
    /// The parts of a rule's subject and scope do not fit together.
    #[error("{0}")]
    Scope(&'static str),
}

/// Which value is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A metric, as it is.
    Metric(Name),
    /// How fast a metric grows, per second.
    Rate(Name),
    /// Bytes per second that are expected in the next minute.
    PredictedLoad,
    /// Whether a job has a label: 1, or 0.
    Label(Name),
    /// Whether a job has an I/O issue: 1, or 0.
    Issue(Name),
    /// How many times longer the I/O of a job takes than in earlier runs.
    Slowdown(SlowedBy),
}

/// Which part of a slowdown is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlowedBy {
    /// All of it.
    All,
    /// That by the program's own requests.
    Own,
    /// That by the load of others.
    Others,
    /// That by the storage.
    Storage,
}

impl SlowedBy {
    /// The causes that a rule can name.
    const CAUSES: [Self; 3] = [Self::Own, Self::Others, Self::Storage];

    /// As it is written in brackets; empty for all.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Own => "own",
            Self::Others => "others",
            Self::Storage => "storage",
        }
    }

    /// The reverse of [`Self::name`] for a cause.
    fn of(name: &str) -> Option<Self> {
        Self::CAUSES.into_iter().find(|cause| cause.name() == name)
    }
}

impl Subject {
    /// Which of them it is, as it is shown and stored.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Metric(_) => "metric",
            Self::Rate(_) => "rate",
            Self::PredictedLoad => "predicted_load",
            Self::Label(_) => "label",
            Self::Issue(_) => "issue",
            Self::Slowdown(_) => "slowdown",
        }
    }

    /// The name of the metric, label or issue.
    pub fn name(&self) -> &str {
        match self {
            Self::Metric(name) | Self::Rate(name) | Self::Label(name) | Self::Issue(name) => name.as_str(),
            Self::PredictedLoad => "",
            Self::Slowdown(by) => by.name(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metric(name) => f.write_str(name.as_str()),
            Self::PredictedLoad => f.write_str("predicted_load"),
            Self::Slowdown(SlowedBy::All) => f.write_str("slowdown"),
            Self::Slowdown(by) => write!(f, "slowdown({})", by.name()),
            Self::Rate(name) | Self::Label(name) | Self::Issue(name) => {
                write!(f, "{}({name})", self.kind())
            }
        }
    }
}

/// How the value and the level stand to each other when the alarm fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// The value is larger.
    Above,
    /// The value is smaller.
    Below,
    /// They are the same.
    Equal,
}

impl Relation {
    /// As it is written: `>`, `<`, `=`.
    pub fn sign(self) -> char {
        match self {
            Self::Above => '>',
            Self::Below => '<',
            Self::Equal => '=',
        }
    }
}

/// Of what a value is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum On {
    /// Of each job in scope by itself.
    #[default]
    Job,
    /// Of all jobs in scope together: the sum.
    Sum,
    /// Of the machine.
    Node,
}

impl On {
    /// As it is shown and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Sum => "sum",
            Self::Node => "node",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn of(text: &str) -> Option<Self> {
        [Self::Job, Self::Sum, Self::Node].into_iter().find(|on| on.as_str() == text)
    }
}

/// Which jobs a rule is about: those that fit all conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Jobs of this user.
    pub user: Option<Name>,
    /// Runs of this application, by id or by the program's name.
    pub app: Option<Name>,
    /// The job of this id.
    pub job: Option<Name>,
}

impl Scope {
    /// Whether a job is one of them.
    pub fn holds(&self, key: &JobKey, about: &About) -> bool {
        let fits = |wanted: &Option<Name>, known: &[&str]| {
            wanted.as_ref().is_none_or(|wanted| known.contains(&wanted.as_str()))
        };
        fits(&self.user, &[about.user.as_str()])
            && fits(&self.app, &[about.app.as_str(), about.name.as_str()])
            && fits(&self.job, &[key.id.as_str(), about.alias.as_str()])
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An alarm that someone wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Name of the rule; a user has one of a name.
    pub name: RuleName,
    /// Whose it is: it is about this user's jobs only. Nobody's is about all.
    pub owner: Option<u32>,
    /// Which value it watches.
    pub subject: Subject,
    /// How that stands to the level when the alarm fires.
    pub relation: Relation,
    /// The level.
    pub level: f64,
    /// The level as its author wrote it, unit included.
    level_as_written: Name,
    /// The value at which the alarm ends: at or beyond it, seen from the level.
    pub clear: f64,
    /// For how long the condition holds before the alarm fires, in nanoseconds.
    pub for_ns: u64,
    /// Of what the value is taken.
    pub on: On,
    /// Which jobs it is about.
    pub scope: Scope,
    /// How grave it is, for those who route alarms.
    pub severity: Name,
}

/// The longest `for`.
const MOST_FOR_S: f64 = 30.0 * 86_400.0;

impl Rule {
    /// The usual severity.
    pub const WARNING: &str = "warning";

    /// Returns a rule of nobody's about all jobs, each by itself, that fires at once and ends at its level.
    pub fn new(name: &str, expr: &str) -> Result<Self, RuleError> {
        let name = RuleName::new(name)?;
        let (subject, relation, (level, level_as_written)) = condition(expr)?;
        let rule = Self {
            name,
            owner: None,
            subject,
            relation,
            level,
            level_as_written,
            clear: level,
            for_ns: 0,
            on: On::Job,
            scope: Scope::default(),
            severity: Name::ours(Self::WARNING),
        };
        Ok(rule)
    }

    /// The same, with another clear level.
    pub fn with_clear(mut self, clear: f64) -> Result<Self, RuleError> {
        if !clear.is_finite() {
            return Err(RuleError::Number("clear"));
        }
        match self.relation {
            Relation::Above if clear > self.level => return Err(RuleError::Clear("at or below")),
            Relation::Below if clear < self.level => return Err(RuleError::Clear("at or above")),
            _ => self.clear = clear,
        }
        Ok(self)
    }

    /// The same, with a time for which the condition must hold.
    pub fn with_for(mut self, seconds: f64) -> Result<Self, RuleError> {
        if !(0.0..=MOST_FOR_S).contains(&seconds) {
            return Err(RuleError::For);
        }
        self.for_ns = (seconds * 1e9) as u64;
        Ok(self)
    }

    /// The same, about something else.
    pub fn with_scope(mut self, on: On, scope: Scope) -> Result<Self, RuleError> {
        if on == On::Node && !scope.is_empty() {
            return Err(RuleError::Scope(
                "a rule on the machine ('on': 'node') has no 'user', 'app' or 'job'; 'on': 'sum' adds jobs up",
            ));
        }
        if on != On::Job && matches!(self.subject, Subject::Label(_) | Subject::Issue(_)) {
            return Err(RuleError::Scope("labels and issues are those of jobs: 'on' is 'job'"));
        }
        if on != On::Job && matches!(self.subject, Subject::Slowdown(_)) {
            return Err(RuleError::Scope("a slowdown is that of a job: 'on' is 'job'"));
        }
        (self.on, self.scope) = (on, scope);
        Ok(self)
    }

    /// The condition, as it is written.
    pub fn expr(&self) -> String {
        format!("{} {} {}", self.subject, self.relation.sign(), self.level_as_written)
    }

    /// Whether a value is one that nobody wants.
    pub fn is_met(&self, value: f64) -> bool {
        match self.relation {
            Relation::Above => value > self.level,
            Relation::Below => value < self.level,
            Relation::Equal => value == self.level,
        }
    }

    /// Whether a value ends an alarm.
    pub fn is_clear(&self, value: f64) -> bool {
        match self.relation {
            Relation::Above => value <= self.clear,
            Relation::Below => value >= self.clear,
            Relation::Equal => {
                value != self.level && (value - self.level).abs() >= (self.clear - self.level).abs()
            }
        }
    }

    /// Whether it is about a job.
    pub fn is_about(&self, key: &JobKey, about: &About) -> bool {
        self.owner.is_none_or(|owner| owner == key.uid) && self.scope.holds(key, about)
    }
}

/// Reads a condition: `rate(write_bytes) > 2GB`.
fn condition(expr: &str) -> Result<(Subject, Relation, (f64, Name)), RuleError> {
    if expr.len() > 4 * Name::MAX_BYTES {
        return Err(RuleError::Expr("this one is too long"));
    }
    let sign = expr.find(['>', '<', '=']);
    let (subject, rest) = expr.split_at(sign.unwrap_or(expr.len()));
    let subject = subject_of(subject.trim())?;
    let Some(sign) = rest.chars().next() else {
        // What a job has or has not.
        return match subject {
            Subject::Label(_) | Subject::Issue(_) => Ok((subject, Relation::Equal, (1.0, Name::ours("1")))),
            _ => Err(RuleError::Expr("there is no '>', '<' or '='")),
        };
    };
    let relation = match sign {
        '>' => Relation::Above,
        '<' => Relation::Below,
        _ => Relation::Equal,
    };
    let written = rest[1..].split_whitespace().collect::<Vec<_>>().join(" ");
    let level = number(&written)
        .ok_or(RuleError::Expr("behind the sign is no number, as in 0.5, 1e9, 512KiB or 2GB"))?;
    let written = Name::new(&written).ok_or(RuleError::Long("expr"))?;
    Ok((subject, relation, (level, written)))
}

fn subject_of(text: &str) -> Result<Subject, RuleError> {
    let (of, name) = match text.split_once('(') {
        None => ("", text),
        Some((of, rest)) => {
            let name = rest.strip_suffix(')').ok_or(RuleError::Expr("a ')' is missing"))?;
            (of.trim(), name.trim())
        }
    };
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>=\"'\\".contains(&byte));
    if !is_name {
        return Err(RuleError::Expr("before the sign is no name of a metric"));
    }
    let name = Name::new(name).ok_or(RuleError::Long("expr"))?;
    Ok(match of {
        "" if name.as_str() == "predicted_load" => Subject::PredictedLoad,
        "" if name.as_str() == "slowdown" => Subject::Slowdown(SlowedBy::All),
        "slowdown" => Subject::Slowdown(
            SlowedBy::of(name.as_str())
                .ok_or(RuleError::Expr("a slowdown is by 'own', 'others' or 'storage'"))?,
        ),
        "" => Subject::Metric(name),
        "rate" => Subject::Rate(name),
        "label" => Subject::Label(name),
        // The old name, for one release.
        "issue" | "finding" => Subject::Issue(name),
        _ => return Err(RuleError::Expr("before a '(' is 'rate', 'slowdown', 'label' or 'issue'")),
    })
}

/// Reads a number with a unit, or without: `1e9`, `2GB`, `512KiB`, `1.5 GB/s`.
pub fn number(text: &str) -> Option<f64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let end = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() && !c.eq_ignore_ascii_case(&'e')).len();
    let (digits, unit) = text.split_at(end);
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    let value = digits.trim().parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conditions_are_read_and_others_refused_with_a_reason() {
        let read = |expr: &str| {
            condition(expr).map(|(subject, relation, (level, _))| {
                format!("{} {subject} {} {level}", subject.kind(), relation.sign())
            })
        };
        let cases = [
            ("rate(write_bytes) > 2GB", "rate rate(write_bytes) > 2000000000"),
            ("write_bytes<1e3", "metric write_bytes < 1000"),
            ("free_bytes./scratch < 512 MiB", "metric free_bytes./scratch < 536870912"),
            ("predicted_load > 1.5GB/s", "predicted_load predicted_load > 1500000000"),
            ("label(write_periodic)", "label label(write_periodic) = 1"),
            ("finding( small_writes ) = 0", "issue issue(small_writes) = 0"),
            ("processes = -1", "metric processes = -1"),
            ("slowdown(others) > 2", "slowdown slowdown(others) > 2"),
            ("slowdown>1.5", "slowdown slowdown > 1.5"),
        ];
        for (expr, said) in cases {
            assert_eq!(read(expr).as_deref(), Ok(said), "{expr}");
        }
        let bad = [
            ("", "no name"),
            ("write_bytes", "no '>'"),
            ("write_bytes > x", "no number"),
            ("write_bytes > 1e999", "no number"),
            ("write_bytes > nan", "no number"),
            ("rate(write_bytes > 1", "')' is missing"),
            ("sum(write_bytes) > 1", "'rate', 'slowdown', 'label'"),
            ("slowdown(me) > 2", "by 'own', 'others' or 'storage'"),
            ("slowdown(others)", "no '>'"),
            ("a b > 1", "no name"),
            ("a\n > 1", "no number"),
        ];
        for (expr, why) in bad {
            match read(expr) {
                Err(error) => assert!(error.to_string().contains(why), "{expr}: {error}"),
                // A line end around a name is white space.
                Ok(said) => assert_eq!((expr, said.as_str()), ("a\n > 1", "metric a > 1")),
            }
        }
    }

    #[test]
    fn a_condition_keeps_the_unit_that_its_author_wrote() {
        for (written, kept) in [
            ("rate(write_bytes)>10 MB/s", "rate(write_bytes) > 10 MB/s"),
            ("write_bytes  <  512  KiB ", "write_bytes < 512 KiB"),
            ("processes = 1e3", "processes = 1e3"),
            ("label(write_periodic)", "label(write_periodic) = 1"),
        ] {
            let rule = Rule::new("r", written).unwrap();
            assert_eq!(rule.expr(), kept);
            assert_eq!(Rule::new("r", &rule.expr()).unwrap(), rule, "as it is stored");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let rule = Rule::new("busy", "rate(write_bytes) > 10").unwrap();
        assert_eq!(rule.clone().with_clear(11.0), Err(RuleError::Clear("at or below")));
        assert!(rule.clone().with_clear(5.0).is_ok());
        assert_eq!(rule.clone().with_for(-1.0), Err(RuleError::For));
        assert_eq!(rule.clone().with_for(f64::NAN), Err(RuleError::For));
        let scope = Scope { app: Name::new("lmp"), ..Scope::default() };
        assert!(rule.clone().with_scope(On::Node, scope.clone()).is_err());
        assert!(rule.with_scope(On::Sum, scope).is_ok());
        let label = Rule::new("l", "label(read_steady)").unwrap();
        assert!(label.with_scope(On::Sum, Scope::default()).is_err());
        for name in ["", "a b", ".x", "-x", "é", "a/b", &"x".repeat(65)] {
            assert_eq!(RuleName::new(name), Err(RuleError::Name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_rule_is_read_back_from_its_condition(name in "[a-z_.]{1,20}", level in -1e18..1e18f64, which in 0..5usize) {
            let expr = match which {
                0 => format!("{name} > {level}"),
                1 => format!("rate({name}) < {level}"),
                2 => format!("label({name}) = {level}"),
                3 => format!("issue({name}) = {level}"),
                _ => format!("predicted_load > {level}"),
            };
            let rule = Rule::new("r", &expr).unwrap();
            prop_assert_eq!(Rule::new("r", &rule.expr()).unwrap(), rule);
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = (condition(&text), number(&text), RuleName::new(&text));
        }
    }
}
