//! Cost of a child process, from the kernel's own accounting.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Cost of one run of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// User and system time of the child and of all children it waited for.
    pub(super) cpu_s: f64,
    /// From start to end.
    pub(super) wall_s: f64,
    /// The most memory the child, or one it waited for, held at once.
    pub(super) peak_bytes: f64,
}

/// Runs `command` with nothing on its stdin and its answer thrown away; what it says on stderr goes to `stderr`.
///
/// Exit status 0 alone is success. The peak is never below what this process itself held when it started
/// the child: the kernel counts the moment before `exec` in. So nothing big may be kept here.
pub(super) fn run(command: &mut Command, stderr: &Path) -> Result<Cost, String> {
    let errors =
        File::create(stderr).map_err(|error| format!("cannot write {}: {error}", stderr.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let name = command.get_program().to_string_lossy().into_owned();
    let began = Instant::now();
    let child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
    let pid = libc::pid_t::try_from(child.id()).map_err(|_| format!("{name} has no process id"))?;
    let (status, usage) = wait4(pid).map_err(|error| format!("cannot wait for {name}: {error}"))?;
    let wall_s = began.elapsed().as_secs_f64();
    if !libc::WIFEXITED(status) {
        return Err(format!("{name} was ended by signal {}", libc::WTERMSIG(status)));
    }
    let code = libc::WEXITSTATUS(status);
    if code != 0 {
        let said = std::fs::read(stderr).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        return Err(format!("{name} failed with status {code}: {last}"));
    }
    Ok(Cost {
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        wall_s,
        // Kibibytes on Linux, bytes on macOS.
        peak_bytes: usage.ru_maxrss as f64 * if cfg!(target_os = "macos") { 1.0 } else { 1024.0 },
    })
}

/// Waits for a child and returns its status and what it used. `std` waits too, but drops the usage.
#[allow(unsafe_code)]
fn wait4(pid: libc::pid_t) -> std::io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` is a C struct of integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values of the types wait4(2) asks for. `pid` is a child of ours that nobody
        // else waits for: dropping `std::process::Child` does not.
        if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } == pid {
            return Ok((status, usage));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost_of(script: &str) -> Result<Cost, String> {
        let dir = iotide_testkit::FreshDir::new("measure");
        let mut command = Command::new("sh");
        run(command.args(["-c", script]), &dir.join("stderr"))
    }

    #[test]
    fn a_program_that_works_costs_more_cpu_than_one_that_does_not() {
        let idle = cost_of("exit 0").unwrap();
        let busy = cost_of("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").unwrap();
        assert!(busy.cpu_s > idle.cpu_s, "{busy:?} {idle:?}");
        assert!(busy.wall_s > 0.0 && busy.peak_bytes > 1e5, "{busy:?}");
    }

    #[test]
    fn a_failure_is_told_with_the_last_words_of_the_program() {
        let error = cost_of("echo one >&2; echo two >&2; exit 3").unwrap_err();
        assert!(error.ends_with("failed with status 3: two"), "{error}");
        assert!(cost_of("kill -9 $$").unwrap_err().contains("signal 9"));
    }
}
