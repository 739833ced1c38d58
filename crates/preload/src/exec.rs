//! Programs that a traced one starts: the tracer goes along, and where it cannot, the program is named.
//!
//! A program that gives its children an environment of their own (`env -i`, a batch system's launcher, a build tool) leaves the tracer behind
//! without meaning to. So what is missing is put back: `LD_PRELOAD` and the `IOTIDE_…` variables. Whoever wants a child left alone sets
//! `IOTIDE_DISABLE=1`. A program that is linked statically, or that gets rights of its own (setuid), cannot be traced so at all.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};

use iotide_wire::{Note, NoteKind};

use crate::config::Bytes;
use crate::{config, lifecycle, sink, sys};

/// A list of C strings, null at its end.
pub type Strings = *const *const c_char;

const MAX_OURS: usize = 32;
/// How many variables an environment may have to get ours put back.
const MAX_VARIABLES: usize = 1024;

/// Variables that children need, copied when we were loaded: the program may change its own.
struct Kept {
    text: Bytes<12288>,
    /// Where each variable begins, and how long its name is, `=` included.
    variables: [(u16, u16); MAX_OURS],
    n: usize,
    /// The path of this library, as it was loaded.
    library: Bytes<2048>,
}
struct Global(UnsafeCell<Kept>);
// SAFETY: written once, by `start`, before anyone looks.
unsafe impl Sync for Global {}
static KEPT: Global = Global(UnsafeCell::new(Kept {
    text: Bytes::new(),
    variables: [(0, 0); MAX_OURS],
    n: 0,
    library: Bytes::new(),
}));

fn kept() -> &'static Kept {
    // SAFETY: see `Global`.
    unsafe { &*KEPT.0.get() }
}

/// The process's environment as it is now.
pub fn environ() -> Strings {
    unsafe extern "C" {
        static environ: Strings;
    }
    // SAFETY: the C library's own variable.
    unsafe { environ }
}

/// Keeps what children need.
pub fn start() {
    // SAFETY: see `Global`: this is the one write, and nobody looks yet.
    let kept = unsafe { &mut *KEPT.0.get() };
    // SAFETY: all zeroes is a valid `Dl_info`.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: the address is that of our own variable; the name is a C string of the loader's.
    unsafe {
        if libc::dladdr((&raw const KEPT).cast(), &raw mut info) != 0 && !info.dli_fname.is_null() {
            let path = CStr::from_ptr(info.dli_fname).to_bytes();
            if is_one_entry(path) {
                kept.library.push(path);
            }
        }
    }
    for text in strings(environ()) {
        let name = text.iter().position(|&byte| byte == b'=').map_or(0, |at| at + 1);
        let is_ours = text.starts_with(b"IOTIDE_") || text.starts_with(PRELOAD);
        let at = kept.text.get().len();
        if is_ours && kept.n < MAX_OURS && at + text.len() + 2 < 12288 {
            kept.variables[kept.n] = (at as u16, name as u16);
            kept.n += 1;
            kept.text.push(text);
            kept.text.push(&[0]);
        }
    }
}

