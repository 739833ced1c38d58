//! The programs of a job: which of them it is called after, and how many of its processes work.
//!
//! A batch job is a shell that starts a launcher that starts what the job is for. Shells and launchers count like everything else, but
//! they are neither the job's program nor part of its size, unless there is nothing else.

use iotide_ledger::About;

use super::words::Process;

/// Programs of one job that are counted one by one; the processes of others count with the last of these.
const MOST_PROGRAMS: usize = 32;
/// A first process that moves less than this part of what each of the others does starts them, and reports: it does none of the work.
const LAUNCHER_SHARE: u64 = 1000;

/// Source of a job's description, from the least to the most informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Its cgroup, which was there before any process.
    Group,
    /// A program that starts others.
    Starter,
    /// Any other program.
    Program,
    /// A rank of a parallel program.
    Rank,
}

/// The programs of one job.
#[derive(Debug, Default)]
pub struct Programs(Vec<Program>);

#[derive(Debug)]
struct Program {
    kind: Kind,
    /// Of the process with the lowest rank, else of the first.
    about: About,
    standing: (u32, u64),
    bytes: u64,
    /// Processes that were seen, and those of them that have read or written.
    n_seen: u32,
    n_moved: u32,
    /// Start of the process that began first, and what it has read and written: it may have started the others.
    first: (u64, u64),
}

/// A process of a job, as its programs know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    program: usize,
    start_ns: u64,
}

impl Member {
    /// A process of a program that ran before the daemon did.
    pub(super) const RESTORED: Self = Self { program: 0, start_ns: u64::MAX };
}

impl Programs {
    /// The program of a job that ran before: so many processes, which have read and written so much.
    pub(super) fn restored(about: About, n_processes: u32, bytes: u64, had_ranks: bool) -> Self {
        if n_processes == 0 && bytes == 0 {
            return Self::default();
        }
        let kind = match about.starts_others() {
            _ if had_ranks => Kind::Rank,
            true => Kind::Starter,
            false => Kind::Program,
        };
        let n_moved = if bytes > 0 { about.size } else { 0 };
        let n_seen = n_processes.max(n_moved);
        Self(vec![Program { kind, about, standing: (0, 0), bytes, n_seen, n_moved, first: (0, 0) }])
    }

    /// Takes a process in.
    pub(super) fn meet(&mut self, process: &Process, is_group: bool) -> Member {
        let about = &process.about;
        let kind = match process.rank {
            _ if is_group => Kind::Group,
            Some(_) => Kind::Rank,
            None if about.starts_others() => Kind::Starter,
            None => Kind::Program,
        };
        // The order in which processes are met does not matter: the smallest speaks.
        let standing = (process.rank.unwrap_or(u32::MAX), process.start_ns);
        let is_it =
            |known: &Program| known.about.program() == about.program() && known.about.app == about.app;
        let place = match self.0.iter().position(is_it) {
            Some(place) => place,
            None if self.0.len() >= MOST_PROGRAMS => MOST_PROGRAMS - 1,
            None => {
                let about = about.clone();
                let first = (u64::MAX, 0);
                self.0.push(Program { kind, about, standing, bytes: 0, n_seen: 0, n_moved: 0, first });
                self.0.len() - 1
            }
        };
        let program = &mut self.0[place];
        program.n_seen += u32::from(!is_group);
        program.kind = program.kind.max(kind);
        if standing < program.standing {
            (program.standing, program.about) = (standing, process.about.clone());
        }
        if process.start_ns < program.first.0 {
            program.first = (process.start_ns, 0);
        }
        Member { program: place, start_ns: process.start_ns }
    }

    /// A process of a program has read and written this much more.
    pub(super) fn moved(&mut self, by: Member, bytes: u64, is_first_time: bool) {
        if let Some(program) = self.0.get_mut(by.program) {
            program.bytes = program.bytes.saturating_add(bytes);
            program.n_moved += u32::from(is_first_time);
            if program.first.0 == by.start_ns {
                program.first.1 = program.first.1.saturating_add(bytes);
            }
        }
    }

    /// A process went on as another program, which has a page of its own: it is one process.
    pub(super) fn replaced(&mut self, process: Member, has_moved: bool) {
        if let Some(program) = self.0.get_mut(process.program) {
            program.n_seen = program.n_seen.saturating_sub(1);
            program.n_moved = program.n_moved.saturating_sub(u32::from(has_moved));
            if program.first.0 == process.start_ns {
                program.first.1 = 0;
            }
        }
    }

