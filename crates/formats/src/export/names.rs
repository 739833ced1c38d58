//! Names as keyed hashes, so that a log can be shared without them.
//!
//! A path is hashed folder by folder: files of one folder stay in one folder, and below one mount point. A hash is letters, which stand
//! for the name without its numbers, and digits, which stand for its numbers: `rank.17` and `rank.18` differ in digits alone, before and
//! after. Names that have a meaning of their own (`<STDOUT>`, `/proc`, `libm.so`, `site-packages`) keep the part that means something, because
//! rules on I/O issues go by it. So an analysis has the same result, but for the names.

use std::collections::HashMap;

use iotide_trace::{AccessFacts, Loss, Mount, TraceInfo};
use iotide_wire::hmac_sha256;

use crate::{calls, census::Census};

mod words;

/// A kind of names that a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NameKind {
    /// Files, folders and mount points.
    Paths,
    /// The user.
    Users,
    /// The job's id.
    Jobs,
    /// The command: program and arguments.
    Programs,
    /// Functions and categories that are not those of a library for I/O.
    Functions,
    /// When the job began. It is left out rather than hashed.
    Start,
}

impl NameKind {
    /// All kinds, in the order of the documentation.
    pub const ALL: &[Self] =
        &[Self::Paths, Self::Users, Self::Jobs, Self::Programs, Self::Functions, Self::Start];

    /// Kinds that are names. When a job began is not one, and server logs are joined by it.
    pub const NAMES: &[Self] = &[Self::Paths, Self::Users, Self::Jobs, Self::Programs, Self::Functions];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::Users => "users",
            Self::Jobs => "jobs",
            Self::Programs => "programs",
            Self::Functions => "functions",
            Self::Start => "start",
        }
    }

    /// The kind of that name, as [`NameKind::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// A part of paths that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeptPart {
    /// Mount points, and so the beginning of each path below one.
    Mounts,
    /// The end of a file's name behind its last dot: at most eight letters and digits.
    Suffixes,
}

impl KeptPart {
    /// All parts, in the order of the documentation.
    pub const ALL: &[Self] = &[Self::Mounts, Self::Suffixes];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mounts => "mounts",
            Self::Suffixes => "suffixes",
        }
    }

    /// The part of that name, as [`KeptPart::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|part| part.name() == name)
    }
}

/// Replaces names by hashes that nobody can make or try out without the key. The same key gives the same hash of a name everywhere.
///
/// The text of a loss may quote any name. Whatever is hashed, of such a text only the words of iotide's own sentences are left.
pub struct NameHasher {
    key: [u8; 32],
    kinds: Vec<NameKind>,
    kept: Vec<KeptPart>,
    /// Hashes of names that came before: a folder is in the path of many files.
    known: HashMap<String, String>,
}

/// Paths of a run have few folders in common beyond these.
const MOST_KNOWN: usize = 1 << 18;

/// Streams that have no path.
const STREAMS: [&str; 3] = ["<STDIN>", "<STDOUT>", "<STDERR>"];
/// Beginnings of names that the kernel gives.
const NO_PATHS: [&str; 3] = ["socket:", "pipe:", "anon_inode:"];
/// Folders of the kernel.
const ROOTS: [&str; 3] = ["dev", "proc", "sys"];
/// Folders that Python imports from.
const PYTHON_FOLDERS: [&str; 3] = ["site-packages", "dist-packages", "__pycache__"];
/// Ends of names by which rules know HDF5, netCDF and what Python imports; libraries have versions behind theirs.
const SUFFIXES: [&str; 11] =
    [".so", ".h5", ".hdf5", ".nc", ".nc4", ".py", ".pyc", ".pyi", ".pth", ".dist-info", ".egg-info"];
/// Programs whose first argument is the name of what runs.
const INTERPRETERS: [&str; 7] = ["python", "perl", "Rscript", "julia", "ruby", "bash", "sh"];
/// Kinds of file systems, as `/proc/mounts` has them. Another may have the name of a site or of a person.
const FILE_SYSTEMS: [&str; 33] = [
    "9p",
    "autofs",
    "bcachefs",
    "beegfs",
    "beegfs_nodev",
    "btrfs",
    "ceph",
    "cifs",
    "dvs",
    "ext2",
    "ext3",
    "ext4",
    "fuse",
    "fuse.ceph",
    "fuse.gekkofs",
    "fuse.glusterfs",
    "fuse.iotide",
    "fuse.juicefs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs3",
    "nfs4",
    "orangefs",
    "overlay",
    "panfs",
    "pvfs2",
    "ramfs",
    "squashfs",
    "tmpfs",
    "wekafs",
    "xfs",
    "zfs",
];
/// Categories of tracers, and functions that are no I/O and that every program has.
const CATEGORIES: [&str; 8] = ["POSIX", "STDIO", "MPI", "MPIIO", "MPI-IO", "HDF5", "NETCDF", "PNETCDF"];
const FUNCTIONS: [&str; 12] = [
    "MPI_Allreduce",
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Finalize",
    "MPI_Init",
    "MPI_Wait",
    "MPI_Waitall",
    "dup",
    "dup2",
    "fork",
    "mmap",
    "munmap",
];

