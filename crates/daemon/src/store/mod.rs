//! Persistent data: jobs, applications, profiles and losses, in one SQLite database.
//!
//! A transaction is on disk when it is over (`synchronous=FULL`). A database that is damaged is set aside under another name, a new one is begun,
//! and its loss is a row of the new one: the daemon runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use iotide_ledger::{About, Cell, Counters, JobId, JobKey, JobState, Metric, Name, Parameters, Trust};
use iotide_private::OpenDir;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, params};

use crate::leaf::{Act, Earlier, PageId};
use file::{close_database, damaged, is_empty, set_aside};

pub use keep::JobLimits;
pub use reader::{JobSums, Query, Reader, StoredJob};
pub use runs::{Figure, RunQuery};
pub use series::{LimitsError, SeriesLimits};

pub mod file;
mod keep;
mod reader;
pub mod rebuild;
mod rows;
mod runs;
mod scheduled;
mod search;
pub mod series;

/// The file of the database in the store's directory.
pub const DATABASE: &str = "iotide.db";
/// The file beside it in which alarms are kept.
pub const ALARMS: &str = "alarms.db";

const SCHEMA: &str = include_str!("schema.sql");
const VERSION: &str = "1";
/// A database of at most this size is checked when it is opened: a fraction of a second.
const MOST_CHECKED_BYTES: i64 = 128 << 20;

/// Why something could not be stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory cannot be used.
    #[error("cannot use the store directory {}: {cause}", path.display())]
    Directory {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The database says no.
    #[error("the database in {}: {cause}", path.display())]
    Database {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: rusqlite::Error,
    },
    /// The database is gone, or empty, and files that stood beside it are not.
    #[error("the database in {} is missing or empty, beside files of an earlier one", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It is the database of another version.
    #[error("the database in {} has schema version {found}; this program reads version {VERSION}", path.display())]
    Version {
        /// Where.
        path: PathBuf,
        /// Its version.
        found: String,
    },
}

impl StoreError {
    /// Whether the database is damaged, rather than busy or out of space.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Database { cause, .. } => is_damage(cause),
            Self::Missing { .. } => true,
            _ => false,
        }
    }

    /// Whether rows are missing that were stored before.
    pub fn is_missing_rows(&self) -> bool {
        matches!(self, Self::Database { cause: rusqlite::Error::QueryReturnedNoRows, .. })
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

/// Whether the database of a store is gone, while files that are made after it are there.
fn is_gone(directory: &Path) -> bool {
    let has_series = || {
        let entries = std::fs::read_dir(directory.join(series::DIRECTORY)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(series::is_of_job))
    };
    is_empty(&directory.join(DATABASE))
        && (directory.join(ALARMS).exists()
            || directory.join(format!("{DATABASE}-wal")).metadata().is_ok_and(|about| about.len() > 0)
            || has_series())
}

/// Whether a name in the directory of a store is that of a file, or folder, of the store.
fn is_name_of_store(name: &[u8]) -> bool {
    [DATABASE, ALARMS, series::DIRECTORY].iter().any(|own| name.starts_with(own.as_bytes()))
}

/// The database, to write to. There is one writer.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    directory: PathBuf,
    node: String,
}

impl Store {
    /// Opens the database in a directory; makes both if they are not there. One that is damaged is set aside, and the loss recorded.
    pub fn open(directory: &Path, node: &str, now_ns: u64) -> Result<Self, StoreError> {
        let cannot = |cause| StoreError::Directory { path: directory.to_owned(), cause };
        let folder = OpenDir::make_private(directory).map_err(cannot)?;
        folder.close_to_others(is_name_of_store).map_err(cannot)?;
        let opened = match is_gone(directory) {
            true => Err(StoreError::Missing { path: directory.join(DATABASE) }),
            false => Self::open_database(directory, node),
        };
        match opened {
            Err(error) if error.is_damage() => Self::begin_anew(directory, node, now_ns, &error),
            opened => opened,
        }
    }

