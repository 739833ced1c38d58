//! Files by their inodes, and their paths: as the program named them when it opened them, or as `/proc` shows them while they are open.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use iotide_wire::is_traced;

use crate::event::Ended;
use crate::process::Process;

/// A file of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) device: u32,
    pub(crate) inode: u64,
}

impl Key {
    /// The key of a file by its number and that of its device, which the kernel puts together in another way than it tells programs.
    fn of(file: &Metadata) -> Self {
        let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
        Self { device: major << 20 | minor, inode: file.ino() }
    }
}

/// A file, if its path is known, and whether it is recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) path: Option<Rc<[u8]>>,
    pub(crate) is_wanted: bool,
}

/// The paths that are known.
pub(crate) struct Names {
    include: Vec<u8>,
    exclude: Vec<u8>,
    of_files: HashMap<Key, Option<Rc<[u8]>>>,
    /// Whether a path is recorded.
    wanted: HashMap<Rc<[u8]>, bool>,
}

/// Beyond this many names all are forgotten, and learnt anew.
const MOST_NAMES: usize = 1 << 18;
/// Descriptors of a process that are looked at for a file whose name nobody knows.
const MOST_DESCRIPTORS: usize = 1024;

impl Names {
    pub(crate) fn new(include: Vec<u8>, exclude: Vec<u8>) -> Self {
        let mut names = Self { include, exclude, of_files: HashMap::new(), wanted: HashMap::new() };
        // A program that is started here inherits these, and may be gone before anybody can ask what they are.
        for fd in 0..=2 {
            let link = format!("/proc/self/fd/{fd}");
            if let (Ok(path), Ok(file)) = (std::fs::read_link(&link), std::fs::metadata(&link))
                && file.is_file()
            {
                names.learn(Key::of(&file), Some(path.into_os_string().into_vec().into()));
            }
        }
        names
    }

    /// A file without a name is recorded: nothing says that it is to be left out.
    pub(crate) fn unknown(&self) -> Named {
        Named { path: None, is_wanted: true }
    }

    fn named(&mut self, path: Option<Rc<[u8]>>) -> Named {
        let Some(path) = path else { return self.unknown() };
        if self.wanted.len() > MOST_NAMES {
            self.wanted.clear();
        }
        let Self { include, exclude, wanted, .. } = self;
        let is_wanted = match wanted.get(&path) {
            Some(is_wanted) => *is_wanted,
            None => {
                let is_wanted = is_traced(&path, include, exclude);
                wanted.insert(path.clone(), is_wanted);
                is_wanted
            }
        };
        Named { path: Some(path), is_wanted }
    }

    fn learn(&mut self, key: Key, path: Option<Rc<[u8]>>) {
        if self.of_files.len() > MOST_NAMES {
            self.of_files.clear();
        }
        self.of_files.insert(key, path);
    }

    /// Learns the files that a process has open, while it can be asked.
    pub(crate) fn open_already(&mut self, process: &mut Process) {
        for fd in descriptors(process) {
            let link = format!("/proc/{}/fd/{fd}", process.id.pid);
            let Ok(file) = std::fs::metadata(&link) else { continue };
            if let Some(path) = process.path_of(fd, file.ino()).filter(|_| file.is_file()) {
                process.files.insert(fd, (Key::of(&file), path.clone()));
                self.learn(Key::of(&file), Some(path));
            }
        }
    }

    /// A file that was just opened.
    pub(crate) fn opened(
        &mut self,
        process: &mut Process,
        ended: &Ended<'_>,
        key: Key,
        asks_proc: bool,
    ) -> Named {
        let fd = ended.result as i32;
        let given = ended.path.and_then(|path| process.whole(ended.arguments[0] as i32, path, asks_proc));
        let before = self.of_files.get(&key).cloned().flatten();
        let path = match (&given, before) {
            // Opened again by the same name: nothing need be asked.
            (Some(given), Some(before)) if *given == before => Some(before),
            _ if asks_proc => process.path_of(fd, key.inode).or(given),
            _ => given,
        };
        if let Some(path) = &path {
            process.files.insert(fd, (key, path.clone()));
        }
        self.learn(key, path.clone());
        self.named(path)
    }

    /// The file of a descriptor, or of a request.
    pub(crate) fn of_file(
        &mut self,
        process: &mut Process,
        fd: i32,
        key: Key,
        has_descriptor: bool,
        asks_proc: bool,
    ) -> Named {
        let of_descriptor = process.files.get(&fd).filter(|(there, _)| *there == key && has_descriptor);
        let path = match (of_descriptor, self.of_files.get(&key)) {
            (Some((_, path)), _) => Some(path.clone()),
            (None, Some(path)) => path.clone(),
            (None, None) => {
                let direct = (asks_proc && has_descriptor).then(|| process.path_of(fd, key.inode)).flatten();
                let path = direct.or_else(|| asks_proc.then(|| search(process, key)).flatten());
                self.learn(key, path.clone());
                path
            }
        };
        self.named(path)
    }

    /// The file of a path that the program named.
    pub(crate) fn of_path(&mut self, process: &Process, ended: &Ended<'_>, asks_proc: bool) -> Named {
        let directory = ended.arguments[0] as i32;
        let path = match ended.path {
            // About the directory's own descriptor.
            Some(b"") => match process.files.get(&directory) {
                Some((_, path)) => Some(path.clone()),
                None if asks_proc => process.link(&format!("fd/{directory}")),
                None => None,
            },
            Some(path) => process.whole(directory, path, asks_proc),
            None => None,
        };
        match path {
            Some(path) => self.named(Some(path)),
            // What is no file (a pipe, a directory that is gone) is left out.
            None => Named::default(),
        }
    }
}

/// Looks for a file among those that a process has open.
fn search(process: &Process, key: Key) -> Option<Rc<[u8]>> {
    descriptors(process).into_iter().find_map(|fd| process.path_of(fd, key.inode))
}

fn descriptors(process: &Process) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", process.id.pid)).into_iter().flatten().flatten();
    entries.take(MOST_DESCRIPTORS).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
