//! The systems that can be told of jobs.

use std::path::PathBuf;

use anyhow::bail;
use iotide_sched::{ConfigFs, Controller, LustreTbf, Rules, TbfSettings};

use crate::commands::scheduling::RulesName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum System {
    Configfs,
    LustreTbf,
}

/// Settings of a system.
#[derive(clap::Args, Debug)]
pub(super) struct SystemArgs {
    /// `configfs`: where the directories of jobs are
    #[arg(long, value_name = "DIR", default_value = ConfigFs::ROOT)]
    root: PathBuf,
    /// Whose rules put jobs into sets and say which of a set goes first
    #[arg(long, value_enum, default_value_t, value_name = "RULES")]
    rules: RulesName,
    /// `lustre-tbf`: RPCs a second that a server can take from all jobs
    #[arg(long, value_name = "RPCS", default_value_t = TbfSettings::default().capacity_rps)]
    capacity: f64,
}

impl SystemArgs {
    pub(super) fn rules(&self) -> Rules {
        self.rules.into()
    }

    /// `former`: what the system did before and shall do again, where that is known.
    pub(super) fn controller(
        &self,
        system: System,
        former: Vec<String>,
    ) -> anyhow::Result<Box<dyn Controller>> {
        if !(self.capacity.is_finite() && self.capacity > 0.0) {
            bail!("--capacity {} is not a positive number of requests", self.capacity);
        }
        Ok(match system {
            System::Configfs => Box::new(ConfigFs::new(&self.root)),
            System::LustreTbf => {
                let order = self.rules().order();
                let settings = TbfSettings { capacity_rps: self.capacity, order, ..TbfSettings::default() };
                Box::new(LustreTbf::new(settings).with_former_policies(former))
            }
        })
    }
}
