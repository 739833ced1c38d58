//! Requests from the future: a wrong clock, or time has really moved on.

/// A request on the predictor's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    pub start: i64,
    pub end: i64,
    pub bytes: f64,
    pub rank: i32,
}

/// Requests that are set aside until others confirm their time.
///
/// Another rank confirms it, or the same one if there is no other. A rank may go on alone for long: after [`MOST`] requests in a row, between which
/// nothing came from anywhere else, it is believed, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    /// In the order they came.
    waiting: Vec<Request>,
    /// How many of them came since the last request that had the time of all others.
    n_in_row: usize,
    ranks: Ranks,
}

/// The ranks of all requests so far.
#[derive(Clone, Copy, Debug, Default)]
enum Ranks {
    #[default]
    None,
    One(i32),
    Several,
}

/// So many wait, at most. As many in a row as a buffer hands over at once do not confirm each other; but while everybody else is silent, nothing except
/// their number tells a rank that goes on alone from one with a wrong clock.
const MOST: usize = 8;

impl Ahead {
    /// Takes note of a request that has the time of all others.
    pub(super) fn contradict(&mut self, rank: i32) {
        self.n_in_row = 0;
        self.ranks = self.ranks.and(rank);
    }

    /// Sets a request aside, and returns what is confirmed by it (itself included), in the order of time.
    pub(super) fn set_aside(&mut self, request: Request, horizon: i64) -> Vec<Request> {
        self.ranks = self.ranks.and(request.rank);
        let is_near =
            |other: &Request| request.start - other.end <= horizon && other.start - request.end <= horizon;
        let by_another = self.waiting.iter().any(|other| other.rank != request.rank && is_near(other));
        // A job of one rank has no other; and time may move on once more, as where one rank writes a single request every hour.
        let is_only = matches!(self.ranks, Ranks::One(_));
        let row = &self.waiting[self.waiting.len() - self.n_in_row..];
        let goes_on = row
            .last()
            .is_some_and(|other| (is_only && is_near(other)) || request.start - other.end > horizon);
        if self.waiting.len() == MOST {
            self.waiting.remove(0);
        }
        self.waiting.push(request);
        self.n_in_row = (self.n_in_row + 1).min(MOST);
        if by_another || goes_on || self.n_in_row == MOST {
            let last = self.waiting.iter().filter(|other| is_near(other)).map(|other| other.start).max();
            self.until(last.unwrap_or(request.start).max(request.start))
        } else {
            Vec::new()
        }
    }

    /// Returns what began until `now`, which is how late it is.
    pub(super) fn until(&mut self, now: i64) -> Vec<Request> {
        let (mut begun, waiting): (Vec<Request>, Vec<Request>) =
            self.waiting.iter().partition(|request| request.start <= now);
        if !begun.is_empty() {
            self.waiting = waiting;
            self.n_in_row = 0;
            begun.sort_by_key(|request| request.start);
        }
        begun
    }
}

impl Ranks {
    fn and(self, rank: i32) -> Self {
        match self {
            Self::None => Self::One(rank),
            Self::One(only) if only == rank => self,
            _ => Self::Several,
        }
    }
}
