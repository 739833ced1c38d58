//! Whether somebody writes to a tree: directories of it are watched, and nothing is believed but that something happened.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

use crate::dirs::Dirs;

/// Watches the directories of a tree.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: Option<OwnedFd>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { inotify: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok() }
    }

    /// Watches a directory, too. What cannot be watched is seen at the next walk.
    pub(crate) fn add(&self, tree: &Dirs, path: &[u8]) {
        use std::os::fd::AsRawFd;
        let Some(inotify) = &self.inotify else { return };
        let Ok(dir) = tree.dir(path) else { return };
        // By its descriptor: no link is followed, and no path is too long.
        let way = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let events = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        let _ = add_watch(inotify, way, events);
    }

    /// Whether something happened since the last call.
    pub(crate) fn has_news(&self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut space = [MaybeUninit::uninit(); 16 << 10];
        let mut events = Reader::new(inotify, &mut space);
        let mut has_news = false;
        while events.next().is_ok() {
            has_news = true;
        }
        has_news
    }
}
