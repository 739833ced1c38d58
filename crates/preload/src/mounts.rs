//! Which file system a path is on, as the table of mounts says: nobody is asked who might not answer.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::page::{FileSystem, MAX_FILE_SYSTEMS};

use crate::config::Bytes;
use crate::{clock, page, sys};

/// Bytes of the table of mounts that are looked at.
const TABLE: usize = 256 * 1024;
/// How old the table may be when a new name comes.
const FRESH_NS: u64 = 1_000_000_000;

struct Named {
    kind: Bytes<17>,
    mount: Bytes<79>,
}

struct Shared {
    /// Where the text of the table is; null if there is none yet.
    text: *mut u8,
    len: usize,
    read_at: u64,
    named: [Named; MAX_FILE_SYSTEMS],
}
struct Global(UnsafeCell<Shared>);
// SAFETY: touched only by whoever holds `LOCK`.
unsafe impl Sync for Global {}
static SHARED: Global = Global(UnsafeCell::new(Shared {
    text: core::ptr::null_mut(),
    len: 0,
    read_at: 0,
    named: [const { Named { kind: Bytes::new(), mount: Bytes::new() } }; MAX_FILE_SYSTEMS],
}));
static LOCK: AtomicBool = AtomicBool::new(false);
static N_NAMED: AtomicUsize = AtomicUsize::new(0);

/// The place of each name's file system, by the number of the name.
static PLACES: [AtomicU8; PLACES_LEN] = [const { AtomicU8::new(0) }; PLACES_LEN];
const PLACES_LEN: usize = crate::files::N_NAMES + 1;

/// The place of the file system of a file.
#[inline(always)]
pub fn place_of(file: u32) -> usize {
    PLACES.get(file as usize).map_or(0, |place| usize::from(place.load(Relaxed)))
}

/// Finds out on which file system a file is that has just got its number.
pub fn learn(file: u32, path: &[u8]) {
    let Some(slot) = PLACES.get(file as usize) else { return };
    let place = with_shared(|shared| shared.place(path));
    slot.store(place as u8, Relaxed);
}

/// Hands all file systems that have a place to a new page.
pub fn write_all(mut write: impl FnMut(&FileSystem<'_>)) {
    with_shared(|shared| {
        for (i, named) in shared.named.iter().take(N_NAMED.load(Relaxed)).enumerate() {
            write(&FileSystem { place: i + 1, kind: named.kind.get(), mount: named.mount.get() });
        }
    });
}

/// In a forked child: whoever held the lock is not here, and no name has a number any more.
pub fn forget_parent() {
    LOCK.store(false, Relaxed);
    N_NAMED.store(0, Relaxed);
}

impl Shared {
    fn place(&mut self, path: &[u8]) -> usize {
        self.refresh();
        let mut here = Bytes::<79>::new();
        let mut kind = Bytes::<17>::new();
        let text = if self.text.is_null() {
            &[]
        } else {
            // SAFETY: memory of ours, filled that far.
            unsafe { core::slice::from_raw_parts(self.text, self.len) }
        };
        let mut longest = 0;
        for line in text.split(|&byte| byte == b'\n') {
            let Some((mount, its_kind)) = fields(line) else { continue };
            let mut plain = [0; 1024];
            let Some(mount) = unescaped(mount, &mut plain) else { continue };
            // Of two at one place the later covers the earlier.
            if mount.len() >= longest && is_within(path, mount) {
                longest = mount.len();
                here.clear();
                here.push(mount);
                kind.clear();
                kind.push(its_kind);
            }
        }
        if longest == 0 {
            return 0;
        }
        let n = N_NAMED.load(Relaxed);
        if let Some(i) = self.named[..n].iter().position(|named| named.mount.get() == here.get()) {
            return i + 1;
        }
        let Some(named) = self.named.get_mut(n) else { return 0 };
        page::name_file_system(&FileSystem { place: n + 1, kind: kind.get(), mount: here.get() });
        *named = Named { kind, mount: here };
        N_NAMED.store(n + 1, Relaxed);
        n + 1
    }

    fn refresh(&mut self) {
        let now = clock::coarse_nanos();
        if self.len > 0 && now.saturating_sub(self.read_at) < FRESH_NS {
            return;
        }
        if self.text.is_null() {
            self.text = sys::map_memory(TABLE).unwrap_or(core::ptr::null_mut());
        }
        if self.text.is_null() {
            return;
        }
        // SAFETY: memory of ours, of that size; the lock is held.
        let into = unsafe { core::slice::from_raw_parts_mut(self.text, TABLE) };
        self.len = sys::read_small(c"/proc/self/mountinfo", into).map_or(0, <[u8]>::len);
        self.read_at = now;
    }
}

/// Where a line of the table says something is mounted, and what.
fn fields(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mount = fields.nth(4)?;
    fields.find(|field| *field == b"-")?;
    Some((mount, fields.next()?))
}

/// A path without the escapes that the table has for blanks.
fn unescaped<'a>(path: &[u8], into: &'a mut [u8; 1024]) -> Option<&'a [u8]> {
    let (mut n, mut rest) = (0, path);
    while let [first, more @ ..] = rest {
        let (byte, more) = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', more @ ..] => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), more)
            }
            _ => (*first, more),
        };
        *into.get_mut(n)? = byte;
        n += 1;
        rest = more;
    }
    Some(&into[..n])
}

fn is_within(path: &[u8], mount: &[u8]) -> bool {
    mount == b"/" || path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn with_shared<T>(work: impl FnOnce(&mut Shared) -> T) -> T {
    // A handler that needs it too would wait for ever for the thread it interrupted.
    let _signals = sys::NoSignals::new();
    while LOCK.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        sys::give_way();
    }
    // SAFETY: the lock is ours.
    let result = work(unsafe { &mut *SHARED.0.get() });
    LOCK.store(false, Release);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_tells_place_and_kind() {
        let line = b"36 35 98:0 /mnt1 /scratch/my\\040data rw,noatime master:1 - lustre 10.0.0.1@tcp:/fs rw";
        let (mount, kind) = fields(line).unwrap();
        assert_eq!(unescaped(mount, &mut [0; 1024]), Some(&b"/scratch/my data"[..]));
        assert_eq!(kind, b"lustre");
        assert_eq!(fields(b"36 35 98:0 / /x"), None);
    }

    #[test]
    fn a_path_is_on_a_mount_by_whole_components() {
        assert!(is_within(b"/scratch/a", b"/scratch"));
        assert!(is_within(b"/scratch", b"/scratch"));
        assert!(is_within(b"/a", b"/"));
        assert!(!is_within(b"/scratch2/a", b"/scratch"));
    }
}
