//! How long jobs are kept, and how many.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{Store, StoreError};

/// How many jobs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// How long they are kept after their end.
    pub age_s: u64,
    /// Size of the database: then the oldest of the user with most jobs go.
    pub all_bytes: u64,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self { age_s: 400 * 86_400, all_bytes: 4 << 30 }
    }
}

/// Jobs that are removed at once: others wait for the store meanwhile.
const A_STEP: usize = 256;

/// Tables with a row, or several, for each job.
const OF_JOBS: [&str; 6] = ["counters", "runs", "scheduled", "figures", "losses", "rows"];

impl Store {
    /// Removes some jobs that have ended, if they are too old or too many. Returns how many.
    ///
    /// Nobody loses a job for want of room who has less than an equal share of what is kept: it is always the user with most jobs who does.
    pub fn sweep(&mut self, now_ns: u64, limits: &JobLimits) -> Result<usize, StoreError> {
        let failed = self.failed();
        (|| {
            let oldest_ns = now_ns.saturating_sub(limits.age_s.saturating_mul(1_000_000_000));
            let db = self.db.transaction()?;
            let mut jobs = too_old(&db, oldest_ns)?;
            if jobs.is_empty() && used_bytes(&db)? > limits.all_bytes {
                jobs = oldest_of_the_busiest(&db)?;
            }
            for job in &jobs {
                remove(&db, *job)?;
            }
            db.commit()?;
            Ok(jobs.len())
        })()
        .map_err(failed)
    }
}

/// Bytes of the database that hold something.
fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let of = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let pages = of("page_count")?.saturating_sub(of("freelist_count")?);
    Ok(pages.saturating_mul(of("page_size")?).max(0) as u64)
}

/// Jobs that have ended and that the daemon above has, if there is one.
const ENDED: &str = "state <> 'running' AND job NOT IN (SELECT job FROM unsent)";

fn too_old(db: &Transaction<'_>, oldest_ns: u64) -> rusqlite::Result<Vec<i64>> {
    // The index is by start, and nothing ends before it began.
    let sql = format!("SELECT job FROM jobs WHERE start_ns < ?1 AND end_ns < ?1 AND {ENDED} LIMIT {A_STEP}");
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_map([oldest_ns as i64], |row| row.get(0))?.collect()
}

fn oldest_of_the_busiest(db: &Transaction<'_>) -> rusqlite::Result<Vec<i64>> {
    let busiest =
        format!("SELECT uid FROM jobs WHERE {ENDED} GROUP BY uid ORDER BY count(*) DESC, uid LIMIT 1");
    let uid: Option<u32> = db.query_row(&busiest, [], |row| row.get(0)).optional()?;
    let sql = format!("SELECT job FROM jobs WHERE uid = ? AND {ENDED} ORDER BY start_ns LIMIT {A_STEP}");
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_map([uid], |row| row.get(0))?.collect()
}

fn remove(db: &Transaction<'_>, job: i64) -> rusqlite::Result<()> {
    for table in OF_JOBS {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE job = ?"))?.execute(params![job])?;
    }
    db.prepare_cached("DELETE FROM pages WHERE job = ? AND done = 1")?.execute(params![job])?;
    db.prepare_cached("DELETE FROM jobs WHERE job = ?")?.execute(params![job]).map(drop)
}
