//! Cost of loading a Darshan log: `iotide info` against PyDarshan, and against bare inflation.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::{Decompress, FlushDecompress, Status};
use iotide_formats::darshan::Log;

use super::period::{best, median};
use super::{Bed, Goal, Line};
use crate::peer::python_with;
use crate::repository;

/// A full load of a large DXT log: CPU, memory, and how much of it is inflation.
pub(super) fn cost_of_a_large_log(bed: &Bed) -> Result<Vec<Line>, String> {
    let Some(log) = shared_log("generated/ior-mpiio-seq-dxt-11MB-3.5.0.darshan") else {
        return Ok(Vec::new());
    };
    // Decodes and sums up every counter and every segment, as `read_all` loads them.
    let load = |log: &Path| {
        let mut command = Command::new(&bed.iotide);
        command.arg("info").arg(log).stdout(Stdio::null());
        command
    };
    let ours = best(5, || bed.measure(load(&log)))?;
    let answer = bed.answer(["info".as_ref(), log.as_os_str(), "--format".as_ref(), "json".as_ref()])?;
    if !answer.contains("_segments\":") {
        return Err("a DXT log without segments was read".to_owned());
    }
    let regions = regions(&log)?;
    let floor = best(5, || {
        let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        let places = regions.iter().map(|(offset, length)| format!("{offset}+{length}"));
        command.arg("inflate").arg(&log).args(places).stdout(Stdio::null());
        bed.measure(command)
    })?;
    let unpacked_mb = inflated_bytes(&log, &regions)? as f64 / 1e6;
    let peer = pydarshan().and_then(|python| {
        best(2, || {
            let mut command = Command::new(&python);
            let script = "import sys, darshan; darshan.DarshanReport(sys.argv[1], read_all=True)";
            command.args(["-c", script]).arg(&log).stdout(Stdio::null());
            bed.measure(command)
        })
        .ok()
    });
    if peer.is_none() {
        eprintln!("no PyDarshan (`pip install darshan`): measuring iotide alone");
    }
    let memory_mb = |bytes: f64| bytes / 1e6;
    Ok(vec![
        Line {
            what: "Darshan log, 2.1 M DXT segments: CPU of a full load".to_owned(),
            unit: "s",
            iotide: ours.cpu_s,
            peer: peer.as_ref().map(|cost| cost.cpu_s),
            goal: Goal::TimesLess(20.0),
        },
        Line {
            what: "… over the CPU of bare inflation".to_owned(),
            unit: "×",
            iotide: ours.cpu_s / floor.cpu_s,
            peer: None,
            goal: Goal::AtMost(2.5),
        },
        Line {
            what: format!("… peak memory ({unpacked_mb:.0} MB unpacked)"),
            unit: "MB",
            iotide: memory_mb(ours.peak_bytes),
            peer: peer.as_ref().map(|cost| memory_mb(cost.peak_bytes)),
            goal: Goal::AtMost((2.0 * unpacked_mb).round()),
        },
    ])
}

/// The time from start to answer for a small log, median of 20.
pub(super) fn time_of_a_small_log(bed: &Bed) -> Result<Vec<Line>, String> {
    let Some(log) = shared_log("mpi-io-test.darshan") else { return Ok(Vec::new()) };
    let mut walls_ms = Vec::new();
    for _ in 0..20 {
        let mut command = Command::new(&bed.iotide);
        command.arg("info").arg(&log).stdout(Stdio::null());
        walls_ms.push(bed.measure(command)?.wall_s * 1e3);
    }
    Ok(vec![Line {
        what: "`info` on a small Darshan log: wall time, median of 20".to_owned(),
        unit: "ms",
        iotide: median(walls_ms),
        peer: None,
        goal: Goal::AtMost(10.0),
    }])
}

/// `xtask inflate LOG OFFSET+LENGTH…`: unpacks these regions and throws them away, the floor under any reader.
pub(crate) fn inflate(args: &[String]) -> Result<crate::Outcome, String> {
    const USAGE: &str = "usage: xtask inflate LOG OFFSET+LENGTH…";
    let [log, places @ ..] = args else { return Err(USAGE.to_owned()) };
    let regions: Option<Vec<_>> = places
        .iter()
        .map(|place| {
            let (offset, length) = place.split_once('+')?;
            Some((offset.parse().ok()?, length.parse().ok()?))
        })
        .collect();
    println!("{} bytes", inflated_bytes(Path::new(log), &regions.ok_or(USAGE)?)?);
    Ok(crate::Outcome::Good)
}

fn inflated_bytes(path: &Path, regions: &[(usize, usize)]) -> Result<u64, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut unpacked = vec![0u8; 1 << 20];
    let mut total = 0;
    for &(offset, length) in regions {
        let mut rest = bytes.get(offset..offset + length).ok_or("a region reaches beyond the log")?;
        while !rest.is_empty() {
            let mut stream = Decompress::new(true);
            loop {
                let before = stream.total_in();
                let status = stream
                    .decompress(rest, &mut unpacked, FlushDecompress::None)
                    .map_err(|error| error.to_string())?;
                rest = &rest[(stream.total_in() - before) as usize..];
                if status == Status::StreamEnd {
                    break;
                }
                if rest.is_empty() {
                    return Err("a stream is cut".to_owned());
                }
            }
            total += stream.total_out();
        }
    }
    Ok(total)
}

/// Where the packed regions lie. Found beforehand: the floor is inflation alone.
fn regions(path: &Path) -> Result<Vec<(usize, usize)>, String> {
    let log = Log::open(path).map_err(|error| error.to_string())?;
    Ok(log.regions.iter().map(|region| (region.offset as usize, region.length as usize)).collect())
}

pub(super) fn shared_log(name: &str) -> Option<PathBuf> {
    let log = repository().parent()?.join("shared/data/traces/darshan").join(name);
    if !log.exists() {
        eprintln!("no shared data with {name}: not measured");
        return None;
    }
    Some(log)
}

/// A Python that has PyDarshan: the plain one, or one that gets it from PyPI.
pub(super) fn pydarshan() -> Option<PathBuf> {
    python_with("darshan", "import darshan, pandas")
}
