//! What the machine itself does, without any wrapper: processors, memory, disks, network, temperatures, free space.
//!
//! Read from `/proc` and `/sys`, which answer from memory. How much room a file system has is asked of those on local devices only, and on a thread that
//! nobody waits for: a network file system whose server is gone would not answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::clients;
use super::proc::{read_up_to, text_of};
use super::servers;

/// Devices, interfaces or mounts of one kind beyond this are left out.
const MOST_OF_A_KIND: usize = 256;
/// No file that is read here is longer.
const MOST_BYTES: u64 = 1 << 20;

/// A reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReading {
    /// Nanoseconds of all processors, by what they were spent on.
    pub cpu_ns: Vec<(&'static str, u64)>,
    /// The load averages over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// The mean frequency of the processors.
    pub frequency_hz: Option<f64>,
    /// Bytes of memory, and of these what programs could have.
    pub memory: Option<(u64, u64)>,
    /// Disks: bytes read and written.
    pub disks: Vec<(String, u64, u64)>,
    /// Interfaces: bytes received and sent.
    pub network: Vec<(String, u64, u64)>,
    /// Sensors, in degrees Celsius.
    pub temperatures: Vec<(String, f64)>,
    /// File systems on local devices: where, bytes in all, bytes free.
    pub space: Vec<(String, u64, u64)>,
    /// File systems of Lustre: bytes read from servers and written to them.
    pub lustre: Vec<(String, u64, u64)>,
    /// The same of mounts of NFS.
    pub nfs: Vec<(String, u64, u64)>,
    /// Bricks of GlusterFS on this machine: bytes read from them and written to them.
    pub gluster: Vec<(String, u64, u64)>,
    /// The same of object storage daemons of Ceph.
    pub ceph: Vec<(String, u64, u64)>,
}

impl NodeReading {
    /// Returns a reading in which there is one of everything that can be read; what has a name is called by a word in capitals.
    pub fn of_everything() -> Self {
        let one = |name: &str| vec![(name.to_owned(), 0, 0)];
        Self {
            cpu_ns: cpu("cpu 0 0 0 0 0 0 0 0"),
            load: Some([0.0; 3]),
            frequency_hz: Some(0.0),
            memory: Some((0, 0)),
            disks: one("DISK"),
            network: one("INTERFACE"),
            temperatures: vec![("SENSOR".to_owned(), 0.0)],
            space: one("MOUNT"),
            lustre: one("MOUNT"),
            nfs: one("MOUNT"),
            gluster: one("BRICK"),
            ceph: one("OSD"),
        }
    }
}

/// Where the system says these things.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// Where servers keep what they know (`/var/lib`).
    pub state: PathBuf,
    /// Where their sockets are (`/run`).
    pub run: PathBuf,
}

impl Default for NodeFiles {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), state: "/var/lib".into(), run: "/run".into() }
    }
}

impl NodeReading {
    /// Takes over a later reading of everything but file systems and servers.
    pub fn take_machine(&mut self, later: Self) {
        let Self { space, lustre, nfs, gluster, ceph, .. } = std::mem::take(self);
        *self = Self { space, lustre, nfs, gluster, ceph, ..later };
    }

    /// Takes over a later reading of file systems.
    pub fn take_file_systems(&mut self, later: Self) {
        (self.space, self.lustre, self.nfs) = (later.space, later.lustre, later.nfs);
    }

    /// Takes over a later reading of servers.
    pub fn take_servers(&mut self, later: Self) {
        (self.gluster, self.ceph) = (later.gluster, later.ceph);
    }
}

impl NodeFiles {
    /// Reads everything but what is of file systems.
    pub fn read(&self) -> NodeReading {
        let text = |path: &Path| text_of(path, MOST_BYTES);
        NodeReading {
            cpu_ns: cpu(&text(&self.proc.join("stat"))),
            load: load(&text(&self.proc.join("loadavg"))),
            frequency_hz: self.frequency(),
            memory: memory(&text(&self.proc.join("meminfo"))),
            disks: disks(&text(&self.proc.join("diskstats")), |name| {
                self.sys.join("block").join(name).exists()
            }),
            network: network(&text(&self.proc.join("net/dev"))),
            temperatures: self.temperatures(),
            ..NodeReading::default()
        }
    }

