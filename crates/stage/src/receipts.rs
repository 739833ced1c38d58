//! Receipts of the files brought to a directory, line by line in a file there, so that they can be checked later without the buffer.
//!
//! `DST/.iotide-stage/<id>.jsonl`: the first line says whose receipts they are, and is the mark that tells the destination from an empty
//! mount point. Each other line is a file: path, size, checksum, time. The last line of a path counts; when most lines are of
//! versions long replaced, the file is written anew without them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use serde_json::{Value, json};

use crate::checksum::Checksum;
use crate::dirs::is_plain;
use crate::owners::open_own;

/// A file that was brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where, below the destination.
    pub path: Vec<u8>,
    /// Bytes.
    pub size: u64,
    /// Of the contents; of a symbolic link, of where it leads.
    pub checksum: Checksum,
    /// Whether it is a symbolic link.
    pub is_link: bool,
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptLine {
    /// The first.
    Head {
        /// The pair of directories.
        id: u64,
        /// Where files came from.
        source: Vec<u8>,
    },
    /// Any other.
    Receipt(Receipt),
}

/// Reads a line; `None` if it is none.
pub fn parse_line(line: &[u8]) -> Option<ReceiptLine> {
    let value: Value = serde_json::from_slice(line).ok()?;
    if let Some(id) = value.get("iotide_stage") {
        let id = u64::from_str_radix(id.as_str()?, 16).ok()?;
        return Some(ReceiptLine::Head { id, source: bytes_of(&value, "source")? });
    }
    let path = bytes_of(&value, "path").filter(|path| is_plain(path))?;
    let is_link = value.get("kind").and_then(Value::as_str) == Some("link");
    let checksum = Checksum::parse(value.get("xxh3_128")?.as_str()?)?;
    let size = value.get("size")?.as_u64()?;
    Some(ReceiptLine::Receipt(Receipt {
        path,
        size,
        checksum,
        is_link,
        time_ns: value.get("time_ns")?.as_u64()?,
    }))
}

impl ReceiptLine {
    /// The line, with its end.
    pub fn to_line(&self) -> String {
        let mut value = match self {
            ReceiptLine::Head { id, .. } => json!({ "iotide_stage": format!("{id:016x}") }),
            ReceiptLine::Receipt(receipt) => json!({
                "size": receipt.size,
                "xxh3_128": receipt.checksum.to_string(),
                "kind": if receipt.is_link { "link" } else { "file" },
                "time_ns": receipt.time_ns,
            }),
        };
        match self {
            ReceiptLine::Head { source, .. } => put_bytes(&mut value, "source", source),
            ReceiptLine::Receipt(receipt) => put_bytes(&mut value, "path", &receipt.path),
        }
        format!("{value}\n")
    }
}

/// A name that is no UTF-8 is written in hexadecimal digits, under a name that says so.
fn put_bytes(value: &mut Value, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => value[name] = json!(text),
        Err(_) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            value[format!("{name}_hex")] = json!(digits);
        }
    }
}

fn bytes_of(value: &Value, name: &str) -> Option<Vec<u8>> {
    if let Some(text) = value.get(name) {
        return Some(text.as_str()?.as_bytes().to_owned());
    }
    let digits = value.get(format!("{name}_hex"))?.as_str()?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    pairs.iter().map(byte).collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())
}

/// The receipts of one pair of directories, open to add to.
#[derive(Debug)]
pub struct Receipts {
    file: File,
    folder: OwnedFd,
    id: u64,
    /// How long the file was when it was last looked at for lines that do not count any more.
    n_looked_at: u64,
}

/// Receipts of less are not worth writing anew, and of more there is no room for all names in memory.
const LEAST_COMPACTED: u64 = 1 << 20;
const MOST_COMPACTED: u64 = 1 << 30;

const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);
const CREATE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::APPEND)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Receipts {
    /// The name of the file for a pair of directories.
    pub(crate) fn name(id: u64) -> String {
        format!("{id:016x}.jsonl")
    }

    /// Begins the file; the head is durable when this returns.
    pub(crate) fn create(folder: &OwnedFd, id: u64, source: &[u8]) -> io::Result<Self> {
        let mut file = File::from(openat(folder, Self::name(id), CREATE, MODE)?);
        file.write_all(ReceiptLine::Head { id, source: source.to_owned() }.to_line().as_bytes())?;
        file.sync_all()?;
        rustix::fs::fsync(folder)?;
        Ok(Self { file, folder: folder.try_clone()?, id, n_looked_at: 0 })
    }

    /// Opens one that is there. What a kill left of a line is cut off.
    pub(crate) fn open(folder: &OwnedFd, id: u64) -> io::Result<Self> {
        let file = open_own(folder, &Self::name(id), OFlags::RDWR | OFlags::APPEND, Mode::empty())?;
        let n = file.metadata()?.len();
        let whole = last_line_end(&file, n)?;
        if whole < n {
            file.set_len(whole)?;
        }
        Ok(Self { file, folder: folder.try_clone()?, id, n_looked_at: 0 })
    }

    /// Adds lines, durable when this returns.
    pub(crate) fn add(&mut self, receipts: impl Iterator<Item = Receipt>) -> io::Result<()> {
        let lines: String = receipts.map(|receipt| ReceiptLine::Receipt(receipt).to_line()).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let at = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(lines.as_bytes()) {
            let _ = self.file.set_len(at);
            return Err(error);
        }
        self.file.sync_data()?;
        let n = at + lines.len() as u64;
        if n > LEAST_COMPACTED.max(2 * self.n_looked_at) && n < MOST_COMPACTED {
            // What cannot be done now can be when it has doubled again: all is noted either way.
            self.n_looked_at = n;
            if let Ok(n) = self.compact() {
                self.n_looked_at = n;
            }
        }
        Ok(())
    }

    /// Writes the file anew without lines that later ones replace, if that halves it. A kill leaves either of them whole.
    ///
    /// Returns how long the file is. Lines that nobody understands stay.
    fn compact(&mut self) -> io::Result<u64> {
        let n_bytes = self.file.metadata()?.len();
        let mut last: HashMap<Vec<u8>, usize> = HashMap::new();
        for (number, line) in self.lines()?.enumerate() {
            if let Some(path) = path_of(&line?) {
                last.insert(path, number);
            }
        }
        let counts =
            |number: usize, line: &[u8]| path_of(line).is_none_or(|path| last.get(&path) == Some(&number));
        let mut n_kept = 0;
        for (number, line) in self.lines()?.enumerate() {
            let line = line?;
            n_kept += if counts(number, &line) { line.len() as u64 + 1 } else { 0 };
        }
        if n_kept > n_bytes / 2 {
            return Ok(n_bytes);
        }
        let new = format!("{:016x}.new", self.id);
        let _ = unlinkat(&self.folder, &new, AtFlags::empty());
        let mut out = BufWriter::new(File::from(openat(&self.folder, &new, CREATE, MODE)?));
        for (number, line) in self.lines()?.enumerate() {
            let line = line?;
            if counts(number, &line) {
                out.write_all(&line)?;
                out.write_all(b"\n")?;
            }
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        renameat(&self.folder, &new, &self.folder, Self::name(self.id))?;
        self.file = file;
        rustix::fs::fsync(&self.folder)?;
        Ok(n_kept)
    }

    fn lines(&self) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>> + '_> {
        let mut file = &self.file;
        file.rewind()?;
        Ok(BufReader::with_capacity(256 << 10, file).split(b'\n'))
    }
}

