//! Messages between a skeleton and its processes over pipes, one line each.
//!
//! The skeleton says one thing, `go TIME` (at the start, and with a time to compute also before each later burst, once
//! all are done with the one before), and hangs up to say stop; so a process notices at once, and cleans up after itself,
//! when the skeleton is killed. A process says `ready`, then `burst` after each burst, and at its end the whole
//! list of what it did (`op …`), and `done` or `failed WHY`. Operations travel by pipe rather than by file because the
//! storage under test may be full.

use std::fmt;

use iotide_trace::Op;

/// One call on a file, in nanoseconds since the common start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Which process.
    pub rank: u32,
    /// Whether it wrote or read.
    pub op: Op,
    /// When it began, in nanoseconds from the start.
    pub start_ns: u64,
    /// When it was done.
    pub end_ns: u64,
    /// How much was moved.
    pub bytes: u64,
}

/// Message from a process to its skeleton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Ready,
    Burst { index: u32, start_ns: u64, end_ns: u64 },
    Op { op: Op, start_ns: u64, end_ns: u64, bytes: u64 },
    Done,
    Failed(String),
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Ready => write!(f, "ready"),
            Message::Burst { index, start_ns, end_ns } => write!(f, "burst {index} {start_ns} {end_ns}"),
            Message::Op { op, start_ns, end_ns, bytes } => {
                write!(f, "op {} {start_ns} {end_ns} {bytes}", op.name())
            }
            Message::Done => write!(f, "done"),
            Message::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl Message {
    /// Reads a line as [`Message`]'s `Display` writes it.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut numbers = rest.split(' ');
        Some(match word {
            "ready" => Message::Ready,
            "done" => Message::Done,
            "failed" => Message::Failed(rest.to_owned()),
            "burst" => Message::Burst {
                index: numbers.next()?.parse().ok()?,
                start_ns: numbers.next()?.parse().ok()?,
                end_ns: numbers.next()?.parse().ok()?,
            },
            "op" => Message::Op {
                op: Op::from_name(numbers.next()?)?,
                start_ns: numbers.next()?.parse().ok()?,
                end_ns: numbers.next()?.parse().ok()?,
                bytes: numbers.next()?.parse().ok()?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard() {
        let messages = [
            Message::Ready,
            Message::Burst { index: 3, start_ns: 5, end_ns: 7 },
            Message::Op { op: Op::Write, start_ns: 1, end_ns: u64::MAX, bytes: 1 << 40 },
            Message::Done,
            Message::Failed("no space left on device".to_owned()),
        ];
        for message in messages {
            assert_eq!(Message::parse(&message.to_string()), Some(message));
        }
    }

    #[test]
    fn noise_is_not_a_message() {
        for line in ["", "burst", "burst 1 2", "op write 1 2 x", "op fly 1 2 3", "hello"] {
            assert_eq!(Message::parse(line), None, "{line:?}");
        }
    }
}
