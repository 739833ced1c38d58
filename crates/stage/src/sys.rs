//! The two calls that no safe crate has: leases and writeback of a range.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A read lease on an open file: while it is held and unbroken, nobody has the file open to write.
///
/// Who wants to write waits (for milliseconds) until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    file: &'a File,
}

impl<'a> Lease<'a> {
    /// Takes one; `None` if somebody can write to the file now. The file must be open to read only.
    #[allow(unsafe_code)]
    pub(crate) fn take(file: &'a File) -> io::Result<Option<Self>> {
        // SAFETY: a descriptor that is open as long as `file`, and a number.
        let taken =
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::c_int::from(libc::F_RDLCK)) };
        if taken == 0 {
            return Ok(Some(Self { file }));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EAGAIN) { Ok(None) } else { Err(error) }
    }

    /// Whether nobody has asked to write since.
    #[allow(unsafe_code)]
    pub(crate) fn is_unbroken(&self) -> bool {
        // SAFETY: as above.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) == libc::c_int::from(libc::F_RDLCK) }
    }
}

impl Drop for Lease<'_> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: as above. Fails if the kernel has taken it back already.
        let _ =
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, libc::c_int::from(libc::F_UNLCK)) };
    }
}

/// Begins to write a range back, and with `is_waited` waits for it. A hint: what it cannot do, `fsync` does later.
#[allow(unsafe_code)]
pub(crate) fn write_back(file: &File, from: u64, n: u64, is_waited: bool) {
    let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let flags = libc::SYNC_FILE_RANGE_WRITE | if is_waited { wait } else { 0 };
    if let (Ok(from), Ok(n)) = (i64::try_from(from), i64::try_from(n)) {
        // SAFETY: a descriptor that is open as long as `file`, and numbers.
        let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), from, n, flags) };
    }
}
