//! Keys by which programs and arbiters on different machines know each other.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use iotide_wire::{GateKey, GateKeyText};

use crate::GateError;

/// Reads the key of a site, from a file that nobody else can read.
pub(crate) fn site_key(path: &Path) -> Result<[u8; 32], GateError> {
    match read_key(path)? {
        GateKeyText::Site(key) => Ok(key),
        GateKeyText::User(user, _) => {
            Err(refused(path, format!("it is that of the user {user} only; this takes the key of the site")))
        }
    }
}

/// Reads the key of a site or of a user, from a file that nobody else can read.
pub(crate) fn read_key(path: &Path) -> Result<GateKeyText, GateError> {
    let failed = |cause: io::Error| refused(path, cause.to_string());
    let mut text = Vec::new();
    let file: Option<File> = iotide_private::open_secret(path).map_err(failed)?;
    let file = file.ok_or_else(|| refused(path, "others can read it: chmod 0400".to_owned()))?;
    file.take(GateKeyText::MAX_LEN as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    let parsed = (text.len() <= GateKeyText::MAX_LEN).then(|| GateKeyText::parse(&text)).flatten();
    parsed.ok_or_else(|| refused(path, "it is none: `iotide serve key` makes one".to_owned()))
}

/// Writes the key of one user, made from the key of a site, into a new file.
pub fn write_user_key(site: &Path, user: u32, path: &Path) -> Result<(), GateError> {
    let key = GateKey::of_user(&site_key(site)?, user);
    let digits: String = key.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let failed = |cause: io::Error| refused(path, cause.to_string());
    iotide_private::write_secret(path, &format!("{user}:{digits}\n"), Some(user)).map_err(failed)
}

/// The number of a user, by name or number.
pub fn user_number(text: &str) -> Option<u32> {
    let by_name = || nix::unistd::User::from_name(text).ok().flatten().map(|user| user.uid.as_raw());
    text.parse().ok().or_else(by_name)
}

fn refused(path: &Path, reason: String) -> GateError {
    GateError::Key { path: path.to_owned(), reason }
}

/// Numbers that nobody can foresee.
pub(crate) fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let n = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if n == bytes.len() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
