//! The database, to ask.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use iotide_ledger::{About, Cell, Counters, IoSums, JobId, JobKey, JobState, SystemCounter};
use iotide_wire::page::PageLayer;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::{COLUMNS, DATABASE, StoreError, counters_of, job_of_row, search};

/// Losses that are reported of a job.
const MOST_LOSSES: usize = 100;

fn repeated(what: String, n: u64) -> String {
    if n > 1 { format!("{what} ({n} times)") } else { what }
}

/// A job as it is stored.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// Its number in the database.
    pub number: i64,
    /// Which it is.
    pub key: JobKey,
    /// Facts about it.
    pub about: About,
    /// When it ended.
    pub end_ns: Option<u64>,
    /// `running`, `ended` or `partial`.
    pub state: JobState,
    /// How many processes it had.
    pub n_processes: u32,
    /// Where it ran.
    pub node: String,
}

/// Sums of a stored job.
#[derive(Clone, Debug, Default)]
pub struct JobSums {
    /// Its I/O.
    pub io: IoSums,
    /// Its processor time, where the system counted it.
    pub cpu_ns: Option<u64>,
    /// The most memory it had.
    pub memory_bytes: Option<u64>,
    /// Data that is missing.
    pub losses: Vec<String>,
}

/// Which jobs are asked for; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Of this user alone: who may not see more.
    pub only_uid: Option<u32>,
    /// Of this user.
    pub user: Option<String>,
    /// Of this application, by id or name.
    pub app: Option<String>,
    /// In this state.
    pub state: Option<JobState>,
    /// Begun at or after this time.
    pub since_ns: Option<u64>,
    /// With this text in id, name or command.
    pub text: Option<String>,
    /// Begun before (start, number): where the last answer ended.
    pub before: Option<(u64, i64)>,
    /// At most so many.
    pub limit: usize,
}

impl Query {
    /// Asks for columns of at most so many jobs, the latest first, whatever their texts are; only of such as have these letters, if there are any.
    pub fn sql(&self, columns: &str, letters: Option<String>, most: usize) -> (String, Vec<Value>) {
        let mut wheres = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        // By the letters, and then in order: in order by the index, all jobs would be looked at.
        let start = if letters.is_some() { "+start_ns" } else { "start_ns" };
        if let Some(letters) = letters {
            values.push(letters.into());
            wheres.push("job IN (SELECT rowid FROM jobs_text WHERE jobs_text MATCH ?1)".to_owned());
        }
        let mut also = |condition: &str, value: Value| {
            values.push(value);
            wheres.push(condition.replace('?', &format!("?{}", values.len())));
        };
        if let Some(uid) = self.only_uid {
            also("uid = ?", i64::from(uid).into());
        }
        if let Some(user) = &self.user {
            also("user = ?", user.clone().into());
        }
        if let Some(state) = self.state {
            also("state = ?", state.as_str().to_owned().into());
        }
        if let Some(since) = self.since_ns {
            also("start_ns >= ?", i64::try_from(since).unwrap_or(i64::MAX).into());
        }
        if let Some((start, number)) = self.before {
            values.push(i64::try_from(start).unwrap_or(i64::MAX).into());
            values.push(number.into());
            wheres.push(format!("(start_ns, job) < (?{}, ?{})", values.len() - 1, values.len()));
        }
        let wheres = wheres.join(" AND ");
        let order =
            |start| format!("ORDER BY {start} DESC, job DESC LIMIT {}", i64::try_from(most).unwrap_or(-1));
        let sql = match &self.app {
            None => format!("SELECT {columns} FROM jobs WHERE {wheres} {}", order(start)),
            Some(app) => {
                values.push(app.clone().into());
                // One question by each index: asked for either, the database looks at all jobs.
                let by = |column: &str| {
                    let (n, order) = (values.len(), order(start));
                    format!(
                        "SELECT * FROM (SELECT {columns} FROM jobs WHERE {wheres} AND {column} = ?{n} {order})"
                    )
                };
                format!("{} UNION {} {}", by("app"), by("name"), order("start_ns"))
            }
        };
        (sql, values)
    }
}