    /// Reads what is of file systems, and nothing else.
    pub fn read_file_systems(&self) -> NodeReading {
        NodeReading {
            space: self.space(),
            lustre: clients::lustre(self),
            nfs: clients::nfs(self),
            ..NodeReading::default()
        }
    }

    /// Reads what storage servers on this machine count, and nothing else.
    pub fn read_servers(&self) -> NodeReading {
        NodeReading { gluster: servers::gluster(self), ceph: servers::ceph(self), ..NodeReading::default() }
    }

    /// The room on file systems of local devices.
    fn space(&self) -> Vec<(String, u64, u64)> {
        let mounts = text_of(&self.proc.join("self/mounts"), MOST_BYTES);
        let ask = |mount: String| {
            let stat = rustix::fs::statvfs(mount.as_str()).ok()?;
            Some((mount, stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize))
        };
        local_mounts(&mounts).into_iter().filter_map(ask).collect()
    }

    fn frequency(&self) -> Option<f64> {
        let entries = std::fs::read_dir(self.sys.join("devices/system/cpu")).ok()?;
        let of_cpus = entries.flatten().filter_map(|entry| {
            let text = read_up_to(&entry.path().join("cpufreq/scaling_cur_freq"), 64);
            String::from_utf8(text).ok()?.trim().parse::<f64>().ok()
        });
        let kilohertz: Vec<f64> = of_cpus.take(4096).collect();
        (!kilohertz.is_empty()).then(|| kilohertz.iter().sum::<f64>() / kilohertz.len() as f64 * 1e3)
    }

    fn temperatures(&self) -> Vec<(String, f64)> {
        let Ok(entries) = std::fs::read_dir(self.sys.join("class/thermal")) else { return Vec::new() };
        let mut sensors: Vec<(String, f64)> = entries
            .flatten()
            .filter_map(|entry| {
                let name =
                    entry.file_name().into_string().ok().filter(|name| name.starts_with("thermal_zone"))?;
                let read = |file: &str| String::from_utf8(read_up_to(&entry.path().join(file), 64)).ok();
                let degrees: f64 = read("temp")?.trim().parse().ok()?;
                let kind = read("type").unwrap_or_default();
                Some((format!("{name}:{}", kind.trim()), degrees / 1e3))
            })
            .take(MOST_OF_A_KIND)
            .collect();
        sensors.sort_by(|a, b| a.0.cmp(&b.0));
        sensors
    }
}

pub(super) fn cpu(stat: &str) -> Vec<(&'static str, u64)> {
    const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    /// Times are told in hundredths of a second, whatever the kernel counts in (`USER_HZ`).
    const TICK_NS: u64 = 10_000_000;
    let Some(all) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else { return Vec::new() };
    let ticks = all.split_ascii_whitespace().map_while(|text| text.parse::<u64>().ok());
    MODES.into_iter().zip(ticks).map(|(mode, ticks)| (mode, ticks.saturating_mul(TICK_NS))).collect()
}

pub fn load(loadavg: &str) -> Option<[f64; 3]> {
    let mut numbers = loadavg.split_ascii_whitespace().map_while(|text| text.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

pub fn memory(meminfo: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((value("MemTotal")?, value("MemAvailable")?))
}

/// Whole disks only: the bytes of a partition are bytes of its disk again.
pub fn disks(diskstats: &str, is_whole: impl Fn(&str) -> bool) -> Vec<(String, u64, u64)> {
    /// Of diskstats, whatever the device's own sectors are.
    const SECTOR: u64 = 512;
    let disk = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, read, written) = (*fields.get(2)?, fields.get(5)?, fields.get(9)?);
        let bytes = |sectors: &str| sectors.parse::<u64>().ok()?.checked_mul(SECTOR);
        let (read, written) = (bytes(read)?, bytes(written)?);
        let is_virtual = ["loop", "ram", "zram", "dm-", "md"].iter().any(|start| name.starts_with(start));
        (!is_virtual && read + written > 0 && is_whole(name)).then(|| (name.to_owned(), read, written))
    };
    diskstats.lines().filter_map(disk).take(MOST_OF_A_KIND).collect()
}

