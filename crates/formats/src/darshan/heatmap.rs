//! Heatmaps: bytes per rank and time bin, kept by Darshan 3.4 and later for every job.

use std::ops::ControlFlow;

use super::bytes::Cursor;
use super::job::Names;
use super::packed::Records;

/// One rank's bytes over time, as one layer saw them.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapRecord {
    /// Names the layer; see [`HeatmapRecord::layer`].
    pub id: u64,
    /// The rank.
    pub rank: i64,
    /// How long a bin is. The first one begins when the job does.
    pub bin_width_s: f64,
    /// Bytes written in each bin.
    pub write: Vec<i64>,
    /// Bytes read in each bin.
    pub read: Vec<i64>,
}

impl HeatmapRecord {
    /// The layer that saw the bytes ("POSIX", "MPIIO", "STDIO"), if it is known.
    pub fn layer<'a>(&self, names: &'a Names) -> Option<&'a str> {
        let by_name = names.get(self.id).and_then(|name| name.strip_prefix("heatmap:"));
        // The id is a hash of the name, so it says the same where the names were lost.
        by_name.or(match self.id {
            16592106915301738621 => Some("POSIX"),
            3989511027826779520 => Some("MPIIO"),
            3668870418325792824 => Some("STDIO"),
            _ => None,
        })
    }
}

/// All ranks' heatmap of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapTotals {
    /// The layer, as [`HeatmapRecord::layer`] names it.
    pub layer: String,
    /// How many records it has, one per rank.
    pub records: u64,
    /// How long a bin is. Where records differ, the first one's.
    pub bin_width_s: f64,
    /// How many bins the longest record has; in some versions of Darshan ranks differ by one.
    pub n_bins: u64,
    /// Bytes read in all bins.
    pub bytes_read: i64,
    /// Bytes written in all bins.
    pub bytes_written: i64,
}

/// Sums up a heatmap by layer, in the order the layers appear. Records of an unknown layer go by their id.
pub fn heatmap_totals(records: &Records<HeatmapRecord>, names: &Names) -> Vec<HeatmapTotals> {
    let mut layers: Vec<HeatmapTotals> = Vec::new();
    let _: ControlFlow<()> = records.for_each(|record| {
        let layer = record.layer(names).map_or_else(|| format!("{:#018x}", record.id), str::to_string);
        let known = layers.iter().position(|known| known.layer == layer);
        let at = known.unwrap_or_else(|| {
            layers.push(HeatmapTotals {
                layer,
                records: 0,
                bin_width_s: record.bin_width_s,
                n_bins: 0,
                bytes_read: 0,
                bytes_written: 0,
            });
            layers.len() - 1
        });
        let totals = &mut layers[at];
        totals.records += 1;
        totals.n_bins = totals.n_bins.max(record.write.len() as u64);
        totals.bytes_read =
            record.read.iter().fold(totals.bytes_read, |sum, bytes| sum.saturating_add(*bytes));
        totals.bytes_written =
            record.write.iter().fold(totals.bytes_written, |sum, bytes| sum.saturating_add(*bytes));
        ControlFlow::Continue(())
    });
    layers
}

/// Takes one record.
pub(super) fn take_record(cursor: &mut Cursor) -> Option<HeatmapRecord> {
    let id = cursor.u64()?;
    let rank = cursor.i64()?;
    let bin_width_s = cursor.f64()?;
    let n_bins = usize::try_from(cursor.i64()?).ok()?;
    // Two pointers of the process that wrote the log.
    cursor.take(16)?;
    if n_bins > cursor.rest().len() / 16 {
        return None;
    }
    let write = cursor.i64s(n_bins)?;
    let read = cursor.i64s(n_bins)?;
    Some(HeatmapRecord { id, rank, bin_width_s, write, read })
}
