//! How much each user may move past the queue.
//!
//! Small requests are not held up: they are over before a turn would come, and many programs wait for each. But small ones without end are
//! a stream like any other. So a user has an allowance for them, and what exceeds it waits for its turn.

use std::collections::HashMap;

/// Allowances of users: the bytes that each may move past the queue.
#[derive(Debug, Default)]
pub(crate) struct Allowances {
    used: HashMap<Option<u32>, Used>,
}

/// Bytes that a user has moved of late and not earned since.
#[derive(Clone, Copy, Debug)]
struct Used {
    bytes: f64,
    at_s: f64,
}

impl Used {
    fn now(self, now_s: f64) -> f64 {
        (self.bytes - (now_s - self.at_s).max(0.0) * EARNED_BPS).max(0.0)
    }
}

/// So much at once.
const MOST_BYTES: f64 = (4 << 20) as f64;

/// So much in the long run: 64 requests of 16 KiB, or as many small ones as a program can wait for.
const EARNED_BPS: f64 = (1 << 20) as f64;

/// More users than this are not remembered unless they have used something.
const MANY_USERS: usize = 4096;

impl Allowances {
    /// Whether a user may move so much past the queue now; it counts if so. A request costs as if it were of 4 KiB at least.
    pub(crate) fn take(&mut self, user: Option<u32>, bytes: u64, now_s: f64) -> bool {
        if self.used.len() >= MANY_USERS {
            self.used.retain(|_, used| used.now(now_s) > 0.0);
        }
        let used = self.used.entry(user).or_insert(Used { bytes: 0.0, at_s: now_s });
        let with_this = used.now(now_s) + bytes.max(4096) as f64;
        let may = with_this <= MOST_BYTES;
        if may {
            *used = Used { bytes: with_this, at_s: now_s };
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_pass_a_while_and_others_all_the_same() {
        let mut allowances = Allowances::default();
        let n_passed = |allowances: &mut Allowances, user, now_s| {
            (0..10_000).filter(|_| allowances.take(Some(user), 16 << 10, now_s)).count()
        };
        assert_eq!(n_passed(&mut allowances, 1, 0.0), 256);
        assert_eq!(n_passed(&mut allowances, 2, 0.0), 256);
        assert_eq!(n_passed(&mut allowances, 1, 1.0), 64, "a second later it has earned a MiB");
        assert_eq!(n_passed(&mut allowances, 1, 100.0), 256, "and never more than it may have");
    }

    #[test]
    fn users_who_have_used_nothing_of_late_are_not_remembered() {
        let mut allowances = Allowances::default();
        for user in 0..20_000 {
            allowances.take(Some(user), 1, f64::from(user));
        }
        assert!(allowances.used.len() <= MANY_USERS);
    }
}
