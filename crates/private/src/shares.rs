//! What each user holds of something that there is little of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Hands out places: to everyone a share, to root the last ones, too.
#[derive(Clone, Debug)]
pub struct Account {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    n_places: usize,
    per_user: usize,
    reserve: usize,
    held: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    by_user: HashMap<u32, usize>,
    total: usize,
}

/// A place that is held; given back when dropped.
#[derive(Debug)]
pub struct Place {
    shared: Arc<Shared>,
    user: u32,
}

impl Account {
    /// So many places in all, of which a user gets a quarter and only root the last sixteenth.
    pub fn among_users(n_places: usize) -> Self {
        Self::new(n_places, (n_places / 4).max(1), n_places / 16)
    }

    /// So many places, for whoever comes: there is one user.
    pub fn for_one(n_places: usize) -> Self {
        Self::new(n_places, n_places, 0)
    }

    fn new(n_places: usize, per_user: usize, reserve: usize) -> Self {
        Self { shared: Arc::new(Shared { n_places, per_user, reserve, held: Mutex::default() }) }
    }

    /// Takes a place for a user; `None` if all that the user may have are taken.
    pub fn take(&self, user: u32) -> Option<Place> {
        let Shared { n_places, per_user, reserve, held } = &*self.shared;
        let mut books = held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = books.by_user.get(&user).copied().unwrap_or(0);
        let is_root = user == 0;
        let most = if is_root { *n_places } else { n_places - reserve };
        if books.total >= most || !is_root && own >= *per_user {
            return None;
        }
        books.total += 1;
        *books.by_user.entry(user).or_default() += 1;
        Some(Place { shared: Arc::clone(&self.shared), user })
    }
}

impl Place {
    /// Whether it is this user's.
    pub fn is_of(&self, user: u32) -> bool {
        self.user == user
    }
}

impl Drop for Place {
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
        let account = Account::among_users(32);
        let mut held: Vec<Place> = (0..100).filter_map(|_| account.take(1000)).collect();
        assert_eq!(held.len(), 8);
        for user in 1001..1010 {
            held.extend((0..100).filter_map(|_| account.take(user)));
        }
        assert_eq!(held.len(), 30, "two are for root alone");
        held.extend((0..100).filter_map(|_| account.take(0)));
        assert_eq!(held.len(), 32);
        held.clear();
        assert!(account.take(1000).is_some());
        assert!(
            account.shared.held.lock().unwrap().by_user.is_empty(),
            "nobody who holds nothing is remembered"
        );
    }
}
