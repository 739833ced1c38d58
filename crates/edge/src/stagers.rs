//! What `iotide stage out` says of the buffers of jobs: files in the directory of the pages, one per stager, which it writes anew every few seconds.
//!
//! A file is believed of jobs of the user whose it is; root's is of all.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use iotide_ledger::JobId;
use iotide_private::OpenDir;
use iotide_report::JobStaging;

/// How such a file is called: `stage-<16 digits>.status`.
const BEGIN: &[u8] = b"stage-";
const END: &[u8] = b".status";
/// One that was not written anew for so long is of a stager that was killed, and after a day it goes.
const STALE: Duration = Duration::from_secs(90);
const REMOVED: Duration = Duration::from_secs(86_400);
const MOST_FILES: usize = 1024;
const MOST_BYTES: u64 = 64 << 10;

/// What is known of the buffers of jobs.
#[derive(Debug, Default)]
pub(crate) struct Stagers {
    list: Vec<(u32, String, JobStaging)>,
}

impl Stagers {
    /// Reads the files in a directory.
    pub(crate) fn read(pages: &Path) -> Self {
        let mut list = Vec::new();
        let Ok(folder) = OpenDir::open(pages) else { return Self::default() };
        let Ok(entries) = rustix::fs::Dir::read_from(folder.fd()) else { return Self::default() };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if list.len() < MOST_FILES && name.starts_with(BEGIN) && name.ends_with(END) {
                list.extend(std::str::from_utf8(name).ok().and_then(|name| read_one(&folder, name)));
            }
        }
        Self { list }
    }

    /// Takes what is said of a job of a user: it is told of one job, whoever has the same id.
    pub(crate) fn take(&mut self, id: &JobId, uid: u32) -> Vec<JobStaging> {
        let is_of =
            |one: &mut (u32, String, JobStaging)| (one.0 == uid || one.0 == 0) && one.1 == id.as_str();
        self.list.extract_if(.., is_of).map(|(_, _, staging)| staging).collect()
    }
}

fn read_one(folder: &OpenDir, name: &str) -> Option<(u32, String, JobStaging)> {
    let file = folder.read(name).ok()?;
    let about = file.metadata().ok()?;
    let age = SystemTime::now().duration_since(about.modified().ok()?).unwrap_or_default();
    if age > STALE {
        if age > REMOVED {
            let _ = folder.remove(name);
        }
        return None;
    }
    let mut json = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut json).ok()?;
    let (job, staging) = JobStaging::from_note(&json)?;
    Some((about.uid(), job, staging))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn what_a_stager_says_is_told_of_its_users_job_as_long_as_it_is_fresh() {
        let dir = FreshDir::new("stagers");
        let note = |job: &str| {
            JobStaging {
                backlog_bytes: 7,
                full_at_s: Some(20.0),
                state: "hold".into(),
                ..JobStaging::default()
            }
            .to_note(job)
        };
        dir.write("stage-0000000000000001.status", note("4711"));
        dir.write("stage-0000000000000002.status", note("4712"));
        dir.write("stage-0000000000000003.status", "{");
        dir.write("4713.page", note("4713"));
        let old =
            std::fs::File::options().write(true).open(dir.join("stage-0000000000000002.status")).unwrap();
        let ago = |age| SystemTime::now() - age;
        old.set_modified(ago(STALE + Duration::from_secs(10))).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let id = |id: &str| JobId::new(id).unwrap();
        let mut stagers = Stagers::read(dir.path());
        if own != 0 {
            assert!(stagers.take(&id("4711"), own + 1).is_empty(), "another user's job");
        }
        let staging = stagers.take(&id("4711"), own);
        assert_eq!((staging[0].backlog_bytes, staging[0].full_at_s), (7, Some(20.0)));
        assert!(stagers.take(&id("4711"), own).is_empty(), "told once");
        assert!(stagers.take(&id("4712"), own).is_empty() && stagers.take(&id("4713"), own).is_empty());
        old.set_modified(ago(REMOVED + Duration::from_secs(10))).unwrap();
        Stagers::read(dir.path());
        let left = ["4713.page", "stage-0000000000000001.status", "stage-0000000000000003.status"];
        assert_eq!(dir.names(), left);
    }
}
