//! A command that is run at each prediction, one at a time.

use std::collections::VecDeque;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs a command through the shell. While it runs, the newest prediction of each job waits and older ones are forgotten.
pub(crate) struct Hook {
    command: String,
    running: Option<Child>,
    /// By job, whoever waits longest first.
    waiting: VecDeque<(usize, Call)>,
    has_complained: bool,
}

struct Call {
    json: String,
    variables: Vec<(&'static str, String)>,
}

impl Hook {
    /// How long the last command may take once following has ended.
    const PATIENCE: Duration = Duration::from_secs(10);

    pub(crate) fn new(command: &str) -> Self {
        Self { command: command.to_owned(), running: None, waiting: VecDeque::new(), has_complained: false }
    }

    /// Queues this prediction of a job for the next run of the command.
    pub(crate) fn offer(&mut self, job: usize, json: String, variables: Vec<(&'static str, String)>) {
        let call = Call { json, variables };
        match self.waiting.iter_mut().find(|(other, _)| *other == job) {
            Some((_, older)) => *older = call,
            None => self.waiting.push_back((job, call)),
        }
    }

    /// Starts the command if it is due; returns a complaint, if there is a first one. What a `silent` one prints is not shown.
    pub(crate) fn turn(&mut self, silent: bool) -> Option<String> {
        let mut complaint = None;
        if let Some(child) = &mut self.running {
            match child.try_wait() {
                Ok(None) => return None,
                Ok(Some(status)) if !status.success() => {
                    complaint = Some(format!("`{}` failed: {status}", self.command));
                }
                Ok(Some(_)) => {}
                Err(error) => complaint = Some(format!("`{}`: {error}", self.command)),
            }
            self.running = None;
        }
        if let Some((_, call)) = self.waiting.pop_front() {
            match self.start(&call, silent) {
                Ok(child) => self.running = Some(child),
                Err(error) => complaint = Some(format!("cannot run `{}`: {error}", self.command)),
            }
        }
        complaint.filter(|_| !std::mem::replace(&mut self.has_complained, true))
    }

    fn start(&self, call: &Call, silent: bool) -> std::io::Result<Child> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::piped());
        // Our stdout is for predictions.
        command.stdout(if silent { Stdio::null() } else { Stdio::from(std::io::stderr()) });
        if silent {
            command.stderr(Stdio::null());
        }
        let mut child = command.envs(call.variables.iter().map(|(name, value)| (name, value))).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A line fits into a pipe; a command that does not read it is nobody's fault.
            let _ = stdin.write_all(call.json.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
        }
        Ok(child)
    }

    /// Lets the command hear the last prediction, and waits for it, but not for ever.
    pub(crate) fn finish(mut self) {
        let until = Instant::now() + Self::PATIENCE;
        while (self.running.is_some() || !self.waiting.is_empty()) && Instant::now() < until {
            self.turn(true);
            if self.running.is_some() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
