//! Checks that lack their counters, and what a source does not see.

use iotide_trace::{ActivitySums, Layer, Loss, Rank};

use super::run::{FileUse, Run, Way};
use super::{IssueConfig, IssueId, NotJudged};

/// Returns the checks without their counters, and the blind spots.
pub(super) fn not_judged(
    run: &Run,
    seen: &ActivitySums,
    losses: &[Loss],
    config: &IssueConfig,
) -> Vec<NotJudged> {
    let mut list: Vec<NotJudged> = Vec::new();
    let mut not = |ids: &[IssueId], reason: &'static str| {
        let on = ids.iter().filter(|id| !config.off.contains(id));
        list.extend(on.map(|id| NotJudged { id: id.name(), reason }));
    };
    let moved = |way: Way| move |file: &&FileUse| file.posix.way(way).calls + file.mpi.way(way).calls > 0;
    for (way, small, random, redundant) in [
        (Way::Read, IssueId::SmallReads, IssueId::RandomReads, IssueId::RedundantReads),
        (Way::Write, IssueId::SmallWrites, IssueId::RandomWrites, IssueId::RedundantWrites),
    ] {
        let used = || run.files.iter().filter(moved(way));
        if used().count() > 0 {
            if !used().any(|file| file.posix.way(way).small.is_some() || file.mpi.way(way).small.is_some()) {
                not(&[small], "sizes of calls are not in the source");
            }
            if !used().any(|file| file.posix.way(way).random.is_some()) {
                not(&[random], "offsets of calls are not in the source");
            }
            if !used().any(|file| file.posix.way(way).up_to.is_some()) {
                not(&[redundant], "offsets of calls are not in the source");
            }
        }
    }
    let has = |of: fn(&FileUse) -> bool| run.files.iter().any(of);
    let has_data = has(|file| file.posix.bytes() + file.mpi.bytes() > 0.0);
    if has_data && !has(|file| file.posix.sum.as_ref().is_some_and(|sum| sum.misaligned.is_some())) {
        not(&[IssueId::Misaligned], "alignment is not in the source");
    }
    let has_mpi = has(|file| file.mpi.seconds() > 0.0);
    let above = [
        IssueId::WriteAmplification,
        IssueId::ReadAmplification,
        IssueId::MpiioOverhead,
        IssueId::FewAggregators,
    ];
    if has_mpi && !has(|file| file.mpi.seconds() > 0.0 && file.is_seen_beneath()) {
        not(&above, "calls beneath MPI-IO are not in the source");
    }
    if has_mpi && !has(|file| Way::BOTH.iter().any(|way| file.mpi.way(*way).collective.is_some())) {
        not(&[IssueId::MissingCollectives], "the source does not tell collective calls apart");
    }
    if has_data && run.n_targets.is_none() {
        not(&[IssueId::FewTargets, IssueId::SlowTarget], "storage targets of files are not in the source");
    }
    let has_own =
        run.data_files().any(|(_, file)| file.posix.n_users(run.n_ranks) == 1.0 && file.posix.bytes() > 0.0);
    if has_data && run.n_ranks > 1.0 && !has_own {
        not(&[IssueId::SharedContention], "no file of a single rank to compare with");
    }
    if run.is_one_of_several {
        let ranks = [IssueId::SingleRankIo, IssueId::RankImbalance, IssueId::Stragglers];
        not(&ranks, "the log of one process of several");
    } else if has_data
        && run.n_ranks > 1.0
        && !seen.records.iter().any(|r| r.rank != Rank::ALL || r.slowest.is_some())
    {
        not(&[IssueId::RankImbalance, IssueId::Stragglers], "times of single ranks are not in the source");
    }
    if has_data && run.phases.is_empty() {
        let phases = [IssueId::SlowPhase, IssueId::BlockingIo];
        not(&phases, "the source has totals per file only (enable DXT or the heat map)");
    }
    list.extend(blind_spots(run, seen, losses));
    list
}

/// Returns the checks that the source has no data for.
fn blind_spots(run: &Run, seen: &ActivitySums, losses: &[Loss]) -> Vec<NotJudged> {
    let mut spots = Vec::new();
    let mut spot = |is_there: bool, id: &'static str, reason: &'static str| {
        if is_there {
            spots.push(NotJudged { id, reason });
        }
    };
    let any = |of: fn(&FileUse) -> bool| run.files.iter().any(of);
    spot(
        seen.records.iter().any(|record| record.maps > 0),
        "mmap",
        "files are mapped into memory: bytes moved by page faults are not seen",
    );
    spot(
        any(|file| file.mpi.bytes() > 0.0 && !file.is_seen_beneath()),
        "posix_beneath_mpiio",
        "POSIX saw less than 90 % of the bytes that MPI-IO asked for: nothing beneath is judged",
    );
    spot(
        losses.iter().any(|loss| loss.cut),
        "cut",
        "the log is cut or a module is partial: files or calls are missing",
    );
    spot(
        any(|file| file.mpi.is_empty() && file.posix.is_empty() && !file.library.is_empty()),
        "library",
        "only a library (HDF5, PnetCDF, DAOS) is in the log: nothing beneath it is judged",
    );
    spot(run.is_one_of_several, "processes", "the log of one process of several");
    spot(
        run.n_imports > 0 && run.n_imports == run.files.len(),
        "imports",
        "only the import of Python modules is in the log: data may be read by other processes",
    );
    spot(run.run_s.is_none(), "run_time", "the run time is not known: no gain can be stated");
    let is_timed = seen.records.iter().any(|record| record.seconds() > 0.0);
    spot(
        !is_timed
            && !seen.records.is_empty()
            && seen.records.iter().any(|record| record.layer != Layer::Server),
        "times",
        "times of calls are not in the source",
    );
    spots
}
