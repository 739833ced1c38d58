//! Metrics over time as one daemon answers another: names, kinds and points, in few bytes.

use iotide_wire::{cut_text, take_varint};

use super::column::Column;
use super::columns::{put_text, take_text};
use super::points::Points;
use super::put_varint;
use super::rows::{ColumnKind, MAX_FOLDS, SeriesFault, put_part, take_part};
use crate::Name;

/// Points of one metric.
pub const MAX_POINTS: usize = 10_000;
/// Values of all metrics in one answer.
pub const MAX_VALUES: usize = 200_000;
/// Metrics in one answer.
const MAX_METRICS: usize = 8192;
/// Losses in one answer, and the length of each.
const MAX_LOSSES: usize = 64;
const MAX_LOSS: usize = 1024;
/// No time is later than this, in seconds since 1970.
const MAX_SECOND: u64 = 1 << 40;
const VERSION: u8 = 1;

/// Answer about some metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesAnswer {
    /// The metrics, each once.
    pub metrics: Vec<MetricAnswer>,
    /// Missing parts, in words.
    pub losses: Vec<String>,
}

/// Answer about one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricAnswer {
    /// Its name.
    pub name: Name,
    /// Kind of its values.
    pub kind: ColumnKind,
    /// Its values, if there are any and they were asked for.
    pub points: Option<Points>,
}

impl SeriesAnswer {
    /// Returns the answer as bytes. Metrics and losses beyond what an answer can have are left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.losses.len().min(MAX_LOSSES) as u64);
        for loss in self.losses.iter().take(MAX_LOSSES) {
            put_text(&mut out, cut_text(loss, MAX_LOSS));
        }
        put_varint(&mut out, self.metrics.len().min(MAX_METRICS) as u64);
        let mut part = Vec::new();
        for MetricAnswer { name, kind, points } in self.metrics.iter().take(MAX_METRICS) {
            out.push(u8::from(*kind == ColumnKind::Gauge) | u8::from(points.is_some()) << 1);
            put_text(&mut out, name.as_str());
            if let Some(Points { folds, first_tick, ticks_a_point, values }) = points {
                out.push(*folds);
                for number in [*first_tick, *ticks_a_point, values.len() as u64] {
                    put_varint(&mut out, number);
                }
                let mut column = Column::new(*kind);
                for (index, value) in values.iter().enumerate() {
                    if let Some((sample, count)) = *value {
                        column.add(index + 1, sample, count);
                    }
                }
                column.encode(values.len(), &mut part);
                put_part(&mut out, &mut part);
            }
        }
        out
    }

    /// Reads an answer.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, SeriesFault> {
        let bytes = &mut bytes;
        match take_byte(bytes)? {
            VERSION => {}
            version => return Err(SeriesFault::Version(version)),
        }
        let n_losses = take_bounded(bytes, "losses", MAX_LOSSES as u64)?;
        let losses = (0..n_losses)
            .map(|_| take_text(bytes, MAX_LOSS).map(str::to_owned).ok_or(SeriesFault::Length))
            .collect::<Result<_, _>>()?;
        let n_metrics = take_bounded(bytes, "metrics", MAX_METRICS as u64)?;
        let mut n_left = MAX_VALUES;
        let metrics = (0..n_metrics as u32)
            .map(|index| {
                let flags = take_byte(bytes)?;
                let kind = if flags & 1 == 1 { ColumnKind::Gauge } else { ColumnKind::Counter };
                let name =
                    take_text(bytes, Name::MAX_BYTES).and_then(Name::new).ok_or(SeriesFault::Length)?;
                let points = match flags & 2 {
                    0 => None,
                    _ => Some(take_points(bytes, kind, index, &mut n_left)?),
                };
                Ok(MetricAnswer { name, kind, points })
            })
            .collect::<Result<_, _>>()?;
        if bytes.is_empty() { Ok(Self { metrics, losses }) } else { Err(SeriesFault::Length) }
    }
}

/// Reads the points of a metric; so many values may still be in the answer.
fn take_points(
    bytes: &mut &[u8],
    kind: ColumnKind,
    index: u32,
    n_left: &mut usize,
) -> Result<Points, SeriesFault> {
    let folds = take_byte(bytes)?;
    if folds > MAX_FOLDS {
        let (claimed, most) = (folds.into(), MAX_FOLDS.into());
        return Err(SeriesFault::TooMany { what: "folds", claimed, most });
    }
    let first_tick = take_bounded(bytes, "seconds", MAX_SECOND >> folds)?;
    let ticks_a_point = take_bounded(bytes, "seconds", MAX_SECOND >> folds)?;
    let n = take_bounded(bytes, "values", MAX_POINTS.min(*n_left) as u64)? as usize;
    *n_left -= n;
    let column = Column::decode(kind, n, take_part(bytes)?).ok_or(SeriesFault::Column(index))?;
    Ok(Points { folds, first_tick, ticks_a_point, values: (0..n).map(|index| column.get(index)).collect() })
}

