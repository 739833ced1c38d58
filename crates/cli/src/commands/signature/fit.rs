//! On which partition, and when, an application would be disturbed least.

use iotide_api::{FitReport, Signature, Starts, rank_partitions};

use super::{SignatureArgs, log_of};
use crate::commands::advice::advised;
use crate::ui::Ui;

/// Ranks the partitions whose logs were named, and the starts on them.
pub(super) fn rank(
    ui: &mut Ui,
    args: &SignatureArgs,
    signature: &Signature,
    about: &str,
) -> anyhow::Result<FitReport> {
    let mut logs = Vec::new();
    for path in &args.fit {
        let (log, losses) = log_of(ui, std::slice::from_ref(path), args)?;
        for loss in losses {
            ui.status(format_args!("{}: {}", path.display(), iotide_report::text::printable(&loss.what)));
        }
        logs.push((path.display().to_string(), log));
    }
    ui.progress("trying starts");
    let starts = Starts {
        every_s: args.fit_step,
        capacity_bps: args.capacity,
        n_listed: args.top,
        about: about.to_owned(),
    };
    rank_partitions(signature, logs, &starts).map_err(advised)
}
