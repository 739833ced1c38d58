//! Which boot of the machine this is, and when it began: what was written before it and never synced may have come back shorter.

use std::fs;
use std::io;

/// A boot of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(crate) id: u128,
    /// In nanoseconds since 1970, by the clock as it stands now.
    pub(crate) began_ns: i64,
}

impl Boot {
    pub(crate) fn present() -> io::Result<Self> {
        let strange =
            |path: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{path} says nothing of it"));
        let (id, times) = ("/proc/sys/kernel/random/boot_id", "/proc/stat");
        Ok(Self {
            id: parse_id(&fs::read_to_string(id)?).ok_or_else(|| strange(id))?,
            began_ns: parse_began(&fs::read_to_string(times)?).ok_or_else(|| strange(times))?,
        })
    }
}

/// `1b4e28ba-2fa1-11d2-883f-0016d3cca427`
fn parse_id(text: &str) -> Option<u128> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())?
}

/// `btime 1763466001`, among lines of other things: seconds since 1970.
fn parse_began(text: &str) -> Option<i64> {
    let seconds: f64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    (0.0..9e9).contains(&seconds).then_some((seconds * 1e9) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_an_id_and_began_in_the_past() {
        assert_eq!(parse_id("00000000-0000-0000-0000-0000000000ff\n"), Some(255));
        assert_eq!([parse_id(""), parse_id("ff"), parse_id(&"g".repeat(32))], [None; 3]);
        assert_eq!(parse_began("cpu  1 2\nbtime 25\nprocesses 7\n"), Some(25_000_000_000));
        assert_eq!([parse_began("cpu 1"), parse_began("btime -1"), parse_began("btime NaN")], [None; 3]);
        let (one, other) = (Boot::present().unwrap(), Boot::present().unwrap());
        assert_eq!(one.id, other.id);
        assert!(one.began_ns < crate::stager::since_1970_ns());
    }
}