    /// Notes that there is a database of alarms; returns whether there was one before.
    pub fn note_alarms(&mut self) -> Result<bool, StoreError> {
        let put = self.db.execute("INSERT OR IGNORE INTO meta VALUES ('alarms', 'made')", []);
        put.map(|n_new| n_new == 0).map_err(self.failed())
    }

    /// Sets a damaged database aside and begins a new one.
    pub fn begin_anew(
        directory: &Path,
        node: &str,
        now_ns: u64,
        why: &StoreError,
    ) -> Result<Self, StoreError> {
        let aside = set_aside(directory, DATABASE, now_ns)?;
        let mut store = Self::open_database(directory, node)?;
        store.lose(now_ns, None, &format!("{why}{aside}; what it held is missing here"))?;
        store.begin_rebuild()?;
        Ok(store)
    }

    fn open_database(directory: &Path, node: &str) -> Result<Self, StoreError> {
        let path = directory.join(DATABASE);
        let failed = |cause| StoreError::Database { path: path.clone(), cause };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        close_database(directory, DATABASE)?;
        let db = Connection::open_with_flags(&path, flags).map_err(failed)?;
        let version = (|| {
            db.busy_timeout(Duration::from_secs(2))?;
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.pragma_update(None, "synchronous", "FULL")?;
            db.pragma_update(None, "cache_size", -1024)?;
            let has_text = "SELECT count(*) FROM sqlite_schema WHERE name = 'jobs_text'";
            let has_text: i64 = db.query_row(has_text, [], |row| row.get(0))?;
            db.execute_batch(SCHEMA)?;
            if has_text == 0 {
                // Jobs that were stored before there was such a table.
                db.execute("INSERT INTO jobs_text (jobs_text) VALUES ('rebuild')", [])?;
            }
            let size: i64 = db.query_row(
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
                [],
                |row| row.get(0),
            )?;
            // A large archive takes long to look through; its damage is found when it is met.
            if size <= MOST_CHECKED_BYTES {
                let fault: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
                if fault != "ok" {
                    return Err(damaged());
                }
            }
            db.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", [VERSION])?;
            db.query_row("SELECT value FROM meta WHERE name = 'version'", [], |row| row.get::<_, String>(0))
        })()
        .map_err(failed)?;
        if version != VERSION {
            return Err(StoreError::Version { path, found: version });
        }
        Ok(Self { db, directory: directory.to_owned(), node: node.to_owned() })
    }

