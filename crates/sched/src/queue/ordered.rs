//! A map whose lowest key is asked for again and again.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Values by key, the lowest first: a sorted list while it is short, a tree from then on until it is empty.
///
/// A server's queue has few sets and few jobs at a time, and each request puts one in and takes one out: in a short list
/// that is a move of some bytes, half the cost of a tree's node.
#[derive(Clone, Debug)]
pub(super) enum Ordered<K, V> {
    /// The lowest key last, where it comes and goes cheaply.
    Short(Vec<(K, V)>),
    Long(BTreeMap<K, V>),
}

/// Beyond this, moving the list costs more than a tree.
const SHORT: usize = 64;

impl<K: Ord + Copy, V: Copy> Ordered<K, V> {
    #[inline]
    pub(super) const fn new() -> Self {
        Self::Short(Vec::new())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(list) => list.len(),
            Self::Long(tree) => tree.len(),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self {
            Self::Short(list) => {
                let at = place(list, &key);
                if list.get(at).is_some_and(|entry| entry.0 == key) {
                    list[at].1 = value;
                } else if list.len() < SHORT {
                    // At the end nothing has to move.
                    if at == list.len() { list.push((key, value)) } else { list.insert(at, (key, value)) }
                } else {
                    let mut tree: BTreeMap<K, V> = list.drain(..).collect();
                    tree.insert(key, value);
                    *self = Self::Long(tree);
                }
            }
            Self::Long(tree) => {
                tree.insert(key, value);
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, key: &K) {
        match self {
            Self::Short(list) => {
                let at = place(list, key);
                if list.get(at).is_some_and(|entry| entry.0 == *key) {
                    if at + 1 == list.len() {
                        list.pop();
                    } else {
                        list.remove(at);
                    }
                }
            }
            Self::Long(tree) => {
                tree.remove(key);
                if tree.is_empty() {
                    *self = Self::new();
                }
            }
        }
    }

    /// Gives the entry at a key another key, which no other entry has.
    ///
    /// Cheaper than taking it out and putting it back: what was first mostly stays near.
    #[inline]
    pub(super) fn rekey(&mut self, old: &K, new: K) {
        match self {
            Self::Short(list) => {
                let mut at = place(list, old);
                let Some(&(key, value)) = list.get(at) else { return };
                if key != *old {
                    return;
                }
                while at > 0 && list[at - 1].0 < new {
                    list[at] = list[at - 1];
                    at -= 1;
                }
                while at + 1 < list.len() && list[at + 1].0 > new {
                    list[at] = list[at + 1];
                    at += 1;
                }
                list[at] = (new, value);
            }
            Self::Long(tree) => {
                if let Some(value) = tree.remove(old) {
                    tree.insert(new, value);
                }
            }
        }
    }

    #[inline]
    pub(super) fn contains(&self, key: &K) -> bool {
        match self {
            Self::Short(list) => list.get(place(list, key)).is_some_and(|entry| entry.0 == *key),
            Self::Long(tree) => tree.contains_key(key),
        }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<(K, V)> {
        match self {
            Self::Short(list) => list.last().copied(),
            Self::Long(tree) => tree.first_key_value().map(|(&key, &value)| (key, value)),
        }
    }

    #[inline]
    pub(super) fn last(&self) -> Option<(K, V)> {
        match self {
            Self::Short(list) => list.first().copied(),
            Self::Long(tree) => tree.last_key_value().map(|(&key, &value)| (key, value)),
        }
    }

    /// The lowest above a key, which need not be there.
    #[inline]
    pub(super) fn after(&self, key: &K) -> Option<(K, V)> {
        match self {
            Self::Short(list) => place(list, key).checked_sub(1).map(|at| list[at]),
            Self::Long(tree) => {
                tree.range((Excluded(key), Unbounded)).next().map(|(&key, &value)| (key, value))
            }
        }
    }

    /// All keys, in no particular order.
    #[inline]
    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        let (list, tree) = match self {
            Self::Short(list) => (Some(list), None),
            Self::Long(tree) => (None, Some(tree)),
        };
        let of_list = list.into_iter().flatten().map(|entry| entry.0);
        of_list.chain(tree.into_iter().flatten().map(|(&key, _)| key))
    }
}

/// Where a key is in a list from high to low, or would be. From the low end, where it mostly is.
#[inline]
fn place<K: Ord, V>(list: &[(K, V)], key: &K) -> usize {
    let mut at = list.len();
    while at > 0 && list[at - 1].0 <= *key {
        at -= 1;
        if list[at].0 == *key {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn short_or_long_it_is_a_sorted_map(steps in prop::collection::vec((0..3u8, 0..200u32), 0..1200)) {
            let (mut ordered, mut tree) = (Ordered::new(), BTreeMap::new());
            for (i, (kind, key)) in steps.into_iter().enumerate() {
                // It grows until it is long, then shrinks until it is short again.
                if kind < if i % 800 < 400 { 2 } else { 1 } {
                    ordered.insert(key, i);
                    tree.insert(key, i);
                } else if i % 3 == 0 {
                    let other = 1000 + (i as u32 * 7) % 200 * 1000 + i as u32;
                    let new = if i % 2 == 0 { other } else { key };
                    ordered.rekey(&key, new);
                    if let Some(value) = tree.remove(&key) {
                        tree.insert(new, value);
                    }
                } else {
                    ordered.remove(&key);
                    tree.remove(&key);
                }
                prop_assert_eq!((ordered.len(), ordered.is_empty()), (tree.len(), tree.is_empty()));
                prop_assert_eq!(ordered.contains(&key), tree.contains_key(&key));
                prop_assert_eq!(ordered.first(), tree.first_key_value().map(|(&k, &v)| (k, v)));
                prop_assert_eq!(ordered.last(), tree.last_key_value().map(|(&k, &v)| (k, v)));
                let next = tree.range((Excluded(&key), Unbounded)).next().map(|(&k, &v)| (k, v));
                prop_assert_eq!(ordered.after(&key), next);
                let mut keys: Vec<u32> = ordered.keys().collect();
                keys.sort_unstable();
                prop_assert_eq!(keys, tree.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}
