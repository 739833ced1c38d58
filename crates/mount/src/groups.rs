//! The groups of those who call.
//!
//! A kernel that checks permissions knows all groups of the caller. A server that checks them as well (GlusterFS with `acl`, MooseFS, NFS,
//! Lustre) learns of those that the thread has which asks it: so a thread that makes a file for somebody takes on their groups, too.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use iotide_gate::Who;
use rustix::process::{Gid, getgroups};
use rustix::thread::set_thread_groups;

/// For how long groups are believed. Within this time the number of a thread is not used again.
const TRUST: Duration = Duration::from_millis(100);

/// More callers than this at once are looked up again.
const MAX_KNOWN: usize = 4096;

/// Linux allows 65 536 groups, of up to eleven characters each; the other lines are short.
const MAX_STATUS: u64 = 1 << 20;

/// Finds groups of callers, and takes them on.
#[derive(Debug)]
pub(crate) struct Groups {
    proc: PathBuf,
    /// Those of this process; `None` where the system does not let it change them, as in a user namespace of one user.
    own: Option<Vec<Gid>>,
    known: Mutex<HashMap<Who, Known>>,
}

/// Groups of a caller, and when they were looked up.
#[derive(Clone, Debug)]
struct Known {
    checked: Instant,
    groups: Arc<[Gid]>,
}

impl Groups {
    /// Looks callers up in `/proc`.
    pub(crate) fn of_callers() -> Self {
        let own = getgroups().ok().filter(|own| set_thread_groups(own).is_ok());
        Self { proc: PathBuf::from("/proc"), own, known: Mutex::default() }
    }

    /// Gives this thread the groups of a caller, until what is returned is dropped. Not for a thread without the right to do so.
    pub(crate) fn take_on(&self, who: Who) -> rustix::io::Result<Option<OwnGroups<'_>>> {
        let Some(own) = &self.own else { return Ok(None) };
        set_thread_groups(&self.of(who))?;
        Ok(Some(OwnGroups(own)))
    }

    fn of(&self, who: Who) -> Arc<[Gid]> {
        let now = Instant::now();
        let is_fresh = |known: &Known| now.duration_since(known.checked) < TRUST;
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get(&who).filter(|known| is_fresh(known)) {
                return Arc::clone(&known.groups);
            }
        }
        // Not under the lock: /proc may be slow, and other callers need not wait for it.
        let groups: Arc<[Gid]> = self.read(who.thread).into();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.retain(|_, known| is_fresh(known));
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        known.insert(who, Known { checked: now, groups: Arc::clone(&groups) });
        groups
    }

    /// Returns the groups of a thread; none of one that has ended or cannot be seen from here.
    fn read(&self, thread: u32) -> Vec<Gid> {
        let mut status = Vec::new();
        if let Ok(file) = File::open(self.proc.join(thread.to_string()).join("status")) {
            let _ = file.take(MAX_STATUS).read_to_end(&mut status);
        }
        // The name of the program stands there as well, with its line breaks escaped.
        let status = String::from_utf8_lossy(&status);
        let listed = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
        listed.split_ascii_whitespace().filter_map(|group| group.parse().ok()).map(Gid::from_raw).collect()
    }
}

/// Gives the thread the groups of the process back.
pub(crate) struct OwnGroups<'a>(&'a [Gid]);

impl Drop for OwnGroups<'_> {
    fn drop(&mut self) {
        // It was allowed a moment ago, to a thread with the same rights. One that served everyone with the groups of one would be worse
        // than no mount.
        if set_thread_groups(self.0).is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn groups_in(dir: &FreshDir) -> Groups {
        Groups { proc: dir.path().to_owned(), own: None, known: Mutex::default() }
    }

    fn raw(groups: &[Gid]) -> Vec<u32> {
        groups.iter().map(|group| group.as_raw()).collect()
    }

    #[test]
    fn groups_are_those_of_the_thread_and_looked_up_again() {
        let dir = FreshDir::new("groups");
        std::fs::create_dir(dir.join("41")).unwrap();
        dir.write("41/status", "Name:\tGroups: 0\nTgid:\t40\nGroups:\t4 5000 65534 \nVmPeak:\t1 kB\n");
        let groups = groups_in(&dir);
        let who = Who { thread: 41, uid: 1000 };
        assert_eq!(raw(&groups.of(who)), [4, 5000, 65534]);
        dir.write("41/status", "Groups:\t\n");
        assert_eq!(raw(&groups.of(who)), [4, 5000, 65534], "within the trust");
        groups.known.lock().unwrap().get_mut(&who).unwrap().checked -= 2 * TRUST;
        assert!(groups.of(who).is_empty());
        assert!(groups.of(Who { thread: 42, uid: 1000 }).is_empty(), "not there");
    }

    #[test]
    fn the_callers_of_a_busy_machine_do_not_pile_up() {
        let groups = groups_in(&FreshDir::new("no-proc"));
        for thread in 0..3 * MAX_KNOWN as u32 {
            groups.of(Who { thread, uid: 0 });
        }
        assert!(groups.known.lock().unwrap().len() <= MAX_KNOWN);
    }

    #[test]
    fn this_thread_is_found() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let found = Groups::of_callers().read(thread);
        assert_eq!(raw(&found), raw(&getgroups().unwrap()));
    }
}
