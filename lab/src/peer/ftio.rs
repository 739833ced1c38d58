//! FTIO, asked for periods: one process, one question after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use iotide_trace::StepSignal;

use super::interpreter_of;

/// Periods with confidences, the main one first.
pub type Periods = Vec<(f64, f64)>;

/// A process of FTIO; ended when dropped.
pub struct Ftio {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Ftio {
    /// Starts FTIO, which samples at this rate; `None` if it is not installed. Its complaints go to `stderr`.
    pub fn start(rate_hz: f64, stderr: Stdio) -> Option<Self> {
        let mut child = Command::new(interpreter_of("ftio")?)
            .args(["-c", include_str!("ask_ftio.py"), &rate_hz.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .ok()?;
        let (questions, answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        Some(Self { child, questions, answers })
    }

    /// Asks for the periods of a bandwidth. FTIO's Δt begins at the first time it is given: the signal's, or 0 if `from_zero`.
    pub fn ask(&mut self, signal: &StepSignal, from_zero: bool) -> Result<Periods, String> {
        let gone = |error: std::io::Error| format!("ftio-hpc: {error}");
        self.questions.write_all(question(signal, from_zero).as_bytes()).map_err(gone)?;
        self.questions.flush().map_err(gone)?;
        let mut line = String::new();
        if self.answers.read_line(&mut line).map_err(gone)? == 0 {
            return Err("ftio-hpc ended".to_owned());
        }
        Ok(parse_answer(&line))
    }
}

impl Drop for Ftio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn question(signal: &StepSignal, from_zero: bool) -> String {
    let list = |numbers: &mut dyn Iterator<Item = f64>| {
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
    };
    let silence = signal.times().first().is_some_and(|first| first.as_nanos() > 0);
    let lead = (from_zero && silence).then_some(0.0);
    let times = list(&mut lead.into_iter().chain(signal.times().iter().map(|time| time.as_secs())));
    let rates = list(&mut lead.into_iter().chain(signal.rates_bps().iter().copied()));
    format!("{{\"t\":[{times}],\"b\":[{rates}]}}\n")
}

/// `[[21.4, 0.9], …]` as pairs.
fn parse_answer(line: &str) -> Periods {
    let numbers: Vec<f64> =
        line.split(['[', ']', ',', ' ']).filter_map(|number| number.parse().ok()).collect();
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use iotide_trace::Timestamp;

    use super::*;

    #[test]
    fn an_answer_of_the_peer_is_read_back() {
        assert_eq!(parse_answer("[[21.4, 0.9], [3.0, 0.1]]"), [(21.4, 0.9), (3.0, 0.1)]);
        assert!(parse_answer("[]").is_empty());
    }

    #[test]
    fn a_question_begins_with_the_run_if_that_is_asked_for() {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let signal = StepSignal::new(vec![at(2.0), at(3.0)], vec![5.0, 0.0]);
        assert_eq!(question(&signal, true), "{\"t\":[0,2,3],\"b\":[0,5,0]}\n");
        assert_eq!(question(&signal, false), "{\"t\":[2,3],\"b\":[5,0]}\n");
    }
}
