//! What storage servers on this machine moved, as they count: bricks of GlusterFS (their dumps) and object storage daemons of Ceph (their admin sockets).
//!
//! Both are somebody else's: files are opened past no link and belong to root, sockets have a moment to answer, and what they say is read within bounds.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use iotide_private::{OpenDir, connect_within};

use super::NodeFiles;

/// Bricks or daemons of a machine beyond this are left out.
const MOST_SERVERS: usize = 256;
/// A dump takes 43 KB, an answer 5 KB.
const MOST_BYTES: u64 = 1 << 20;
/// A daemon that is alive answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of each server: its name, bytes read from it, bytes written to it.
pub(super) type Servers = Vec<(String, u64, u64)>;

/// Bricks that dump their counters (`diagnostics.stats-dump-interval`), by the names that the dumps have.
pub fn gluster(files: &NodeFiles) -> Servers {
    let place = files.state.join("glusterd/stats");
    let is_dump = |name: &str| name.starts_with("glusterfsd") && name.ends_with(".dump");
    let Ok(folder) = OpenDir::open(&place) else { return Servers::new() };
    let read = |name: String| {
        let file = folder.read(&name).ok()?;
        // Everyone may write to the folder.
        (file.metadata().ok()?.uid() == rustix::process::geteuid().as_raw()).then_some(())?;
        let mut dump = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut dump).ok()?;
        brick(&String::from_utf8_lossy(&dump))
    };
    let mut bricks: Servers = names_in(&place, is_dump).into_iter().filter_map(read).collect();
    bricks.sort();
    bricks.dedup_by(|a, b| a.0 == b.0);
    bricks
}

/// Daemons that have an admin socket, by its name.
pub fn ceph(files: &NodeFiles) -> Servers {
    let place = files.run.join("ceph");
    let is_socket = |name: &str| name.contains("osd") && name.ends_with(".asok");
    let ask = |name: String| {
        let counted = daemon(&answer(&place.join(&name)).ok()?)?;
        Some((name.trim_end_matches(".asok").to_owned(), counted.0, counted.1))
    };
    names_in(&place, is_socket).into_iter().filter_map(ask).collect()
}

/// The names in a folder that are wanted, sorted.
fn names_in(place: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let names = std::fs::read_dir(place).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_wanted(name)).take(MOST_SERVERS).collect();
    names.sort();
    names
}

/// Asks an admin socket: a JSON command with a zero behind it, and an answer with its length before it.
fn answer(socket: &Path) -> io::Result<String> {
    let mut stream = connect_within(socket, PATIENCE)?;
    stream.write_all(b"{\"prefix\": \"perf dump\", \"logger\": \"osd\"}\0")?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u64::from(u32::from_be_bytes(length)).min(MOST_BYTES);
    let mut text = Vec::new();
    stream.take(length).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The name of a brick and its totals since it was started. A dump that is being written has none.
pub fn brick(dump: &str) -> Option<(String, u64, u64)> {
    let total = |what: &str| {
        dump.lines().find_map(|line| {
            let (name, value) = line.trim().strip_prefix("\"gluster.brick.")?.split_once(what)?;
            Some((name, value.trim_start_matches([':', ' ']).trim_end_matches(',').parse().ok()?))
        })
    };
    let (name, read) = total(".aggr.bytes_read\"")?;
    Some((name.to_owned(), read, total(".aggr.bytes_written\"")?.1))
}

/// Bytes that clients read from a daemon, and wrote to it.
pub fn daemon(dump: &str) -> Option<(u64, u64)> {
    let total = |name: &str| -> Option<u64> {
        let rest = dump.split_once(name)?.1.trim_start_matches([':', ' ']);
        rest.split([',', '}', '\n']).next()?.trim().parse().ok()
    };
    Some((total("\"op_out_bytes\"")?, total("\"op_in_bytes\"")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::os::unix::net::UnixListener;

    fn files(dir: &FreshDir) -> NodeFiles {
        let place = || dir.path().to_owned();
        NodeFiles { proc: place(), sys: place(), state: place(), run: place() }
    }

    #[test]
    fn bricks_are_read_past_no_link_and_half_a_dump_is_none() {
        let dir = FreshDir::new("gluster");
        std::fs::create_dir_all(dir.join("glusterd/stats")).unwrap();
        let dump = |brick: &str, read, written| {
            format!(
                "{{\n\"gluster.brick.{brick}.aggr.read_1b\": 0,\n\"gluster.brick.{brick}.aggr.bytes_read\": {read},\n\
                 \"gluster.brick.{brick}.aggr.bytes_written\": {written}\n}}\n{{\n\"gluster.brick.{brick}.inter.bytes_read_per_sec\": 0.00\n}}\n"
            )
        };
        dir.write("glusterd/stats/glusterfsd__d_1.dump", dump("_d_1", 5, 7));
        dir.write("glusterd/stats/glusterfsd__d_2.dump", &dump("_d_2", 1, 2)[..60]);
        dir.write("glusterd/stats/glusterfs_vol.dump", dump("client", 1, 2));
        let elsewhere = dir.write("elsewhere", dump("_d_3", 1, 2));
        std::os::unix::fs::symlink(elsewhere, dir.join("glusterd/stats/glusterfsd__d_3.dump")).unwrap();
        assert_eq!(gluster(&files(&dir)), [("_d_1".to_owned(), 5, 7)]);
    }

    #[test]
    fn a_daemon_is_asked_and_one_that_lies_about_its_length_is_bounded() {
        let dir = FreshDir::new("ceph");
        std::fs::create_dir(dir.join("ceph")).unwrap();
        let text = "{\"osd\": {\"op_in_bytes\": 34, \"op_out_bytes\": 5, \"op_r_out_bytes\": 9}}";
        let servers: Vec<_> = [("ceph-osd.0", text.len() as u32), ("ceph-osd.1", u32::MAX)]
            .map(|(name, length)| {
                let listener = UnixListener::bind(dir.join(format!("ceph/{name}.asok"))).unwrap();
                std::thread::spawn(move || {
                    let mut stream = listener.accept().unwrap().0;
                    let mut asked = [0; 41];
                    stream.read_exact(&mut asked).unwrap();
                    assert_eq!(asked.last(), Some(&0));
                    stream.write_all(&length.to_be_bytes()).unwrap();
                    stream.write_all(text.as_bytes()).unwrap();
                })
            })
            .into_iter()
            .collect();
        dir.write("ceph/ceph-osd.2.asok", "no socket");
        let known = ceph(&files(&dir));
        assert_eq!(known, [("ceph-osd.0".to_owned(), 5, 34), ("ceph-osd.1".to_owned(), 5, 34)]);
        servers.into_iter().for_each(|server| server.join().unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        for junk in
            ["", "\"gluster.brick.", "\"gluster.brick.x.aggr.bytes_read\": x", "\"op_in_bytes\"", "\u{0}"]
        {
            assert_eq!((brick(junk), daemon(junk)), (None, None), "{junk}");
        }
        let nowhere = FreshDir::new("no-servers");
        assert!(gluster(&files(&nowhere)).is_empty() && ceph(&files(&nowhere)).is_empty());
    }
}