    /// The directory of the store.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.directory.join(DATABASE);
        move |cause| StoreError::Database { path: path.clone(), cause }
    }

    /// Stores all or nothing; when this returns, it is on disk.
    pub fn store(&mut self, now_ns: u64, acts: &[Act]) -> Result<(), StoreError> {
        let failed = self.failed();
        let Self { db, node, .. } = self;
        (|| {
            let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for act in acts {
                perform(&transaction, now_ns, node, act)?;
                if let Act::End { own: Some(own), .. } = act {
                    rows::put_unsent(&transaction, own)?;
                }
            }
            transaction.commit()
        })()
        .map_err(failed)
    }

    /// Adds what processes of a job had counted to a database that was begun anew.
    pub fn put_done(&mut self, key: &JobKey, done: &Counters) -> Result<(), StoreError> {
        let failed = self.failed();
        (|| {
            let transaction = self.db.transaction()?;
            if let Some(job) = job_number(&transaction, key)? {
                put_counters(&transaction, job, "", done)?;
            }
            transaction.commit()
        })()
        .map_err(failed)
    }

    /// Records a loss, of a job or of all.
    pub fn lose(&mut self, at_ns: u64, key: Option<&JobKey>, what: &str) -> Result<(), StoreError> {
        let failed = self.failed();
        (|| {
            let job = key.map(|key| job_number(&self.db, key)).transpose()?.flatten();
            self.db.execute(
                "INSERT INTO losses (at_ns, job, what) VALUES (?, ?, ?)",
                params![at_ns as i64, job, what],
            )
        })()
        .map(drop)
        .map_err(failed)
    }

    /// Pages that are counted and may be removed.
    pub fn done_pages(&self) -> Result<Vec<PageId>, StoreError> {
        (|| {
            let mut statement = self.db.prepare("SELECT page FROM pages WHERE done = 1")?;
            let pages = statement.query_map([], |row| Ok(PageId::new(row.get::<_, String>(0)?)))?;
            pages.collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// Forgets pages that were counted and are removed.
    pub fn forget_pages(&mut self, pages: &[PageId]) -> Result<(), StoreError> {
        let failed = self.failed();
        (|| {
            let transaction = self.db.transaction()?;
            for page in pages {
                transaction.execute("DELETE FROM pages WHERE page = ? AND done = 1", [page.as_str()])?;
            }
            transaction.commit()
        })()
        .map_err(failed)
    }

    /// Jobs that ran when the daemon ended.
    pub fn running(&self) -> Result<Vec<Earlier>, StoreError> {
        (|| {
            let mut statement =
                self.db.prepare(&format!("SELECT {COLUMNS} FROM jobs WHERE state = 'running'"))?;
            let jobs: Vec<_> = statement.query_map([], job_of_row)?.collect::<Result<_, _>>()?;
            jobs.into_iter().map(|job| self.earlier_of(job)).collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// The last job of a cluster, user and id.
    pub fn earlier(&self, cluster: &Name, uid: u32, id: &JobId) -> Result<Earlier, StoreError> {
        (|| {
            let sql = format!(
                "SELECT {COLUMNS} FROM jobs WHERE cluster = ? AND uid = ? AND id = ? ORDER BY start_ns DESC LIMIT 1"
            );
            let job = self
                .db
                .query_row(&sql, params![cluster.as_str(), uid, id.as_str()], job_of_row)
                .optional()?;
            job.map_or(Ok(Earlier::default()), |job| self.earlier_of(job))
        })()
        .map_err(self.failed())
    }

    fn earlier_of(&self, job: StoredJob) -> rusqlite::Result<Earlier> {
        let mut statement = self.db.prepare_cached("SELECT page FROM pages WHERE job = ? AND done = 0")?;
        let names: Vec<String> =
            statement.query_map([job.number], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let pages = names.into_iter().map(|page| {
            let counters = counters_of(&self.db, job.number, Some(&page))?;
            Ok((PageId::new(page), counters))
        });
        // What processes counted that still ran when it was rebuilt is in their pages, too: it does not go on.
        let is_rebuilt = job.state == JobState::Partial && rebuild::is_rebuilt(&self.db, job.number)?;
        Ok(Earlier {
            pages: pages.collect::<rusqlite::Result<_>>()?,
            done: counters_of(&self.db, job.number, Some(""))?,
            elsewhere: counters_of(&self.db, job.number, Some(rows::PAGE))?,
            end_ns: job.end_ns.filter(|_| !is_rebuilt),
            n_processes: job.n_processes,
            job: Some((job.key, job.about)),
        })
    }

    /// Writes what is in the log to the database itself.
    pub fn checkpoint(&self) {
        // Busy readers leave some of it for the next time.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

fn perform(db: &Transaction<'_>, now_ns: u64, node: &str, act: &Act) -> rusqlite::Result<()> {
    match act {
        Act::Job { key, about } => put_job(db, now_ns, node, key, about),
        Act::Page { page, key } => {
            let job = known_job(db, key)?;
            let is_new = db
                .prepare_cached("INSERT OR IGNORE INTO pages (page, job) VALUES (?, ?)")?
                .execute(params![page.as_str(), job])?;
            db.prepare_cached("UPDATE jobs SET n_processes = n_processes + ? WHERE job = ?")?
                .execute(params![is_new as i64, job])?;
            Ok(())
        }
        Act::Keep { page, key, counters } => {
            let job = known_job(db, key)?;
            if is_done(db, page)? { Ok(()) } else { put_counters(db, job, page.as_str(), counters) }
        }
        Act::Finish { page, key, counters, loss } => {
            let job = known_job(db, key)?;
            if is_done(db, page)? {
                return Ok(());
            }
            let page = page.as_str();
            db.prepare_cached("UPDATE pages SET done = 1 WHERE page = ?")?.execute([page])?;
            db.prepare_cached("DELETE FROM counters WHERE job = ? AND page = ?")?
                .execute(params![job, page])?;
            add_counters(db, job, counters)?;
            if let Some(loss) = loss {
                db.execute(
                    "INSERT INTO losses (at_ns, job, what) VALUES (?, ?, ?)",
                    params![now_ns as i64, job, format!("1 of: {}", loss.what())],
                )?;
            }
            Ok(())
        }
        Act::Rows { key, rows, sum, nodes } => rows::put(db, known_job(db, key)?, rows, sum, nodes),
        Act::End { key, end_ns, silent, .. } => {
            let job = known_job(db, key)?;
            rows::put_silent(db, now_ns, job, silent)?;
            // A page that went away while its process ran may have counted more.
            let counted = "SELECT count(*) FROM losses WHERE job = ? AND what NOT LIKE ? || '%'";
            let n_lost: i64 = db.query_row(counted, params![job, series::LOSS], |row| row.get(0))?;
            let state = if n_lost > 0 { JobState::Partial } else { JobState::Ended };
            db.execute(
                "UPDATE jobs SET state = ?, end_ns = ? WHERE job = ?",
                params![state.as_str(), *end_ns as i64, job],
            )?;
            Ok(())
        }
    }
}

fn put_job(
    db: &Transaction<'_>,
    now_ns: u64,
    node: &str,
    key: &JobKey,
    about: &About,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO jobs (cluster, uid, id, start_ns, state, user, app, name, command, run_dir, partition, size, trust, node)
         VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (cluster, uid, id, start_ns) DO UPDATE SET state = 'running', end_ns = NULL, user = excluded.user,
         app = excluded.app, name = excluded.name, command = excluded.command, run_dir = excluded.run_dir,
         partition = excluded.partition, size = excluded.size, trust = excluded.trust",
    )?
    .execute(params![
        key.cluster.as_str(),
        key.uid,
        key.id.as_str(),
        key.start_ns as i64,
        about.user.as_str(),
        about.app.as_str(),
        about.name.as_str(),
        about.command,
        about.run_dir,
        about.partition.as_str(),
        about.size,
        about.trust.as_str(),
        node,
    ])?;
    runs::put(db, key, about)?;
    scheduled::put(db, key, about)?;
    db.prepare_cached(
        "INSERT INTO applications VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (app) DO UPDATE SET last_ns = max(last_ns, excluded.last_ns)",
    )?
    .execute(params![about.app.as_str(), about.program(), about.command, now_ns as i64])?;
    Ok(())
}

fn job_number(db: &Connection, key: &JobKey) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT job FROM jobs WHERE cluster = ? AND uid = ? AND id = ? AND start_ns = ?")?
        .query_row(params![key.cluster.as_str(), key.uid, key.id.as_str(), key.start_ns as i64], |row| {
            row.get(0)
        })
        .optional()
}

/// The number of a job that was stored before; an error if somebody has removed it.
fn known_job(db: &Connection, key: &JobKey) -> rusqlite::Result<i64> {
    job_number(db, key)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// Whether a page is counted already; an error if nobody has registered it.
fn is_done(db: &Connection, page: &PageId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT done FROM pages WHERE page = ?")?.query_row([page.as_str()], |row| row.get(0))
}

fn put_counters(db: &Transaction<'_>, job: i64, page: &str, counters: &Counters) -> rusqlite::Result<()> {
    let mut put = db.prepare_cached("INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (metric, cell) in counters.iter() {
        let [kind, name, layer, fs] = metric.columns();
        let [calls, bytes, ns] = whole(cell);
        put.execute(params![job, page, kind, name, layer, fs, calls, bytes, ns])?;
    }
    Ok(())
}

fn add_counters(db: &Transaction<'_>, job: i64, counters: &Counters) -> rusqlite::Result<()> {
    let mut put = db.prepare_cached(
        "INSERT INTO counters VALUES (?, '', ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET calls = min(calls, 9223372036854775807 - excluded.calls) + excluded.calls,
         bytes = min(bytes, 9223372036854775807 - excluded.bytes) + excluded.bytes,
         ns = min(ns, 9223372036854775807 - excluded.ns) + excluded.ns",
    )?;
    for (metric, cell) in counters.iter() {
        let [kind, name, layer, fs] = metric.columns();
        let [calls, bytes, ns] = whole(cell);
        put.execute(params![job, kind, name, layer, fs, calls, bytes, ns])?;
    }
    Ok(())
}

/// SQLite's numbers have a sign. What does not fit is no honest count.
fn whole(cell: &Cell) -> [i64; 3] {
    [cell.calls, cell.bytes, cell.ns].map(|value| i64::try_from(value).unwrap_or(i64::MAX))
}

/// The counters of a job: of one page, of none, or all together.
fn counters_of(db: &Connection, job: i64, page: Option<&str>) -> rusqlite::Result<Counters> {
    let mut statement = db.prepare_cached(
        "SELECT kind, name, layer, fs, calls, bytes, ns FROM counters WHERE job = ?1 AND (?2 IS NULL OR page = ?2)",
    )?;
    let mut rows = statement.query(params![job, page])?;
    let mut counters = Counters::default();
    while let Some(row) = rows.next()? {
        let text = |index: usize| row.get_ref(index)?.as_str().map_err(rusqlite::Error::from);
        let number = |index: usize| row.get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or(0));
        let Some(metric) = Metric::of_columns([text(0)?, text(1)?, text(2)?, text(3)?]) else { continue };
        counters.add(metric, Cell { calls: number(4)?, bytes: number(5)?, ns: number(6)? });
    }
    Ok(counters)
}

const COLUMNS: &str = "job, cluster, uid, id, start_ns, end_ns, state, user, app, name, command, run_dir, partition, size, \
                       n_processes, trust, node, coalesce((SELECT build FROM runs WHERE runs.job = jobs.job), ''), \
                       coalesce((SELECT parameters FROM runs WHERE runs.job = jobs.job), ''), \
                       coalesce((SELECT account FROM scheduled WHERE scheduled.job = jobs.job), ''), \
                       coalesce((SELECT alias FROM scheduled WHERE scheduled.job = jobs.job), '')";

fn job_of_row(row: &Row<'_>) -> rusqlite::Result<StoredJob> {
    let name = |index: usize| Ok::<_, rusqlite::Error>(Name::cut(row.get_ref(index)?.as_bytes()?));
    let id = row.get_ref(3)?.as_bytes()?;
    let time =
        |index: usize| row.get::<_, Option<i64>>(index).map(|ns| ns.map(|ns| u64::try_from(ns).unwrap_or(0)));
    Ok(StoredJob {
        number: row.get(0)?,
        key: JobKey {
            cluster: name(1)?,
            uid: row.get(2)?,
            id: JobId::new(id).map_err(|_| damaged())?,
            start_ns: time(4)?.unwrap_or(0),
        },
        end_ns: time(5)?,
        state: JobState::of(row.get_ref(6)?.as_str()?).unwrap_or(JobState::Partial),
        about: About {
            user: name(7)?,
            app: name(8)?,
            name: name(9)?,
            command: row.get(10)?,
            run_dir: row.get(11)?,
            partition: name(12)?,
            account: name(19)?,
            alias: name(20)?,
            size: row.get(13)?,
            trust: Trust::of(row.get_ref(15)?.as_str()?),
            build: name(17)?,
            parameters: Parameters::read(row.get_ref(18)?.as_bytes()?),
        },
        n_processes: row.get(14)?,
        node: row.get(16)?,
    })
}
