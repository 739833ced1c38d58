//! Where events wait that are too many for the memory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary file that nobody else sees.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) file: File,
    path: PathBuf,
}

impl Spool {
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!(".iotide-{}-{n}.tmp", std::process::id()));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    // Where an open file may be removed, nothing stays behind however the program ends.
                    if cfg!(unix) {
                        fs::remove_file(&path)?;
                    }
                    return Ok(Self { file, path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < 1 << 16 => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if !cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl io::Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
