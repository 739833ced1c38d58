//! Power failures: an image of the disk as it is at a moment is mounted in its place, and the machine says that it was started anew.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use iotide_testkit::{Missing, is_root, program, skip};

use crate::stage_faults::{Chance, said, version, version_of};
use crate::util::{Dir, Outcome};

/// Set for a test that was started once more with mounts of its own.
const AMONG_MOUNTS: &str = "IOTIDE_TEST_AMONG_MOUNTS";

/// Runs the test of this name once more in a mount namespace, which takes all mounts with it, and returns whether this is that run.
pub(crate) fn is_among_mounts(test: &str) -> bool {
    if std::env::var_os(AMONG_MOUNTS).is_some() {
        return true;
    }
    if !is_root() {
        return false;
    }
    let Some(unshare) = program("unshare") else { return false };
    let mut command = Command::new(unshare);
    command.arg("-m").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    let output = command.env(AMONG_MOUNTS, "1").stdin(Stdio::null()).output().unwrap();
    std::io::stderr().write_all(&output.stderr).unwrap();
    if said(&output).contains("unshare failed") {
        skip(Missing::Data, "of mounts of its own");
        return false;
    }
    assert!(output.status.success() && said(&output).contains("1 passed"), "{}", said(&output));
    false
}

fn run(command: &str, args: &[&str]) -> bool {
    let output = Command::new(command).args(args).stdin(Stdio::null()).output().unwrap();
    if !output.status.success() {
        let why = format!("{command} {args:?}: {}", said(&output));
        std::io::stderr().write_all(why.as_bytes()).unwrap();
    }
    output.status.success()
}

/// A machine that can be started anew, with its clock and its id of the boot.
struct Machine {
    dir: Dir,
    n_boots: u32,
}

impl Machine {
    /// `None`, said aloud, where files of /proc cannot be replaced.
    fn new() -> Option<Self> {
        let mut machine = Self { dir: Dir::new(), n_boots: 0 };
        for name in ["src", "dst"] {
            fs::create_dir(machine.path(name)).unwrap();
        }
        machine.dir.write("boot_id", "");
        machine.dir.write("stat", "");
        let bind =
            |name: &str, over: &str| run("mount", &["--bind", machine.path(name).to_str().unwrap(), over]);
        if !bind("boot_id", "/proc/sys/kernel/random/boot_id") || !bind("stat", "/proc/stat") {
            skip(Missing::Data, "of the right to put files over those of /proc");
            return None;
        }
        machine.start();
        Some(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts it anew: what was written before is older than this.
    fn start(&mut self) {
        thread::sleep(Duration::from_millis(30));
        self.n_boots += 1;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        self.dir.write("stat", format!("cpu  1 2 3 4\nbtime {:.3}\n", now.as_secs_f64()));
        thread::sleep(Duration::from_millis(30));
        self.dir.write("boot_id", format!("{:08x}-2fa1-11d2-883f-0016d3cca427\n", self.n_boots));
    }

    fn stage_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
        command.args(["stage", "out", "src", "dst", "--once", "--quiet", "20ms"]).args(args);
        command.current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command
    }

    fn stage(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.stage_command(args).output().unwrap())
    }

    fn verify(&self) -> Outcome {
        crate::stage::stage(self.dir.path(), &["verify", "dst"])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for over in ["/proc/sys/kernel/random/boot_id", "/proc/stat"] {
            let _ = Command::new("umount").arg(over).output();
        }
        for disk in ["src", "disk"] {
            let _ = Command::new("umount").arg("-l").arg(self.path(disk)).output();
        }
    }
}

/// The buffer on a disk of its own.
struct Disk {
    machine: Machine,
    n_images: u32,
    /// Where it is mounted.
    top: &'static str,
}

impl Disk {
    /// `None`, said aloud, where this kind of file system cannot be made and mounted here.
    fn new(kind: &str) -> Option<Self> {
        let made = format!("mkfs.{kind}");
        program(&made)?;
        let known = fs::read_to_string("/proc/filesystems").unwrap();
        let _ = Command::new("modprobe").arg(kind).output();
        if !known.lines().any(|line| line.trim() == kind) || !Path::new("/dev/loop-control").exists() {
            skip(Missing::Data, &format!("of {kind} in this kernel, or of loop devices"));
            return None;
        }
        let disk = Self { machine: Machine::new()?, n_images: 0, top: "src" };
        let image = disk.image();
        let size = if kind == "xfs" { 320 } else { 128 };
        File::create(&image).unwrap().set_len(size << 20).unwrap();
        let quiet: &[&str] = if kind == "ext4" { &["-q", "-F"] } else { &["-q", "-f"] };
        assert!(run(&made, &[quiet, &[image.to_str().unwrap()]].concat()));
        if !disk.mount() {
            skip(Missing::Data, "of a loop device that can be mounted");
            return None;
        }
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.machine.path(&format!("disk{}.img", self.n_images))
    }