impl NameHasher {
    /// Returns a hasher of names of these kinds; `kept` says what is left of paths.
    pub fn new(key: [u8; 32], kinds: &[NameKind], kept: &[KeptPart]) -> Self {
        Self { key, kinds: kinds.to_vec(), kept: kept.to_vec(), known: HashMap::new() }
    }

    /// Replaces the names in facts about a run.
    pub fn info(&mut self, info: &mut TraceInfo) {
        let mut mounts = Vec::new();
        if self.kept.contains(&KeptPart::Mounts) {
            mounts.extend(info.job.mounts.iter().map(|mount| mount.path.clone()));
        }
        let job = &mut info.job;
        if self.hashes(NameKind::Paths) {
            info.files.iter_mut().for_each(|path| *path = self.path(path, &mounts));
            for Mount { kind, path } in &mut job.mounts {
                *path = self.path(path, &mounts);
                if !FILE_SYSTEMS.contains(&kind.as_str()) {
                    *kind = self.hash(kind);
                }
            }
        }
        if self.hashes(NameKind::Programs) {
            job.exe = job.exe.take().map(|command| self.command(&command, &mounts));
        }
        for (kind, fact) in [(NameKind::Users, &mut job.user), (NameKind::Jobs, &mut job.job_id)] {
            if self.hashes(kind) {
                *fact = fact.take().map(|name| self.hash(&name));
            }
        }
        if self.hashes(NameKind::Start) {
            job.start_time_unix_s = None;
        }
    }

    /// Returns a loss whose text names nothing.
    pub fn loss(&self, loss: Loss) -> Loss {
        Loss { what: words::without_names(&loss.what), ..loss }
    }

