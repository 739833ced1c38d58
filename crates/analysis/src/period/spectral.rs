//! The method of the FTIO paper.
use super::{DftConfig, PeriodError, PeriodEstimate};
use iotide_trace::SampledSignal;

pub(super) fn detect(_signal: &SampledSignal, _config: &DftConfig) -> Result<PeriodEstimate, PeriodError> {
    Ok(PeriodEstimate::default())
}
