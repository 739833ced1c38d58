//! Files out of memory onto a disk, checked and synced, beside `cp -a` and `rclone copy` with a sync after them and `rsync -aW --fsync`; and of
//! small files what it costs from memory to memory, where no disk is in the way.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotide_num::SplitMix64;

use super::{Bed, Goal, Line};
use crate::peer::on_path;

/// A tree: its name, files of it, bytes of each, files in a folder.
struct Tree {
    name: &'static str,
    n_files: usize,
    size: usize,
    in_folder: usize,
    /// On a disk, and in memory.
    most_cpu_s_per_gb: Option<f64>,
    most_in_memory: Option<f64>,
    /// How many times faster than `rsync --fsync`.
    times: f64,
}

const TREES: [Tree; 3] = [
    Tree {
        name: "1 × 2 GiB",
        n_files: 1,
        size: 2 << 30,
        in_folder: 1,
        most_cpu_s_per_gb: Some(1.2),
        most_in_memory: None,
        times: 1.0,
    },
    Tree {
        name: "200 × 8 MiB",
        n_files: 200,
        size: 8 << 20,
        in_folder: 200,
        most_cpu_s_per_gb: Some(1.2),
        most_in_memory: None,
        times: 1.0,
    },
    Tree {
        name: "20,000 × 16 KiB",
        n_files: 20_000,
        size: 16 << 10,
        in_folder: 100,
        most_cpu_s_per_gb: None,
        most_in_memory: Some(4.0),
        times: 5.0,
    },
];

/// Megabytes per second and CPU of each.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let said = |error: std::io::Error| error.to_string();
    let memory = PathBuf::from("/dev/shm").join(format!("iotide-bench-stage-{}", std::process::id()));
    let mut lines = Vec::new();
    for tree in TREES {
        let src = memory.join("src");
        fs::create_dir_all(&src).map_err(said)?;
        let measured = fill(&src, &tree).map_err(said).and_then(|()| of_tree(bed, &tree, &src));
        fs::remove_dir_all(&memory).map_err(said)?;
        lines.extend(measured?);
    }
    Ok(lines)
}

fn fill(src: &Path, tree: &Tree) -> std::io::Result<()> {
    // What does not compress, and differs from file to file.
    let mut random = SplitMix64::new(1);
    let mut piece = vec![0; tree.size.min(1 << 20)];
    for n in 0..tree.n_files {
        let folder = src.join(format!("d{}", n / tree.in_folder));
        fs::create_dir_all(&folder)?;
        let mut file = File::create(folder.join(format!("f{n}")))?;
        for _ in 0..tree.size / piece.len() {
            for word in piece.as_chunks_mut::<8>().0 {
                *word = random.next().to_le_bytes();
            }
            file.write_all(&piece)?;
        }
    }
    Ok(())
}

/// Seconds that passed, and those a processor was busy.
type Cost = (f64, f64);

impl Tree {
    fn gb(&self) -> f64 {
        (self.n_files * self.size) as f64 / 1e9
    }

    fn line(&self, what: &str, iotide: f64, peer: Option<f64>, goal: Goal) -> Line {
        Line { what: format!("{}: {what}", self.name), unit: "s", iotide, peer, goal }
    }

    fn lines(&self, ours: Cost, cp: Cost, rsync: Option<Cost>, rclone: Option<Cost>) -> Vec<Line> {
        let most_cpu = self.most_cpu_s_per_gb.map_or(Goal::None, Goal::AtMost);
        let peers = [
            ("cp and sync", "cp and sync", Some(cp), most_cpu, Goal::None),
            ("rsync --fsync", "rsync --fsync", rsync, Goal::None, Goal::TimesLess(self.times)),
            ("rclone", "rclone and sync", rclone, Goal::None, Goal::None),
        ];
        let mut lines = Vec::new();
        for (name, with_sync, cost, of_cpu, of_wall) in peers {
            let Some((wall_s, cpu_s)) = cost else { continue };
            let per_gb = |cpu_s: f64| cpu_s / self.gb();
            let what = format!("CPU a GB, beside {name}");
            lines.push(self.line(&what, per_gb(ours.1), Some(per_gb(cpu_s)), of_cpu));
            lines.push(self.line(&format!("wall time, beside {with_sync}"), ours.0, Some(wall_s), of_wall));
        }
        lines
    }
}

fn of_tree(bed: &Bed, tree: &Tree, src: &Path) -> Result<Vec<Line>, String> {
    // ext4 searches long for an inode where many were freed within the last minutes: what has many files is removed in the end.
    let is_kept = tree.n_files > 1000;
    let n_runs = Cell::new(0);
    let cost = |folder: &Path, command: &dyn Fn(&Path) -> Command| {
        let mut best: Option<(f64, f64)> = None;
        for _ in 0..2 {
            let dst = folder.join(format!("run{}", n_runs.replace(n_runs.get() + 1)));
            fs::create_dir_all(&dst).map_err(|error| error.to_string())?;
            let cost = bed.measure(command(&dst))?;
            if !is_kept {
                fs::remove_dir_all(&dst).map_err(|error| error.to_string())?;
            }
            let _ = fs::remove_dir_all(src.join(".iotide-stage"));
            let _ = Command::new("sync").status();
            if best.is_none_or(|(wall_s, _)| cost.wall_s < wall_s) {
                best = Some((cost.wall_s, cost.cpu_s));
            }
        }
        best.ok_or_else(|| "never ran".to_owned())
    };
    // Files that were written just now are left for a second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let stage = |dst: &Path| {
        let mut command = Command::new(&bed.iotide);
        command.args(["stage", "out", "--once"]).arg(src).arg(dst);
        command
    };
    let dst = bed.folder.join("dst");
    let (ours, ours_cpu) = cost(&dst, &stage)?;
    let (cp, cp_cpu) = cost(&dst, &|dst| {
        let mut command = Command::new("sh");
        command.args(["-c", "cp -a \"$0/.\" \"$1\" && sync -f \"$1\""]).arg(src).arg(dst);
        command
    })?;
    let peer = |name: &str, script: &str| match on_path(name) {
        Some(_) => cost(&dst, &|dst| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(src).arg(dst);
            command
        })
        .map(Some),
        None => {
            eprintln!("no {name} on PATH: measuring without it");
            Ok(None)
        }
    };
    let rsync = peer("rsync", "rsync -aW --fsync \"$0/\" \"$1\"")?;
    let rclone = peer("rclone", "rclone copy -q --transfers 2 --checkers 2 \"$0\" \"$1\" && sync -f \"$1\"")?;
    let mut lines = tree.lines((ours, ours_cpu), (cp, cp_cpu), rsync, rclone);
    if let Some(most) = tree.most_in_memory {
        let memory = src.with_file_name("dst");
        let (_, cpu_s) = cost(&memory, &stage)?;
        lines.push(tree.line("CPU a GB, in memory", cpu_s / tree.gb(), None, Goal::AtMost(most)));
    }
    fs::remove_dir_all(&dst).map_err(|error| error.to_string())?;
    Ok(lines)
}
