//! CephFS with one server of each kind, objects in memory, reached by `ceph-fuse`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Janitor, folder, has_servers, is_mounted, succeeds, until};
use crate::util::Dir;

/// Servers and clients leave their numbers in files; one that is used by another program by now is left alone.
const CLEANING: &str = "umount -l \"$1/m\"; for try in 1 2 3; do for file in \"$1\"/run/*.pid; do read -r pid <\"$file\"; \
    grep -q \"$1\" \"/proc/$pid/cmdline\" && kill -9 \"$pid\"; done; sleep 0.1; done; rm -rf --one-file-system \"$1\"";

/// A cluster, until this is dropped.
pub(crate) struct Ceph {
    _janitor: Janitor,
    dir: Dir,
}

impl Ceph {
    /// Starts the servers and mounts the file system; `None`, said aloud, where that cannot be.
    pub(crate) fn start() -> Option<Self> {
        let programs = ["ceph", "ceph-mon", "monmaptool", "ceph-osd", "ceph-mds", "ceph-mgr", "ceph-fuse"];
        has_servers(&programs).then_some(())?;
        let dir = Dir::new();
        let janitor = Janitor::hire(CLEANING, dir.path(), "");
        for name in ["mon", "osd0", "mds", "mgr", "run", "m"] {
            folder(dir.path(), name);
        }
        folder(dir.path(), "");
        let fsid = uuid();
        let port = iotide_testkit::port();
        dir.write("ceph.conf", configuration(dir.path(), &fsid, port));
        let ceph = Self { _janitor: janitor, dir };

        let place = format!("[v2:127.0.0.1:{port}]");
        ceph.run("monmaptool", &["--create", "--addv", "a", &place, "--fsid", &fsid, "monmap"]);
        ceph.run("ceph-mon", &["--mkfs", "-i", "a", "--monmap", "monmap"]);
        ceph.run("ceph-mon", &["-i", "a"]);
        let osd = uuid();
        ceph.run("ceph", &["osd", "create", &osd]);
        ceph.run("ceph-osd", &["-i", "0", "--mkfs", "--osd-uuid", &osd]);
        ceph.run("ceph", &["osd", "crush", "add", "osd.0", "1.0", "root=default", "host=here"]);
        ceph.run("ceph-osd", &["-i", "0"]);
        for pool in ["meta", "data"] {
            ceph.run("ceph", &["osd", "pool", "create", pool, "8"]);
        }
        ceph.run("ceph", &["fs", "new", "files", "meta", "data"]);
        ceph.run("ceph-mds", &["-i", "a"]);
        // Without one nobody knows how much room there is.
        ceph.run("ceph-mgr", &["-i", "x"]);
        until("the metadata server is active", || ceph.run("ceph", &["mds", "stat"]).contains("up:active"));
        ceph.run("ceph-fuse", &["--id", "admin", "m"]);
        until("the file system is mounted", || is_mounted(&ceph.mounted()));
        let room = || rustix::fs::statvfs(ceph.mounted()).is_ok_and(|stat| stat.f_blocks > 0);
        until("the room is known", room);
        Some(ceph)
    }

    /// Where the file system is mounted.
    pub(crate) fn mounted(&self) -> PathBuf {
        self.dir.path().join("m")
    }

    /// A folder of this test's, outside of the file system.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        folder(self.dir.path(), name)
    }

    /// Sends a signal to the server that has the objects.
    pub(crate) fn signal_osd(&self, signal: &str) {
        let pid = self.dir.read("run/osd.0.pid");
        succeeds(Command::new("kill").args(["-s", signal, pid.trim()]));
    }

    /// The admin socket of the server that has the objects.
    pub(crate) fn osd_socket(&self) -> PathBuf {
        self.dir.path().join("run/osd.0.asok")
    }

    /// Runs one of its programs.
    pub(crate) fn run(&self, program: &str, words: &[&str]) -> String {
        let mut command = Command::new(program);
        // By its whole path, by which whoever cleans up knows the processes.
        command.arg("-c").arg(self.dir.path().join("ceph.conf"));
        succeeds(command.args(words).current_dir(self.dir.path()))
    }
}

/// A new name that no two clusters share.
fn uuid() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

fn configuration(at: &Path, fsid: &str, port: u16) -> String {
    let at = at.display();
    format!(
        "[global]\n\
         fsid = {fsid}\n\
         mon host = v2:127.0.0.1:{port}\n\
         mon data avail crit = 0\n\
         mon data avail warn = 0\n\
         public addr = 127.0.0.1\n\
         auth cluster required = none\n\
         auth service required = none\n\
         auth client required = none\n\
         osd pool default size = 1\n\
         osd pool default min size = 1\n\
         osd crush chooseleaf type = 0\n\
         mon allow pool size one = true\n\
         osd objectstore = memstore\n\
         memstore device bytes = 1073741824\n\
         mgr initial modules =\n\
         run dir = {at}/run\n\
         pid file = {at}/run/$name.pid\n\
         log file = {at}/run/$name.log\n\
         admin socket = {at}/run/$name.asok\n\
         mon data = {at}/mon\n\
         osd data = {at}/osd$id\n\
         mds data = {at}/mds\n\
         mgr data = {at}/mgr\n"
    )
}
