//! The checks.

use iotide_trace::Rank;

use super::run::{FileUse, Run};
use super::{Calls, Cause, Draft, IssueId, Saved};
use crate::Evidence;

mod layers;
mod metadata;
mod phases;
mod ranks;
mod repeated;
mod requests;
mod storage;

/// Applies every check to a run.
pub(super) fn all(run: &Run) -> Vec<Draft> {
    let mut found = Vec::new();
    requests::check(run, &mut found);
    layers::check(run, &mut found);
    storage::check(run, &mut found);
    ranks::check(run, &mut found);
    repeated::check(run, &mut found);
    metadata::check(run, &mut found);
    // These ask for what no other issue explains.
    storage::low_bandwidth(run, &mut found);
    phases::check(run, &mut found);
    found
}

impl Draft {
    fn new(id: IssueId, saved: Saved, calls: Calls) -> Self {
        Self { id, saved, calls, evidence: Vec::new(), ranks: Vec::new(), cause: Cause::default() }
    }

    fn with(mut self, evidence: &[(&'static str, f64)]) -> Self {
        self.evidence.extend(evidence.iter().map(|&(name, value)| Evidence { name, value }));
        self
    }

    fn of_rank(mut self, rank: Option<Rank>) -> Self {
        self.ranks.extend(rank.filter(|rank| *rank != Rank::ALL).map(|rank| rank.0));
        self
    }

    fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }
}

/// Returns the known cause of an issue with a file.
fn cause_of(file: &FileUse, run: &Run) -> Cause {
    // Files of netCDF may be those of PnetCDF, which is not HDF5.
    let ends = |ends: &[&str]| file.name.is_some_and(|name| ends.iter().any(|end| name.ends_with(end)));
    let is_hdf5 = ends(&[".h5", ".hdf5", ".nc4"]) || (!file.library.is_empty() && !ends(&[".nc"]));
    let users = [&file.mpi, &file.posix, &file.stdio].map(|layer| layer.n_users(run.n_ranks));
    Cause { is_hdf5, is_shared: users.iter().any(|n| *n > 1.0), ..Cause::default() }
}
