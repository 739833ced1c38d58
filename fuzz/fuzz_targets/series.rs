//! Any bytes as metrics over time: what is read is written and read again as the same, and folding keeps what it says it keeps.
#![no_main]

use iotide_ledger::series::{ColumnKind, MAX_COLUMNS, MAX_TICKS, Rows, Sample, points};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // With and without a head that is believed.
    for bytes in [bytes.to_vec(), [&[1, 0], bytes].concat()] {
        let Ok(rows) = Rows::decode(&bytes) else { continue };
        assert!(rows.ticks().len() <= MAX_TICKS && rows.columns().count() <= MAX_COLUMNS);
        let all = |rows: &Rows| -> Vec<(u32, u64, u64, u32)> {
            let bits = |sample| match sample {
                Sample::Counter(value) => value,
                Sample::Gauge(value) => value.to_bits(),
            };
            let of = |(id, _)| rows.column(id).map(move |(tick, sample, n)| (id, tick, bits(sample), n));
            rows.columns().flat_map(of).collect()
        };
        let again = Rows::decode(&rows.encode()).expect("it was written just now");
        assert_eq!((again.ticks(), all(&again)), (rows.ticks(), all(&rows)));
        let folded = rows.fold();
        for (id, kind) in rows.columns() {
            if kind == ColumnKind::Counter {
                let last = |rows: &Rows| rows.column(id).last().map(|(_, sample, _)| sample);
                assert_eq!(last(&rows), last(&folded));
            }
            if let Some(points) = points([&rows].into_iter(), id, (0, u64::MAX), 100) {
                assert!(points.values.len() <= 100);
            }
        }
    }
});
