//! Cost of tracing by the kernel: to the program that is recorded, and to all others on the machine.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::tracer::{CALLS, WRITES, expect_calls};
use super::{Bed, Goal, Line};

/// Pairs of runs; the median of their differences counts.
const PAIRS: usize = 5;

/// How a program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Bare,
    Recorded,
    /// Beside another program that is recorded.
    Beside,
}

/// Nanoseconds added to a write that is recorded, to one of another program, to other calls; calls lost at full speed; time to attach.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let program = bed.compile("tracer", "gcc", &[])?.ok_or("no gcc here")?;
    let place = Place::new()?;
    let added = |call: &str, way: Way| {
        let mut differences = Vec::new();
        for _ in 0..PAIRS {
            let bare = place.run(bed, &program, call, Way::Bare)?;
            differences.push(place.run(bed, &program, call, way)? - bare);
        }
        Ok::<f64, String>(median(&mut differences))
    };
    let rows = [
        ("ns added to a 4 KiB write that is recorded", "write", Way::Recorded, 260.0),
        ("ns added to a 4 KiB write of another program", "write", Way::Beside, 90.0),
        ("ns added to getppid in a program that is recorded", "getppid", Way::Recorded, 70.0),
        ("ns added to getppid in another program", "getppid", Way::Beside, 70.0),
    ];
    let line = |what: &str, unit, iotide, goal| Line {
        what: format!("kernel: {what}"),
        unit,
        iotide,
        peer: None,
        goal: Goal::AtMost(goal),
    };
    let mut lines = Vec::new();
    for (what, call, way, goal) in rows {
        lines.push(line(what, "ns", added(call, way)?, goal));
    }
    lines.push(line("ms to attach and detach", "ms", time_to_attach(bed, &place)?, 150.0));
    Ok(lines)
}

/// Milliseconds that a program which does nothing takes longer.
fn time_to_attach(bed: &Bed, place: &Place) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..PAIRS {
        let began = Instant::now();
        bed.measure(place.recorded(bed, Path::new("true")))?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut times))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A folder in memory, so that the tracer's cost is measured and not the disk's.
struct Place(PathBuf);

impl Place {
    fn new() -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = above.join(format!("iotide-bench-kernel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }

    fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }

    fn recorded(&self, bed: &Bed, program: &Path) -> Command {
        let _ = std::fs::remove_dir_all(self.trace());
        let mut command = Command::new(&bed.iotide);
        command.args(["record", "--quiet", "--kernel", "-o"]).arg(self.trace()).arg("--").arg(program);
        command.env("IOTIDE_INCLUDE", &self.0);
        command
    }

    /// Nanoseconds of a call, by the program's own clock.
    fn run(&self, bed: &Bed, program: &Path, call: &str, way: Way) -> Result<f64, String> {
        let answer = bed.folder.join("answer");
        let _ = std::fs::remove_file(&answer);
        let beside = (way == Way::Beside).then(|| Beside::start(bed, self)).transpose()?;
        let mut command = match way {
            Way::Recorded => self.recorded(bed, program),
            Way::Bare | Way::Beside => Command::new(program),
        };
        command.arg(self.0.join("file")).arg(call).arg(&answer);
        bed.measure(command)?;
        drop(beside);
        if way == Way::Recorded && call == "write" {
            // At full speed, which is more than a million calls a second: none may be lost.
            expect_calls(&self.trace(), CALLS, WRITES)?;
        }
        let text = std::fs::read_to_string(&answer).map_err(|error| error.to_string())?;
        text.trim().parse().map_err(|error| format!("{error}: {text:?}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Another program that is recorded and does nothing, until dropped.
struct Beside(Child);

impl Beside {
    fn start(bed: &Bed, place: &Place) -> Result<Self, String> {
        let mut command = place.recorded(bed, Path::new("sh"));
        command.args(["-c", "echo ready; exec sleep 1000"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start a recording: {error}"))?;
        let mut line = String::new();
        let said = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        match said {
            Some(Ok(_)) if line == "ready\n" => Ok(Self(child)),
            _ => Err("nothing is recorded: does `iotide record --kernel=check` say why?".to_owned()),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Passed on to its program, which ends then.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&mut [3.0, -1.0, 100.0]), 3.0);
    }
}
