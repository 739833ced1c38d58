//! Why a question is not answered.

use iotide_ledger::IdError;
use iotide_report::{Refused, answer_json};

use crate::answer::Answer;
use iotide_daemon::store::StoreError;

/// Why a question is not answered: one type for all that answer. It becomes a document, a page or a frame where it leaves the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// As HTTP has it.
    pub(crate) status: u16,
    /// For people.
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn new(status: u16, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}

impl From<Refusal> for Answer {
    fn from(Refusal { status, why }: Refusal) -> Self {
        Self { status, ..Self::json(answer_json(&Refused { error: why.into() })) }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::new(503, error.to_string())
    }
}

impl From<IdError> for Refusal {
    fn from(error: IdError) -> Self {
        Self::new(400, error.to_string())
    }
}
