//! Rows of other nodes, and what they are to have of ours.

use iotide_ledger::tree::{Group, KeptRow, Opened, RowKey, read_counters, write_counters};
use iotide_ledger::{About, Counters, JobId, JobKey, Name};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{COLUMNS, Store, StoreError, StoredJob, counters_of, job_number, job_of_row, put_counters};
use crate::leaf::{Leaf, OwnRow};

/// The page under which the counters of a job have what other nodes counted. No page of a process has such a name.
pub(super) const PAGE: &str = "@";
/// What is said of a node that was not heard of; a late word of it takes that back.
const SILENT: &str = "not heard of until the job's end: its counts may be incomplete";
/// Nodes that are named one by one.
const MOST_NAMED: usize = 64;
/// A job that has ended goes on within this time, and its rows are kept for as long.
const KEEP_NS: u64 = 25 * 3600 * 1_000_000_000;

pub fn put(
    db: &Transaction<'_>,
    job: i64,
    rows: &[KeptRow],
    sum: &Counters,
    nodes: &[Name],
) -> rusqlite::Result<()> {
    let mut put = db.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
    for KeptRow { key, seq, is_final, counters } in rows {
        put.execute(params![
            job,
            key.node.as_str(),
            key.epoch as i64,
            key.key.id.as_str(),
            key.key.start_ns as i64,
            *seq as i64,
            is_final,
            write_counters(counters),
        ])?;
    }
    put_counters(db, job, PAGE, sum)?;
    let mut names: Vec<&str> = nodes.iter().take(MOST_NAMED).map(Name::as_str).collect();
    let more = format!("{} more", nodes.len().saturating_sub(MOST_NAMED));
    if nodes.len() > MOST_NAMED {
        names.push(&more);
    }
    db.prepare_cached("UPDATE jobs SET node = ? WHERE job = ?")?.execute(params![names.join(","), job])?;
    Ok(())
}

/// Says which nodes were not heard of, and of no others.
pub(super) fn put_silent(
    db: &Transaction<'_>,
    now_ns: u64,
    job: i64,
    silent: &[Name],
) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM losses WHERE job = ? AND what LIKE '%' || ?")?
        .execute(params![job, SILENT])?;
    for node in silent.iter().take(MOST_NAMED) {
        db.execute(
            "INSERT INTO losses (at_ns, job, what) VALUES (?, ?, ?)",
            params![now_ns as i64, job, format!("node {node}: {SILENT}")],
        )?;
    }
    db.prepare_cached(
        "DELETE FROM rows WHERE job IN (SELECT job FROM jobs WHERE state <> 'running' AND end_ns < ? LIMIT 100)",
    )?
    .execute([now_ns.saturating_sub(KEEP_NS) as i64])?;
    Ok(())
}

pub fn put_unsent(db: &Transaction<'_>, own: &Opened) -> rusqlite::Result<()> {
    if let Some(job) = job_number(db, &own.key)? {
        let Opened { about, is_local, rank, n_ranks, .. } = own;
        db.prepare_cached("INSERT OR REPLACE INTO unsent VALUES (?, ?, ?, ?, ?)")?
            .execute(params![job, about.size, is_local, rank, n_ranks])?;
    }
    Ok(())
}

fn rows_of(db: &Connection, job: &StoredJob) -> rusqlite::Result<Vec<KeptRow>> {
    let mut statement =
        db.prepare_cached("SELECT node, epoch, id, start_ns, seq, final, counters FROM rows WHERE job = ?")?;
    let mut rows = statement.query([job.number])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        let text =
            |index: usize| row.get_ref(index).map(|value| value.as_str().unwrap_or_default().to_owned());
        let number = |index: usize| row.get::<_, i64>(index).map(|value| value as u64);
        let Ok(id) = JobId::new(text(2)?) else { continue };
        let key = JobKey { cluster: job.key.cluster.clone(), uid: job.key.uid, id, start_ns: number(3)? };
        kept.push(KeptRow {
            key: RowKey { node: Name::cut(text(0)?.as_bytes()), epoch: number(1)?, key },
            seq: number(4)?,
            is_final: row.get(5)?,
            // What is damaged counts as nothing, until it is sent again.
            counters: read_counters(row.get_ref(6)?.as_blob().unwrap_or_default()).unwrap_or_default(),
        });
    }
    Ok(kept)
}

fn group_of(key: &JobKey) -> Group {
    Group { cluster: key.cluster.clone(), uid: key.uid, id: key.id.clone(), is_own: false }
}

