//! When an alarm begins, and when it ends.

use super::rule::Rule;

/// One rule on one target, over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watch {
    state: State,
    /// When it was last told something.
    told_ns: u64,
}

/// How an alarm stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Quiet,
    /// The condition holds, but not for long enough yet.
    Pending {
        /// Since when, in nanoseconds since 1970.
        since_ns: u64,
    },
    /// The alarm fires.
    Firing {
        /// Since when.
        since_ns: u64,
    },
}

/// Change of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The alarm begins.
    Begun,
    /// The alarm is over.
    Over,
}

impl Watch {
    /// Without news for longer than this, nobody can say that a condition has held all the time.
    pub const MOST_GAP_NS: u64 = 10_000_000_000;

    /// Returns the watch of an alarm that fires since a time: after a restart.
    pub fn firing(since_ns: u64) -> Self {
        Self { state: State::Firing { since_ns }, told_ns: 0 }
    }

    /// How the alarm stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether nothing is to be remembered.
    pub fn is_quiet(&self) -> bool {
        self.state == State::Quiet
    }

    /// Takes the value at a time. `None`: it is not known. What is told late, of a time before the last one, changes nothing.
    ///
    /// An alarm whose value is not known goes on firing; a condition whose value is not known begins anew.
    pub fn tell(&mut self, rule: &Rule, at_ns: u64, value: Option<f64>) -> Option<Change> {
        if at_ns < self.told_ns {
            return None;
        }
        let has_gap = at_ns - self.told_ns > Self::MOST_GAP_NS;
        self.told_ns = at_ns;
        let value = value.filter(|value| !value.is_nan());
        let is_met = value.is_some_and(|value| rule.is_met(value));
        match self.state {
            State::Firing { .. } => {
                if value.is_some_and(|value| rule.is_clear(value)) {
                    self.state = State::Quiet;
                    return Some(Change::Over);
                }
                return None;
            }
            State::Pending { .. } if !is_met => self.state = State::Quiet,
            State::Pending { .. } if has_gap => self.state = State::Pending { since_ns: at_ns },
            State::Quiet if is_met => self.state = State::Pending { since_ns: at_ns },
            State::Quiet | State::Pending { .. } => {}
        }
        match self.state {
            State::Pending { since_ns } if at_ns - since_ns >= rule.for_ns => {
                self.state = State::Firing { since_ns: at_ns };
                Some(Change::Begun)
            }
            _ => None,
        }
    }

