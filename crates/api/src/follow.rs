//! Engine that predicts while a job runs.

use iotide_analysis::online::{Adaptation, PaperPredictor, PredictorConfig};
use iotide_analysis::{Method, RunConfig};
use iotide_live::Engine;
use iotide_trace::Direction;

use crate::Error;

/// Returns what predicts a running job's next phase, by the method of `config`, for a [`Follower`](crate::Follower).
///
/// `adaptation` says which part of the past counts: by default what came since behaviour last changed, or with
/// [`Method::Dft`] the window of the FTIO paper.
pub fn engine(config: &RunConfig, adaptation: Option<Adaptation>) -> Result<Engine, Error> {
    if config.period.method == Method::Dft {
        let adaptation = adaptation.unwrap_or(Adaptation::Hits { hits: 3 });
        if let Adaptation::ChangePoints(_) = adaptation {
            return Err(Error::NoChangePoints);
        }
        return Ok(Engine::paper(PaperPredictor::new(config.clone(), adaptation)));
    }
    Ok(Engine::rhythm(PredictorConfig {
        direction: config.direction.unwrap_or(Direction::Both),
        period: config.period.clone(),
        adaptation: adaptation.unwrap_or_default(),
        ..PredictorConfig::default()
    }))
}
