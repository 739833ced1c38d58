//! Cost of live counters to a program (`iotide record --live`).

use std::path::{Path, PathBuf};
use std::process::Command;

use iotide_wire::Op;
use iotide_wire::page::{Counters, MpiFunction, PageHeader, lane_at};

use super::{Bed, Goal, Line};

/// How often `live_counters.c` makes the call it measures.
const CALLS: u64 = 500 * 2000;

/// Nanoseconds of an increment, alone and by four threads, and what counting adds to a write and to a call of MPI. The peer is the metric proxy
/// of the ADMIRE project, as measured once.
pub(super) fn nanoseconds(bed: &Bed) -> Result<Vec<Line>, String> {
    let line = |what: &str, iotide, peer, goal| Line {
        what: format!("live counters: {what}"),
        unit: "ns",
        iotide,
        peer,
        goal: Goal::AtMost(goal),
    };
    let program = bed.compile("live_counters", "gcc", &["-pthread"])?.ok_or("no gcc here")?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments);
        command
    };
    let mut lines = Vec::new();
    for (n, what, peer) in [(1, "an increment", 19.0), (4, "an increment, four threads at it", 230.0)] {
        let threads = n.to_string();
        let (ns, counted) = best(bed, true, || command(&["add", &threads]))?;
        expect(counted.user(0), n * CALLS)?;
        lines.push(line(what, ns, Some(peer), 5.0));
    }
    let file = Folder::new();
    let file = file.0.join("file");
    let path = file.to_str().ok_or("a path that is no text")?;
    let (bare, _) = best(bed, false, || command(&["pwrite", path]))?;
    let (counted_ns, counted) = best(bed, true, || command(&["pwrite", path]))?;
    expect(counted.own(Op::Write).calls, CALLS)?;
    lines.push(line("added to a 4 KiB pwrite", counted_ns - bare, None, 60.0));
    for mpi in ["openmpi", "mpich"] {
        let Some(program) =
            bed.compile("live_counters", &format!("mpicc.{mpi}"), &["-DWITH_MPI", "-pthread"])?
        else {
            eprintln!("no mpicc.{mpi} here");
            continue;
        };
        let command = || {
            let mut command = Command::new(format!("mpirun.{mpi}"));
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
            command.args(["-n", "1"]).arg(&program).arg("bcast");
            command
        };
        let (bare, _) = best(bed, false, command)?;
        let (counted_ns, counted) = best(bed, true, command)?;
        expect(counted.mpi(MpiFunction::of_symbol("MPI_Bcast")).calls, CALLS)?;
        lines.push(line(&format!("added to MPI_Bcast ({mpi})"), counted_ns - bare, Some(175.0), 60.0));
    }
    Ok(lines)
}

/// A counter that counted nothing costs nothing: all that was done must be in the page. (Programs write their answer, too.)
fn expect(counted: u64, n: u64) -> Result<(), String> {
    match counted {
        counted if (n..n + 5).contains(&counted) => Ok(()),
        counted => Err(format!("{counted} of {n} are in the page")),
    }
}

/// A folder in memory, if there is such a place: the price of counting, not of the disk.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { Path::new("/tmp") };
        let folder = place.join(format!("iotide-live-bench-{}", std::process::id()));
        let _ = std::fs::create_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The best of five runs, and what the last of them counted.
fn best(
    bed: &Bed,
    is_counted: bool,
    command_for: impl Fn() -> Command,
) -> Result<(f64, Box<Counters>), String> {
    let pages = bed.folder.join("pages");
    let answer = bed.folder.join("answer");
    let (mut best, mut counted) = (f64::INFINITY, Box::new(Counters::ZERO));
    for _ in 0..5 {
        let _ = std::fs::remove_dir_all(&pages);
        std::fs::create_dir_all(&pages).map_err(|error| error.to_string())?;
        let mut command = command_for();
        command.arg(&answer).env("IOTIDE_INCLUDE", "/dev/shm");
        if is_counted {
            let library = bed.iotide.with_file_name("deps").join("libiotide.so");
            if !library.is_file() {
                return Err(format!("there is no {}", library.display()));
            }
            command.env("LD_PRELOAD", library).env("IOTIDE_LIVE", &pages).env_remove("IOTIDE_DIR");
        }
        bed.measure(command)?;
        let text = std::fs::read_to_string(&answer).map_err(|error| error.to_string())?;
        best = best.min(text.trim().parse::<f64>().map_err(|error| error.to_string())?);
        *counted = Counters::ZERO;
        for entry in std::fs::read_dir(&pages).map_err(|error| error.to_string())?.flatten() {
            let page = std::fs::read(entry.path()).map_err(|error| error.to_string())?;
            let header = PageHeader::decode(&page).map_err(|fault| fault.to_string())?;
            (0..header.lanes_used).for_each(|i| counted.add_lane(&page[lane_at(i)..lane_at(i + 1)]));
        }
    }
    Ok((best, counted))
}
