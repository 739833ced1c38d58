//! The lines of `job_stats`.

use std::collections::BTreeMap;

use crate::lenient::parse_u64;

/// Content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Nothing, or that what follows is `job_stats`.
    Blank,
    /// `obdfilter.scratch-OST0000.job_stats=`: which target what follows is about.
    Target(&'a [u8]),
    /// `- job_id: 4711`: an entry begins.
    Job(&'a [u8]),
    /// `name: value` of an entry.
    Field(&'a [u8], &'a [u8]),
    /// Something else.
    Other,
}

impl<'a> Line<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        let text = line.trim_ascii();
        if let Some(target) = target_of(text) {
            return Line::Target(target);
        }
        if text.is_empty() || text == b"job_stats:" {
            return Line::Blank;
        }
        if let Some(job) = text.strip_prefix(b"- job_id:") {
            let job = job.trim_ascii();
            return Line::Job(job.strip_prefix(b"\"").and_then(|job| job.strip_suffix(b"\"")).unwrap_or(job));
        }
        match memchr::memchr(b':', text) {
            Some(colon) => Line::Field(&text[..colon], text[colon + 1..].trim_ascii()),
            None => Line::Other,
        }
    }
}

/// `obdfilter.scratch-OST0000.job_stats=`, as `lctl get_param` prints it.
pub(super) fn target_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"job_stats:").unwrap_or(line).trim_ascii_end();
    let name = line.strip_suffix(b".job_stats=")?;
    Some(name.rsplit(|&byte| byte == b'.').next().unwrap_or(name))
}

/// Totals of a counter so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) samples: u64,
    pub(super) bytes: u64,
}

impl Totals {
    /// `{ samples: 16, unit: bytes, min: 4096, max: 1048576, sum: 16777216 }`; the sum is wanted only where it is one of bytes.
    pub(super) fn of(value: &[u8], with_bytes: bool) -> Option<Self> {
        let mut totals = Self::default();
        let mut has_samples = false;
        let inner = value.strip_prefix(b"{")?;
        let inner = inner.strip_suffix(b"}").unwrap_or(inner);
        for field in inner.split(|&byte| byte == b',') {
            let Some(colon) = memchr::memchr(b':', field) else { continue };
            let (name, value) = (field[..colon].trim_ascii(), field[colon + 1..].trim_ascii());
            match name {
                b"samples" => {
                    totals.samples = parse_u64(value)?;
                    has_samples = true;
                }
                b"sum" if with_bytes => totals.bytes = parse_u64(value)?,
                _ => {}
            }
        }
        has_samples.then_some(totals)
    }
}

/// Requests of each job so far, from the text of `lctl get_param obdfilter.*.job_stats`, all targets of a server together.
///
/// Lustre counts the bytes of each read or write request, so the number of samples is the number of requests. A line that
/// is not understood is passed over: newer servers count more than older ones.
pub fn requests_by_job(job_stats: &str) -> BTreeMap<String, u64> {
    let mut by_job = BTreeMap::new();
    let mut job = None;
    for line in job_stats.lines() {
        match Line::of(line.as_bytes()) {
            Line::Job(id) => job = Some(String::from_utf8_lossy(id).into_owned()),
            Line::Field(b"read_bytes" | b"write_bytes", value) => {
                if let (Some(job), Some(totals)) = (&job, Totals::of(value, false)) {
                    let so_far = by_job.entry(job.clone()).or_insert(0u64);
                    *so_far = so_far.saturating_add(totals.samples);
                }
            }
            _ => {}
        }
    }
    by_job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_reads_and_writes_are_added_over_targets() {
        let stats = "obdfilter.fs-OST0000.job_stats=\njob_stats:\n\
            - job_id:          dd.0\n  snapshot_time:   1510782606\n\
            \x20 read_bytes:      { samples:           3, unit: bytes, min: 4096, max: 1048576, sum: 2101248 }\n\
            \x20 write_bytes:     { samples:          40, unit: bytes, min: 1048576, max: 1048576, sum: 41943040 }\n\
            \x20 punch:           { samples:           7, unit:  reqs }\n\
            obdfilter.fs-OST0001.job_stats=\njob_stats:\n\
            - job_id:          \"4711\"\n  write_bytes: { samples: 5, unit: bytes }\n\
            - job_id:          dd.0\n  read_bytes: { samples: 1 }\n  write_bytes: { nothing }\n";
        let expected = [("4711".to_owned(), 5), ("dd.0".to_owned(), 44)];
        assert_eq!(requests_by_job(stats), expected.into_iter().collect());
        assert!(requests_by_job("write_bytes: { samples: 5 }\n\u{0}job_id").is_empty());
    }
}
