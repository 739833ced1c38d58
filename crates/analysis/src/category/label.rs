//! The names of what a run can be.

/// Which bytes a label speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Bytes that were read.
    Read,
    /// Bytes that were written.
    Write,
}

/// When in the run most bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Temporality {
    /// In the first quarter.
    OnStart,
    /// In the last quarter.
    OnEnd,
    /// At any time but in the first quarter.
    AfterStart,
    /// At any time but in the last quarter.
    BeforeEnd,
    /// In the middle half.
    AfterStartBeforeEnd,
    /// In the first and in the last quarter.
    OnStartAndOnEnd,
    /// Evenly from start to end.
    Steady,
    /// Too few bytes to care.
    Insignificant,
}

/// How long a period is, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Magnitude {
    /// Seconds.
    Second,
    /// Minutes.
    Minute,
    /// Hours.
    Hour,
    /// Days, or longer.
    DayOrMore,
}

/// How much of a period is spent moving bytes, where that is remarkable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BusyTime {
    /// Little of it.
    Low,
    /// Most of it.
    High,
}

/// Load of a run on a metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetadataLoad {
    /// Very many requests in one second.
    HighSpike,
    /// Many requests in a second, several times.
    MultipleSpikes,
    /// Many requests all the time.
    HighDensity,
    /// Nothing to notice.
    Insignificant,
}

/// A label that a run can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// When bytes are moved.
    When(Access, Temporality),
    /// That bytes are moved periodically.
    Periodic(Access),
    /// With a period of which magnitude.
    Period(Access, Magnitude),
    /// How busy a period is.
    Busy(Access, BusyTime),
    /// The load on the metadata server.
    Metadata(MetadataLoad),
}

impl Category {
    /// Every label there is, in the order reports list them.
    pub fn all() -> impl ExactSizeIterator<Item = Category> {
        NAMES.iter().map(|&(category, _)| category)
    }

    /// The name used in tables and reports.
    pub fn name(self) -> &'static str {
        // The table is whole: a test walks through every combination.
        NAMES.iter().find(|(category, _)| *category == self).map_or("", |&(_, name)| name)
    }

    /// The label of that name, as [`Category::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|&(category, _)| category)
    }
}

const NAMES: [(Category, &str); 34] = {
    use Access::{Read, Write};
    use BusyTime::{High, Low};
    use Category::{Busy, Metadata, Period, Periodic, When};
    use Magnitude::{DayOrMore, Hour, Minute, Second};
    use MetadataLoad::{HighDensity, HighSpike, MultipleSpikes};
    use Temporality::{
        AfterStart, AfterStartBeforeEnd, BeforeEnd, Insignificant, OnEnd, OnStart, OnStartAndOnEnd, Steady,
    };
    [
        (When(Read, OnStart), "read_on_start"),
        (When(Read, OnEnd), "read_on_end"),
        (When(Read, AfterStart), "read_after_start"),
        (When(Read, BeforeEnd), "read_before_end"),
        (When(Read, AfterStartBeforeEnd), "read_after_start_before_end"),
        (When(Read, OnStartAndOnEnd), "read_on_start_and_on_end"),
        (When(Read, Steady), "read_steady"),
        (When(Read, Insignificant), "read_insignificant"),
        (Periodic(Read), "read_periodic"),
        (Period(Read, Second), "read_periodic_second"),
        (Period(Read, Minute), "read_periodic_minute"),
        (Period(Read, Hour), "read_periodic_hour"),
        (Period(Read, DayOrMore), "read_periodic_day_or_more"),
        (Busy(Read, Low), "read_periodic_low_busy_time"),
        (Busy(Read, High), "read_periodic_high_busy_time"),
        (When(Write, OnStart), "write_on_start"),
        (When(Write, OnEnd), "write_on_end"),
        (When(Write, AfterStart), "write_after_start"),
        (When(Write, BeforeEnd), "write_before_end"),
        (When(Write, AfterStartBeforeEnd), "write_after_start_before_end"),
        (When(Write, OnStartAndOnEnd), "write_on_start_and_on_end"),
        (When(Write, Steady), "write_steady"),
        (When(Write, Insignificant), "write_insignificant"),
        (Periodic(Write), "write_periodic"),
        (Period(Write, Second), "write_periodic_second"),
        (Period(Write, Minute), "write_periodic_minute"),
        (Period(Write, Hour), "write_periodic_hour"),
        (Period(Write, DayOrMore), "write_periodic_day_or_more"),
        (Busy(Write, Low), "write_periodic_low_busy_time"),
        (Busy(Write, High), "write_periodic_high_busy_time"),
        (Metadata(HighSpike), "metadata_high_spike"),
        (Metadata(MultipleSpikes), "metadata_multiple_spikes"),
        (Metadata(HighDensity), "metadata_high_density"),
        (Metadata(MetadataLoad::Insignificant), "metadata_insignificant_load"),
    ]
};

/// A label with what speaks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Category of the run.
    pub category: Category,
    /// How sure that is, in [0, 1].
    pub confidence: f64,
    /// The numbers it rests on.
    pub evidence: Vec<Evidence>,
}

/// A number that a label rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Name of the number, with its unit.
    pub name: &'static str,
    /// How much.
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_one_name_and_every_name_one_label() {
        for category in Category::all() {
            assert_eq!(Category::from_name(category.name()), Some(category));
        }
        let names: std::collections::BTreeSet<_> = Category::all().map(Category::name).collect();
        assert_eq!(names.len(), Category::all().len());
        assert_eq!(Category::from_name("read_sometimes"), None);
    }

    #[test]
    fn no_combination_is_without_a_name() {
        use Temporality::*;
        for access in [Access::Read, Access::Write] {
            let when = [
                OnStart,
                OnEnd,
                AfterStart,
                BeforeEnd,
                AfterStartBeforeEnd,
                OnStartAndOnEnd,
                Steady,
                Insignificant,
            ];
            let long = [Magnitude::Second, Magnitude::Minute, Magnitude::Hour, Magnitude::DayOrMore];
            let busy = [BusyTime::Low, BusyTime::High];
            assert!(when.iter().all(|&when| !Category::When(access, when).name().is_empty()));
            assert!(long.iter().all(|&long| !Category::Period(access, long).name().is_empty()));
            assert!(busy.iter().all(|&busy| !Category::Busy(access, busy).name().is_empty()));
            assert!(!Category::Periodic(access).name().is_empty());
        }
    }
}
