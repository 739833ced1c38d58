//! On which partition, and when, an application would be disturbed least.

use anyhow::bail;
use iotide_analysis::{PartitionLoad, Signature, rank_starts};
use iotide_report::FitReport;

use super::{SignatureArgs, log_of};
use crate::ui::{Hint, Ui};

/// Points of signatures laid over logs: some seconds of work.
const MOST_POINTS: f64 = 2e9;

/// Ranks the partitions whose logs were named, and the starts on them.
pub(super) fn rank(
    ui: &mut Ui,
    args: &SignatureArgs,
    signature: &Signature,
    about: &str,
) -> anyhow::Result<FitReport> {
    let mut partitions = Vec::new();
    for path in &args.fit {
        let (log, losses) = log_of(ui, std::slice::from_ref(path), args)?;
        for loss in losses {
            ui.status(format_args!("{}: {}", path.display(), iotide_report::text::printable(&loss.what)));
        }
        partitions.push(PartitionLoad {
            name: path.display().to_string(),
            start_s: log.start_s,
            interval_s: log.interval_s,
            bandwidth_bps: log.values,
            capacity_bps: args.capacity,
        });
    }
    let logged_s: f64 =
        partitions.iter().map(|partition| partition.bandwidth_bps.len() as f64 * partition.interval_s).sum();
    let points = logged_s / args.fit_step * signature.bandwidth_bps.len() as f64;
    if points > MOST_POINTS {
        let enough_s = (args.fit_step * points / MOST_POINTS).ceil();
        return Err(anyhow::anyhow!("a start every {} s is too many to try", args.fit_step))
            .hint(format!("`--fit-step {enough_s}` tries fewer"));
    }
    if !signature.bandwidth_bps.iter().any(|&own| own > 0.0) {
        bail!("the signature moves nothing, so nothing can disturb it");
    }
    ui.progress("trying starts");
    let ranking = rank_starts(signature, &partitions, args.fit_step);
    Ok(FitReport::new(about, &partitions, &ranking, args.fit_step, args.top))
}
