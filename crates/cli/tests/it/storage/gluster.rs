//! GlusterFS in a network namespace of its own: it refuses bricks on a loopback address.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Janitor, folder, has_servers, is_mounted, succeeds, until};
use crate::util::Dir;

/// The one address in the namespace. Nobody else sees it.
const ADDRESS: &str = "10.91.0.1";

/// Servers and clients are all processes of the namespace; mounts are those below the folder. `$2` is the namespace.
const CLEANING: &str = "grep \" $1/\" /proc/self/mounts | cut -d ' ' -f 2 | while read -r at; do umount -l \"$at\"; done; \
    for try in 1 2 3 4 5; do for pid in $(ip netns pids \"$2\"); do kill -9 \"$pid\"; done; sleep 0.1; done; \
    ip netns del \"$2\"; rm -rf --one-file-system \"$1\" /var/lib/glusterd/stats/*\"$2\"*";

/// A server of volumes, until this is dropped.
pub(crate) struct Gluster {
    namespace: String,
    _janitor: Janitor,
    dir: Dir,
}

impl Gluster {
    /// Starts the server; `None`, said aloud, where that cannot be.
    pub(crate) fn start() -> Option<Self> {
        has_servers(&["glusterd", "gluster", "mount.glusterfs", "ip", "nsenter"]).then_some(())?;
        let dir = Dir::new();
        // In the name of every brick, so that its dumps are known as this test's.
        let namespace = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let janitor = Janitor::hire(CLEANING, dir.path(), &namespace);
        succeeds(Command::new("ip").args(["netns", "add", &namespace]));
        succeeds(Command::new("ip").args(["-n", &namespace, "link", "set", "lo", "up"]));
        let address = format!("{ADDRESS}/32");
        succeeds(Command::new("ip").args(["-n", &namespace, "addr", "add", &address, "dev", "lo"]));
        for name in ["work", "run", "log", "bricks", "m"] {
            folder(dir.path(), name);
        }
        folder(dir.path(), "");
        let at = dir.path().display();
        dir.write(
            "glusterd.vol",
            format!(
                "volume management\n type mgmt/glusterd\n option working-directory {at}/work\n \
                 option run-directory {at}/run\n option glusterd-sockfile {at}/run/socket\n \
                 option transport-type socket\n option transport.socket.listen-port 24007\n \
                 option ping-timeout 0\nend-volume\n"
            ),
        );
        let gluster = Self { namespace, _janitor: janitor, dir };
        let mut server = gluster.inside("glusterd");
        server.args(["-f", "glusterd.vol", "-l", "log/glusterd.log", "-p", "run/glusterd.pid"]);
        succeeds(&mut server);
        until("glusterd answers", || gluster.command(&["volume", "list"]).output().unwrap().status.success());
        Some(gluster)
    }

    /// A name that nobody else has, for what lies outside of this test's folder.
    pub(crate) fn name(&self) -> &str {
        &self.namespace
    }

    /// A folder of this test's, outside of all volumes.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        folder(self.dir.path(), name)
    }

    /// Makes a volume of so many bricks and starts it. `layout` is empty (files are spread over bricks) or `replica N`.
    pub(crate) fn volume(&self, name: &str, layout: &[&str], n_bricks: usize) {
        let bricks: Vec<String> = (1..=n_bricks)
            .map(|n| format!("{ADDRESS}:{}/bricks/{name}{n}", self.dir.path().display()))
            .collect();
        let bricks: Vec<&str> = bricks.iter().map(String::as_str).collect();
        self.tell(&[&["volume", "create", name], layout, &bricks, &["force"]].concat());
        self.tell(&["volume", "start", name]);
    }

    /// Sets an option of a volume.
    pub(crate) fn set(&self, volume: &str, option: &str, value: &str) {
        self.tell(&["volume", "set", volume, option, value]);
    }

    /// Mounts a volume, each time by a client of its own, and returns where.
    pub(crate) fn mount(&self, volume: &str, name: &str, options: &str) -> PathBuf {
        let at = self.folder(&format!("m/{name}"));
        self.mount_at(volume, &at, options);
        at
    }

    fn mount_at(&self, volume: &str, at: &Path, options: &str) {
        let log = self.dir.path().join("log").join(at.file_name().unwrap());
        let options = format!("log-file={}{options}", log.display());
        let mut mount = self.inside("mount");
        succeeds(mount.args(["-t", "glusterfs", "-o", &options, &format!("{ADDRESS}:/{volume}")]).arg(at));
        until("the volume is mounted", || is_mounted(at));
    }

    /// Kills the client behind a mount, and mounts the volume again in the same place.
    pub(crate) fn kill_client_and_mount_again(&self, volume: &str, at: &Path, options: &str) {
        let pids = succeeds(Command::new("ip").args(["netns", "pids", &self.namespace]));
        let is_client = |pid: &&str| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == at.as_os_str().as_encoded_bytes())
        };
        let client = pids.split_ascii_whitespace().find(is_client).expect("a client serves the mount");
        succeeds(Command::new("kill").args(["-9", client]));
        until("the client is gone", || rustix::fs::statvfs(at).is_err());
        succeeds(Command::new("umount").arg("-l").arg(at));
        self.mount_at(volume, at, options);
    }

    /// Kills the process of a brick, counted from 1.
    pub(crate) fn kill_brick(&self, volume: &str, n: usize) {
        let folder = self.dir.path().join("run/vols").join(volume);
        let is_it = |name: &str| name.ends_with(&format!("-{volume}{n}.pid"));
        let file = std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .find(|entry| is_it(&entry.file_name().to_string_lossy()))
            .expect("the brick has run");
        let pid = std::fs::read_to_string(file.path()).unwrap();
        succeeds(Command::new("kill").args(["-9", pid.trim()]));
    }

    /// Where a brick, counted from 1, dumps its counters if its volume is set to.
    pub(crate) fn dump_of(&self, volume: &str, n: usize) -> PathBuf {
        let brick = format!("{}/bricks/{volume}{n}", self.dir.path().display()).replace('/', "_");
        PathBuf::from(format!("/var/lib/glusterd/stats/glusterfsd_{brick}.dump"))
    }

    /// Starts the bricks of a volume that do not run, and waits for them.
    pub(crate) fn revive(&self, volume: &str, n_bricks: usize) {
        until("all bricks are back", || {
            self.tell(&["volume", "start", volume, "force"]);
            let status = self.tell(&["volume", "status", volume, "--xml"]);
            let bricks = format!("<path>{}/bricks/", self.dir.path().display());
            status
                .split("<node>")
                .filter(|node| node.contains(&bricks) && node.contains("<status>1<"))
                .count()
                == n_bricks
        });
    }

    /// Asks servers to agree on what was written while some were away, and on what they have no note of: a name may have been begun on one of them
    /// in the moment in which the others went. Those that are not ready yet are asked again.
    pub(crate) fn heal(&self, volume: &str) {
        for what in [&["volume", "heal", volume][..], &["volume", "heal", volume, "full"]] {
            let _ = self.command(what).output();
        }
    }

    /// Runs a command of its administrator.
    pub(crate) fn tell(&self, words: &[&str]) -> String {
        succeeds(&mut self.command(words))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.inside("gluster");
        let socket = format!("--glusterd-sock={}/run/socket", self.dir.path().display());
        command.args(["--mode=script", &socket]).args(words);
        command
    }

    /// A program to be run in the namespace. `ip netns exec` would hide mounts from others.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg(program).current_dir(self.dir.path());
        command
    }
}
