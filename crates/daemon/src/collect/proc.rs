//! What the system says of a process.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use iotide_ledger::JobId;

/// More than this of a file in `/proc` is not looked at.
const MOST_BYTES: u64 = 64 << 10;

/// Where processes are looked up.
#[derive(Clone, Debug)]
pub struct Proc(pub PathBuf);

impl Proc {
    /// When a process began, in ticks since boot; `None` if there is none of this number, or one that waits for its parent to notice its end.
    pub fn started(&self, pid: u32) -> Option<u64> {
        let stat = self.read(pid, "stat");
        // The name of the program may hold anything, also blanks and brackets; it ends at the last bracket.
        let after_name = &stat[stat.iter().rposition(|&byte| byte == b')')? + 1..];
        let fields: Vec<&str> = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace().collect();
        // Numbered from 1 in proc(5), of which the first two are gone.
        let is_zombie = matches!(*fields.first()?, "Z" | "X");
        // Its first thread may have ended before the others.
        if is_zombie && self.n_threads(pid) <= 1 {
            return None;
        }
        fields.get(22 - 3)?.parse().ok()
    }

    fn n_threads(&self, pid: u32) -> usize {
        std::fs::read_dir(self.0.join(pid.to_string()).join("task")).map_or(0, Iterator::count)
    }

    /// Whether a process belongs to a user, by any of its user ids.
    pub(crate) fn belongs_to(&self, pid: u32, uid: u32) -> bool {
        let status = self.read(pid, "status");
        let status = String::from_utf8_lossy(&status);
        uids(&status).any(|known| known == uid)
    }

    /// The process with this number in another name space of processes: told by its user and when it began.
    pub(crate) fn in_namespace(&self, inner_pid: u32, uid: u32, start_ticks: u64) -> Option<u32> {
        let processes = std::fs::read_dir(&self.0).ok()?;
        processes.flatten().find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let status = self.read(pid, "status");
            let status = String::from_utf8_lossy(&status);
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            let is_it = numbers.split_ascii_whitespace().next_back()?.parse() == Ok(inner_pid);
            (is_it && self.started(pid) == Some(start_ticks) && self.belongs_to(pid, uid)).then_some(pid)
        })
    }

    /// The job that the system says a process belongs to: a folder `job_N` in the path of its cgroup, which only the system can make.
    pub(crate) fn job_in_cgroup(&self, pid: u32) -> Option<JobId> {
        let cgroup = self.read(pid, "cgroup");
        String::from_utf8_lossy(&cgroup).split(['/', '\n']).find_map(|folder| {
            let id = folder.strip_prefix("job_")?;
            id.bytes().all(|byte| byte.is_ascii_digit()).then(|| JobId::new(id).ok())?
        })
    }

    /// The name space of processes that a machine begins with, in which all processes are seen.
    pub(crate) const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

    /// The number of our own name space of processes.
    pub(crate) fn own_namespace(&self) -> Option<u64> {
        self.namespace_of("self")
    }

    fn namespace_of(&self, process: &str) -> Option<u64> {
        let link = std::fs::read_link(self.0.join(process).join("ns/pid")).ok()?;
        link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
    }

    /// Who has processes in which name space, by any of their user ids.
    pub(crate) fn owners_by_namespace(&self) -> HashSet<(u64, u32)> {
        let processes = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut owners = HashSet::new();
        for entry in processes {
            let name = entry.file_name();
            let Some((name, pid)) = name.to_str().and_then(|name| Some((name, name.parse().ok()?))) else {
                continue;
            };
            if let Some(namespace) = self.namespace_of(name) {
                let status = self.read(pid, "status");
                owners.extend(uids(&String::from_utf8_lossy(&status)).map(|uid| (namespace, uid)));
            }
        }
        owners
    }

    fn read(&self, pid: u32, name: &str) -> Vec<u8> {
        read_file(&self.0.join(pid.to_string()).join(name))
    }
}

/// The user ids of a process as its `status` has them, the real one first.
pub(super) fn uids(status: &str) -> impl Iterator<Item = u32> {
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    uids.split_ascii_whitespace().map_while(|text| text.parse().ok())
}

/// The name of a user, as this machine's own list has it. Directories of users elsewhere are not asked: they may not answer.
pub fn user_name(uid: u32) -> String {
    let list = read_up_to(Path::new("/etc/passwd"), 4 << 20);
    let list = String::from_utf8_lossy(&list);
    let name = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| uid.to_string())
}

/// The number of a user, by name as this machine's own list has it, or as digits.
pub fn user_number(name: &str) -> Option<u32> {
    let list = read_up_to(Path::new("/etc/passwd"), 4 << 20);
    let list = String::from_utf8_lossy(&list);
    let number = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name && !name.is_empty()).then(|| fields.nth(1)?.parse().ok())?
    });
    number.or_else(|| name.parse().ok().filter(|uid| *uid != u32::MAX))
}

fn read_file(path: &Path) -> Vec<u8> {
    read_up_to(path, MOST_BYTES)
}

/// A small file as text, whatever is in it.
pub(super) fn text_of(path: &Path, most: u64) -> String {
    String::from_utf8_lossy(&read_up_to(path, most)).into_owned()
}

pub(super) fn read_up_to(path: &Path, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // Whatever could be read is looked at.
        let _ = file.take(most).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_there_until_it_is_killed_even_if_nobody_has_waited_for_it() {
        let proc = Proc("/proc".into());
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
        let uid = rustix::process::getuid().as_raw();
        assert!(proc.started(child.id()).is_some());
        assert!(proc.belongs_to(child.id(), uid) && !proc.belongs_to(child.id(), 54321));
        child.kill().unwrap();
        // It is a zombie once it has died; the kernel needs a moment for that.
        while proc.started(child.id()).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(proc.started(child.id()), None);
    }

    #[test]
    fn a_job_is_named_by_a_cgroup_and_by_nothing_that_looks_like_one() {
        let dir = FreshDir::new("daemon-cgroup");
        let proc = Proc(dir.path().to_owned());
        let cgroup = |text: &str| {
            std::fs::create_dir_all(dir.join("7")).unwrap();
            std::fs::write(dir.join("7/cgroup"), text).unwrap();
            proc.job_in_cgroup(7).map(|id| id.as_str().to_owned())
        };
        assert_eq!(
            cgroup("0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n").as_deref(),
            Some("42")
        );
        assert_eq!(cgroup("12:cpuset:/slurm/uid_1000/job_77/step_0\n").as_deref(), Some("77"));
        assert_eq!(cgroup("0::/user.slice/job_evil/job_\n"), None);
        assert_eq!(proc.job_in_cgroup(8), None);
    }
}