    /// Ends the watch: its target is gone, or the rule is.
    pub fn end(&mut self) -> Option<Change> {
        let was_firing = matches!(self.state, State::Firing { .. });
        self.state = State::Quiet;
        was_firing.then_some(Change::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn rule(expr: &str, clear: f64, for_s: f64) -> Rule {
        Rule::new("r", expr).unwrap().with_clear(clear).unwrap().with_for(for_s).unwrap()
    }

    /// Returns the changes, second by second; a dot for a second without change, `-` for a value that is not known.
    fn told(rule: &Rule, values: &str) -> String {
        let mut watch = Watch::default();
        let mut said = String::new();
        for (second, value) in values.split_whitespace().enumerate() {
            let change = watch.tell(rule, (100 + second as u64) * SECOND, value.parse().ok());
            said.push(match change {
                None => '.',
                Some(Change::Begun) => '!',
                Some(Change::Over) => 'o',
            });
        }
        said
    }

    #[test]
    fn an_alarm_begins_above_its_level_and_ends_at_its_clear_level() {
        let at_once = rule("x > 10", 5.0, 0.0);
        assert_eq!(told(&at_once, "1 11 9 12 6 5 11"), ".!...o!");
        let later = rule("x > 10", 10.0, 2.0);
        assert_eq!(told(&later, "11 11 11 11 10"), "..!.o");
        assert_eq!(told(&later, "11 11 9 11 11 11"), ".....!", "the condition must hold all the time");
        assert_eq!(told(&later, "11 - 11 11 11"), "....!", "what is not known has not held");
        assert_eq!(told(&later, "11 11 11 - - nan 9"), "..!...o", "what is not known ends nothing");
        assert_eq!(told(&rule("x < 3", 8.0, 0.0), "9 2 5 7 8 2"), ".!..o!");
        assert_eq!(told(&rule("x = 0", 0.0, 0.0), "1 0 0 1 0"), ".!.o!");
        assert_eq!(told(&rule("x = 100", 90.0, 0.0), "100 95 105 111 100"), "!..o!");
        assert_eq!(told(&rule("x > 10", 10.0, 0.0), "inf 9 -inf"), "!o.");
    }

    #[test]
    fn a_gap_begins_the_time_anew_and_what_is_late_is_nothing() {
        let rule = rule("x > 10", 10.0, 60.0);
        let mut watch = Watch::default();
        assert_eq!(watch.tell(&rule, 100 * SECOND, Some(11.0)), None);
        assert_eq!(watch.tell(&rule, 1000 * SECOND, Some(11.0)), None, "nobody looked for 900 s");
        assert_eq!(watch.tell(&rule, 900 * SECOND, Some(1.0)), None);
        assert_eq!(watch.state(), State::Pending { since_ns: 1000 * SECOND });
        // An alarm that fired before a restart goes on, however long that took.
        let mut watch = Watch::firing(100 * SECOND);
        assert_eq!(watch.tell(&rule, 5000 * SECOND, Some(11.0)), None);
        assert_eq!(watch.tell(&rule, 5001 * SECOND, Some(9.0)), Some(Change::Over));
        assert_eq!(watch.end(), None);
        assert_eq!(Watch::firing(1).end(), Some(Change::Over));
    }

    proptest! {
        /// Begins and ends alternate; the condition held for its time before each begin, and between two begins lies a value beyond the clear level.
        #[test]
        fn an_alarm_does_not_flap(
            ticks in prop::collection::vec((0..3_000_000_000u64, prop::option::weighted(0.9, 0..20i32)), 1..200),
            (level, apart, for_s) in (5..15i32, 0..5i32, 0..5u32),
            is_above in any::<bool>(),
            restart in 0..200usize,
        ) {
            let (sign, clear) = if is_above { ('>', level - apart) } else { ('<', level + apart) };
            let rule = rule(&format!("x {sign} {level}"), clear.into(), for_s.into());
            let mut watch = Watch::default();
            let (mut now, mut is_firing) = (100 * SECOND, false);
            let mut cleared = true;
            let mut met_since = None;
            for (n, (step, value)) in ticks.into_iter().enumerate() {
                now += step;
                let value = value.map(f64::from);
                let is_met = value.is_some_and(|value| rule.is_met(value));
                met_since = if is_met { met_since.or(Some(now)) } else { None };
                if is_firing {
                    cleared |= value.is_some_and(|value| rule.is_clear(value));
                }
                if n == restart && let State::Firing { since_ns } = watch.state() {
                    watch = Watch::firing(since_ns);
                }
                match watch.tell(&rule, now, value) {
                    Some(Change::Begun) => {
                        prop_assert!(!is_firing && cleared && is_met);
                        prop_assert!(met_since.is_some_and(|since| now - since >= rule.for_ns));
                        (is_firing, cleared) = (true, false);
                    }
                    Some(Change::Over) => {
                        prop_assert!(is_firing && value.is_some_and(|value| rule.is_clear(value)));
                        is_firing = false;
                    }
                    None => {}
                }
                // It is late by no tick, either.
                let is_due = met_since.is_some_and(|since| now - since >= rule.for_ns);
                prop_assert_eq!(matches!(watch.state(), State::Firing { .. }), is_firing);
                prop_assert!(is_firing || !is_due);
            }
        }

        /// Whatever is told late changes nothing.
        #[test]
        fn ticks_in_another_order_say_the_same(late in prop::collection::vec((0..100u64, 0..20i32), 0..20)) {
            let rule = rule("x > 10", 5.0, 1.0);
            let values = [11, 11, 3, 12, 12, 12, 4];
            let (mut plain, mut disturbed) = (Watch::default(), Watch::default());
            for (n, value) in values.into_iter().enumerate() {
                let at = (200 + n as u64) * SECOND;
                prop_assert_eq!(plain.tell(&rule, at, Some(value.into())), disturbed.tell(&rule, at, Some(value.into())));
                for (earlier, value) in &late {
                    prop_assert_eq!(disturbed.tell(&rule, earlier * SECOND, Some((*value).into())), None);
                }
            }
            prop_assert_eq!(plain, disturbed);
        }
    }
}