/// The path that a line is about.
fn path_of(line: &[u8]) -> Option<Vec<u8>> {
    match parse_line(line)? {
        ReceiptLine::Head { .. } => None,
        ReceiptLine::Receipt(receipt) => Some(receipt.path),
    }
}

/// Where the last whole line of a file of `n` bytes ends.
fn last_line_end(file: &File, n: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut end = n;
    let mut buffer = vec![0; 64 << 10];
    while end > 0 {
        let begin = end.saturating_sub(buffer.len() as u64);
        let part = &mut buffer[..(end - begin) as usize];
        file.read_exact_at(part, begin)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(
            path in proptest::collection::vec(any::<u8>(), 1..60),
            size in any::<u64>(),
            sum in any::<u128>(),
            is_link in any::<bool>(),
            time_ns in any::<u64>(),
        ) {
            prop_assume!(is_plain(&path));
            let line = ReceiptLine::Receipt(Receipt { path: path.clone(), size, checksum: Checksum(sum), is_link, time_ns });
            prop_assert_eq!(parse_line(line.to_line().trim_end().as_bytes()), Some(line));
            let head = ReceiptLine::Head { id: size, source: path };
            prop_assert_eq!(parse_line(head.to_line().trim_end().as_bytes()), Some(head));
        }
    }

    #[test]
    fn paths_that_lead_out_are_no_receipts() {
        for path in ["../x", "/etc/passwd", "a//b", "", "a/./b"] {
            let line = format!(r#"{{"path":"{path}","size":1,"xxh3_128":"{:032x}","time_ns":1}}"#, 1);
            assert_eq!(parse_line(line.as_bytes()), None, "{path}");
        }
        assert_eq!(parse_line(br#"{"path_hex":"+161","size":1}"#), None);
    }

    #[test]
    fn receipts_of_versions_that_were_replaced_go_when_they_are_most_of_all() {
        let dir = FreshDir::new("stage-receipts-compact");
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let mut receipts = Receipts::create(&folder, 7, b"/buffer").unwrap();
        let path = dir.join(Receipts::name(7));
        let receipt = |name: &str, size| Receipt {
            path: name.into(),
            size,
            checksum: Checksum(size.into()),
            is_link: false,
            time_ns: size,
        };
        receipts.add([receipt("once", 1)].into_iter()).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"of a later version\n")
            .unwrap();
        for round in 0..15 {
            receipts.add((0..1000).map(|n| receipt("again", 1000 * round + n))).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() < 600 << 10, "{}", text.len());
        let lines: Vec<_> = text.lines().map(|line| parse_line(line.as_bytes())).collect();
        assert_eq!(lines[0], Some(ReceiptLine::Head { id: 7, source: b"/buffer".to_vec() }));
        assert_eq!((&lines[1], &lines[2]), (&Some(ReceiptLine::Receipt(receipt("once", 1))), &None));
        assert_eq!(lines.last(), Some(&Some(ReceiptLine::Receipt(receipt("again", 14_999)))));
        assert_eq!(dir.names(), [Receipts::name(7)]);
        // Where nothing was replaced, all stays.
        receipts.add((0..20_000).map(|n| receipt(&format!("file{n}"), n))).unwrap();
        let n_lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(n_lines >= 20_004, "{n_lines}");
    }

    #[test]
    fn half_a_line_is_cut_off() {
        let dir = FreshDir::new("stage-receipts");
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        drop(Receipts::create(&folder, 7, b"/buffer").unwrap());
        let name = Receipts::name(7);
        let whole = std::fs::read(dir.join(&name)).unwrap();
        std::fs::write(dir.join(&name), [&whole[..], b"{\"path\":\"half"].concat()).unwrap();
        drop(Receipts::open(&folder, 7).unwrap());
        assert_eq!(std::fs::read(dir.join(&name)).unwrap(), whole);
    }
}
