//! How a program proves to an arbiter on another machine whose it is ([`iotide_wire::GateClaim`]).

use core::cell::UnsafeCell;
use core::ffi::CStr;

use iotide_wire::{GateChallenge, GateClaim, GateHello, GateKey, GateKeyText};

use super::{SILENCE_NS, hear_all, send_all};
use crate::{clock, sys};

/// Key that the environment names.
#[derive(Clone, Copy)]
enum Key {
    /// There is none.
    NotNamed,
    /// It cannot be used.
    Unusable,
    /// That of a user.
    Of(u32, GateKey),
}

struct Global(UnsafeCell<Key>);
// SAFETY: written once by `read`, before anyone is told that there is something to look at; only read after that.
unsafe impl Sync for Global {}
static KEY: Global = Global(UnsafeCell::new(Key::NotNamed));

fn get() -> Key {
    // SAFETY: see `Global`.
    unsafe { *KEY.0.get() }
}

/// Reads the key, if one is named. Only what is made from it for this user is kept.
pub fn read(path: &CStr) {
    if path.is_empty() {
        return;
    }
    let user = sys::effective_user_id();
    let key = file_key(path, user).map_or(Key::Unusable, |key| Key::Of(user, key));
    // SAFETY: see `Global`: this is the one write, and nobody looks yet.
    unsafe { *KEY.0.get() = key };
}

/// The key of a user in a file of theirs or of root, which nobody else can read.
fn file_key(path: &CStr, user: u32) -> Option<GateKey> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let fd = sys::open(path, flags, 0) as i32;
    if fd < 0 {
        return None;
    }
    let is_private = sys::stat(fd).is_some_and(|stat| {
        let is_ordinary = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        is_ordinary && stat.st_mode & 0o077 == 0 && (stat.st_uid == user || stat.st_uid == 0)
    });
    let mut text = [0; GateKeyText::MAX_LEN];
    let n = if is_private { sys::read(fd, &mut text) } else { -1 };
    sys::close(fd);
    GateKeyText::parse(text.get(..usize::try_from(n).ok()?)?)?.of_user(user)
}

/// Whether arbiters on other machines are told whose program this is.
pub fn is_wanted() -> bool {
    !matches!(get(), Key::NotNamed)
}

/// Outcome of a proof.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// There is an arbiter at the other end that knows the key, too.
    Given,
    /// Nobody answered.
    Unheard,
    /// There is no key that can be used, or someone answered who does not know it.
    Refused,
}

/// Proves it on a new connection.
pub fn prove(fd: i32, hello: GateHello) -> Proof {
    let Key::Of(user, key) = get() else { return Proof::Refused };
    let mut nonce = [0; 32];
    for word in nonce.as_chunks_mut::<8>().0 {
        *word = sys::random().to_ne_bytes();
    }
    let claim = GateClaim { hello, user, nonce };
    let mut challenge = [0; GateChallenge::SIZE];
    let until_ns = clock::monotonic_nanos().saturating_add(SILENCE_NS);
    if !send_all(fd, &claim.encode()) {
        return Proof::Unheard;
    }
    if !hear_all(fd, &mut challenge, until_ns) {
        // Who hangs up has heard it.
        return if clock::monotonic_nanos() < until_ns { Proof::Refused } else { Proof::Unheard };
    }
    match GateChallenge::answer(&challenge, &key, &claim) {
        Some(proof) if send_all(fd, &proof) => Proof::Given,
        _ => Proof::Refused,
    }
}
