//! Jobs of a damaged database, rebuilt from metrics over time: which jobs ran, when, and their counts at their last sample.
//!
//! Done a few files at a time, beside everything else. A job that runs is left out: what its processes counted is in their pages, and would count twice.
//! Jobs that are known are not touched, so that it can be begun again at any time.

use std::collections::BTreeMap;
use std::io::{self, Read};

use iotide_ledger::series::{ColumnKind, Columns, Sample, counters_of_samples};
use iotide_ledger::{About, Counters, JobId, JobKey, Name};
use iotide_private::OpenDir;
use iotide_wire::{BlockKind, Step, next_block};
use rusqlite::{Connection, params};

use super::series::{is_of_job, names_of, open_directory, read};
use super::{Store, StoreError, job_number, put_counters, put_job};
use crate::collect::user_name;

/// Files that are looked at in one step: some milliseconds.
const A_STEP: usize = 16;
/// Loss recorded for a job that was rebuilt.
const LOSS: &str =
    "its row was lost; what is known was rebuilt from its metrics over time, up to their last sample";
/// Columns are named in the first blocks of a file.
const HEAD_BYTES: u64 = 256 << 10;

/// Files that are still to be looked at.
#[derive(Debug)]
pub struct Rebuild {
    folder: OpenDir,
    names: Vec<String>,
    n_jobs: u64,
    n_unread: u64,
}

impl Rebuild {
    /// Begins, if the database of a store was begun anew and is not rebuilt yet.
    pub fn begin(store: &Store) -> Option<Self> {
        store.meta(PENDING).ok().flatten()?;
        let folder = open_directory(store.directory()).ok()?;
        let mut names: Vec<String> = rustix::fs::Dir::read_from(folder.fd())
            .ok()?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| is_of_job(name))
            .collect();
        names.sort();
        Some(Self { folder, names, n_jobs: 0, n_unread: 0 })
    }

    /// Looks at the next files; says whether these were the last. `runs` tells which jobs run.
    pub fn step(
        &mut self,
        now_ns: u64,
        store: &mut Store,
        runs: impl Fn(&JobKey) -> bool,
    ) -> Result<bool, StoreError> {
        let from = self.names.len().saturating_sub(A_STEP);
        let mut jobs = Vec::new();
        let mut n_unread = 0;
        for name in &self.names[from..] {
            match job_in(&self.folder, name) {
                Some(job) if runs(&job.key) => {}
                Some(job) => jobs.push(job),
                None => n_unread += 1,
            }
        }
        let is_last = from == 0;
        let n_before = self.n_jobs;
        self.n_jobs += store.put_rebuilt(now_ns, &jobs)?;
        self.n_unread += n_unread;
        self.names.truncate(from);
        if is_last {
            let what = format!(
                "of the jobs in the damaged database, {} were rebuilt from their metrics over time; {} of their files could not be read",
                self.n_jobs, self.n_unread
            );
            if let Err(error) = store.finish_rebuild(now_ns, &what) {
                self.n_jobs = n_before;
                return Err(error);
            }
        }
        Ok(is_last)
    }
}

/// The entry of the table `meta` that is there until all is rebuilt.
pub(super) const PENDING: &str = "rebuild";

/// A job as its metrics over time have it.
#[derive(Debug)]
struct Rebuilt {
    key: JobKey,
    end_ns: u64,
    counters: Counters,
    size: u32,
}

/// Reads the job that a file describes; `None` if it is not such a file.
fn job_in(folder: &OpenDir, name: &str) -> Option<Rebuilt> {
    let owner = owner_in(folder, name).ok()??;
    let key = key_of(&owner).filter(|key| names_of(key).0 == name)?;
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut end_s, mut n_processes) = (0, BTreeMap::new());
    let wants = |_: &Columns, _: u32| true;
    let contents = read(folder, (name, &owner), u64::MAX, wants, |_, rows| {
        for (id, kind) in rows.columns() {
            for (_, sample, _) in rows.column(id) {
                match (kind, sample) {
                    (ColumnKind::Counter, Sample::Counter(value)) => drop(last.insert(id, value)),
                    (_, Sample::Gauge(value)) => {
                        let most: &mut f64 = n_processes.entry(id).or_insert(value);
                        *most = most.max(value);
                    }
                    _ => {}
                }
            }
        }
        if let Some(tick) = rows.ticks().last() {
            end_s = (tick.saturating_add(1) << rows.folds()).saturating_sub(1);
        }
    });
    let columns = contents.ok()?.columns;
    let named = columns.iter().filter_map(|(id, name, _)| Some((name.as_str(), *last.get(&id)?)));
    let processes = columns.find("processes").and_then(|(id, _)| n_processes.get(&id));
    Some(Rebuilt {
        end_ns: end_s.saturating_mul(1_000_000_000).max(key.start_ns),
        counters: counters_of_samples(named),
        size: processes.map_or(1, |n| n.clamp(1.0, 1e6) as u32),
        key,
    })
}

