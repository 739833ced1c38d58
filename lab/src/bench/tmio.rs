//! Traces to measure with, in the layout of TMIO's JSON Lines: per flush one line for each mode, then one for the times.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Time between the starts of bursts in the traces written here.
pub(super) const PERIOD_S: f64 = 10.0;

/// How long a burst lasts.
const BURST_S: f64 = 2.0;

const N_RANKS: usize = 64;

/// Writes a run of `n_bursts` bursts, one flush each, with `n_requests` synchronous writes in all.
///
/// Always the same bytes for the same arguments; about 56 of them per request. Nothing but the flush at hand is held in
/// memory.
pub(super) fn write_json_lines(path: &Path, n_requests: usize, n_bursts: usize) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut jitter = Jitter(1);
    let mut written = 0;
    for burst in 0..n_bursts {
        let due = n_requests * (burst + 1) / n_bursts;
        let requests = requests_of(burst, due - written, &mut jitter);
        written = due;
        for mode in ["read_sync", "read_async_t", "read_async_b", "write_async_t", "write_async_b"] {
            write_mode(&mut file, mode, &[])?;
        }
        write_mode(&mut file, "write_sync", &requests)?;
        let io_time_s: f64 = requests.iter().map(|request| request.end_s - request.start_s).sum();
        writeln!(
            file,
            "\t{{\"io_time\":{{\"delta_t_agg\": {io_time_s:.2e},\"delta_t_agg_io\": {io_time_s:.2e},\"delta_t_sr\": 0.00e+00,\
             \"delta_t_ara\": 0.00e+00,\"delta_t_arr\": 0.00e+00,\"delta_t_ar_lost\": 0.00e+00,\
             \"delta_t_sw\": {io_time_s:.2e},\"delta_t_awa\": 0.00e+00,\"delta_t_awr\": 0.00e+00,\
             \"delta_t_aw_lost\": 0.00e+00,\"delta_t_overhead\": 0.00e+00,\"delta_t_overhead_post_runtime\": 0.00e+00,\
             \"delta_t_overhead_runtime\": 0.00e+00,\"delta_t_rank0\": {PERIOD_S:.2e},\
             \"delta_t_rank0_app\": {PERIOD_S:.2e},\"delta_t_rank0_overhead_post_runtime\": 0.00e+00,\
             \"delta_t_rank0_overhead_runtime\": 0.00e+00}}}}"
        )?;
    }
    file.flush()
}

struct Request {
    start_s: f64,
    end_s: f64,
    mb_per_s: f64,
}

/// The ranks of a burst write one request after the other, each at its own uneven pace.
fn requests_of(burst: usize, n: usize, jitter: &mut Jitter) -> Vec<Request> {
    let per_rank = n.div_ceil(N_RANKS).max(1);
    let slot_s = BURST_S / per_rank as f64;
    let begin_s = 1.0 + burst as f64 * PERIOD_S;
    (0..n)
        .map(|index| {
            let start_s = begin_s + (index % per_rank) as f64 * slot_s + jitter.below(0.2 * slot_s);
            let end_s = start_s + (0.6 * slot_s + jitter.below(0.2 * slot_s)).max(2e-6);
            Request { start_s, end_s, mb_per_s: 10_000.0 + jitter.below(5_000.0) }
        })
        .collect()
}

fn write_mode(file: &mut impl Write, mode: &str, requests: &[Request]) -> io::Result<()> {
    let n = requests.len();
    let total: f64 =
        requests.iter().map(|request| request.mb_per_s * (request.end_s - request.start_s)).sum();
    let (per_rank, n_ranks) = if n == 0 { (0, 0) } else { (n.div_ceil(N_RANKS), N_RANKS.min(n)) };
    write!(
        file,
        "\t{{\"{mode}\":{{\"total_bytes\": {total:.2e},\"max_bytes_per_rank\": {:.2e},\
         \"max_transfersize_over_ranks\": {:.2e},\"max_io_phases_per_rank\": {per_rank},\"total_io_phases\": {n},\
         \"max_io_ops_in_phase\": {},\"max_io_ops_per_rank\": {per_rank},\"total_io_ops\": {n},\
         \"number_of_ranks\": {n_ranks},\"bandwidth\": {{\"weighted_harmonic_mean\": 0.00e+00,\
         \"harmonic_mean\": 0.00e+00,\"arithmetic_mean\": 0.00e+00,\"median\": 0.00e+00,\"max\": 0.00e+00,\
         \"min\": 0.00e+00",
        total / N_RANKS as f64,
        total / n.max(1) as f64,
        n.min(1),
    )?;
    write_array(file, "b_rank_avr", requests.iter().map(|request| request.mb_per_s))?;
    write_array(file, "b_rank_sum", requests.iter().map(|request| request.mb_per_s))?;
    write_array(file, "t_rank_s", requests.iter().map(|request| request.start_s))?;
    write_array(file, "t_rank_e", requests.iter().map(|request| request.end_s))?;
    for name in ["b_ind", "t_ind_s", "t_ind_e"] {
        write_array(file, name, std::iter::empty())?;
    }
    writeln!(file, "}}}}}}")
}

fn write_array(file: &mut impl Write, name: &str, values: impl Iterator<Item = f64>) -> io::Result<()> {
    write!(file, ",\"{name}\": [")?;
    let mut number = String::new();
    for (index, value) in values.enumerate() {
        number.clear();
        let separator = if index == 0 { " " } else { ", " };
        let _ = write!(number, "{separator}{value:.6}"); // to a String: cannot fail
        file.write_all(number.as_bytes())?;
    }
    write!(file, "]")
}

/// A small generator (Knuth's MMIX constants): the same numbers everywhere and always.
struct Jitter(u64);

impl Jitter {
    fn below(&mut self, limit: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        limit * (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_all_its_requests_in_seven_lines_per_flush() {
        let dir = iotide_testkit::FreshDir::new("bench");
        let path = dir.join("t.jsonl");
        write_json_lines(&path, 1001, 10).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 70);
        assert!(text.lines().all(|line| line.starts_with("\t{\"") && line.ends_with("}}") && balanced(line)));
        let starts = text.lines().flat_map(|line| line.split("\"t_rank_s\": [").nth(1));
        let n: usize = starts
            .map(|rest| rest.split(']').next().unwrap().split(',').filter(|x| !x.is_empty()).count())
            .sum();
        assert_eq!(n, 1001);
        let per_request = text.len() as f64 / 1001.0;
        assert!(per_request > 40.0, "{per_request}");
    }

    #[test]
    fn the_same_trace_is_written_twice() {
        let dir = iotide_testkit::FreshDir::new("bench");
        write_json_lines(&dir.join("a"), 500, 5).unwrap();
        write_json_lines(&dir.join("b"), 500, 5).unwrap();
        assert!(std::fs::read(dir.join("a")).unwrap() == std::fs::read(dir.join("b")).unwrap());
    }

    fn balanced(line: &str) -> bool {
        line.matches('{').count() == line.matches('}').count()
            && line.matches('[').count() == line.matches(']').count()
    }
}
