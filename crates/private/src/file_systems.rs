//! Which file system a path is on, and whether other machines write to it too.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// A mounted file system.
///
/// Told by the table of mounts: `statfs` has one number for all file systems that programs serve (FUSE).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its kind as the table of mounts has it: `ext4`, `nfs4`, `fuse.glusterfs`. MooseFS is `fuse` with a source `mfs#…`.
    pub kind: String,
    /// Source of the mount: a device, a server's export, a volume.
    pub source: String,
    /// Other machines can write to it, and the kernel of this one learns nothing of that: leases, watches and locks may be local.
    pub is_shared: bool,
}

/// File systems of the kernel that several machines have mounted at once.
const SHARED: &[&str] = &[
    "9p",
    "afs",
    "beegfs",
    "beegfs_nodev",
    "ceph",
    "cifs",
    "coda",
    "fhgfs",
    "gfs2",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "panfs",
    "pvfs2",
    "smb2",
    "smb3",
    "smbfs",
    "vboxsf",
    "virtiofs",
    "wekafs",
];

/// File systems by programs (`fuse.…`) that serve what this machine has. Any other program may have it from elsewhere.
const PROGRAMS_OF_ONE_MACHINE: &[&str] = &[
    "bindfs",
    "encfs",
    "exfat",
    "fuse-overlayfs",
    "gocryptfs",
    "lazyfs",
    "mergerfs",
    "ntfs-3g",
    "squashfuse",
    "squashfuse_ll",
    "unionfs",
];

/// Mounts of `iotide mount` that lie one on the other; with more, nobody knows what is below.
const MOST_BELOW: usize = 8;

impl FileSystem {
    /// Returns the file system that `path` is on. Links are followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::of_descriptor(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Returns the file system of what a descriptor stands for.
    pub fn of_descriptor(fd: impl AsFd) -> io::Result<Self> {
        Self::find(fd, MOST_BELOW)
    }

    fn find(fd: impl AsFd, most_below: usize) -> io::Result<Self> {
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "not in /proc/self/mountinfo");
        let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
        let table = std::fs::read("/proc/self/mountinfo")?;
        let id = id.ok_or_else(unknown)?;
        Self::in_table(&table, id, &|path| {
            let below = most_below.checked_sub(1)?;
            let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
            Some(Self::find(fd, below).ok()?.is_shared)
        })
        .ok_or_else(unknown)
    }

    /// Returns the mount `id` of a table. `elsewhere` says whether a path is shared.
    fn in_table(table: &[u8], id: u32, elsewhere: &dyn Fn(&Path) -> Option<bool>) -> Option<Self> {
        let mount = Mount::in_table(table, id)?;
        let is_shared = match mount.shows() {
            // In its own place: what is below is what the mount point is in.
            Some(shown) if shown == mount.point && mount.parent != id => {
                Self::in_table(table, mount.parent, elsewhere).is_none_or(|below| below.is_shared)
            }
            Some(shown) => elsewhere(&shown).unwrap_or(true),
            None => mount.is_shared(),
        };
        Some(Self { kind: mount.kind, source: mount.source, is_shared })
    }
}

/// Returns the mount points of this machine. Those that a user has made by FUSE, under any name, are left out.
pub fn machine_mounts() -> BTreeSet<Vec<u8>> {
    mounts_in(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}

fn mounts_in(table: &[u8]) -> BTreeSet<Vec<u8>> {
    let is_root = |option: &[u8]| option.strip_prefix(b"user_id=").is_none_or(|user| user == b"0");
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let point = unescaped(fields.nth(4)?);
        let options = fields.skip_while(|field| *field != b"-").nth(3).unwrap_or_default();
        options.split(|&byte| byte == b',').all(is_root).then_some(point)
    };
    table.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// A line of `/proc/self/mountinfo`, as in proc(5).
struct Mount {
    parent: u32,
    point: PathBuf,
    kind: String,
    source: String,
}

impl Mount {
    fn in_table(table: &[u8], id: u32) -> Option<Self> {
        let mut lines = table.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b' '));
        lines.find_map(|mut fields| {
            (number(fields.next()?)? == id).then_some(())?;
            let parent = number(fields.next()?)?;
            let point = PathBuf::from(OsString::from_vec(unescaped(fields.nth(2)?)));
            let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
            let mut text = || Some(String::from_utf8_lossy(&unescaped(behind.next()?)).into_owned());
            Some(Self { parent, point, kind: text()?, source: text()? })
        })
    }

    /// The directory that this shows, if it is a mount of ours.
    fn shows(&self) -> Option<PathBuf> {
        self.kind
            .starts_with("fuse")
            .then(|| self.source.strip_prefix("iotide:").map(PathBuf::from))
            .flatten()
    }

    fn is_shared(&self) -> bool {
        match self.kind.split_once('.') {
            Some(("fuse", program)) => !PROGRAMS_OF_ONE_MACHINE.contains(&program),
            // Of a program that does not say its name.
            None if self.kind == "fuse" => true,
            _ => SHARED.contains(&self.kind.as_str()),
        }
    }
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Puts blanks back, which the table writes by their number (`\040`).
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        let digits =
            behind.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /home rw shared:2 master:7 - nfs4 fs:/home rw,vers=4.2
