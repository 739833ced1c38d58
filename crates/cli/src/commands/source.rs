//! Who else knows the jobs, as people write it.

use iotide_edge::places;
use iotide_sched::{HintSource, KnownJob};
use iotide_source::Source;

use crate::config::Config;
use crate::ui::Ui;

/// Reads a source: a table, a socket, an address or a daemon.
pub(super) fn parse_source(text: &str) -> Result<Source, String> {
    Source::parse(text, || {
        let socket = Config::held().daemon();
        // In a place of one's own only oneself and root can answer; anyone else has put that place there.
        let is_ours = socket == places::socket();
        (socket, is_ours)
    })
}

/// A source whose silence and whose mistakes are said.
#[derive(Debug)]
pub(super) struct Speaking(pub(super) Source);

impl HintSource for Speaking {
    fn name(&self) -> String {
        self.0.to_string()
    }

    fn ask(&self) -> Result<Vec<KnownJob>, String> {
        self.0.ask().map_err(|error| error.to_string())
    }

    fn note(&self, news: &str) {
        Ui::new().warning(news);
    }
}
