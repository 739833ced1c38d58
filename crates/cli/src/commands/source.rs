//! Who else knows the jobs, as people write it.

use iotide_sched::{HintSource, KnownJob};
use iotide_source::Source;

use crate::ui::Ui;

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
        Ui::new().status(news);
    }
}
