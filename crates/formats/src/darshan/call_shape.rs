//! Sizes and order of a layer's calls, and the time of its slowest rank, out of its counters.

use std::collections::HashMap;

use iotide_trace::{CallShape, CommonSize, Layer, SIZE_RANGES, SlowestRank, WayShape};

use super::records::{CounterTable, Record};

/// Collects the shape of a layer's calls, one record after the other.
pub(super) struct ShapeSums {
    ways: [WayColumns; 2],
    strides: Vec<usize>,
    /// Size and count of the commonest sizes of a record.
    common: Vec<(usize, usize)>,
    bytes: Vec<usize>,
    times: Vec<usize>,
    slowest_time: Option<usize>,
    shape: CallShape,
    sizes: HashMap<u64, u64>,
    moved: f64,
    own_s: HashMap<i64, f64>,
    shared_s: f64,
}

struct WayColumns {
    sizes: Option<[usize; SIZE_RANGES.len()]>,
    consecutive: Option<usize>,
}

/// More sizes than are common in any run; a size that comes later is counted nowhere.
const MOST_SIZES: usize = 1 << 16;

impl ShapeSums {
    pub(super) fn of(layer: Layer, table: &CounterTable) -> Self {
        let prefix = super::events::table_prefix(layer, table);
        let int = |name: String| table.int_column(&format!("{prefix}{name}"));
        let float = |name: String| table.float_column(&format!("{prefix}F_{name}"));
        let aggregated = if layer == Layer::MpiIo { "AGG_" } else { "" };
        let ranges = [
            "0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G",
            "1G_PLUS",
        ];
        let way = |word: &str| {
            let sizes = ranges.map(|range| int(format!("SIZE_{word}_{aggregated}{range}")));
            WayColumns {
                sizes: sizes.iter().all(Option::is_some).then(|| sizes.map(Option::unwrap_or_default)),
                consecutive: int(format!("CONSEC_{word}S")),
            }
        };
        let numbered = |name: &str| {
            (1..=4).filter_map(|i| int(name.replace('#', &i.to_string()))).collect::<Vec<usize>>()
        };
        let of_layer = |names: [&str; 3]| -> Vec<usize> {
            let of = |before: &str| -> Option<Vec<usize>> {
                names.iter().map(|name| float(format!("{before}{name}"))).collect()
            };
            of("").or_else(|| of("POSIX_")).unwrap_or_default()
        };
        Self {
            ways: [way("READ"), way("WRITE")],
            strides: numbered("STRIDE#_COUNT"),
            common: numbered("ACCESS#_ACCESS").into_iter().zip(numbered("ACCESS#_COUNT")).collect(),
            bytes: ["BYTES_READ", "BYTES_WRITTEN"]
                .iter()
                .filter_map(|name| int((*name).to_owned()))
                .collect(),
            times: of_layer(["READ_TIME", "WRITE_TIME", "META_TIME"]),
            slowest_time: float("SLOWEST_RANK_TIME".to_owned()),
            shape: CallShape::default(),
            sizes: HashMap::new(),
            moved: 0.0,
            own_s: HashMap::new(),
            shared_s: 0.0,
        }
    }

    pub(super) fn add(&mut self, record: Record) {
        let count = |column: usize| record.int(column).and_then(|value| u64::try_from(value).ok());
        let CallShape { reads, writes, strided, .. } = &mut self.shape;
        for (way, columns) in [reads, writes].into_iter().zip(&self.ways) {
            add_way(way, columns, count);
        }
        if !self.strides.is_empty() {
            let here = self.strides.iter().filter_map(|&column| count(column)).fold(0, u64::saturating_add);
            *strided = Some(strided.unwrap_or(0).saturating_add(here));
        }
        for &(size, calls) in &self.common {
            if let (Some(size), Some(calls @ 1..)) = (count(size), count(calls))
                && (self.sizes.len() < MOST_SIZES || self.sizes.contains_key(&size))
            {
                let known = self.sizes.entry(size).or_default();
                *known = known.saturating_add(calls);
            }
        }
        self.moved += self.bytes.iter().filter_map(|&column| count(column)).map(|n| n as f64).sum::<f64>();
        let seconds = |column: usize| record.float(column).filter(|s| *s > 0.0 && s.is_finite());
        if let [read, write, metadata] = self.times[..] {
            let sums = self.shape.times_s.get_or_insert_default();
            for (sum, column) in sums.iter_mut().zip([read, write, metadata]) {
                *sum += seconds(column).unwrap_or(0.0);
            }
        }
        if record.rank < 0 {
            self.shared_s += self.slowest_time.and_then(seconds).unwrap_or(0.0);
        } else {
            let own_s: f64 = self.times.iter().filter_map(|&column| seconds(column)).sum();
            *self.own_s.entry(record.rank).or_default() += own_s;
        }
    }

    pub(super) fn finish(self) -> CallShape {
        let Self { mut shape, sizes, moved, own_s, shared_s, slowest_time, times, .. } = self;
        shape.common_sizes = sizes.into_iter().map(|(bytes, calls)| CommonSize { bytes, calls }).collect();
        shape.sort_sizes();
        // The lower rank on a tie.
        let longest = own_s.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let longest = longest.filter(|(_, seconds)| *seconds > 0.0);
        if slowest_time.is_some() && !times.is_empty() {
            shape.slowest = Some(SlowestRank {
                bytes: moved,
                own_s: longest.map_or(0.0, |(_, seconds)| seconds),
                rank: longest.map(|(rank, _)| super::events::rank_of(rank)),
                shared_s,
            });
        }
        shape
    }
}

fn add_way(way: &mut WayShape, columns: &WayColumns, count: impl Fn(usize) -> Option<u64>) {
    if let Some(columns) = columns.sizes {
        let sizes = way.sizes.get_or_insert_default();
        for (sum, column) in sizes.iter_mut().zip(columns) {
            *sum = sum.saturating_add(count(column).unwrap_or(0));
        }
    }
    if let Some(calls) = columns.consecutive.and_then(count) {
        way.consecutive = Some(way.consecutive.unwrap_or(0).saturating_add(calls));
    }
}
