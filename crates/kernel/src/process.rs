//! Facts of a process that is seen: from the events themselves, and from `/proc` where it still runs.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use iotide_wire::{Totals, job_of, rank_of};

use crate::names::Key;
use crate::record::Threads;
use crate::stream::Stream;

/// The longest environment that is read for a rank.
const LONGEST_ENVIRONMENT: u64 = 1 << 20;

/// Number of a process and when it began: what its stream is named by.
#[derive(Clone, Debug)]
pub(crate) struct Id {
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
}

/// Facts of a process that its stream states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) parent: u32,
    pub(crate) user: u32,
    pub(crate) rank: Option<u32>,
    pub(crate) n_ranks: Option<u32>,
    pub(crate) job: Vec<u8>,
    pub(crate) program: Vec<u8>,
    pub(crate) command: Vec<u8>,
}

/// A process, from one program to the next.
pub(crate) struct Process {
    pub(crate) id: Id,
    pub(crate) facts: Facts,
    pub(crate) threads: Threads,
    pub(crate) cwd: Option<Rc<[u8]>>,
    /// Files it has opened, by their descriptors.
    pub(crate) files: HashMap<i32, (Key, Rc<[u8]>)>,
    pub(crate) totals: Totals,
    pub(crate) stream: Option<Stream>,
    /// Whether it acts in the name of another user than who asks: then its files have no names.
    pub(crate) is_foreign: bool,
    /// Whether it writes a stream of its own, by the preloaded library: then only what that cannot see is recorded here.
    pub(crate) records_itself: bool,
}

impl Process {
    pub(crate) fn new(pid: u32, start_ns: u64) -> Self {
        Self {
            id: Id { pid, start_ns },
            facts: Facts::default(),
            threads: Threads::from([pid]),
            cwd: None,
            files: HashMap::new(),
            totals: Totals::default(),
            stream: None,
            is_foreign: false,
            records_itself: false,
        }
    }

    /// The process that it makes or becomes, which begins with the same files, directory and place among the ranks.
    pub(crate) fn forked(&self, pid: u32, start_ns: u64) -> Self {
        let facts = Facts { parent: self.id.pid, ..self.facts.clone() };
        let (cwd, files) = (self.cwd.clone(), self.files.clone());
        Self { facts, cwd, files, is_foreign: self.is_foreign, ..Self::new(pid, start_ns) }
    }

    /// Learns about the program that it has become: by its name and its arguments as the kernel has them, and by what `/proc` says.
    pub(crate) fn begin(&mut self, program: &[u8], arguments: &[u8], asks_proc: bool) {
        self.facts.command = arguments.to_vec();
        self.facts.program = program.to_vec();
        if !asks_proc {
            return;
        }
        // What is known from events is right for this moment; what `/proc` says is so for a later one.
        if self.cwd.is_none() {
            self.cwd = self.link("cwd");
        }
        if let Some(path) = self.link("exe") {
            self.facts.program = path.to_vec();
        }
        if arguments.is_empty() {
            // It began before anybody looked.
            self.facts.command = self.read("cmdline", 1024);
            let status = String::from_utf8_lossy(&self.read("status", 4096)).into_owned();
            let number = |name| {
                let line = status.lines().find_map(|line: &str| line.strip_prefix(name))?;
                line.split_whitespace().next()?.parse().ok()
            };
            self.facts.parent = number("PPid:").unwrap_or(0);
            self.facts.user = number("Uid:").unwrap_or(0);
        }
        let environment = self.read("environ", LONGEST_ENVIRONMENT);
        if environment.is_empty() {
            // It is gone by now, and most likely had what it inherited.
            return;
        }
        let variable = |name: &[u8]| value_in(&environment, name);
        (self.facts.rank, self.facts.n_ranks) = rank_of(variable);
        self.facts.job = job_of(variable).map(|(_, job)| job.to_vec()).unwrap_or_default();
    }

    /// The user in whose name it acts, as `/proc` shows it: root where nobody may look at it.
    pub(crate) fn acts_as(&self) -> Option<u32> {
        std::fs::metadata(self.proc("")).ok().map(|folder| folder.uid())
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.id.pid)
    }

    fn read(&self, name: &str, most: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = File::open(self.proc(name)).and_then(|file| file.take(most).read_to_end(&mut bytes));
        bytes
    }

    /// Where a link in the process's folder in `/proc` leads.
    pub(crate) fn link(&self, name: &str) -> Option<Rc<[u8]>> {
        let path = std::fs::read_link(self.proc(name)).ok()?.into_os_string().into_vec();
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
        (path.first() == Some(&b'/')).then(|| path.into())
    }

    /// The path of an open descriptor, if that still is the file of this inode.
    pub(crate) fn path_of(&self, fd: i32, inode: u64) -> Option<Rc<[u8]>> {
        let link = format!("fd/{fd}");
        let path = self.link(&link)?;
        let file = std::fs::metadata(self.proc(&link)).ok()?;
        (file.ino() == inode).then_some(path)
    }

    /// A path from the root on; `directory` is where a relative one begins.
    pub(crate) fn whole(&self, directory: i32, path: &[u8], asks_proc: bool) -> Option<Rc<[u8]>> {
        if path.first() == Some(&b'/') {
            return Some(tidied(path));
        }
        let from = match directory {
            libc::AT_FDCWD => self.cwd.clone()?,
            _ if asks_proc => self.link(&format!("fd/{directory}"))?,
            _ => return None,
        };
        Some(tidied(&[&from, &b"/"[..], path].concat()))
    }
}

/// The processes of this machine that belong to a job, by the environment that they began with: its scheduler's name, or that of its run. Of
/// one user alone, if one is named.
pub fn processes_of_job(job: &str, user: Option<u32>) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let process = Process::new(*pid, 0);
            if user.is_some() && process.acts_as() != user {
                return false;
            }
            let environment = process.read("environ", LONGEST_ENVIRONMENT);
            let variable = |name: &[u8]| value_in(&environment, name);
            job_of(variable).is_some_and(|(_, of)| of == job.as_bytes())
                || variable(b"IOTIDE_RUN") == Some(job.as_bytes())
        })
        .collect()
}

/// The value of a variable in an environment as `/proc` shows it; `None` if it is empty.
fn value_in<'a>(environment: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="));
    value.filter(|value| !value.is_empty())
}

/// The working directory of this process.
pub(crate) fn own_directory() -> Option<Rc<[u8]>> {
    std::env::current_dir().ok().map(|path| path.into_os_string().into_vec().into())
}

/// A path without detours that change nothing. `..` stays: behind a link it leads elsewhere.
fn tidied(path: &[u8]) -> Rc<[u8]> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let mut whole = Vec::with_capacity(path.len());
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    whole.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_what_a_link_could_change() {
        for (path, whole) in [("/a//b/./c", "/a/b/c"), ("/", "/"), ("/a/../b", "/a/../b"), ("//a/", "/a")] {
            assert_eq!(&*tidied(path.as_bytes()), whole.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_relative_path_begins_where_its_process_is() {
        let mut process = Process::new(1, 0);
        assert_eq!(process.whole(libc::AT_FDCWD, b"x", false), None);
        process.cwd = Some(b"/scratch"[..].into());
        assert_eq!(process.whole(libc::AT_FDCWD, b"./x", false).as_deref(), Some(&b"/scratch/x"[..]));
        assert_eq!(process.whole(5, b"/y", false).as_deref(), Some(&b"/y"[..]));
    }
}
