//! Files and folders that the kernel has open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fuser::FileHandle;

/// Files or folders that the kernel has open, by the numbers it was given.
pub(super) struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { open: RwLock::default(), next: AtomicU64::new(1) }
    }
}

impl<T> Handles<T> {
    pub(super) fn insert(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(value));
        FileHandle(number)
    }

    pub(super) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    pub(super) fn remove(&self, handle: FileHandle) {
        let removed = self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        drop(removed); // closed here, after the lock is gone
    }
}
