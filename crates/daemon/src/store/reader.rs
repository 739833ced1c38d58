//! The database, to ask.

use std::path::{Path, PathBuf};
use std::time::Duration;

use iotide_ledger::{About, Counters, JobId, JobKey};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::{COLUMNS, DATABASE, StoreError, counters_of, job_of_row};

/// A job as it is stored.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// Its number in the database.
    pub number: i64,
    /// Which it is.
    pub key: JobKey,
    /// What is known of it.
    pub about: About,
    /// When it ended.
    pub end_ns: Option<u64>,
    /// `running`, `ended` or `partial`.
    pub state: String,
    /// How many processes it had.
    pub n_processes: u32,
    /// Where it ran.
    pub node: String,
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
    pub state: Option<String>,
    /// Begun at or after this time.
    pub since_ns: Option<u64>,
    /// With this text in id, name or command.
    pub text: Option<String>,
    /// Begun before (start, number): where the last answer ended.
    pub before: Option<(u64, i64)>,
    /// At most so many.
    pub limit: usize,
}

/// The database, to ask. Readers do not wait for the writer.
#[derive(Debug)]
pub struct Reader {
    pub(super) db: Connection,
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

    pub(super) fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        |cause| StoreError::Database { path: self.path.clone(), cause }
    }

    /// Jobs, the latest first.
    pub fn jobs(&self, query: &Query) -> Result<Vec<StoredJob>, StoreError> {
        let mut wheres = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let mut also = |condition: &str, value: Value| {
            values.push(value);
            wheres.push(condition.replace('?', &format!("?{}", values.len())));
        };
        if let Some(uid) = query.only_uid {
            also("uid = ?", i64::from(uid).into());
        }
        if let Some(user) = &query.user {
            also("user = ?", user.clone().into());
        }
        if let Some(app) = &query.app {
            also("(app = ? OR name = ?)", app.clone().into());
        }
        if let Some(state) = &query.state {
            also("state = ?", state.clone().into());
        }
        if let Some(since) = query.since_ns {
            also("start_ns >= ?", i64::try_from(since).unwrap_or(i64::MAX).into());
        }
        if let Some(text) = &query.text {
            also("(instr(id, ?) OR instr(name, ?) OR instr(command, ?))", text.clone().into());
        }
        if let Some((start, number)) = query.before {
            values.push(i64::try_from(start).unwrap_or(i64::MAX).into());
            values.push(number.into());
            wheres.push(format!("(start_ns, job) < (?{}, ?{})", values.len() - 1, values.len()));
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE {} ORDER BY start_ns DESC, job DESC LIMIT {}",
            wheres.join(" AND "),
            query.limit
        );
        (|| {
            let mut statement = self.db.prepare_cached(&sql)?;
            statement.query_map(params_from_iter(values), job_of_row)?.collect::<rusqlite::Result<Vec<_>>>()
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

    /// What a job has counted.
    pub fn counters(&self, job: i64) -> Result<Counters, StoreError> {
        counters_of(&self.db, job, None).map_err(self.failed())
    }

    /// What was lost of a job, or of all.
    pub fn losses(&self, job: Option<i64>) -> Result<Vec<String>, StoreError> {
        (|| {
            let mut statement = self.db.prepare_cached(
                "SELECT what, count(*) FROM losses WHERE job IS ?1 GROUP BY what ORDER BY min(loss) LIMIT 100",
            )?;
            let losses = statement.query_map([job], |row| {
                let (what, n): (String, u64) = (row.get(0)?, row.get(1)?);
                Ok(if n > 1 { format!("{what} ({n} times)") } else { what })
            })?;
            losses.collect::<rusqlite::Result<Vec<_>>>()
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