    fn src(&self) -> PathBuf {
        self.machine.path("src")
    }

    fn mount(&self) -> bool {
        let top = self.machine.path(self.top);
        run("mount", &["-o", "loop", self.image().to_str().unwrap(), top.to_str().unwrap()])
    }

    /// Puts the destination on the same disk, which goes down with it.
    fn with_destination(self) -> Self {
        assert!(Command::new("umount").arg(self.src()).output().unwrap().status.success());
        for name in ["src", "dst"] {
            fs::remove_dir(self.machine.path(name)).unwrap();
            std::os::unix::fs::symlink(format!("disk/{name}"), self.machine.path(name)).unwrap();
        }
        fs::create_dir(self.machine.path("disk")).unwrap();
        let disk = Self { top: "disk", ..self };
        assert!(disk.mount());
        for name in ["src", "dst"] {
            fs::create_dir(disk.machine.path("disk").join(name)).unwrap();
        }
        assert!(run("sync", &["-f", disk.machine.path("disk").to_str().unwrap()]));
        disk
    }

    /// Cuts the power: what has reached the disk by now is all there is. `stop` ends those who use it.
    fn cut(&mut self, stop: impl FnOnce()) {
        let old = self.image();
        self.n_images += 1;
        let new = self.image();
        assert!(run("cp", &["--sparse=always", old.to_str().unwrap(), new.to_str().unwrap()]));
        stop();
        let top = self.machine.path(self.top);
        let unmounted = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(10));
            Command::new("umount").arg(&top).output().unwrap().status.success()
        });
        assert!(unmounted, "somebody uses the disk");
        assert!(self.mount());
        fs::remove_file(old).unwrap();
        self.machine.start();
    }
}

#[test]
fn what_nobody_synced_is_safe_after_a_power_failure_once_it_was_staged() {
    if !is_among_mounts("stage_power::what_nobody_synced_is_safe_after_a_power_failure_once_it_was_staged") {
        return;
    }
    for kind in ["ext4", "xfs", "btrfs"] {
        for purge in ["staged", "never"] {
            let Some(mut disk) = Disk::new(kind) else { continue };
            fs::create_dir(disk.src().join("sub")).unwrap();
            let names: Vec<String> =
                (0..10).map(|n| format!("{}f{n}", if n % 2 == 0 { "" } else { "sub/" })).collect();
            for name in &names {
                fs::write(disk.src().join(name), version(name, 1)).unwrap();
            }
            disk.machine.stage(&["--policy", "immediate", "--purge", purge]).exits_with(0);
            disk.cut(|| ());
            // What was noted as safe is found again as it was, and what was removed stays so.
            let told = disk.machine.stage(&["--policy", "immediate", "--purge", purge]).exits_with(0).stdout;
            assert!(told.starts_with("10 files of "), "{kind} {told}");
            for name in &names {
                let there = fs::read(disk.machine.path("dst").join(name)).unwrap();
                assert_eq!(version_of(&there), Some((name.clone(), 1)), "{kind}");
                assert_eq!(disk.src().join(name).exists(), purge == "never", "{kind} {name}");
            }
            disk.machine.verify().exits_with(0);
        }
    }
}

