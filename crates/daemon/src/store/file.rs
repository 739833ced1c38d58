//! The file of a database: whether it is there, who may read it, and where it goes when it is damaged.

use std::path::Path;

use iotide_private::OpenDir;

use super::StoreError;

/// A database has at least one page, and the smallest page has so many bytes. SQLite takes a shorter file for a new database.
const LEAST_BYTES: u64 = 512;

/// Whether a database holds nothing: it was removed, or emptied.
pub fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(0, |about| about.len()) < LEAST_BYTES
}

/// Gives a damaged database another name, so that nothing of it meets the new one. Returns that as a part of a sentence.
pub fn set_aside(directory: &Path, database: &str, now_ns: u64) -> Result<String, StoreError> {
    let aside = format!("{database}.damaged-{}", now_ns / 1_000_000_000);
    let mut said = String::new();
    for end in ["", "-wal", "-shm"] {
        let from = directory.join(format!("{database}{end}"));
        match std::fs::rename(&from, directory.join(format!("{aside}{end}"))) {
            Ok(()) => said = format!("; it was set aside as {aside}"),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => return Err(StoreError::Directory { path: from, cause }),
        }
    }
    Ok(said)
}

/// Sees that a database is for its owner alone: it is made so, and SQLite gives the files beside it the same mode.
pub fn close_database(directory: &Path, database: &str) -> Result<(), StoreError> {
    let close = || {
        let folder = OpenDir::open(directory)?;
        match folder.create(database) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        ["", "-wal", "-shm"]
            .iter()
            .try_for_each(|end| folder.close_file_to_others(format!("{database}{end}")))
    };
    close().map_err(|cause| StoreError::Directory { path: directory.to_owned(), cause })
}

/// Tells that a check of the database found a fault.
pub fn damaged() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None)
}
