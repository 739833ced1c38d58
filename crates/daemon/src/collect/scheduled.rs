//! What the scheduler says of a job: files in the directory `jobs` beside that of the pages, one per job and named by its id, which a prolog writes.
//!
//! They are believed because of who can have made them: root, or the daemon's user. The environment of a process is not: what a job submits inherits
//! it, and with it the account and the number of restarts of another job.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use iotide_ledger::{JobId, Name};
use iotide_private::OpenDir;

use crate::leaf::Claim;

/// More of a file is not looked at.
const MOST_BYTES: u64 = 4096;
/// The variable of the environment that holds such an id.
const SOURCE: &[u8] = b"SLURM_JOB_ID";

/// A job as its scheduler knows it. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scheduled {
    pub user: Name,
    pub account: Name,
    pub partition: Name,
    /// What it is called beside its id.
    pub alias: Name,
    /// The job that this is a component of.
    leader: Option<JobId>,
    /// How often it was begun anew.
    n_restarts: u32,
}

/// Looks up the job that a process belongs to. All components of a heterogeneous job are one, and a job that was begun anew is another.
pub(super) fn look_up(pages: &OpenDir, claim: &mut Claim, source: &[u8], uid: u32) -> Option<Scheduled> {
    let id = match claim {
        Claim::Cgroup(id) => id,
        Claim::Job(id) if source == SOURCE => id,
        _ => return None,
    };
    let scheduled = read(pages, id, uid)?;
    if let Some(leader) = &scheduled.leader {
        *id = leader.clone();
    }
    if scheduled.n_restarts > 0 {
        *id = JobId::made_of(&format!("{id}.r{}", scheduled.n_restarts));
    }
    Some(scheduled)
}

fn read(pages: &OpenDir, id: &JobId, uid: u32) -> Option<Scheduled> {
    let folder = OpenDir::open(&pages.path().parent()?.join("jobs")).ok()?;
    if folder.is_strangers().ok()? {
        return None;
    }
    let file: File = folder.read(id.as_str()).ok()?;
    let owner = file.metadata().ok()?.uid();
    if !iotide_private::is_our_user(Some(owner)) {
        return None;
    }
    let mut text = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    parse(&String::from_utf8_lossy(&text), uid)
}

/// Lines `name=value`. A file of another user's job says nothing of this one, whatever the process claims.
pub fn parse(text: &str, uid: u32) -> Option<Scheduled> {
    let value = |name: &str| {
        let values = text.lines().filter_map(|line| line.split_once('='));
        values.filter(|(known, _)| *known == name).map(|(_, value)| value).next_back()
    };
    let name = |of: &str| Name::cut(value(of).unwrap_or_default().as_bytes());
    if value("uid")?.parse() != Ok(uid) {
        return None;
    }
    Some(Scheduled {
        user: name("user"),
        account: name("account"),
        partition: name("partition"),
        alias: name("alias"),
        leader: value("leader").and_then(|id| JobId::new(id).ok()),
        n_restarts: value("restarts").and_then(|n| n.parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn id(text: &str) -> JobId {
        JobId::new(text).unwrap()
    }

    fn found(dir: &FreshDir, mut claim: Claim, source: &str) -> (Claim, Option<Scheduled>) {
        let pages = OpenDir::make(&dir.join("pages")).unwrap();
        let scheduled = look_up(&pages, &mut claim, source.as_bytes(), 1000);
        (claim, scheduled)
    }

    #[test]
    fn a_restarted_job_is_another_and_components_are_one() {
        let dir = FreshDir::new("scheduled");
        std::fs::create_dir(dir.join("jobs")).unwrap();
        dir.write("jobs/7", "uid=1000\nuser=ada\naccount=chem\npartition=main\nrestarts=2\nended=1\n");
        dir.write("jobs/8", "uid=1000\nrestarts=0\nleader=5\n");
        dir.write("jobs/9", "uid=1001\nuser=eve\nrestarts=1\n");
        let (claim, scheduled) = found(&dir, Claim::Job(id("7")), "SLURM_JOB_ID");
        assert_eq!(claim, Claim::Job(id("7.r2")));
        let scheduled = scheduled.unwrap();
        assert_eq!((scheduled.user.as_str(), scheduled.account.as_str()), ("ada", "chem"));
        assert_eq!(found(&dir, Claim::Cgroup(id("8")), "").0, Claim::Cgroup(id("5")));
        // Another user's job, a name that the user chose, a job of which nothing is known.
        for (job, source) in [("9", "SLURM_JOB_ID"), ("7", "IOTIDE_JOB_ID"), ("6", "SLURM_JOB_ID")] {
            let claim = Claim::Job(id(job));
            assert_eq!(found(&dir, claim.clone(), source), (claim, None), "{job} {source}");
        }
    }

    #[test]
    fn files_that_strangers_could_have_made_are_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = FreshDir::new("scheduled-strangers");
        std::fs::create_dir(dir.join("jobs")).unwrap();
        dir.write("jobs/7", "uid=1000\nrestarts=2\n");
        std::fs::set_permissions(dir.join("jobs"), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(&dir, Claim::Cgroup(id("7")), "").1, None);
        std::fs::set_permissions(dir.join("jobs"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(found(&dir, Claim::Cgroup(id("7")), "").1.is_some());
        std::fs::rename(dir.join("jobs/7"), dir.join("7")).unwrap();
        std::os::unix::fs::symlink(dir.join("7"), dir.join("jobs/7")).unwrap();
        assert_eq!(found(&dir, Claim::Cgroup(id("7")), "").1, None);
    }
}