impl Store {
    /// What sets this store apart from every other: made by chance when it is first asked for.
    pub fn instance(&mut self, chosen: u64) -> Result<u64, StoreError> {
        (|| {
            self.db
                .execute("INSERT OR IGNORE INTO meta VALUES ('instance', ?)", [format!("{chosen:016x}")])?;
            let known: String =
                self.db.query_row("SELECT value FROM meta WHERE name = 'instance'", [], |row| row.get(0))?;
            Ok(u64::from_str_radix(&known, 16).unwrap_or(chosen))
        })()
        .map_err(self.failed())
    }

    /// The rows of jobs that run on other nodes.
    pub fn open_rows(&self) -> Result<Vec<(Group, About, Vec<KeptRow>)>, StoreError> {
        (|| {
            let sql = format!(
                "SELECT {COLUMNS} FROM jobs WHERE state = 'running' AND job IN (SELECT job FROM rows)"
            );
            let mut statement = self.db.prepare(&sql)?;
            let jobs: Vec<StoredJob> = statement.query_map([], job_of_row)?.collect::<Result<_, _>>()?;
            let of_job =
                |job: StoredJob| Ok((group_of(&job.key), job.about.clone(), rows_of(&self.db, &job)?));
            jobs.into_iter().map(of_job).collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// What is known of the last job of a group, if it was on other nodes.
    pub fn rows_of(&self, group: &Group) -> Result<(About, Vec<KeptRow>), StoreError> {
        (|| {
            let sql = format!(
                "SELECT {COLUMNS} FROM jobs WHERE cluster = ? AND uid = ? AND id = ? ORDER BY start_ns DESC LIMIT 1"
            );
            let job = self
                .db
                .prepare_cached(&sql)?
                .query_row(params![group.cluster.as_str(), group.uid, group.id.as_str()], job_of_row)
                .optional()?;
            let Some(job) = job else { return Ok(Default::default()) };
            Ok((job.about.clone(), rows_of(&self.db, &job)?))
        })()
        .map_err(self.failed())
    }

    /// Keeps versions of rows that the daemon above may not have, in place of those kept before.
    pub fn keep_versions(&mut self, frames: &[u8]) -> Result<(), StoreError> {
        let kept = match frames {
            [] => self.db.execute("DELETE FROM kept_versions", []),
            frames => self.db.execute("INSERT OR REPLACE INTO kept_versions VALUES (0, ?)", [frames]),
        };
        kept.map(drop).map_err(self.failed())
    }

    /// The versions that [`Self::keep_versions`] was given last.
    pub fn kept_versions(&self) -> Result<Vec<u8>, StoreError> {
        let kept = self.db.query_row("SELECT frames FROM kept_versions", [], |row| row.get(0)).optional();
        kept.map(Option::unwrap_or_default).map_err(self.failed())
    }

    /// Jobs that have ended here and that the daemon above is not known to have.
    pub fn unsent(&self, leaf: &Leaf) -> Result<Vec<OwnRow>, StoreError> {
        (|| {
            let sql = format!(
                "SELECT {COLUMNS} FROM jobs WHERE state <> 'running' AND job IN (SELECT job FROM unsent)"
            );
            let mut statement = self.db.prepare(&sql)?;
            let jobs: Vec<StoredJob> = statement.query_map([], job_of_row)?.collect::<Result<_, _>>()?;
            let (node, epoch) = leaf.node();
            let of_job = |job: StoredJob| {
                let opened = self.db.query_row(
                    "SELECT size, local, rank, n_ranks FROM unsent WHERE job = ?",
                    [job.number],
                    |row| {
                        Ok(Opened {
                            node: node.clone(),
                            epoch,
                            key: job.key.clone(),
                            about: About { size: row.get(0)?, ..job.about.clone() },
                            is_local: row.get(1)?,
                            rank: row.get(2)?,
                            n_ranks: row.get(3)?,
                        })
                    },
                )?;
                let counters = counters_of(&self.db, job.number, Some(""))?;
                Ok(OwnRow { opened, counters, n_running: 0, ended_ns: job.end_ns })
            };
            jobs.into_iter().map(of_job).collect::<rusqlite::Result<Vec<_>>>()
        })()
        .map_err(self.failed())
    }

    /// The daemon above has these jobs.
    pub fn sent(&mut self, keys: &[JobKey]) -> Result<(), StoreError> {
        let failed = self.failed();
        (|| {
            let transaction = self.db.transaction()?;
            for key in keys {
                if let Some(job) = job_number(&transaction, key)? {
                    transaction.execute("DELETE FROM unsent WHERE job = ?", [job])?;
                }
            }
            transaction.commit()
        })()
        .map_err(failed)
    }
}
