//! Alarms that are kept: rules, what fires, and what has been, in a database of their own.
//!
//! It is apart from that of jobs: whoever adds a rule waits for no job that ends, and no job that ends for an alarm.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iotide_ledger::alarm::Rule;
use iotide_report::{AlarmState, NewAlarm};
use rusqlite::{Connection, OpenFlags, Transaction, params};

use iotide_daemon::store::file::{close_database, damaged, is_empty, set_aside};
use iotide_daemon::store::{ALARMS, StoreError};

/// Begins and ends that are kept, the latest: of the operator's rules, and as many of all users'.
pub(crate) const MOST_HISTORY: usize = 10_000;
const MOST_HISTORY_OF_USER: usize = 1000;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS rules (
    owner INTEGER NOT NULL,  -- a user's number; -1: the operator's
    name  TEXT    NOT NULL,
    rule  TEXT    NOT NULL,  -- as JSON, as it is sent to /api/1/alarms
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    id     INTEGER PRIMARY KEY,
    owner  INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    target TEXT    NOT NULL,  -- which job, or all
    state  TEXT    NOT NULL,  -- firing, resolved
    told   TEXT    NOT NULL   -- as JSON
);
CREATE TABLE IF NOT EXISTS firing (
    owner    INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    target   TEXT    NOT NULL,
    change   INTEGER NOT NULL,
    PRIMARY KEY (owner, name, target)
) WITHOUT ROWID;
-- Who has been told what: all changes up to this one.
CREATE TABLE IF NOT EXISTS told (
    route TEXT PRIMARY KEY,
    id    INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The database. There is one writer.
#[derive(Debug)]
pub(crate) struct AlarmStore {
    db: Connection,
    path: PathBuf,
}

/// An alarm that fires.
#[derive(Clone, Debug)]
pub(crate) struct Firing {
    pub target: String,
    pub state: AlarmState,
}

impl AlarmStore {
    /// Opens the database; makes it if it is not there. One that is damaged is set aside, and so is an empty one where there `was_one`: what was
    /// lost is returned.
    pub fn open(directory: &Path, was_one: bool, now_ns: u64) -> Result<(Self, Option<String>), StoreError> {
        let path = directory.join(ALARMS);
        let opened = match was_one && is_empty(&path) {
            true => Err(StoreError::Missing { path }),
            false => Self::open_in(directory),
        };
        match opened {
            Err(error) if error.is_damage() => {
                let aside = set_aside(directory, ALARMS, now_ns)?;
                let loss = format!("{error}{aside}; rules of alarms are missing here");
                Ok((Self::open_in(directory)?, Some(loss)))
            }
            opened => Ok((opened?, None)),
        }
    }

    fn open_in(directory: &Path) -> Result<Self, StoreError> {
        close_database(directory, ALARMS)?;
        let path = directory.join(ALARMS);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let opened = (|| {
            let db = Connection::open_with_flags(&path, flags)?;
            db.busy_timeout(Duration::from_secs(2))?;
            // Not a log beside it: one that is cut looks to SQLite like one that ends there, and rules would be gone without a word.
            db.pragma_update(None, "journal_mode", "DELETE")?;
            db.pragma_update(None, "synchronous", "FULL")?;
            db.pragma_update(None, "cache_size", -256)?;
            db.execute_batch(SCHEMA)?;
            let fault: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if fault != "ok" { Err(damaged()) } else { Ok(db) }
        })();
        match opened {
            Ok(db) => Ok(Self { db, path }),
            Err(cause) => Err(StoreError::Database { path, cause }),
        }
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |cause| StoreError::Database { path: path.clone(), cause }
    }

    /// All rules. What cannot be read as one any more is left out.
    pub fn rules(&self) -> Result<Vec<Rule>, StoreError> {
        (|| {
            let mut statement = self.db.prepare("SELECT owner, rule FROM rules ORDER BY owner, name")?;
            let rows =
                statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            let rows: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
            Ok(rows
                .into_iter()
                .filter_map(|(owner, json)| {
                    NewAlarm::from_json(json.as_bytes()).ok()?.rule(u32::try_from(owner).ok()).ok()
                })
                .collect())
        })()
        .map_err(self.failed())
    }

    /// Keeps a rule, in the place of one of the same name.
    pub fn put(&mut self, rule: &Rule) -> Result<(), StoreError> {
        self.db
            .execute(
                "INSERT OR REPLACE INTO rules VALUES (?, ?, ?)",
                params![number_of(rule.owner), rule.name.as_str(), NewAlarm::of(rule).to_json()],
            )
            .map(drop)
            .map_err(self.failed())
    }

    /// Forgets a rule.
    pub fn delete(&mut self, owner: Option<u32>, name: &str) -> Result<(), StoreError> {
        self.db
            .execute("DELETE FROM rules WHERE owner = ? AND name = ?", params![number_of(owner), name])
            .map(drop)
            .map_err(self.failed())
    }

    /// The highest number that a change has, or had.
    pub(crate) fn last_id(&self) -> Result<u64, StoreError> {
        let sql =
            "SELECT max(coalesce((SELECT max(id) FROM changes), 0), coalesce((SELECT max(id) FROM told), 0))";
        let last = self.db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(self.failed())?;
        Ok(u64::try_from(last).unwrap_or(0))
    }

    /// Keeps begins and ends, all or none.
    pub fn change(&mut self, changes: &[Firing]) -> Result<(), StoreError> {
        let failed = self.failed();
        (|| {
            let transaction = self.db.transaction()?;
            for Firing { target, state } in changes {
                let (owner, name) = (number_of(state.owner), state.name.as_said().to_owned());
                let (id, told) = (state.id as i64, iotide_report::answer_json(state));
                transaction.execute(
                    "INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                    params![id, owner, name, target, state.state, told],
                )?;
                match state.state.as_str() {
                    "firing" => transaction.execute(
                        "INSERT OR REPLACE INTO firing VALUES (?, ?, ?, ?)",
                        params![owner, name, target, id],
                    )?,
                    _ => transaction.execute(
                        "DELETE FROM firing WHERE owner = ? AND name = ? AND target = ?",
                        params![owner, name, target],
                    )?,
                };
            }
            let owners: BTreeSet<i64> = changes.iter().map(|change| number_of(change.state.owner)).collect();
            for owner in owners {
                let most = if owner < 0 { MOST_HISTORY } else { MOST_HISTORY_OF_USER };
                forget(&transaction, "owner = ?1", owner, most)?;
            }
            forget(&transaction, "owner > ?1", -1, MOST_HISTORY)?;
            transaction.commit()
        })()
        .map_err(failed)
    }

    /// What fires.
    pub fn firing(&self) -> Result<Vec<Firing>, StoreError> {
        self.changes_by(
            "SELECT c.target, c.told FROM firing f JOIN changes c ON c.id = f.change ORDER BY c.id",
            0,
            0,
        )
    }

    /// Begins and ends after one of a number, the earliest first; of more than so many, the latest, of the operator's rules and of users' apart.
    pub fn changes(&self, after: u64, most: usize) -> Result<Vec<Firing>, StoreError> {
        let sql = "SELECT target, told FROM (
            SELECT * FROM (SELECT id, target, told FROM changes WHERE id > ?1 AND owner < 0 ORDER BY id DESC LIMIT ?2)
            UNION ALL
            SELECT * FROM (SELECT id, target, told FROM changes WHERE id > ?1 AND owner >= 0 ORDER BY id DESC LIMIT ?2)
            ) ORDER BY id";
        self.changes_by(sql, after, most)
    }

    fn changes_by(&self, sql: &str, after: u64, most: usize) -> Result<Vec<Firing>, StoreError> {
        (|| {
            let mut statement = self.db.prepare(sql)?;
            let of_row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            let rows: Vec<(String, String)> = match statement.parameter_count() {
                0 => statement.query_map([], of_row)?.collect::<rusqlite::Result<_>>()?,
                _ => statement
                    .query_map(params![after as i64, most as i64], of_row)?
                    .collect::<rusqlite::Result<_>>()?,
            };
            let of = |(target, told): (String, String)| {
                Some(Firing { target, state: AlarmState::from_json(told.as_bytes())? })
            };
            Ok(rows.into_iter().filter_map(of).collect())
        })()
        .map_err(self.failed())
    }

    /// Up to which change a route has been told; one that is new begins now.
    pub fn told(&mut self, route: &str) -> Result<u64, StoreError> {
        (|| {
            let sql = "INSERT OR IGNORE INTO told SELECT ?, coalesce((SELECT max(id) FROM changes), 0)";
            self.db.execute(sql, [route])?;
            self.db.query_row("SELECT id FROM told WHERE route = ?", [route], |row| row.get::<_, i64>(0))
        })()
        .map(|id| u64::try_from(id).unwrap_or(0))
        .map_err(self.failed())
    }

    /// A route has been told all up to a change.
    pub(crate) fn set_told(&mut self, route: &str, id: u64) -> Result<(), StoreError> {
        self.db
            .execute("INSERT OR REPLACE INTO told VALUES (?, ?)", params![route, id as i64])
            .map(drop)
            .map_err(self.failed())
    }
}

