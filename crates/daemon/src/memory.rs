//! What the allocator keeps of memory that was given back to it.
//!
//! A daemon runs for months, and jobs come and go by the thousand: what their rows took is free again, but lies between what is still in use, in
//! as many heaps as there are threads. The GNU allocator returns only the end of a heap to the system by itself, so over 10,000 short jobs it
//! kept 40 MB that nobody used. With other C libraries nothing is done about that here.
//!
//! The database library keeps pages that it has read, for each connection up to a limit. Most are of jobs that have ended and that nobody asks for
//! again, so that memory grew with every job until the limits of all connections were reached, thousands of jobs later.

use std::collections::HashMap;
use std::hash::Hash;

/// How often memory is given back, if jobs have ended, models were fitted or questions were answered since.
pub const GIVE_BACK_NS: u64 = 5_000_000_000;

/// So often after jobs have ended: their samples are written some seconds later, by another thread.
pub const TIMES: u32 = 4;

/// One heap for all threads: what one frees another can use. They allocate little at a time when they work, and wait for each other no longer than that takes.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
pub fn share_one_heap() {
    // SAFETY: mallopt changes settings of the allocator and touches no memory of ours; any value is allowed.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Tables with room for so few stay as they are.
const SMALL_TABLE: usize = 128;

/// Gives back the room of a table that jobs were removed from, once three quarters of it are empty: thousands may have run at once, and never again.
pub(crate) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > SMALL_TABLE.max(4 * table.len()) {
        // Room for as many again, so that the next ones do not make it grow at once.
        table.shrink_to(2 * table.len());
    }
}

/// Returns what nobody uses to the system: a millisecond or two.
pub fn give_back() {
    forget_pages_of_databases();
    trim();
}

/// Lets go of pages of all databases that are as on disk and that no statement reads now. Who needs one again finds it in the system's memory.
#[allow(unsafe_code)]
fn forget_pages_of_databases() {
    // SAFETY: the library takes its own locks; any thread may call it, also while others use their connections.
    unsafe { rusqlite::ffi::sqlite3_release_memory(i32::MAX) };
}

/// Returns whole pages of memory that are in no allocation.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn trim() {
    // SAFETY: malloc_trim gives back pages that are in no allocation, under the allocator's own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub fn share_one_heap() {}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use rusqlite::{Connection, ffi};

    /// Bytes of pages that a connection keeps.
    #[allow(unsafe_code)]
    fn kept_bytes(db: &Connection) -> i32 {
        let (mut now, mut most) = (0, 0);
        // SAFETY: the handle is that of an open connection, which no other thread uses; both numbers outlive the call.
        let status = unsafe {
            ffi::sqlite3_db_status(db.handle(), ffi::SQLITE_DBSTATUS_CACHE_USED, &mut now, &mut most, 0)
        };
        assert_eq!(status, ffi::SQLITE_OK);
        now
    }

    #[test]
    fn pages_of_databases_are_not_kept_and_nothing_is_lost_of_what_is_written_or_read_meanwhile() {
        let dir = FreshDir::new("memory-databases");
        let open = || Connection::open(dir.join("a.db")).unwrap();
        let (mut writer, reader) = (open(), open());
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE jobs (job INTEGER PRIMARY KEY, text TEXT)").unwrap();
        let put = |db: &Connection, jobs: std::ops::Range<i64>| {
            let mut put = db.prepare("INSERT INTO jobs VALUES (?, ?)").unwrap();
            jobs.for_each(|job| assert_eq!(put.execute((job, "x".repeat(1000))).unwrap(), 1));
        };
        let stored = writer.transaction().unwrap();
        put(&stored, 0..500);
        stored.commit().unwrap();
        let under_way = writer.transaction().unwrap();
        put(&under_way, 500..520);
        let mut statement = reader.prepare("SELECT job, length(text) FROM jobs ORDER BY job").unwrap();
        let mut rows = statement.query([]).unwrap();
        for _ in 0..400 {
            rows.next().unwrap().unwrap();
        }
        assert!(kept_bytes(&reader) > 400_000, "{}", kept_bytes(&reader));
        assert!(kept_bytes(&under_way) > 400_000, "{}", kept_bytes(&under_way));
        give_back();
        assert!(kept_bytes(&reader) < 50_000, "{}", kept_bytes(&reader));
        assert!(kept_bytes(&under_way) < 150_000, "{}", kept_bytes(&under_way));
        let mut n_read = 400;
        while let Some(row) = rows.next().unwrap() {
            assert_eq!((row.get(0), row.get(1)), (Ok(n_read), Ok(1000)));
            n_read += 1;
        }
        assert_eq!(n_read, 500, "what is not committed is not read");
        drop(rows);
        under_way.commit().unwrap();
        let n_jobs = reader.query_row("SELECT count(*) FROM jobs", [], |row| row.get::<_, i64>(0));
        assert_eq!(n_jobs, Ok(520));
    }

    #[test]
    fn a_table_is_as_large_as_what_is_in_it_and_moves_seldom() {
        let mut table: HashMap<u32, u32> = (0..5000).map(|job| (job, job)).collect();
        let mut n_moves = 0;
        for job in 0..4990 {
            table.remove(&job);
            let before = table.capacity();
            shrink(&mut table);
            n_moves += u32::from(table.capacity() != before);
        }
        assert!(table.capacity() <= SMALL_TABLE, "{}", table.capacity());
        assert!((2..=8).contains(&n_moves), "{n_moves}");
        assert!((4990..5000).all(|job| table.get(&job) == Some(&job)) && table.len() == 10);
    }
}
