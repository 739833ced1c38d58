//! In whose name a thread acts on the backing directory.
//!
//! The kernel checks permissions before it asks us (`default_permissions`), with all groups of the caller. What is left
//! to us is that a new file belongs to who made it, also in the eyes of a server that checks permissions once more, and that a write takes
//! set-user-id bits away as it should. Both are questions of the ids, groups and capabilities of the one thread that makes the call; other
//! threads do not notice.
//!
//! Without root there is nothing to do: the mount then acts as the one user it serves.

use iotide_gate::Who;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid,
};

use crate::groups::Groups;

/// Privileges of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Privilege {
    sets: Option<CapabilitySets>,
}

impl Privilege {
    /// Asks the system.
    pub(crate) fn of_this_process() -> Self {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::DAC_OVERRIDE;
        let sets = capabilities(None).ok().filter(|sets| sets.effective.contains(needed));
        Self { sets: sets.filter(|_| geteuid().is_root()) }
    }

    /// Whether files can be made in the name of others.
    pub(crate) fn may_serve_others(&self) -> bool {
        self.sets.is_some()
    }

    /// Runs `make` so that what it makes belongs to the caller.
    ///
    /// The right to override permissions is kept: the kernel has checked them already.
    pub(crate) fn as_caller<T>(
        &self,
        who: Who,
        gid: u32,
        groups: &Groups,
        make: impl FnOnce() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        let Some(sets) = self.sets.filter(|_| who.uid != 0 || gid != 0) else { return make() };
        // Given back last, with the rights that the ids bring.
        let _own_groups = groups.take_on(who)?;
        let _own = OwnIds(sets);
        set_thread_res_gid(None, Gid::from_raw(gid), None)?;
        set_thread_res_uid(None, Uid::from_raw(who.uid), None)?;
        let kept = CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::DAC_READ_SEARCH
            | CapabilitySet::FSETID
            | CapabilitySet::FOWNER
            | CapabilitySet::MKNOD;
        set_capabilities(None, CapabilitySets { effective: kept & sets.permitted, ..sets })?;
        make()
    }

    /// Runs `change` as someone whose changes to a file take its set-user-id and set-group-id bits away.
    pub(crate) fn losing_set_id<T>(&self, change: impl FnOnce() -> T) -> T {
        let Some(sets) = self.sets.filter(|sets| sets.effective.contains(CapabilitySet::FSETID)) else {
            return change();
        };
        let _all = AllCapabilities(sets);
        let without = CapabilitySets { effective: sets.effective - CapabilitySet::FSETID, ..sets };
        // If this fails the bits stay, as they do for root.
        let _ = set_capabilities(None, without);
        change()
    }
}

/// Gives the thread its own ids and capabilities back.
struct OwnIds(CapabilitySets);

impl Drop for OwnIds {
    fn drop(&mut self) {
        // A thread may always take the real ids that it has kept, so neither can fail. A thread that served everyone with
        // the rights of one would be worse than no mount.
        let uid = set_thread_res_uid(None, Uid::ROOT, None);
        let gid = set_thread_res_gid(None, Gid::ROOT, None);
        // With another user id come the capabilities of root; for root in another group there is none to come with.
        let rights = set_capabilities(None, self.0);
        if uid.is_err() || gid.is_err() || rights.is_err() {
            std::process::abort();
        }
    }
}

struct AllCapabilities(CapabilitySets);

impl Drop for AllCapabilities {
    fn drop(&mut self) {
        let _ = set_capabilities(None, self.0);
    }
}