    /// Returns what is to be said of the job: by its ranks, else by the program that has read and written most, else by the one with most
    /// processes.
    pub(super) fn speaker(&self) -> Option<&About> {
        let weight = |program: &Program| {
            (program.kind, program.bytes, program.n_seen, std::cmp::Reverse(program.standing))
        };
        self.0.iter().max_by_key(|program| weight(program)).map(|program| &program.about)
    }

    /// Returns how many processes work: those that have read or written, or all where none has. Starters count if there is nothing else.
    pub(super) fn n_working(&self) -> Option<u32> {
        let least = if self.0.iter().any(|p| p.kind > Kind::Starter && p.n_seen > 0) {
            Kind::Program
        } else {
            Kind::Starter
        };
        let of = |count: fn(&Program) -> u32| -> u32 {
            self.0.iter().filter(|p| p.kind >= least).map(count).fold(0, u32::saturating_add)
        };
        let n_launchers = self.0.iter().filter(|program| self.begins_with_a_launcher(program)).count();
        let n_moved = of(|p| p.n_moved).saturating_sub(n_launchers as u32);
        [n_moved, of(|p| p.n_seen)].into_iter().find(|n| *n > 0)
    }

    /// Whether the first process of a program only starts the others, and reports: it moves next to nothing beside what each of them does. The others may
    /// have arguments of their own.
    fn begins_with_a_launcher(&self, program: &Program) -> bool {
        let (start_ns, of_first) = program.first;
        if of_first == 0 || program.kind != Kind::Program {
            return false;
        }
        let same = || self.0.iter().filter(|other| other.about.program() == program.about.program());
        if same().any(|other| other.kind != Kind::Program || other.first.0 < start_ns) {
            return false;
        }
        let (n, bytes) = same().fold((0_u64, 0_u64), |(n, bytes), other| {
            (n + u64::from(other.n_moved), bytes.saturating_add(other.bytes))
        });
        let each_other = bytes.saturating_sub(of_first).checked_div(n.saturating_sub(1)).unwrap_or(0);
        of_first < each_other / LAUNCHER_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::Claim;
    use iotide_ledger::{JobId, Name};

    fn process(command: &str, rank: Option<u32>, start_ns: u64) -> Process {
        let about = About { command: command.to_owned(), name: Name::cut(b"flow"), ..About::default() };
        let about = About { app: Name::cut(about.program().as_bytes()), size: 1, ..about };
        let claim = Claim::Job(JobId::new("7").unwrap());
        Process { uid: 1, cluster: Name::default(), claim, start_ns, rank, n_ranks: None, about }
    }

    fn speaks(programs: &Programs) -> (String, Option<u32>) {
        (programs.speaker().unwrap().program().to_owned(), programs.n_working())
    }

    #[test]
    fn a_shell_speaks_until_a_program_comes_and_the_busiest_program_speaks_at_last() {
        let mut programs = Programs::default();
        let shell = programs.meet(&process("/bin/sh job.sh", None, 1), false);
        programs.moved(shell, 1 << 30, true);
        assert_eq!(speaks(&programs), ("sh".to_owned(), Some(1)));
        let copy = programs.meet(&process("cp a b", None, 2), false);
        programs.moved(copy, 10, true);
        assert_eq!(speaks(&programs), ("cp".to_owned(), Some(1)));
        for start_ns in 3..6 {
            let sim = programs.meet(&process("/opt/sim -n", None, start_ns), false);
            programs.moved(sim, 10, true);
        }
        assert_eq!(speaks(&programs), ("sim".to_owned(), Some(4)));
    }

    #[test]
    fn a_launcher_of_the_same_name_that_moves_nothing_is_not_counted() {
        let mut programs = Programs::default();
        for start_ns in 0..3 {
            let place = programs.meet(&process("ioskel --processes 2", None, start_ns), false);
            assert_eq!(programs.n_working(), Some(if start_ns == 2 { 1 } else { start_ns as u32 + 1 }));
            if start_ns > 0 {
                programs.moved(place, 10, true);
            }
        }
        assert_eq!(programs.n_working(), Some(2));
    }

    #[test]
    fn a_launcher_that_prints_what_its_workers_did_is_not_counted() {
        let size = |order: [u64; 3], launcher: u64, worker: u64| {
            let mut programs = Programs::default();
            let met = order.map(|start| {
                let command = ["ioskel --processes 2", "ioskel --worker"][usize::from(start > 0)];
                let mut process = process(command, None, start);
                process.about.app = Name::cut(command.as_bytes());
                (start, programs.meet(&process, false))
            });
            for (start, member) in met {
                programs.moved(member, if start == 0 { launcher } else { worker }, true);
            }
            programs.n_working()
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            assert_eq!(size(order, 120, 1 << 20), Some(2));
            // What moves about as much as the others is one of them, and so is whoever reads the input for all.
            assert_eq!(size(order, 1 << 12, 1 << 20), Some(3));
            assert_eq!(size(order, 1 << 30, 10), Some(3));
        }
        // A program that ran before another one did not start it.
        let mut programs = Programs::default();
        let [copy, dd] =
            ["cp a b", "dd bs=1M"].map(|command| programs.meet(&process(command, None, 0), false));
        programs.moved(copy, 100, true);
        programs.moved(dd, 8 << 20, true);
        assert_eq!(programs.n_working(), Some(2));
        let mut programs = Programs::default();
        let ranks = [0, 1, 2].map(|rank| programs.meet(&process("sim", Some(rank), u64::from(rank)), false));
        ranks
            .into_iter()
            .zip([1, 1 << 20, 1 << 20])
            .for_each(|(rank, bytes)| programs.moved(rank, bytes, true));
        assert_eq!(programs.n_working(), Some(3), "a rank works, however little it moves");
    }

    #[test]
    fn a_helper_that_is_met_when_the_ranks_are_gone_is_none_of_them() {
        use crate::leaf::{Earlier, Leaf, PageId};
        use iotide_ledger::{Cell, Counters, JobKey, Limits, Metric};

        let key = JobKey { cluster: Name::default(), uid: 1, id: JobId::new("7").unwrap(), start_ns: 5 };
        let lived = (Metric::Threads, Cell { ns: 9, ..Cell::default() });
        let written = Metric::Io { op: "write".into(), layer: "posix".into(), fs: Name::default() };
        let done: Counters = [lived, (written, Cell { calls: 6, bytes: 6, ns: 6 })].into_iter().collect();
        let about = About { size: 6, ..process("sim", Some(0), 5).about };
        let earlier = || Earlier {
            job: Some((key.clone(), about.clone())),
            done: done.clone(),
            end_ns: Some(90),
            n_processes: 6,
            ..Earlier::default()
        };
        let mut leaf = Leaf::new(Name::default(), Limits::default());
        let page = PageId::new("7.page:1");
        leaf.adopt(100, page.clone(), process("collect-output", None, 4), |_, _, _| earlier()).unwrap();
        leaf.count(&page, &done);
        leaf.gone(110, &page, None);
        assert_eq!(leaf.view(120).jobs[0].about.size, 6);
    }

    #[test]
    fn a_process_that_is_replaced_is_one_process() {
        let mut programs = Programs::default();
        let first = programs.meet(&process("python3 wrapper.py", None, 1), false);
        programs.moved(first, 10, true);
        let second = programs.meet(&process("sim", None, 2), false);
        programs.moved(second, 100, true);
        programs.replaced(first, true);
        assert_eq!(speaks(&programs), ("sim".to_owned(), Some(1)));
    }

    #[test]
    fn the_order_in_which_processes_are_met_does_not_matter() {
        let all = [("sh x", None, 10), ("sim", Some(1), 5), ("sim", Some(0), 5), ("cp", None, 1 << 20)];
        let said = |order: [usize; 4]| {
            let mut programs = Programs::default();
            for (command, rank, bytes) in order.map(|at| all[at]) {
                let place = programs.meet(&process(command, rank, 7), false);
                programs.moved(place, bytes, true);
            }
            (programs.speaker().cloned(), programs.n_working())
        };
        assert_eq!(said([0, 1, 2, 3]), said([3, 2, 1, 0]));
        assert_eq!(said([0, 1, 2, 3]), said([2, 0, 3, 1]));
        assert_eq!(said([0, 1, 2, 3]).0.unwrap().program(), "sim");
    }
}
