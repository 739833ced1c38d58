//! Doing what a controller says: files written, programs run, none of them waited for longer than report.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_sched::Action;

/// Does one step. A program that takes longer than `within`, or is at it when `is_over`, is ended.
pub fn carry_out(action: &Action, within: Duration, is_over: &dyn Fn() -> bool) -> anyhow::Result<()> {
    let done = match action {
        Action::MakeDirectory(path) => match std::fs::create_dir(path) {
            // One that was told before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        },
        Action::Write { path, line } => std::fs::write(path, format!("{line}\n")),
        Action::RemoveDirectory(path) => {
            // In configfs a directory goes with its files, which cannot be removed; elsewhere they must be.
            let _ = std::fs::remove_file(path.join("priority"));
            std::fs::remove_dir(path)
        }
        Action::Run(words) => {
            return execute(words, None, Stdio::null(), within, is_over)
                .map(drop)
                .context(action.to_string());
        }
    };
    done.with_context(|| action.to_string())
}

/// Runs a program that must succeed, and returns what it prints.
pub fn run(words: &[String], within: Duration, is_over: &dyn Fn() -> bool) -> anyhow::Result<String> {
    execute(words, None, Stdio::piped(), within, is_over)
}

/// Runs a program that nobody else ends.
pub(crate) fn run_program(words: &[&str], within: Duration) -> anyhow::Result<String> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    run(&words, within, &|| false).with_context(|| words.join(" "))
}

/// The same in a folder.
pub(crate) fn run_in(
    words: &[String],
    folder: &Path,
    within: Duration,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<String> {
    execute(words, Some(folder), Stdio::piped(), within, is_over)
}

fn execute(
    words: &[String],
    folder: Option<&Path>,
    stdout: Stdio,
    within: Duration,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<String> {
    let (program, args) = words.split_first().context("there is no program to run")?;
    let mut command = Command::new(program);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let mut child = command
        .args(args)
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    // Read beside: a program that prints much must not wait for us while we wait for it.
    let printed = child.stdout.take().map(|stdout| {
        let (send, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stdout.take(MAX_PRINTED).read_to_end(&mut text);
            let _ = send.send(text);
        });
        printed
    });
    let began = Instant::now();
    let hung = || Hung { program: program.clone(), within };
    let Some(status) = wait(&mut child, within, is_over)? else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(hung().into());
    };
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    let Some(printed) = printed else { return Ok(String::new()) };
    // What it started itself may hold its output open for ever; then nobody knows whether that is all of it.
    let left = within.saturating_sub(began.elapsed()).max(Duration::from_millis(100));
    let text = printed.recv_timeout(left).map_err(|_| hung())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// No counters of jobs are longer.
const MAX_PRINTED: u64 = 64 << 20;

/// A program had to be ended.
#[derive(Debug)]
pub struct Hung {
    program: String,
    within: Duration,
}

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} did not end within {} s", self.program, self.within.as_secs_f64())
    }
}

impl std::error::Error for Hung {}

fn wait(
    child: &mut Child,
    within: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= within || is_over() {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(50));
    }
}
