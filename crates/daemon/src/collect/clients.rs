//! What this machine moved to and from network file systems, as their clients count: Lustre (`llite`) and NFS (`mountstats`).
//!
//! These files are answered from memory; no server is asked. They are read on a thread that nobody waits for all the same.

use super::NodeFiles;
use super::proc::text_of;

/// Mounts of one kind beyond this are left out.
const MOST_MOUNTS: usize = 256;
const MOST_BYTES: u64 = 1 << 20;

/// Of each mount: its name, bytes read from servers, bytes written to them.
pub(super) type Mounts = Vec<(String, u64, u64)>;

/// File systems of the Lustre client, by name.
pub fn lustre(files: &NodeFiles) -> Mounts {
    let places = [files.proc.join("fs/lustre/llite"), files.sys.join("kernel/debug/lustre/llite")];
    let mut mounts: Mounts = Vec::new();
    for entry in places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let stats = text_of(&entry.path().join("stats"), MOST_BYTES);
        // `scratch-ffff8803f2a1c000`: the name of the file system, and where the kernel has this mount of it.
        let name = name.rsplit_once('-').map_or(name.as_str(), |(name, _)| name).to_owned();
        let Some((read, written)) = llite(&stats) else { continue };
        if let Some(known) = mounts.iter_mut().find(|(known, ..)| *known == name) {
            (known.1, known.2) = (known.1.saturating_add(read), known.2.saturating_add(written));
        } else if mounts.len() < MOST_MOUNTS {
            mounts.push((name, read, written));
        }
    }
    mounts.sort();
    mounts
}

/// Mounts of NFS, by where they are.
pub fn nfs(files: &NodeFiles) -> Mounts {
    mountstats(&text_of(&files.proc.join("self/mountstats"), MOST_BYTES))
}

/// Sums of `read_bytes` and `write_bytes`: `read_bytes 5 samples [bytes] 4096 1048576 5242880`, in later versions with the sum of squares behind.
/// A counter that was never used is not in the file.
pub(super) fn llite(stats: &str) -> Option<(u64, u64)> {
    stats.lines().find(|line| line.starts_with("snapshot_time"))?;
    let sum = |name: &str| {
        let line = stats.lines().find(|line| line.split_ascii_whitespace().next() == Some(name));
        line.and_then(|line| line.split_ascii_whitespace().nth(6)?.parse().ok()).unwrap_or(0)
    };
    Some((sum("read_bytes"), sum("write_bytes")))
}

/// Bytes that went over the network, the fifth and sixth number behind `bytes:` of each mount.
pub(super) fn mountstats(stats: &str) -> Mounts {
    let mut mounts: Mounts = Vec::new();
    let mut mount = None;
    for line in stats.lines() {
        if let Some(device) = line.strip_prefix("device ") {
            let said =
                device.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype "));
            let of_nfs =
                said.filter(|(_, kind)| ["nfs", "nfs4"].contains(&kind.split(' ').next().unwrap_or(kind)));
            mount = of_nfs.map(|(path, _)| path);
        } else if let Some(numbers) = line.trim_start().strip_prefix("bytes:") {
            let mut numbers = numbers.split_ascii_whitespace().skip(4).map(|text| text.parse::<u64>().ok());
            let both = (numbers.next().flatten(), numbers.next().flatten());
            if let (Some(path), (Some(read), Some(written))) = (mount.take(), both)
                && mounts.len() < MOST_MOUNTS
                // What is mounted over another counts once.
                && mounts.iter().all(|(known, ..)| known != path)
            {
                mounts.push((path.to_owned(), read, written));
            }
        }
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn counters_of_clients_are_read_as_they_are_documented() {
        let dir = FreshDir::new("clients");
        for (mount, stats) in [
            (
                "scratch-ffff8803f2a1c000",
                "snapshot_time             1711111.111 secs.nsecs\nread_bytes                5 samples [bytes] 4096 1048576 5242880\n\
                 write_bytes               10 samples [bytes] 4096 4096 40960 167772160\nopen                      7 samples [regs]\n",
            ),
            ("scratch-ffff880000000001", "snapshot_time 1 secs.nsecs\nread_bytes 1 samples [bytes] 1 1 1\n"),
            ("home-ffff880000000002", "snapshot_time             1.0 secs.nsecs\n"),
            ("broken-1", "no such thing\n"),
        ] {
            let folder = dir.join("fs/lustre/llite").join(mount);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stats"), stats).unwrap();
        }
        std::fs::create_dir(dir.join("self")).unwrap();
        dir.write(
            "self/mountstats",
            "device rootfs mounted on / with fstype rootfs\n\
             device server:/export mounted on /mnt/nfs with fstype nfs4 statvers=1.1\n\
             \topts:\trw,vers=4.2\n\tage:\t100\n\tbytes:\t1 2 3 4 5000 6000 7 8\n\tRPC iostats version: 1.1\n\
             device server:/a b mounted on /mnt/other with fstype nfs statvers=1.1\n\tbytes:\t0 0 0 0 10 20 0 0\n\
             device x mounted on /y with fstype fuse\n\tbytes:\t1 1 1 1 1 1 1 1\n",
        );
        let files = NodeFiles { proc: dir.path().to_owned(), sys: "/nowhere".into(), ..NodeFiles::default() };
        assert_eq!(lustre(&files), [("home".to_owned(), 0, 0), ("scratch".to_owned(), 5_242_881, 40_960)]);
        assert_eq!(nfs(&files), [("/mnt/nfs".to_owned(), 5000, 6000), ("/mnt/other".to_owned(), 10, 20)]);
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        for junk in [
            "",
            "device",
            "bytes:",
            "device a mounted on",
            "bytes: x y z a b c",
            "snapshot_time\nread_bytes",
            "\u{0}",
        ] {
            assert!(mountstats(junk).is_empty());
            let _ = llite(junk);
        }
        let huge = "device s:/x mounted on /m with fstype nfs\nbytes: 1 1 1 1 99999999999999999999999 1\n";
        assert!(mountstats(huge).is_empty());
        let nowhere = NodeFiles { proc: "/nowhere".into(), sys: "/nowhere".into(), ..NodeFiles::default() };
        assert!(lustre(&nowhere).is_empty() && nfs(&nowhere).is_empty());
    }
}