23 21 0:30 / /gl rw - fuse.glusterfs 10.0.0.1:/vol rw,user_id=0
24 21 0:31 / /moose rw - fuse mfs#master:9421 rw
25 21 0:32 / /b rw - fuse.bindfs /home rw
26 21 0:33 / /with\\040blank rw - fuse iotide:/home rw
27 22 0:34 / /home rw - fuse.iotide iotide:/home rw
28 21 0:35 / /data rw - fuse.iotide iotide:/data rw
29 21 8:2 / /disk rw - fuseblk /dev/sdb1 rw
30 21 0:36 / /who rw - fuse who rw
31 21 0:37 / /comma rw - fuse iotide rw
";

    fn shared(id: u32) -> bool {
        let at_home = |path: &Path| Some(path == Path::new("/home"));
        FileSystem::in_table(TABLE.as_bytes(), id, &at_home).unwrap().is_shared
    }

    #[test]
    fn network_file_systems_are_shared_and_disks_are_not() {
        let shared: Vec<u32> = (21..=31).filter(|&id| shared(id)).collect();
        // 27 is a mount of ours over NFS in its own place, 28 one over the root's ext4.
        assert_eq!(shared, [22, 23, 24, 26, 27, 30, 31]);
        assert_eq!(FileSystem::in_table(TABLE.as_bytes(), 99, &|_| None), None);
    }

    #[test]
    fn a_mount_of_ours_over_what_nobody_knows_may_be_shared() {
        assert!(FileSystem::in_table(TABLE.as_bytes(), 26, &|_| None).unwrap().is_shared);
    }

    #[test]
    fn kind_and_source_are_those_of_the_table() {
        let found = FileSystem::in_table(TABLE.as_bytes(), 24, &|_| None).unwrap();
        assert_eq!((&*found.kind, &*found.source), ("fuse", "mfs#master:9421"));
        assert_eq!(Mount::in_table(TABLE.as_bytes(), 26).unwrap().point, Path::new("/with blank"));
        assert_eq!(unescaped(b"a\\040b\\134\\9x\\"), b"a b\\\\9x\\");
    }

    #[test]
    fn this_system_is_asked() {
        let proc = FileSystem::of(Path::new("/proc/self/status")).unwrap();
        assert_eq!((&*proc.kind, proc.is_shared), ("proc", false));
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(FileSystem::of_descriptor(&file).unwrap(), proc);
        assert!(FileSystem::of(Path::new("/not/there")).is_err());
    }

    #[test]
    fn mounts_of_users_are_not_those_of_the_machine() {
        let table = b"36 35 98:0 / /scratch\\040x rw shared:1 master:2 - ext4 /dev/sda rw,errors=continue\n\
            37 35 0:44 / /home/u/forged rw - fuse.sshfs x: rw,user_id=1000,group_id=1000\n\
            38 35 0:45 / /gluster rw - fuse.glusterfs x: rw,user_id=0,group_id=0\n\nrubbish\n";
        let mounts: Vec<Vec<u8>> = mounts_in(table).into_iter().collect();
        assert_eq!(mounts, [&b"/gluster"[..], b"/scratch x"]);
        assert!(machine_mounts().contains(&b"/"[..]));
    }
}