/// Forgets changes beyond the latest `most` of some owners. What fires stays, however old.
fn forget(db: &Transaction<'_>, which: &str, owner: i64, most: usize) -> rusqlite::Result<()> {
    let sql = format!(
        "DELETE FROM changes WHERE {which} AND id NOT IN (SELECT change FROM firing)
         AND id <= (SELECT id FROM changes WHERE {which} ORDER BY id DESC LIMIT 1 OFFSET ?2)"
    );
    db.prepare_cached(&sql)?.execute(params![owner, most as i64]).map(drop)
}

fn number_of(owner: Option<u32>) -> i64 {
    owner.map_or(-1, i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn change(id: u64, name: &str, state: &str) -> Firing {
        let json = format!(
            r#"{{"id":{id},"name":"{name}","owner":null,"state":"{state}","expr":"x > 1","value":2.0,"job":null,"user":null,"app":null,
            "program":null,"severity":"warning","since_unix_s":5.0,"end_unix_s":null,"why":null}}"#
        );
        Firing { target: "all".to_owned(), state: AlarmState::from_json(json.as_bytes()).unwrap() }
    }

    #[test]
    fn rules_and_what_fires_are_there_after_a_restart() {
        let dir = FreshDir::new("alarm-store");
        let mut rule = Rule::new("a", "rate(x) > 1").unwrap();
        {
            let (mut store, loss) = AlarmStore::open(dir.path(), false, 1).unwrap();
            assert_eq!(loss, None);
            assert_eq!(store.told("http://x").unwrap(), 0);
            store.put(&rule).unwrap();
            rule.owner = Some(7);
            store.put(&rule).unwrap();
            let changes = [change(1, "a", "firing"), change(2, "b", "firing"), change(3, "b", "resolved")];
            store.change(&changes).unwrap();
            assert_eq!(store.last_id().unwrap(), 3);
            store.set_told("http://x", 2).unwrap();
        }
        let (mut store, _) = AlarmStore::open(dir.path(), false, 1).unwrap();
        let owners: Vec<_> = store.rules().unwrap().into_iter().map(|rule| rule.owner).collect();
        assert_eq!(owners, [None, Some(7)]);
        let firing = store.firing().unwrap();
        assert_eq!(firing.iter().map(|it| it.state.id).collect::<Vec<_>>(), [1]);
        let after = store.told("http://x").unwrap();
        assert_eq!(store.changes(after, 10).unwrap().len(), 1);
        assert_eq!(store.told("http://new").unwrap(), 3, "it is not told what was before");
        store.delete(Some(7), "a").unwrap();
        assert_eq!(store.rules().unwrap().len(), 1);
    }

    #[test]
    fn changes_of_a_user_who_floods_push_out_nobody_elses() {
        let dir = FreshDir::new("alarm-store-flood");
        let (mut store, _) = AlarmStore::open(dir.path(), false, 1).unwrap();
        let of = |owner, id| {
            let mut change = change(id, "a", "resolved");
            change.state.owner = owner;
            change
        };
        store.change(&[of(None, 1), of(Some(7), 2)]).unwrap();
        let flood: Vec<Firing> = (3..=12_000).map(|id| of(Some(1000), id)).collect();
        store.change(&flood).unwrap();
        let kept = store.changes(0, 20_000).unwrap();
        assert_eq!(kept.len(), 2 + MOST_HISTORY_OF_USER);
        assert_eq!([kept[0].state.owner, kept[1].state.owner], [None, Some(7)]);
        // A receiver that was away is told of the operator's alarm before the latest of others.
        assert_eq!(store.changes(0, 10).unwrap()[0].state.owner, None);
    }

    #[test]
    fn a_damaged_database_is_set_aside() {
        let dir = FreshDir::new("alarm-store-damaged");
        std::fs::write(dir.join(ALARMS), "no database, but long enough to be taken for one".repeat(100))
            .unwrap();
        let (store, loss) = AlarmStore::open(dir.path(), true, 5_000_000_000).unwrap();
        assert!(loss.unwrap().contains("alarms.db.damaged-5"));
        assert!(store.rules().unwrap().is_empty());
        assert!(dir.join("alarms.db.damaged-5").exists());
    }

    #[test]
    fn rules_that_vanish_with_their_database_are_a_loss() {
        let dir = FreshDir::new("alarm-store-gone");
        assert_eq!(AlarmStore::open(dir.path(), false, 1).unwrap().1, None);
        for left in [None, Some(""), Some("x")] {
            std::fs::remove_file(dir.join(ALARMS)).unwrap();
            if let Some(left) = left {
                std::fs::write(dir.join(ALARMS), left).unwrap();
            }
            let loss = AlarmStore::open(dir.path(), true, 5_000_000_000).unwrap().1.unwrap();
            assert!(loss.contains("missing or empty"), "{left:?}: {loss}");
        }
    }
}