    /// Replaces the names of functions in facts about a layer.
    pub fn access_facts(&mut self, facts: &mut AccessFacts) {
        if self.hashes(NameKind::Functions) {
            facts.functions.iter_mut().for_each(|function| function.name = self.function(&function.name));
            facts.functions.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }

    /// Replaces the names of functions and categories in the counts of a tracer.
    pub fn census(&mut self, census: &mut Census) {
        if self.hashes(NameKind::Functions) {
            let (functions, categories) =
                (std::mem::take(&mut census.functions), std::mem::take(&mut census.categories));
            census.functions = functions.into_iter().map(|(name, n)| (self.function(&name), n)).collect();
            census.categories = (categories.into_iter())
                .map(|(name, n)| {
                    (if CATEGORIES.contains(&name.as_str()) { name } else { self.hash(&name) }, n)
                })
                .collect();
        }
    }

    fn hashes(&self, kind: NameKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Returns the hash of a name.
    fn hash(&mut self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        if let Some(hash) = self.known.get(name) {
            return hash.clone();
        }
        let part = |what: &[u8], text: &str| {
            let bytes = hmac_sha256(&self.key, &[what, text.as_bytes()]);
            bytes.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let pattern = without_numbers(name);
        let mut hash = letters(part(b"iotide name 1 letters:", &pattern));
        if name.contains(|letter: char| letter.is_ascii_digit()) {
            // 16 digits: of a million names that differ in their numbers alone, the odds are 20 000 to 1 that no two become one.
            hash += &format!("{:016}", part(b"iotide name 1 digits:", name) % 10_u64.pow(16));
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(name.to_owned(), hash.clone());
        hash
    }

    /// Returns a path whose folders are hashed one by one; what it begins with in `mounts` is kept.
    fn path(&mut self, path: &str, mounts: &[String]) -> String {
        if STREAMS.contains(&path) {
            return path.to_owned();
        }
        if let Some(name) = path.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            return format!("<{}>", self.hash(name));
        }
        for kind in NO_PATHS {
            if let Some(name) = path.strip_prefix(kind) {
                return format!("{kind}{}", self.hash(name));
            }
        }
        let is_below = |mount: &&str| {
            path.strip_prefix(*mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mounts = mounts.iter().map(|mount| mount.trim_end_matches('/'));
        let (mount, rest) = path.split_at(mounts.filter(is_below).map(str::len).max().unwrap_or(0));
        let parts: Vec<&str> = rest.split('/').collect();
        let is_whole = mount.is_empty() && parts.len() > 1 && parts[0].is_empty();
        let hashed: Vec<String> = (parts.iter().enumerate())
            .map(|(at, part)| {
                let is_of_kernel = is_whole
                    && (at == 1 && ROOTS.contains(part) || at == 2 && parts[1] == "dev" && *part == "shm");
                let around = (at.checked_sub(1).map(|before| parts[before]), parts.get(at + 1).copied());
                if is_of_kernel { (*part).to_owned() } else { self.part(part, around) }
            })
            .collect();
        mount.to_owned() + &hashed.join("/")
    }

    /// Returns the hash of a folder or file, between the part before it and the one after it.
    fn part(&mut self, part: &str, (before, after): (Option<&str>, Option<&str>)) -> String {
        let leads_to_python = part == "lib" && after.is_some_and(|after| after.starts_with("python"));
        if matches!(part, "." | "..") || leads_to_python || after.is_none() && part == "pyvenv.cfg" {
            return part.to_owned();
        }
        if let Some(version) = part.strip_prefix("python").filter(|_| before == Some("lib")) {
            return if is_version(version) {
                part.to_owned()
            } else {
                format!("python{}", self.hash(version))
            };
        }
        for begin in PYTHON_FOLDERS.into_iter().chain(["ompi."]) {
            if let Some(rest) = part.strip_prefix(begin) {
                return format!("{begin}{}", self.hash(rest));
            }
        }
        if after.is_some() {
            return self.hash(part);
        }
        if part.contains(".locktest.") {
            return format!("{}.locktest.", self.hash(part));
        }
        if part.contains("_cid-") && part.ends_with(".sm") {
            return format!("{}_cid-.sm", self.hash(part));
        }
        let (name, suffix) = part.split_at(part.len() - self.suffix(part).len());
        self.hash(name) + suffix
    }

    /// Returns the end of a file's name that is kept.
    fn suffix<'a>(&self, name: &'a str) -> &'a str {
        if let Some((library, version)) = name.split_once(".so.")
            && is_version(version)
        {
            return &name[library.len()..];
        }
        if let Some(end) = SUFFIXES.iter().find(|end| name.ends_with(**end)) {
            return &name[name.len() - end.len()..];
        }
        let end = name.rfind('.').filter(|at| *at > 0).map_or("", |at| &name[at..]);
        let is_short =
            (2..=9).contains(&end.len()) && end[1..].bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_kept = self.kept.contains(&KeptPart::Suffixes) && is_short;
        if is_kept { end } else { "" }
    }

    /// Returns a command whose words are hashed one by one; of options the dashes are left, and an interpreter keeps its name.
    fn command(&mut self, command: &str, mounts: &[String]) -> String {
        let words = command.split_ascii_whitespace().enumerate().map(|(at, word)| {
            let (folder, name) = word.split_at(word.rfind('/').map_or(0, |slash| slash + 1));
            if at == 0 && is_interpreter(name) {
                return self.path(folder, mounts) + name;
            }
            let option = word.trim_start_matches('-');
            match word.len() - option.len() {
                0 => self.path(word, mounts),
                n_dashes => "-".repeat(n_dashes) + &self.hash(option),
            }
        });
        words.collect::<Vec<String>>().join(" ")
    }

    fn function(&mut self, name: &str) -> String {
        let is_known = calls::kind_of(name).is_some() || FUNCTIONS.contains(&name);
        if is_known { name.to_owned() } else { self.hash(name) }
    }
}

/// A name with one mark in the place of each number.
fn without_numbers(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    let mut was_digit = false;
    for letter in name.chars() {
        let is_digit = letter.is_ascii_digit();
        match (is_digit, was_digit) {
            (true, true) => {}
            (true, false) => pattern.push('#'),
            (false, _) => pattern.push(letter),
        }
        was_digit = is_digit;
    }
    pattern
}

/// A number as 13 letters, which hold 61 bits.
fn letters(mut number: u64) -> String {
    let mut text = String::with_capacity(13);
    for _ in 0..13 {
        text.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    text
}

fn is_version(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.iter().any(|known| name.strip_prefix(known).is_some_and(is_version))
}

/// Never the key.
impl std::fmt::Debug for NameHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameHasher")
            .field("kinds", &self.kinds)
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher(key: u8, kept: &[KeptPart]) -> NameHasher {
        NameHasher::new([key; 32], NameKind::NAMES, kept)
    }

    #[test]
    fn the_tree_of_folders_survives() {
        let mut names = hasher(1, &[]);
        let [one, two, other] = ["/scratch/kuhn/a/out.7", "/scratch/kuhn/b/out.8", "/home/kuhn/out.7"]
            .map(|path| names.path(path, &[]));
        let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let (one, two, other) = (parts(&one), parts(&two), parts(&other));
        assert_eq!(one[..3], two[..3]);
        assert_ne!(one[3], two[3]);
        assert_eq!((&one[2], &one[4]), (&other[2], &other[3]), "the same name has the same hash");
        assert_ne!(one[1], other[1]);
        let letters = |part: &str| part.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        assert_eq!(letters(&one[4]), letters(&two[4]), "names that differ in numbers differ in digits");
        assert_ne!(one[4], two[4]);
        assert_ne!(hasher(2, &[]).path("/scratch", &[]), names.path("/scratch", &[]), "another key");
    }

    #[test]
    fn what_has_a_meaning_keeps_it_and_what_names_does_not() {
        let mut names = hasher(1, &[]);
        for (path, begin, end) in [
            ("<STDOUT>", "<STDOUT>", ""),
            ("<kuhn>", "<", ">"),
            ("socket:[kuhn]", "socket:", ""),
            ("/proc/kuhn/maps", "/proc/", ""),
            ("/dev/shm/kuhn", "/dev/shm/", ""),
            ("/kuhn/libkuhn.so.6.2", "/", ".so.6.2"),
            ("/kuhn/lib/python3.11/site-packages/kuhn.py", "/", ".py"),
            ("/kuhn/kuhn.h5", "/", ".h5"),
            ("/tmp/ompi.kuhn/kuhn_cid-4.sm", "/", "_cid-.sm"),
            ("kuhn.locktest.kuhn", "", ".locktest."),
            ("../kuhn", "../", ""),
            ("/kuhn/x.so.kuhn", "/", ""),
            ("/kuhn/x.kuhn", "/", ""),
        ] {
            let hashed = names.path(path, &[]);
            assert!(hashed.starts_with(begin) && hashed.ends_with(end), "{path}: {hashed}");
            assert!(!hashed.contains("kuhn"), "{path}: {hashed}");
        }
        assert!(names.path("/a/lib/python3.11/x", &[]).contains("/lib/python3.11/"));
    }

    #[test]
    fn what_is_kept_is_kept_where_it_was_asked_for() {
        let mut names = hasher(1, &[KeptPart::Suffixes]);
        assert!(names.path("/kuhn/x.json", &[]).ends_with(".json"));
        assert!(!names.path("/kuhn/x.of_professor_kuhn", &[]).contains("kuhn"));
        assert!(!names.path("/kuhn/.kuhn", &[]).contains("kuhn"), "no suffix without a name");
        let mounts = ["/".to_owned(), "/lustre/".to_owned(), "/lustre/work".to_owned()];
        let hashed = names.path("/lustre/work/kuhn", &mounts);
        assert!(hashed.starts_with("/lustre/work/") && !hashed.contains("kuhn"), "{hashed}");
        assert!(!names.path("/lustre/workers", &mounts).contains("work"));
    }

    #[test]
    fn a_command_keeps_its_shape() {
        let mut names = hasher(1, &[]);
        let hashed = names.command("/opt/kuhn/bin/python3.11 -u --kuhn=1 /home/kuhn/train.py kuhn", &[]);
        let words: Vec<&str> = hashed.split(' ').collect();
        assert_eq!(words.len(), 5);
        assert!(words[0].ends_with("/python3.11") && words[1].starts_with('-') && words[2].starts_with("--"));
        assert!(words[3].ends_with(".py") && !hashed.contains("kuhn"), "{hashed}");
        assert_eq!(words[4], names.hash("kuhn"));
        assert!(names.known.values().all(|hash| hash.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    }

    #[test]
    fn many_names_have_as_many_hashes() {
        let mut names = hasher(1, &[]);
        let hashes: std::collections::HashSet<String> =
            (0..100_000).map(|i| names.path(&format!("rank.{i}"), &[])).collect();
        assert_eq!(hashes.len(), 100_000);
    }
}