/// The database, to ask. Readers do not wait for the writer.
#[derive(Debug)]
pub struct Reader {
    pub(crate) db: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens the database of a store.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(DATABASE);
        let failed = |cause| StoreError::Database { path: path.clone(), cause };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).map_err(failed)?;
        db.busy_timeout(Duration::from_millis(200)).map_err(failed)?;
        db.pragma_update(None, "cache_size", -1024).map_err(failed)?;
        Ok(Self { db, path })
    }

    pub(crate) fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        |cause| StoreError::Database { path: self.path.clone(), cause }
    }

    /// Jobs, the latest first.
    pub fn jobs(&self, query: &Query) -> Result<Vec<StoredJob>, StoreError> {
        (|| {
            let mut jobs = Vec::new();
            let Some(text) = &query.text else {
                let (sql, values) = query.sql(COLUMNS, None, query.limit);
                let mut statement = self.db.prepare(&sql)?;
                let mut rows = statement.query(params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    jobs.push(job_of_row(row)?);
                }
                return Ok(jobs);
            };
            for number in search::numbers(&self.db, query, text)? {
                let sql = format!("SELECT {COLUMNS} FROM jobs WHERE job = ?");
                jobs.push(self.db.prepare_cached(&sql)?.query_row([number], job_of_row)?);
            }
            Ok(jobs)
        })()
        .map_err(self.failed())
    }

    /// The runs of a job id, the latest first.
    pub fn job(&self, id: &JobId, only_uid: Option<u32>) -> Result<Vec<StoredJob>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE id = ?1 AND (?2 IS NULL OR uid = ?2) ORDER BY start_ns DESC LIMIT 100"
        );
        (|| {
            let mut statement = self.db.prepare_cached(&sql)?;
            statement.query_map((id.as_str(), only_uid), job_of_row)?.collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// Returns the counts of a job.
    pub fn counters(&self, job: i64) -> Result<Counters, StoreError> {
        counters_of(&self.db, job, None).map_err(self.failed())
    }

    /// Returns the losses of a job; for `None`, those recorded for no single job.
    pub fn losses(&self, job: Option<i64>) -> Result<Vec<String>, StoreError> {
        (|| {
            let mut statement = self.db.prepare_cached(
                "SELECT what, count(*) FROM losses WHERE job IS ?1 GROUP BY what ORDER BY min(loss) LIMIT ?2",
            )?;
            let losses =
                statement.query_map((job, MOST_LOSSES), |row| Ok(repeated(row.get(0)?, row.get(1)?)))?;
            losses.collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// Returns the sums of jobs, and their losses: with three queries, however many jobs. `memory` is the name of the figure that holds the
    /// memory of a job.
    pub fn sums(&self, jobs: &[i64], memory: &str) -> Result<HashMap<i64, JobSums>, StoreError> {
        let numbers: Vec<String> = jobs.iter().map(i64::to_string).collect();
        let numbers = numbers.join(",");
        (|| {
            let mut of_jobs: HashMap<i64, JobSums> = HashMap::new();
            // Sums of the database's own would fail where they do not fit.
            let cpu = SystemCounter::CPU.map(|counter| counter.declaration().name);
            let mut statement = self.db.prepare(&format!(
                "SELECT job, name, calls, bytes, ns, kind FROM counters
                 WHERE job IN ({numbers}) AND (kind = 'io' AND layer <> ? OR kind = 'cgroup' AND name IN (?, ?))"
            ))?;
            let mut rows = statement.query([PageLayer::Beneath.name(), cpu[0], cpu[1]])?;
            while let Some(row) = rows.next()? {
                let number = |index: usize| row.get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or(0));
                let cell = Cell { calls: number(2)?, bytes: number(3)?, ns: number(4)? };
                let sums = of_jobs.entry(row.get(0)?).or_default();
                match row.get_ref(5)?.as_str()? {
                    "io" => sums.io.add(&row.get_ref(1)?.as_str()?.into(), cell),
                    _ => sums.cpu_ns = Some(sums.cpu_ns.unwrap_or(0).saturating_add(cell.ns)),
                }
            }
            let mut statement = self.db.prepare(&format!(
                "SELECT job, value FROM figures WHERE job IN ({numbers}) AND callpath = ? AND metric = 'maximum'"
            ))?;
            let mut rows = statement.query([memory])?;
            while let Some(row) = rows.next()? {
                of_jobs.entry(row.get(0)?).or_default().memory_bytes = Some(row.get::<_, f64>(1)? as u64);
            }
            let mut statement = self.db.prepare(&format!(
                "SELECT job, what, count(*) FROM losses WHERE job IN ({numbers}) GROUP BY job, what ORDER BY min(loss)"
            ))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let losses = &mut of_jobs.entry(row.get(0)?).or_default().losses;
                if losses.len() < MOST_LOSSES {
                    losses.push(repeated(row.get(1)?, row.get(2)?));
                }
            }
            Ok(of_jobs)
        })()
        .map_err(self.failed())
    }

    /// Which of these jobs are stored.
    pub fn known<'a>(&self, keys: impl Iterator<Item = &'a JobKey>) -> Result<HashSet<JobKey>, StoreError> {
        let ids: Vec<Value> = keys.map(|key| Value::from(key.id.as_str().to_owned())).collect();
        let places = vec!["?"; ids.len()].join(",");
        (|| {
            let mut statement =
                self.db.prepare(&format!("SELECT {COLUMNS} FROM jobs WHERE id IN ({places})"))?;
            let jobs = statement.query_map(params_from_iter(ids), job_of_row)?;
            jobs.map(|job| job.map(|job| job.key)).collect::<rusqlite::Result<HashSet<_>>>()
        })()
        .map_err(self.failed())
    }

    /// How many jobs there are in each state.
    pub fn states(&self) -> Result<Vec<(String, u64)>, StoreError> {
        (|| {
            let mut statement = self.db.prepare_cached("SELECT state, count(*) FROM jobs GROUP BY state")?;
            statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }
}
