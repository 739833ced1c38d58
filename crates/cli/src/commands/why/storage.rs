//! Where the load of the storage comes from, as `--storage` names it.

use std::path::{Path, PathBuf};

use iotide_api::{Input, PrometheusLoad, StorageLoad};

use super::daemon::DaemonLoad;
use crate::ui::Hint;

/// The load of the storage.
#[derive(clap::Args, Debug)]
pub(crate) struct StorageArgs {
    /// Load of the storage servers during these runs: tables `time,read,write`, or other server logs; several are added up. Or
    /// `prometheus:URL`, or `daemon`
    #[arg(long, value_name = "SERVERLOG|prometheus:URL|daemon", num_args = 1.., help_heading = "Evidence")]
    storage: Vec<PathBuf>,
    /// With prometheus: PromQL for bytes per second written, or moved either way [default: what exporters of Lustre, iotide and the node
    /// exporter have]
    #[arg(long, value_name = "PROMQL", help_heading = "Evidence", requires = "storage")]
    query: Option<String>,
    /// With prometheus: PromQL for bytes per second read
    #[arg(long, value_name = "PROMQL", help_heading = "Evidence", requires = "query")]
    read_query: Option<String>,
    /// With prometheus: seconds between samples, as often as the server takes them
    #[arg(long, value_name = "SECONDS", help_heading = "Evidence", value_parser = seconds, default_value_t = 15.0)]
    step: f64,
}

impl StorageArgs {
    /// Whether there is any.
    pub(crate) fn is_named(&self) -> bool {
        !self.storage.is_empty()
    }

    /// The load that was named; `socket` is that of the daemon.
    pub(crate) fn named(&self, socket: &Path) -> anyhow::Result<Option<StorageLoad>> {
        let special = |path: &PathBuf| {
            let text = path.to_str()?;
            (text == "daemon" || text.starts_with("daemon:") || text.starts_with("prometheus:"))
                .then(|| text.to_owned())
        };
        let asked = self.storage.iter().find_map(special);
        let Some(asked) = asked else {
            if self.query.is_some() {
                return Err(anyhow::anyhow!("--query is for `--storage prometheus:URL`"))
                    .hint("a log is read as it is");
            }
            return Ok(self.is_named().then(|| StorageLoad::Log(Input::files(&self.storage))));
        };
        if self.storage.len() > 1 {
            return Err(anyhow::anyhow!("{asked} cannot be added up with other logs"))
                .hint("name one source of the load");
        }
        Ok(Some(StorageLoad::Asked(match asked.split_once(':') {
            Some(("prometheus", url)) => Box::new(self.prometheus(url)?),
            Some((_, path)) => Box::new(DaemonLoad::new(path)),
            None => Box::new(DaemonLoad::new(socket)),
        })))
    }

    fn prometheus(&self, url: &str) -> anyhow::Result<PrometheusLoad> {
        let server = url
            .parse()
            .map_err(|error| anyhow::anyhow!("prometheus:{url}: {error}"))
            .hint("`--storage prometheus:http://localhost:9090`, and PromQL by --query")?;
        Ok(match &self.query {
            None => PrometheusLoad::of_usual_exporters(server, self.step),
            Some(query) => PrometheusLoad {
                server,
                query: query.clone(),
                read_query: self.read_query.clone(),
                step_s: self.step,
            },
        })
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.1 => Ok(number),
        _ => Err("a number of seconds is wanted, at least 0.1".to_owned()),
    }
}
