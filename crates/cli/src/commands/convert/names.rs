//! Names of a log as keyed hashes: what is hashed, what is kept, and the file of the key.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use iotide_formats::{KeptPart, NameHasher, NameKind};
use iotide_wire::key_bytes;

use crate::ui::Hint;

/// Names that are hashed.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Names")]
pub(super) struct NameArgs {
    /// Replace names by hashes: all of them, or those of KINDS (paths, users, jobs, programs, functions, start)
    #[arg(
        long,
        value_name = "KINDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_parser = kinds,
        requires = "key_file"
    )]
    hash_names: Option<Kinds>,
    /// Key of the hashes; with one key a name has one hash in all logs, and nobody can try names out without it
    #[arg(long, value_name = "FILE", requires = "hash_names")]
    key_file: Option<PathBuf>,
    /// Make the key, in a new file that only you can read
    #[arg(long, requires = "key_file")]
    new_key: bool,
    /// Keep of paths: mounts (mount points), suffixes (of file names, at most eight letters)
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = kept_part, requires = "hash_names")]
    keep_names: Vec<KeptPart>,
}

/// Kinds of names.
#[derive(Clone, Debug, PartialEq)]
struct Kinds(Vec<NameKind>);

impl NameArgs {
    /// Returns what hashes the names; `None` if they are not to be hashed.
    pub(super) fn hasher(&self) -> anyhow::Result<Option<NameHasher>> {
        let (Some(Kinds(kinds)), Some(path)) = (&self.hash_names, &self.key_file) else { return Ok(None) };
        if self.new_key {
            write_key(path)?;
        }
        Ok(Some(NameHasher::new(read_key(path)?, kinds, &self.keep_names)))
    }
}

fn kinds(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds(NameKind::NAMES.to_vec()));
    }
    let known: Vec<&str> = NameKind::ALL.iter().map(|kind| kind.name()).collect();
    let kinds = text.split(',').map(|name| {
        NameKind::from_name(name).ok_or_else(|| format!("kinds of names are {}, or all", known.join(", ")))
    });
    kinds.collect::<Result<Vec<_>, _>>().map(Kinds)
}

fn kept_part(name: &str) -> Result<KeptPart, String> {
    KeptPart::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = KeptPart::ALL.iter().map(|part| part.name()).collect();
        format!("what can be kept is {}", known.join(", "))
    })
}

const N_BYTES: usize = 32;

fn write_key(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot make the key {}", path.display());
    let mut bytes = [0; N_BYTES];
    let n = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .with_context(cannot)?;
    if n < N_BYTES {
        return Err(anyhow!("{}: there are not enough random numbers", cannot()));
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match iotide_private::write_secret(path, &format!("{digits}\n"), None) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(anyhow!("{} is there already", path.display()))
                .hint("without `--new-key` it is used; a new key gives other hashes")
        }
        made => made.with_context(cannot),
    }
}

fn read_key(path: &Path) -> anyhow::Result<[u8; N_BYTES]> {
    let file = match iotide_private::open_secret(path) {
        Ok(Some(file)) => file,
        Ok(None) => {
            return Err(anyhow!("the key {} is not yours alone", path.display())).hint(
                "others can read it, or own it: `chmod 600` closes it; whoever has read it can try names out",
            );
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(anyhow!("there is no key {}", path.display())).hint("`--new-key` makes one");
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read the key {}", path.display())),
    };
    let mut text = Vec::new();
    file.take(4 * N_BYTES as u64)
        .read_to_end(&mut text)
        .with_context(|| format!("cannot read the key {}", path.display()))?;
    match key_bytes(text.trim_ascii()) {
        Some(key) => Ok(key),
        None => Err(anyhow!("{} is not a key: {} hexadecimal digits", path.display(), 2 * N_BYTES))
            .hint("`--new-key --key-file FILE` makes one in a new file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_all_but_the_start() {
        let Kinds(all) = kinds("all").unwrap();
        assert!(!all.contains(&NameKind::Start) && all.len() + 1 == NameKind::ALL.len());
        assert_eq!(kinds("users,start"), Ok(Kinds(vec![NameKind::Users, NameKind::Start])));
        assert!(kinds("users,").is_err() && kinds("").is_err() && kinds("hosts").is_err());
    }
}