/// Whose a file is, as its first block of names says.
fn owner_in(folder: &OpenDir, name: &str) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    folder.read(name)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    let mut rest = head.as_slice();
    loop {
        match next_block(rest) {
            Step::Block { header, payload, used } => {
                if header.kind == BlockKind::Columns
                    && let Ok(columns) = Columns::decode(payload)
                {
                    return Ok(Some(columns.owner().to_owned()));
                }
                rest = &rest[used..];
            }
            Step::Damaged { skip, .. } if skip > 0 => rest = &rest[skip.min(rest.len())..],
            _ => return Ok(None),
        }
    }
}

/// The reverse of what [`names_of`] says of the owner.
fn key_of(owner: &str) -> Option<JobKey> {
    let [cluster, uid, id, start_ns] = owner.split('\0').collect::<Vec<_>>().try_into().ok()?;
    Some(JobKey {
        cluster: Name::new(cluster)?,
        uid: uid.parse().ok()?,
        id: JobId::new(id).ok()?,
        start_ns: start_ns.parse().ok()?,
    })
}

/// Whether a job was rebuilt.
pub fn is_rebuilt(db: &Connection, job: i64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM losses WHERE job = ? AND what = ?")?.exists(params![job, LOSS])
}

impl Store {
    fn meta(&self, name: &str) -> rusqlite::Result<Option<String>> {
        use rusqlite::OptionalExtension;
        self.db.query_row("SELECT value FROM meta WHERE name = ?", [name], |row| row.get(0)).optional()
    }

