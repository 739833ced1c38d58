//! Cost of finding one signature: eight samples of some 750 points, as `accuracy signature` makes them.

use iotide_analysis::{SignatureConfig, SignatureMethod, extract};

use super::{Bed, Goal, Line};
use crate::synthetic::server_log::{APPLICATIONS, NOISES, make};

/// CPU time of a signature, the mean over both kinds of noise, for each method.
///
/// In this process, which is built as the product is: a process of its own would cost more than what is measured.
pub(super) fn cpu_of_a_signature(_: &Bed) -> Result<Vec<Line>, String> {
    const N_CASES: usize = 40;
    let cases: Vec<_> =
        (0..N_CASES).map(|i| make(&APPLICATIONS[0], &NOISES[i % NOISES.len()], 8, 77 + i as u64)).collect();
    let methods = [
        ("consensus", SignatureMethod::Consensus, Goal::AtMost(2.0)),
        ("iosi", SignatureMethod::Iosi, Goal::None),
    ];
    methods
        .into_iter()
        .map(|(name, method, goal)| {
            let config = SignatureConfig { method, ..SignatureConfig::default() };
            let (mut best_s, mut n_bursts) = (f64::INFINITY, 0);
            // The best of five: what else the machine does only ever adds.
            for _ in 0..5 {
                let began_s = cpu_s()?;
                for case in &cases {
                    let found = extract(&case.samples, &config).map_err(|error| error.to_string())?;
                    n_bursts += std::hint::black_box(found).bursts.len();
                }
                best_s = best_s.min((cpu_s()? - began_s) / N_CASES as f64);
            }
            if n_bursts == 0 {
                return Err(format!("no signature of {name} has a burst"));
            }
            Ok(Line {
                what: format!("a signature of 8 samples of 750 points, {name}: CPU time"),
                unit: "ms",
                iotide: 1e3 * best_s,
                peer: None,
                goal,
            })
        })
        .collect()
}

/// The time this thread has spent on a core, from the kernel's books.
fn cpu_s() -> Result<f64, String> {
    let books = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(books).map_err(|error| format!("cannot read {books}: {error}"))?;
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.map(|ns| ns * 1e-9).ok_or_else(|| format!("{books} holds no time"))
}