/// Whether the loader takes a path in `LD_PRELOAD` for what it is: at a blank or colon it would go on with another library, which it would
/// look for in the working directory; a dollar stands for other text; and a relative path means something else after `chdir`.
fn is_one_entry(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.iter().any(|byte| b" :$".contains(byte))
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

fn strings<'a>(list: Strings) -> impl Iterator<Item = &'a [u8]> {
    let mut at = list;
    core::iter::from_fn(move || {
        // SAFETY: null, or a list of C strings with null at its end.
        unsafe {
            if at.is_null() || (*at).is_null() {
                return None;
            }
            let text = CStr::from_ptr(*at).to_bytes();
            at = at.add(1);
            Some(text)
        }
    })
}

/// An environment with what was missing put back. Lives on the stack of whoever is about to exec.
pub struct Prepared {
    list: [*const c_char; MAX_VARIABLES + MAX_OURS + 1],
    preload: Bytes<6144>,
}

impl Prepared {
    /// Room for an environment.
    pub const fn new() -> Self {
        Self { list: [core::ptr::null(); MAX_VARIABLES + MAX_OURS + 1], preload: Bytes::new() }
    }

    /// Returns the environment a program should get in place of the given one, which may be the same.
    pub fn with_ours(&mut self, given: Strings) -> Strings {
        let kept = kept();
        if !lifecycle::is_tracing() || kept.library.get().is_empty() {
            return given;
        }
        let mut n = 0;
        let mut preload = None;
        for text in strings(given) {
            if text.starts_with(b"IOTIDE_DISABLE=") {
                return given;
            }
            if let Some(value) = text.strip_prefix(PRELOAD) {
                preload = Some((n, value));
            }
            if n == MAX_VARIABLES {
                return given;
            }
            self.list[n] = text.as_ptr().cast();
            n += 1;
        }
        let has = |name: &[u8]| strings(given).any(|text| text.starts_with(name));
        let mut is_changed = false;
        for &(at, name_len) in &kept.variables[..kept.n] {
            let text = &kept.text.get()[usize::from(at)..];
            let name = &text[..usize::from(name_len)];
            if name != PRELOAD && !has(name) {
                self.list[n] = text.as_ptr().cast();
                n += 1;
                is_changed = true;
            }
        }
        let library = kept.library.get();
        let is_there = preload.is_some_and(|(_, value)| {
            value.split(|&byte| byte == b':' || byte == b' ').any(|entry| entry == library)
        });
        if !is_there {
            self.preload.push(PRELOAD);
            self.preload.push(library);
            let place = match preload {
                Some((place, value)) => {
                    if !value.is_empty() {
                        self.preload.push(b":");
                        self.preload.push(value);
                    }
                    place
                }
                None => {
                    n += 1;
                    n - 1
                }
            };
            self.list[place] = self.preload.as_c_str().as_ptr();
            is_changed = true;
        }
        if !is_changed {
            return given;
        }
        self.list[n] = core::ptr::null();
        self.list.as_ptr()
    }
}

/// Whether the tracer goes along with an environment.
fn goes_along(environment: Strings) -> bool {
    let library = kept().library.get();
    let name = library.rsplit(|&byte| byte == b'/').next().unwrap_or(library);
    strings(environment).any(|text| {
        text.strip_prefix(PRELOAD)
            .is_some_and(|value| value.windows(name.len().max(1)).any(|part| part == name))
    })
}

/// Takes note of a program that is about to be started and cannot be traced. `searched`: its name may be looked for along `PATH`.
pub fn look_at(path: *const c_char, searched: bool, environment: Strings) {
    // The kernel's tracer sees those, too; and it would see us look.
    if path.is_null() || !lifecycle::is_tracing() || config::get().is_beside_kernel {
        return;
    }
    // SAFETY: not null, and a C string, or the call would fail.
    let name = unsafe { CStr::from_ptr(path) };
    let mut found = Bytes::<4096>::new();
    if !searched || name.to_bytes().contains(&b'/') {
        found.push(name.to_bytes());
        judge(&found, environment);
        return;
    }
    let places = strings(environ()).find_map(|text| text.strip_prefix(b"PATH=")).unwrap_or(b"/bin:/usr/bin");
    for place in places.split(|&byte| byte == b':') {
        found.clear();
        found.push(if place.is_empty() { b"." } else { place });
        found.push(b"/");
        found.push(name.to_bytes());
        if judge(&found, environment) {
            return;
        }
    }
}

/// Returns whether there is such a file.
fn judge(path: &Bytes<4096>, environment: Strings) -> bool {
    // Not waiting, should it be a pipe.
    let fd = sys::open(path.as_c_str(), libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC, 0) as i32;
    if fd < 0 {
        return false;
    }
    let kind = kind_of(fd).or((!goes_along(environment)).then_some(NoteKind::UnpreparedChild));
    sys::close(fd);
    if let Some(kind) = kind {
        sink::write_note(&Note { kind, text: path.get() });
    }
    true
}

/// Why an executable cannot be traced, if so.
fn kind_of(fd: i32) -> Option<NoteKind> {
    let stat = sys::stat(fd)?;
    let gets_user = stat.st_mode & libc::S_ISUID != 0 && stat.st_uid != sys::user_id();
    let gets_group = stat.st_mode & libc::S_ISGID != 0 && stat.st_mode & libc::S_IXGRP != 0;
    if gets_user || (gets_group && stat.st_gid != sys::group_id()) {
        return Some(NoteKind::PrivilegedChild);
    }
    let mut head = [0; 4096];
    let n = usize::try_from(sys::read(fd, &mut head)).ok()?;
    let head = head.get(..n)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None; // a script, or a program for another kind of machine
    }
    let word = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let (first, size, n) = (long(32)? as usize, usize::from(word(54)?), usize::from(word(56)?));
    for i in 0..n {
        let at = first.checked_add(i.checked_mul(size)?)?;
        let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
        if kind == libc::PT_INTERP {
            return None;
        }
    }
    Some(NoteKind::StaticChild)
}
