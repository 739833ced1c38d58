//! Engines that predict while a job runs: our own, or the FTIO paper's.

use iotide_analysis::online::{PaperPredictor, Prediction, Predictor, PredictorConfig};
use iotide_trace::{Event, Loss, Timestamp};

/// Engine that predicts while a job runs, with its initial state for another run.
pub struct Engine {
    begun: Begun,
    running: Running,
}

#[derive(Clone)]
enum Begun {
    Rhythm(PredictorConfig),
    Paper(Box<PaperPredictor>),
}

enum Running {
    Rhythm(Box<Predictor>),
    Paper(Box<PaperPredictor>),
}

impl Begun {
    fn run(&self) -> Running {
        match self {
            Self::Rhythm(config) => Running::Rhythm(Box::new(Predictor::new(config.clone()))),
            Self::Paper(fresh) => Running::Paper(fresh.clone()),
        }
    }
}

impl Engine {
    /// Returns our own.
    pub fn rhythm(config: PredictorConfig) -> Self {
        Self::new(Begun::Rhythm(config))
    }

    /// Returns that of the FTIO paper; `fresh` has seen nothing.
    pub fn paper(fresh: PaperPredictor) -> Self {
        Self::new(Begun::Paper(Box::new(fresh)))
    }

    fn new(begun: Begun) -> Self {
        Self { running: begun.run(), begun }
    }

    /// One for another job, which has seen nothing.
    pub(super) fn another(&self) -> Self {
        Self::new(self.begun.clone())
    }

    pub(super) fn begin_anew(&mut self) {
        self.running = self.begun.run();
    }

    pub(super) fn push_event(&mut self, event: &Event) -> Option<Prediction> {
        match &mut self.running {
            Running::Rhythm(predictor) => predictor.push_event(event),
            Running::Paper(predictor) => {
                predictor.push_event(event);
                None
            }
        }
    }

    pub(super) fn advance_to(&mut self, now: Timestamp) -> Option<Prediction> {
        match &mut self.running {
            Running::Rhythm(predictor) => predictor.advance_to(now),
            Running::Paper(_) => None,
        }
    }

    /// How many events lie so far ahead of all others that their clock may be wrong.
    pub(super) fn n_ahead(&self) -> u64 {
        match &self.running {
            Running::Rhythm(predictor) => predictor.stream().ahead,
            Running::Paper(_) => 0,
        }
    }

    /// Returns the losses: data that did not count.
    pub(super) fn losses(&self) -> Vec<Loss> {
        match &self.running {
            Running::Rhythm(predictor) => predictor.losses(),
            Running::Paper(_) => Vec::new(),
        }
    }

    /// Whether data waits to be evaluated until no more of it comes.
    pub(super) fn is_owed(&self) -> bool {
        matches!(&self.running, Running::Paper(predictor) if predictor.has_news())
    }

    /// No more data comes for now.
    pub(super) fn pause(&mut self) -> Option<Prediction> {
        match &mut self.running {
            Running::Paper(predictor) if predictor.has_news() => predictor.evaluate(),
            _ => None,
        }
    }

    /// A last word; the paper has one only about data it has not spoken about.
    pub(super) fn last_word(&mut self) -> Option<Prediction> {
        match &mut self.running {
            Running::Rhythm(predictor) => predictor.evaluate(),
            Running::Paper(_) => self.pause(),
        }
    }
}
