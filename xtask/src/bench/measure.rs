//! What a child process cost, from the kernel's own books.

use std::process::{Command, Stdio};
use std::time::Instant;

/// What one run of a program cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// User and system time of the child and of all children it waited for.
    pub(super) cpu_s: f64,
    /// From start to end.
    pub(super) wall_s: f64,
    /// The most memory the child, or one it waited for, held at once.
    pub(super) peak_bytes: f64,
}

/// Runs `command` with nothing on its stdin and its output thrown away.
///
/// Exit statuses listed in `fine` are success. The peak is never below what this process itself held when it started
/// the child: the kernel counts the moment before `exec` in. So nothing big may be kept here.
pub(super) fn run(command: &mut Command, fine: &[i32]) -> Result<Cost, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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
    if !fine.contains(&code) {
        return Err(format!("{name} failed with status {code}"));
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

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_works_costs_more_cpu_than_one_that_does_not() {
        let idle = run(&mut shell("exit 0"), &[0]).unwrap();
        let busy = run(&mut shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"), &[0]).unwrap();
        assert!(busy.cpu_s > idle.cpu_s, "{busy:?} {idle:?}");
        assert!(busy.wall_s > 0.0 && busy.peak_bytes > 1e5, "{busy:?}");
    }

    #[test]
    fn an_unexpected_status_is_an_error_that_names_it() {
        assert!(run(&mut shell("exit 1"), &[0, 1]).is_ok());
        assert!(run(&mut shell("exit 3"), &[0, 1]).unwrap_err().contains("status 3"));
        assert!(run(&mut shell("kill -9 $$"), &[0]).unwrap_err().contains("signal 9"));
    }
}