pub fn network(dev: &str) -> Vec<(String, u64, u64)> {
    let interface = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
        Some((name.trim().to_owned(), *numbers.first()?, *numbers.get(8)?))
    };
    dev.lines().filter_map(interface).filter(|(name, ..)| name != "lo").take(MOST_OF_A_KIND).collect()
}

/// Where local devices are mounted, each device once.
pub(super) fn local_mounts(mounts: &str) -> Vec<String> {
    let mut devices = BTreeSet::new();
    let local = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, mount, kind) = (words.next()?, words.next()?, words.next()?);
        let is_local = device.starts_with("/dev/") && !kind.starts_with("fuse") && kind != "squashfs";
        (is_local && devices.insert(device.to_owned())).then(|| unescaped(mount))
    });
    local.take(MOST_OF_A_KIND).collect()
}

/// Blanks and the like stand as octal numbers in the list of mounts.
fn unescaped(mount: &str) -> String {
    let mut parts = mount.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_system_are_read_as_they_are_documented() {
        let stat = "cpu  10 20 30 40 5 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let read = cpu(stat);
        assert_eq!((read[0], read[4], read.len()), (("user", 100_000_000), ("iowait", 50_000_000), 8));
        assert_eq!(load("0.50 1.25 2.00 3/400 12345\n"), Some([0.5, 1.25, 2.0]));
        let meminfo = "MemTotal:       16 kB\nMemFree:         1 kB\nMemAvailable:    8 kB\n";
        assert_eq!(memory(meminfo), Some((16384, 8192)));
        let diskstats = "   8  0 sda 10 0 100 5 20 0 200 7 0 0 0\n   8  1 sda1 10 0 90 5 20 0 190 7 0 0 0\n   7  0 loop0 1 0 1 1 1 0 1 1 0 0 0\n";
        assert_eq!(disks(diskstats, |name| name != "sda1"), [("sda".to_owned(), 51_200, 102_400)]);
        let dev = "Inter-|   Receive\n face |bytes\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 700 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n";
        assert_eq!(network(dev), [("eth0".to_owned(), 700, 900)]);
        let mounts = "/dev/sda1 / ext4 rw 0 0\n/dev/sda1 /again ext4 rw 0 0\nserver:/x /nfs nfs4 rw 0 0\n/dev/sdb /my\\040disk xfs rw 0 0\n/dev/fuse /f fuse.x rw 0 0\n";
        assert_eq!(local_mounts(mounts), ["/", "/my disk"]);
    }

    #[test]
    fn what_is_not_there_or_makes_no_sense_is_left_out() {
        for junk in ["", "cpu", "cpu x y", ":::", "MemTotal: x kB", "8 0", "\u{0}\n\n"] {
            let _ = (
                cpu(junk),
                load(junk),
                memory(junk),
                disks(junk, |_| true),
                network(junk),
                local_mounts(junk),
            );
        }
        let nowhere = NodeFiles { proc: "/nowhere".into(), sys: "/nowhere".into(), ..NodeFiles::default() };
        assert_eq!(nowhere.read(), NodeReading::default());
        let here = NodeFiles::default().read();
        assert!(here.memory.is_some_and(|(all, free)| all > free) && here.cpu_ns.len() == 8);
    }

    #[test]
    fn a_machine_without_local_file_systems_keeps_its_other_figures() {
        let mut all = NodeReading::default();
        let machine = NodeReading { memory: Some((2, 1)), ..NodeReading::default() };
        all.take_machine(machine.clone());
        all.take_file_systems(NodeReading::default());
        assert_eq!(all, machine);
        let mounts = NodeReading { nfs: vec![("/n".to_owned(), 1, 2)], ..NodeReading::default() };
        all.take_file_systems(mounts.clone());
        all.take_machine(NodeReading::default());
        assert_eq!(all, mounts);
        let servers = NodeReading { ceph: vec![("osd.0".to_owned(), 1, 2)], ..NodeReading::default() };
        all.take_servers(servers.clone());
        all.take_machine(NodeReading::default());
        all.take_file_systems(NodeReading::default());
        assert_eq!(all, servers);
    }
}
