//! How a bounded resource is shared among users: each has a share, root the last places, and refusals are counted by user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Users whose refusals are counted by name; those of all others are counted together, under [`OTHERS`].
const MOST_COUNTED: usize = 256;
/// Stands for users who are not counted one by one.
pub const OTHERS: u32 = u32::MAX;

/// The rule by which places are given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Places in all.
    pub places: usize,
    /// Places of one user; root has no such limit.
    pub per_user: usize,
    /// Places for root alone.
    pub reserve: usize,
}

impl Limits {
    /// Gives a quarter of the places to each user at most, and the last sixteenth to root alone.
    pub const fn among_users(places: usize) -> Self {
        let per_user = if places < 4 { 1 } else { places / 4 };
        Self { places, per_user, reserve: places / 16 }
    }

    /// Whether a user who holds `own` places, while `total` are taken, may have another.
    pub const fn allows(&self, user: u32, own: usize, total: usize) -> bool {
        match user {
            0 => total < self.places,
            _ => own < self.per_user && total < self.places - self.reserve,
        }
    }
}

/// Hands out the places of a bounded resource.
#[derive(Clone, Debug)]
pub struct Shares {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    held: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    by_user: HashMap<u32, usize>,
    total: usize,
    refused: HashMap<u32, u64>,
}

/// A place that is held; given back when dropped.
#[derive(Debug)]
pub struct Share {
    shared: Arc<Shared>,
    user: u32,
}

impl Shares {
    /// Shares places among users: see [`Limits::among_users`].
    pub fn among_users(places: usize) -> Self {
        Self::new(Limits::among_users(places))
    }

    /// Gives all places to whoever comes: there is one user.
    pub fn for_one(places: usize) -> Self {
        Self::new(Limits { places, per_user: places, reserve: 0 })
    }

    /// Shares places by a rule.
    pub fn new(limits: Limits) -> Self {
        Self { shared: Arc::new(Shared { limits, held: Mutex::default() }) }
    }

    /// Takes a place for a user; `None` if all that the user may have are taken, which is counted.
    pub fn take(&self, user: u32) -> Option<Share> {
        let mut books = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = books.by_user.get(&user).copied().unwrap_or(0);
        if !self.shared.limits.allows(user, own, books.total) {
            let is_counted = books.refused.contains_key(&user) || books.refused.len() < MOST_COUNTED;
            *books.refused.entry(if is_counted { user } else { OTHERS }).or_default() += 1;
            return None;
        }
        books.total += 1;
        *books.by_user.entry(user).or_default() += 1;
        Some(Share { shared: Arc::clone(&self.shared), user })
    }

    /// Whether a user could have a place if others held fewer.
    pub fn is_short_of_others(&self, user: u32) -> bool {
        let books = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        user == 0 || books.by_user.get(&user).copied().unwrap_or(0) < self.shared.limits.per_user
    }

    /// How often each user was refused a place, by user.
    pub fn refused(&self) -> Vec<(u32, u64)> {
        let books = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused: Vec<(u32, u64)> = books.refused.iter().map(|(user, n)| (*user, *n)).collect();
        refused.sort_unstable();
        refused
    }
}

impl Share {
    /// Whether it is this user's.
    pub fn is_of(&self, user: u32) -> bool {
        self.user == user
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut books = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        books.total -= 1;
        if let Some(own) = books.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                books.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_share_and_root_what_is_left() {
        let shares = Shares::among_users(32);
        let mut held: Vec<Share> = (0..100).filter_map(|_| shares.take(1000)).collect();
        assert_eq!(held.len(), 8);
        assert_eq!(shares.refused(), [(1000, 92)]);
        for user in 1001..1010 {
            held.extend((0..100).filter_map(|_| shares.take(user)));
        }
        assert_eq!(held.len(), 30, "two are for root alone");
        held.extend((0..100).filter_map(|_| shares.take(0)));
        assert_eq!(held.len(), 32);
        held.clear();
        assert!(shares.take(1000).is_some());
        let is_empty = shares.shared.held.lock().unwrap().by_user.is_empty();
        assert!(is_empty, "nobody who holds nothing is remembered");
    }

    #[test]
    fn refusals_of_any_number_of_users_take_bounded_memory() {
        let shares = Shares::among_users(1);
        let _held = shares.take(1).unwrap();
        (0..100_000).for_each(|user| assert!(shares.take(user + 1).is_none()));
        let refused = shares.refused();
        assert_eq!(refused.len(), MOST_COUNTED + 1);
        assert_eq!(refused.iter().map(|(_, n)| n).sum::<u64>(), 100_000);
        assert_eq!(refused.last().map(|(user, _)| *user), Some(OTHERS));
    }
}