    /// Says that what the database before this one held is to be rebuilt.
    pub(super) fn begin_rebuild(&mut self) -> Result<(), StoreError> {
        let put = self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, 'pending')", [PENDING]);
        put.map(drop).map_err(self.failed())
    }

    fn finish_rebuild(&mut self, now_ns: u64, what: &str) -> Result<(), StoreError> {
        self.lose(now_ns, None, what)?;
        let removed = self.db.execute("DELETE FROM meta WHERE name = ?", [PENDING]);
        removed.map(drop).map_err(self.failed())
    }

    /// Adds jobs that are not known; returns how many.
    fn put_rebuilt(&mut self, now_ns: u64, jobs: &[Rebuilt]) -> Result<u64, StoreError> {
        let failed = self.failed();
        let Self { db, node, .. } = self;
        (|| {
            let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let mut n_jobs = 0;
            for Rebuilt { key, end_ns, counters, size } in jobs {
                if job_number(&transaction, key)?.is_some() {
                    continue;
                }
                let user = Name::cut(user_name(key.uid).as_bytes());
                let about = About { user, size: *size, ..About::default() };
                put_job(&transaction, now_ns, node, key, &about)?;
                let Some(job) = job_number(&transaction, key)? else { continue };
                put_counters(&transaction, job, "", counters)?;
                let end_ns = i64::try_from(*end_ns).unwrap_or(i64::MAX);
                let put = "UPDATE jobs SET state = 'partial', end_ns = ? WHERE job = ?";
                transaction.prepare_cached(put)?.execute(params![end_ns, job])?;
                let put = "INSERT INTO losses (at_ns, job, what) VALUES (?, ?, ?)";
                transaction.prepare_cached(put)?.execute(params![now_ns as i64, job, LOSS])?;
                n_jobs += 1;
            }
            transaction.commit()?;
            Ok(n_jobs)
        })()
        .map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::series::SeriesFile;
    use crate::store::{DATABASE, Reader};
    use iotide_ledger::series::Rows;
    use iotide_ledger::{Cell, JobState, Metric, SystemCounter};
    use iotide_testkit::FreshDir;
    use std::sync::Arc;

    fn key(id: &str) -> JobKey {
        JobKey { cluster: Name::cut(b"tide"), uid: 0, id: JobId::new(id).unwrap(), start_ns: 990_000_000_000 }
    }

    fn sample(dir: &FreshDir, key: &JobKey, values: &[(&str, Sample)]) {
        let folder = open_directory(dir.path()).unwrap();
        let (name, owner) = names_of(key);
        let (mut file, _) = SeriesFile::open(&folder, (&name, &owner), 1).unwrap();
        for second in [1000, 1010] {
            let mut rows = Rows::new(0);
            let columns = Arc::make_mut(file.columns());
            let values: Vec<_> = values
                .iter()
                .map(|(name, sample)| (columns.id_of(name, sample.kind()).unwrap(), *sample))
                .collect();
            rows.add(second, values);
            file.append(&folder, 1, &rows).unwrap();
        }
    }

    #[test]
    fn jobs_of_a_damaged_database_are_rebuilt_from_their_metrics_over_time() {
        let dir = FreshDir::new("store-rebuilt");
        drop(Store::open(dir.path(), "n1", 1).unwrap());
        let counter = Sample::Counter;
        let values = [
            ("write_bytes", counter(700)),
            ("write_calls", counter(7)),
            ("write_ns", counter(70)),
            ("mpi_ns", counter(5)),
            ("threads_ns", counter(500)),
            ("own.steps", counter(3)),
            ("cpu_user_ns", counter(90)),
            ("processes", Sample::Gauge(4.0)),
        ];
        for id in ["gone", "running", "known"] {
            sample(&dir, &key(id), &values);
        }
        let series = dir.join("series");
        // What is no file of a job's, or bears another's name, or is cut.
        std::fs::copy(series.join(names_of(&key("gone")).0), series.join("other.0.5.00000000.series"))
            .unwrap();
        std::fs::write(series.join("junk.series"), b"junk").unwrap();
        std::fs::write(dir.join(DATABASE), b"this is no database".repeat(100)).unwrap();

        let mut store = Store::open(dir.path(), "n1", 2_000_000_000_000).unwrap();
        let known = crate::leaf::Act::Job { key: key("known"), about: About::default() };
        store.store(1, &[known]).unwrap();
        let mut rebuild = Rebuild::begin(&store).unwrap();
        while !rebuild.step(3, &mut store, |key| key.id.as_str() == "running").unwrap() {}
        assert!(Rebuild::begin(&store).is_none(), "it is done once");

        let reader = Reader::open(dir.path()).unwrap();
        let job = |id: &str| reader.job(&JobId::new(id).unwrap(), None).unwrap();
        let gone = &job("gone")[0];
        assert_eq!((&gone.key, gone.state), (&key("gone"), JobState::Partial));
        assert_eq!(
            (gone.end_ns, gone.about.size, gone.about.user.as_str()),
            (Some(1_010_000_000_000), 4, "root")
        );
        let counters = reader.counters(gone.number).unwrap();
        assert_eq!(counters.io().write, Cell { calls: 7, bytes: 700, ns: 70 });
        assert_eq!((counters.mpi().ns, counters.threads().ns), (5, 500));
        assert_eq!(counters.get(&Metric::Own { name: Name::cut(b"steps"), unit: Name::default() }).calls, 3);
        assert_eq!(counters.get(&Metric::System(SystemCounter::CpuUser.into())).ns, 90);
        assert_eq!(reader.losses(Some(gone.number)).unwrap(), [LOSS]);
        // A later process of it begins another run.
        let earlier = store.earlier(&gone.key.cluster, 0, &gone.key.id).unwrap();
        assert_eq!((earlier.job.map(|(key, _)| key), earlier.end_ns), (Some(key("gone")), None));
        assert!(job("running").is_empty());
        assert!(reader.counters(job("known")[0].number).unwrap().is_empty(), "what is known is not touched");
        let losses = reader.losses(None).unwrap();
        assert!(losses[1].contains("1 were rebuilt") && losses[1].contains("2 of their files"), "{losses:?}");
    }
}
