//! Who has had more than others are left.
//!
//! Sets say in which order jobs are served, by what they do; and anyone can do what is served first: write without end, but with a pause now
//! and then that looks like a rhythm. So three quarters of the storage are everyone's: divided by the users who use it, each has that part,
//! whatever the sets say. While somebody waits who has had less, whoever has had more is served after all others.
//!
//! Nothing is held against anyone for long: neither what they took while nobody wanted it, nor what others did not take.

use std::collections::{HashMap, HashSet};

/// Activity of a job since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub user: Option<u32>,
    pub bytes: u64,
    /// Whether it has requests, or had some.
    pub is_active: bool,
    /// For how long it waited while nothing of it was served.
    pub waited_s: f64,
    /// How long it can be expected to wait while another job has its turn.
    pub patience_s: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Shares {
    looked_s: f64,
    /// Bandwidth of the storage as it was measured, in bytes per second.
    rate_bps: f64,
    /// Bytes that a user would have been served by now who always had exactly an equal part.
    fair: f64,
    /// Bytes served to users.
    served: HashMap<Option<u32>, f64>,
    /// For which part of the last seconds users have waited.
    waiting: HashMap<Option<u32>, f64>,
}

/// So much of the storage is divided evenly.
const DIVIDED: f64 = 0.75;
/// Time for which a measurement of the storage's bandwidth counts, about, in seconds.
const RATE_HOLDS_S: f64 = 30.0;
/// How long someone waited counts for about so long: while they are served first, they do not wait.
const WAITING_HOLDS_S: f64 = 5.0;
/// Who waits for less than this part of the time is not shut out, however little they have had: they may want no more.
const SHUT_OUT: f64 = 0.25;

impl Shares {
    /// Returns the users who are to be served after all others until the next look.
    pub(crate) fn look(&mut self, now_s: f64, uses: &[Use]) -> HashSet<Option<u32>> {
        let passed_s = (now_s - self.looked_s).max(1e-3);
        self.looked_s = now_s;
        let uses: Vec<&Use> = uses.iter().filter(|one| one.is_active || one.bytes > 0).collect();
        let total = uses.iter().map(|one| one.bytes as f64).sum::<f64>();
        self.rate_bps = (total / passed_s).max(self.rate_bps * (-passed_s / RATE_HOLDS_S).exp());
        // How far behind their part users may fall, by the least patient of their jobs.
        let mut patience: HashMap<Option<u32>, f64> = HashMap::new();
        for one in &uses {
            let bytes = one.patience_s * self.rate_bps;
            patience.entry(one.user).and_modify(|least| *least = bytes.min(*least)).or_insert(bytes);
        }
        // Of those who have gone nothing needs to be remembered for longer than it would count.
        let former = self.fair;
        self.served.retain(|user, served| patience.contains_key(user) || *served > former);
        self.fair += DIVIDED * total / patience.len().max(1) as f64;
        for one in &uses {
            *self.served.entry(one.user).or_insert(former) += one.bytes as f64;
        }
        for (user, served) in &mut self.served {
            let patience = patience.get(user).copied().unwrap_or(0.0);
            // Those who always want less than their part are the furthest behind, and so the first to be let in.
            *served = served.clamp(self.fair - 2.0 * patience, self.fair + patience);
        }
        let kept = (-passed_s / WAITING_HOLDS_S).exp();
        self.waiting.retain(|user, _| patience.contains_key(user));
        self.waiting.values_mut().for_each(|part| *part *= kept);
        // Of several jobs the one that waited longest counts.
        let mut waited_s: HashMap<Option<u32>, f64> = HashMap::new();
        for one in &uses {
            let longest_s = waited_s.entry(one.user).or_default();
            *longest_s = longest_s.max(one.waited_s);
        }
        for (user, waited_s) in waited_s {
            *self.waiting.entry(user).or_default() += (1.0 - kept) * (waited_s / passed_s).min(1.0);
        }
        let is_shut_out = |(user, patience): (&Option<u32>, &f64)| {
            self.waiting[user] > SHUT_OUT && self.served[user] + patience < self.fair
        };
        if !patience.iter().any(is_shut_out) {
            return HashSet::new();
        }
        self.served.iter().filter(|(_, served)| **served > self.fair).map(|(user, _)| *user).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    /// A storage of 32 MiB/s in which whoever goes first has what they want, and those who are held back take turns; looked at four times a
    /// second.
    #[derive(Default)]
    struct Storage {
        shares: Shares,
        held_back: HashSet<Option<u32>>,
        n_looks: u32,
    }

    impl Storage {
        /// Returns the MiB/s that each user is served over `for_s`: users by what they want, in the order in which they go.
        fn serve(&mut self, for_s: u32, wants: &[(u32, f64)]) -> Vec<f64> {
            let mut served = vec![0.0; wants.len()];
            for _ in 0..4 * for_s {
                let (mut left, mut uses) = (8.0, Vec::new());
                for is_behind in [false, true] {
                    for i in 0..wants.len() {
                        let turned = is_behind && self.n_looks % 2 == 1;
                        let at = if turned { wants.len() - 1 - i } else { i };
                        let (user, wanted) = wants[at];
                        if self.held_back.contains(&Some(user)) != is_behind {
                            continue;
                        }
                        let moved = f64::min(left, wanted / 4.0);
                        left -= moved;
                        served[at] += moved / f64::from(for_s);
                        uses.push(Use {
                            user: Some(user),
                            bytes: (moved * MIB) as u64,
                            is_active: true,
                            waited_s: if moved < wanted / 4.0 { 0.25 } else { 0.0 },
                            patience_s: 2.0,
                        });
                    }
                }
                self.n_looks += 1;
                self.held_back = self.shares.look(f64::from(self.n_looks) / 4.0, &uses);
            }
            served
        }
    }

    #[test]
    fn nobody_is_held_back_while_all_have_what_they_want() {
        for wants in [&[(1, 20.0), (2, 10.0)][..], &[(1, 32.0)], &[(1, 64.0)]] {
            let mut storage = Storage::default();
            storage.serve(60, wants);
            assert_eq!(storage.held_back, HashSet::new());
        }
    }

    #[test]
    fn whoever_goes_first_leaves_everyone_their_part_of_three_quarters() {
        let served = Storage::default().serve(600, &[(1, 32.0), (2, 32.0), (3, 32.0), (4, 32.0)]);
        assert!(served[1..].iter().all(|rate| (rate - 6.0).abs() < 0.7), "{served:?}");
        assert!(served[0] > 12.0, "{served:?}");
    }

    #[test]
    fn those_who_want_less_than_their_part_have_most_of_it() {
        let served = Storage::default().serve(600, &[(1, 32.0), (2, 32.0), (3, 5.0)]);
        assert!(served[2] > 3.5, "{served:?}");
        assert!(served[1] > 7.0 && served[0] > 12.0, "{served:?}");
    }

    #[test]
    fn what_someone_took_while_nobody_wanted_it_is_not_held_against_them() {
        let mut storage = Storage::default();
        storage.serve(3600, &[(1, 32.0)]);
        let served = storage.serve(60, &[(1, 32.0), (2, 32.0)]);
        assert!(served[0] > 12.0 && served[1] > 8.0, "{served:?}");
        // Nor is someone who wanted little owed the rest.
        storage.serve(3600, &[(1, 32.0), (2, 1.0)]);
        let served = storage.serve(60, &[(2, 32.0), (1, 32.0)]);
        assert!(served[0] < 25.0 && served[1] > 7.0, "{served:?}");
    }
}
