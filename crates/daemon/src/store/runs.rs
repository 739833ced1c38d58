//! Runs of an application: which binary, which parameters, and what was measured beside counters.

use iotide_ledger::{About, JobKey, Name};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{COLUMNS, Reader, Store, StoreError, StoredJob, job_number, job_of_row, known_job};

/// Something that a run measured beside its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of what.
    pub callpath: String,
    /// What.
    pub metric: String,
    /// How much.
    pub value: f64,
}

/// Which runs of an application are asked for.
#[derive(Clone, Debug)]
pub struct RunQuery<'a> {
    /// Whose runs.
    pub uid: u32,
    /// Of which application.
    pub app: &'a Name,
    /// Begun at or after this time.
    pub since_ns: Option<u64>,
    /// At most so many, the latest.
    pub limit: usize,
}

/// Keeps which binary a job runs, and its parameters.
pub fn put(db: &Transaction<'_>, key: &JobKey, about: &About) -> rusqlite::Result<()> {
    let job = known_job(db, key)?;
    db.prepare_cached("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)")?.execute(params![
        job,
        about.build.as_str(),
        about.parameters.as_str()
    ])?;
    Ok(())
}

impl Store {
    /// Keeps what a run measured beside its counters, in the place of what was kept before.
    pub fn put_figures(&mut self, key: &JobKey, figures: &[Figure]) -> Result<(), StoreError> {
        let failed = self.failed();
        (|| {
            let transaction = self.db.transaction()?;
            if let Some(job) = job_number(&transaction, key)? {
                transaction.execute("DELETE FROM figures WHERE job = ?", [job])?;
                let mut put =
                    transaction.prepare_cached("INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?)")?;
                for figure in figures.iter().filter(|figure| figure.value.is_finite()) {
                    put.execute(params![job, figure.callpath, figure.metric, figure.value])?;
                }
            }
            transaction.commit()
        })()
        .map_err(failed)
    }
}

impl Reader {
    /// Runs of an application that have ended, the latest first.
    pub fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<StoredJob>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE app = ?1 AND uid = ?2 AND start_ns >= ?3 AND state <> 'running'
             ORDER BY start_ns DESC, job DESC LIMIT ?4"
        );
        let since = i64::try_from(query.since_ns.unwrap_or(0)).unwrap_or(i64::MAX);
        (|| {
            let mut statement = self.db.prepare_cached(&sql)?;
            let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
            let runs =
                statement.query_map(params![query.app.as_str(), query.uid, since, limit], job_of_row)?;
            runs.collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// What a run measured beside its counters.
    pub fn figures(&self, job: i64) -> Result<Vec<Figure>, StoreError> {
        figures_of(&self.db, job).map_err(self.failed())
    }

    /// Which application a job is a run of.
    pub fn app_of(&self, key: &JobKey) -> Result<Option<Name>, StoreError> {
        (|| {
            let Some(job) = job_number(&self.db, key)? else { return Ok(None) };
            self.db
                .prepare_cached("SELECT app FROM jobs WHERE job = ?")?
                .query_row([job], |row| Ok(Name::cut(row.get_ref(0)?.as_bytes()?)))
                .optional()
        })()
        .map_err(self.failed())
    }
}

fn figures_of(db: &Connection, job: i64) -> rusqlite::Result<Vec<Figure>> {
    let mut statement = db.prepare_cached("SELECT callpath, metric, value FROM figures WHERE job = ?")?;
    let figures = statement.query_map([job], |row| {
        Ok(Figure { callpath: row.get(0)?, metric: row.get(1)?, value: row.get(2)? })
    })?;
    figures.collect()
}
