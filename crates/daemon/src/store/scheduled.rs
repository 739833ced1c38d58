//! What the scheduler says of jobs: their account, and another name.

use iotide_ledger::{About, JobKey};
use rusqlite::{Transaction, params};

use super::{COLUMNS, Reader, StoreError, StoredJob, job_of_row, known_job};

/// Runs of one name that are looked at.
const MOST_RUNS: usize = 100;

pub fn put(db: &Transaction<'_>, key: &JobKey, about: &About) -> rusqlite::Result<()> {
    if about.account.is_empty() && about.alias.is_empty() {
        return Ok(());
    }
    let job = known_job(db, key)?;
    db.prepare_cached("INSERT OR REPLACE INTO scheduled VALUES (?, ?, ?)")?.execute(params![
        job,
        about.account.as_str(),
        about.alias.as_str()
    ])?;
    Ok(())
}

impl Reader {
    /// The job that the scheduler also calls `alias`: the last attempt of the one that first had this name. What a job submits inherits its
    /// environment, and may claim its name.
    pub fn job_of_alias(&self, alias: &str, only_uid: Option<u32>) -> Result<Option<StoredJob>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM jobs WHERE job IN (SELECT job FROM scheduled WHERE alias = ?1 AND alias <> '')
             AND (?2 IS NULL OR uid = ?2) ORDER BY start_ns LIMIT {MOST_RUNS}"
        );
        (|| {
            let mut statement = self.db.prepare_cached(&sql)?;
            let jobs = statement.query_map((alias, only_uid), job_of_row)?;
            let mut jobs = jobs.collect::<rusqlite::Result<Vec<StoredJob>>>()?;
            let first = jobs.first().map(attempted);
            jobs.retain(|job| Some(attempted(job)) == first);
            Ok(jobs.pop())
        })()
        .map_err(self.failed())
    }
}

/// Which job this is an attempt of.
fn attempted(job: &StoredJob) -> (u32, String) {
    let id = job.key.id.as_str();
    (job.key.uid, id.rsplit_once(".r").map_or(id, |(id, _)| id).to_owned())
}