#[test]
fn a_version_from_before_the_last_start_replaces_no_copy_until_it_is_touched() {
    if !is_among_mounts(
        "stage_power::a_version_from_before_the_last_start_replaces_no_copy_until_it_is_touched",
    ) {
        return;
    }
    let Some(mut machine) = Machine::new() else { return };
    let (src, dst) = (machine.path("src"), machine.path("dst"));
    for name in ["emptied", "changed", "same", "chmod", "rewritten", "purged"] {
        fs::write(src.join(name), format!("{name}, whole")).unwrap();
    }
    fs::hard_link(src.join("purged"), machine.path("kept")).unwrap();
    machine.stage(&[]).exits_with(0);
    // All that a power failure could leave of these comes back.
    for name in ["emptied", "changed"] {
        File::create(src.join(name)).unwrap();
    }
    fs::write(src.join("changed"), "cha").unwrap();
    fs::set_permissions(src.join("chmod"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(src.join("never staged"), "").unwrap();
    machine.start();
    fs::write(src.join("rewritten"), "by a program that goes on").unwrap();
    let told = machine.stage(&[]).exits_with(1).stdout;
    let reason = "it changed before the machine was last started and may be incomplete";
    for name in ["emptied", "changed"] {
        assert!(told.contains(&format!("left: {name}: {reason}")), "{told}");
        assert_eq!(fs::read_to_string(dst.join(name)).unwrap(), format!("{name}, whole"));
    }
    assert!(told.contains("left      2 (0 waiting, 0 open, 2 failed)"), "{told}");
    assert_eq!(fs::metadata(dst.join("chmod")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(dst.join("rewritten")).unwrap(), "by a program that goes on");
    assert!(dst.join("never staged").exists());
    machine.verify().exits_with(0);
    // It is left as long as nobody says anything, over another start too.
    machine.start();
    machine.stage(&[]).exits_with(1);
    assert!(run("touch", &[src.join("changed").to_str().unwrap()]));
    fs::remove_file(src.join("emptied")).unwrap();
    machine.stage(&["--purge", "staged"]).exits_with(0);
    assert_eq!(fs::read_to_string(dst.join("changed")).unwrap(), "cha");
    assert_eq!(fs::read_to_string(dst.join("emptied")).unwrap(), "emptied, whole");
    // A later file has the inode of one that was removed. It is no more trusted than others, and no less.
    assert!(!src.join("purged").exists());
    File::options().write(true).open(machine.path("kept")).unwrap().set_len(3).unwrap();
    fs::hard_link(machine.path("kept"), src.join("purged")).unwrap();
    machine.start();
    let told = machine.stage(&[]).exits_with(1).stdout;
    assert!(told.contains(&format!("left: purged: {reason}")), "{told}");
    assert_eq!(fs::read_to_string(src.join("purged")).unwrap(), "pur");
    assert_eq!(fs::read_to_string(dst.join("purged")).unwrap(), "purged, whole");
    machine.verify().exits_with(0);
}

/// A disk that says it has stored what it has not, all but the journal: as if the stager had synced nothing else.
#[test]
fn what_comes_back_empty_from_a_disk_that_lies_goes_again_and_its_copy_stands() {
    if !is_among_mounts(
        "stage_power::what_comes_back_empty_from_a_disk_that_lies_goes_again_and_its_copy_stands",
    ) {
        return;
    }
    let Some(strace) = program("strace") else { return };
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(mut disk) = Disk::new(kind) else { continue };
        // More than go at a time: of the first the journal knows that they went.
        let names: Vec<String> = (0..70).map(|n| format!("f{n}")).collect();
        for name in &names {
            fs::write(disk.src().join(name), version(name, 1)).unwrap();
        }
        let mut command = Command::new(&strace);
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=fsync,syncfs:retval=0"]);
        let staging = disk.machine.stage_command(&["--policy", "immediate", "--purge", "staged"]);
        command.arg(staging.get_program()).args(staging.get_args()).current_dir(disk.machine.dir.path());
        let output = command.env_clear().stdin(Stdio::null()).output().unwrap();
        if !output.status.success() {
            return skip(Missing::Data, "of a machine that lets processes be traced");
        }
        disk.cut(|| ());
        let n_back = names.iter().filter(|name| disk.src().join(name).exists()).count();
        // Those that are whole go as well.
        disk.machine.stage(&["--purge", "staged"]).exits_with(0);
        writeln!(std::io::stderr(), "{kind}: {n_back} of {} were back", names.len()).unwrap();
        for name in &names {
            let there = fs::read(disk.machine.path("dst").join(name)).unwrap();
            assert_eq!(version_of(&there), Some((name.clone(), 1)), "{kind}");
            assert!(!disk.src().join(name).exists(), "{kind} {name}");
        }
        disk.machine.verify().exits_with(0);
    }
}

/// Versions of a file, as they were observed.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The last version that was written.
    last: u64,
    /// The last that a program synced, or that was reported as safe: it must not be lost.
    durable: u64,
    /// The last that was seen at the destination.
    there: u64,
    /// Whether the last was written since the machine was started.
    is_new: bool,
}

/// `IOTIDE_STAGE_CUTS=100` is the long form: so many power failures on each kind of file system.
#[test]
fn whenever_the_power_fails_no_copy_gets_worse_and_no_new_version_is_left_behind() {
    if !is_among_mounts(
        "stage_power::whenever_the_power_fails_no_copy_gets_worse_and_no_new_version_is_left_behind",
    ) {
        return;
    }
    let n_cuts = std::env::var("IOTIDE_STAGE_CUTS").ok().and_then(|n| n.parse().ok());
    for (kind, few) in [("ext4", 5), ("xfs", 3), ("btrfs", 3)] {
        let Some(disk) = Disk::new(kind) else { continue };
        cut_again_and_again(disk, kind, n_cuts.unwrap_or(few));
        let Some(disk) = Disk::new(kind) else { continue };
        cut_again_and_again(disk.with_destination(), kind, n_cuts.unwrap_or(few));
    }
}

fn cut_again_and_again(mut disk: Disk, kind: &str, n_cuts: u32) {
    let mut chance = Chance(u64::from(kind.as_bytes()[0]) * 7919);
    let mut files: BTreeMap<String, Known> = BTreeMap::new();
    for cut in 0..n_cuts {
        for _ in 0..2 {
            for _ in 0..chance.below(6) {
                write_one(&disk.src(), &mut chance, &mut files);
            }
            let purge = ["never", "staged"][chance.below(2) as usize];
            let told = disk.machine.stage(&["--policy", "immediate", "--purge", purge]);
            assert!(told.status < 2, "{kind} {cut}: {told:?}");
            check(&disk, &mut files, &format!("{kind}, after {cut} failures: {}", told.stdout));
        }
        for _ in 0..chance.below(6) {
            write_one(&disk.src(), &mut chance, &mut files);
        }
        if chance.below(2) == 0 {
            disk.cut(|| ());
        } else {
            // In the middle of something: stopped, so that the disk is as it is at that moment.
            let mut command = disk.machine.stage_command(&["--policy", "immediate", "--purge", "staged"]);
            let mut stager =
                command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
            let group = format!("-{}", stager.id());
            thread::sleep(Duration::from_millis(chance.below(150)));
            let _ = Command::new("kill").args(["-STOP", "--", &group]).output();
            disk.cut(|| {
                let _ = Command::new("kill").args(["-KILL", "--", &group]).output();
                stager.wait().unwrap();
            });
        }
        files.values_mut().for_each(|file| file.is_new = false);
    }
}

/// Writes the next version of a file, in one of the ways in which programs do.
fn write_one(src: &Path, chance: &mut Chance, files: &mut BTreeMap<String, Known>) {
    let name = format!("f{}", chance.below(8));
    let file = files.entry(name.clone()).or_default();
    file.last += 1;
    file.is_new = true;
    let is_renamed = chance.below(2) == 0;
    let path = src.join(if is_renamed { "part" } else { &name });
    let mut open = File::create(&path).unwrap();
    open.write_all(&version(&name, file.last)).unwrap();
    let is_synced = chance.below(2) == 0;
    if is_synced {
        open.sync_all().unwrap();
    }
    drop(open);
    if is_renamed {
        fs::rename(&path, src.join(&name)).unwrap();
    }
    if is_synced {
        File::open(src).unwrap().sync_all().unwrap();
    }
    // A version that was not synced may take the one before with it.
    file.durable = if is_synced { file.last } else { file.there };
}

/// After a run without a failure: copies are whole and no older than they were, what is durable is somewhere, and what was written since the start is there.
fn check(disk: &Disk, files: &mut BTreeMap<String, Known>, about: &str) {
    for (name, file) in files {
        let read = |tree: &str| fs::read(disk.machine.path(tree).join(name)).ok();
        let of = |bytes: &Vec<u8>| version_of(bytes).filter(|(of, _)| of == name).map(|(_, n)| n);
        let there = read("dst");
        let n_there = there.as_ref().and_then(of).unwrap_or(0);
        assert!(n_there >= file.there, "{name}: {n_there} where {} was; {about}", file.there);
        // What nobody synced and nobody staged may be all that is left; it replaces nothing.
        let is_whole = there.is_none() || n_there > 0;
        assert!(is_whole || file.there == 0 && file.durable == 0, "{name} is torn; {about}");
        let n_here = read("src").as_ref().and_then(of).unwrap_or(0);
        assert!(n_there.max(n_here) >= file.durable, "{name} {} is lost; {about}", file.durable);
        if file.is_new {
            assert_eq!(n_there, file.last, "{name} is not there; {about}");
        }
        file.there = n_there;
        file.durable = file.durable.max(n_there);
    }
}