fn take_byte(bytes: &mut &[u8]) -> Result<u8, SeriesFault> {
    let (&byte, rest) = bytes.split_first().ok_or(SeriesFault::Length)?;
    *bytes = rest;
    Ok(byte)
}

fn take_bounded(bytes: &mut &[u8], what: &'static str, most: u64) -> Result<u64, SeriesFault> {
    let claimed = take_varint(bytes).ok_or(SeriesFault::Length)?;
    if claimed > most { Err(SeriesFault::TooMany { what, claimed, most }) } else { Ok(claimed) }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Sample;
    use super::*;
    use proptest::prelude::*;

    fn points(kind: ColumnKind) -> impl Strategy<Value = Points> {
        let gauge = prop_oneof![(0i32..10_000).prop_map(|value| f64::from(value) / 100.0), any::<f64>()];
        let value = (any::<u64>(), gauge, 1u32..5).prop_map(move |(whole, any, count)| match kind {
            ColumnKind::Counter => (Sample::Counter(whole), count),
            ColumnKind::Gauge => (Sample::Gauge(any), count),
        });
        let values = prop::collection::vec(prop::option::weighted(0.8, value), 1..80);
        (0..=MAX_FOLDS, any::<(u32, u8)>(), values).prop_map(|(folds, (first, ticks), values)| Points {
            folds,
            first_tick: u64::from(first) >> folds,
            ticks_a_point: u64::from(ticks),
            values,
        })
    }

    fn metric() -> impl Strategy<Value = MetricAnswer> {
        let kind = prop::sample::select(vec![ColumnKind::Counter, ColumnKind::Gauge]);
        kind.prop_flat_map(|kind| {
            (".{0,30}", prop::option::weighted(0.7, points(kind))).prop_map(move |(name, points)| {
                MetricAnswer { name: Name::cut(name.as_bytes()), kind, points }
            })
        })
    }

    fn answer() -> impl Strategy<Value = SeriesAnswer> {
        let losses = prop::collection::vec(".{0,60}", 0..4);
        (prop::collection::vec(metric(), 0..5), losses)
            .prop_map(|(metrics, losses)| SeriesAnswer { metrics, losses })
    }

    /// With the bits of numbers, so that what is no number is the same as itself.
    fn shown(answer: &SeriesAnswer) -> String {
        let bits = |(sample, count): (Sample, u32)| (sample.bits(), count);
        let of = |metric: &MetricAnswer| {
            let points = metric.points.as_ref().map(|points| {
                let values: Vec<_> = points.values.iter().map(|value| value.map(bits)).collect();
                (points.folds, points.first_tick, points.ticks_a_point, values)
            });
            format!("{:?} {:?} {points:?}", metric.name, metric.kind)
        };
        format!("{:?} {:?}", answer.losses, answer.metrics.iter().map(of).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn answers_are_read_as_they_were_written(answer in answer(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = answer.encode();
            prop_assert_eq!(SeriesAnswer::decode(&bytes).map(|read| shown(&read)), Ok(shown(&answer)));
            for end in 0..bytes.len() {
                prop_assert!(SeriesAnswer::decode(&bytes[..end]).is_err());
            }
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(read) = SeriesAnswer::decode(&bytes) {
                read.metrics.iter().filter_map(|metric| metric.points.as_ref()).for_each(|points| {
                    let _ = (points.period_s(), points.start_s());
                });
            }
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = SeriesAnswer::decode(&[&[VERSION], &bytes[..]].concat());
        }
    }

    #[test]
    fn few_bytes_that_claim_many_values_are_refused() {
        let same = |n: usize| MetricAnswer {
            name: Name::ours("load1"),
            kind: ColumnKind::Gauge,
            points: Some(Points {
                folds: 0,
                first_tick: 5,
                ticks_a_point: 1,
                values: vec![Some((Sample::Gauge(0.5), 1)); n],
            }),
        };
        let answer =
            |n: usize, metrics: usize| SeriesAnswer { metrics: vec![same(n); metrics], losses: Vec::new() };
        let all = answer(MAX_POINTS, MAX_VALUES / MAX_POINTS);
        assert!(all.encode().len() < 1000);
        assert_eq!(SeriesAnswer::decode(&all.encode()), Ok(all));
        for too_many in [answer(MAX_POINTS + 1, 1), answer(MAX_POINTS, MAX_VALUES / MAX_POINTS + 1)] {
            let read = SeriesAnswer::decode(&too_many.encode());
            assert!(matches!(read, Err(SeriesFault::TooMany { what: "values", .. })), "{read:?}");
        }
        assert_eq!(SeriesAnswer::decode(&[9]), Err(SeriesFault::Version(9)));
    }

    #[test]
    fn losses_are_cut_where_a_letter_ends() {
        let losses = vec!["ä".repeat(MAX_LOSS); MAX_LOSSES + 1];
        let read = SeriesAnswer::decode(&SeriesAnswer { losses, metrics: Vec::new() }.encode()).unwrap();
        assert_eq!(read.losses, vec!["ä".repeat(MAX_LOSS / 2); MAX_LOSSES]);
    }
}
