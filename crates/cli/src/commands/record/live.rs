//! `iotide record --live`: counters that a daemon, or anybody with the right to, reads while the program runs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use iotide_report::text;
use iotide_wire::Op;
use iotide_wire::page::{
    Counters, EXTENSION, HEADER_SIZE, LANE_SIZE, LEAST_ROOM, Life, PageHeader, PageLayer, PageText, lane_at,
};

use crate::config::Config;
use crate::ui::{Hint as _, Ui};

/// Pages of processes that ended this long ago are removed: nobody collected them.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The directory of the pages. If there is none in which something can be made, that is reported, and the program runs all the same.
pub(super) fn directory(ui: &mut Ui) -> Option<PathBuf> {
    match usable_directory() {
        Ok(directory) => {
            remove_forgotten(&directory);
            Some(directory)
        }
        Err(error) => {
            ui.error(&error.context("the program runs without counters"));
            None
        }
    }
}

/// Returns the directory of the pages, if something can be made in it.
pub(in crate::commands) fn usable_directory() -> anyhow::Result<PathBuf> {
    let directory = iotide_private::pages_directory()
        .context("there is no directory for them")
        .hint("`IOTIDE_LIVE=DIR` names one")?;
    let cannot = || format!("they cannot be kept in {}", directory.display());
    has_room(&directory).with_context(cannot)?;
    Ok(directory)
}

/// Checks that there is room for the counters of one process.
fn has_room(directory: &Path) -> io::Result<()> {
    let file = iotide_private::nameless_in(directory)?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, LEAST_ROOM as u64) {
        // Not all file systems can say it before.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            file.write_all_at(&[0; LEAST_ROOM], 0)
        }
        tried => Ok(tried?),
    }
}

/// Removes pages of ours that nobody came for. What others do in a directory of all users is their own affair.
fn remove_forgotten(directory: &Path) {
    let us = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_old = entry.metadata().is_ok_and(|file| {
            let age = file.modified().ok().and_then(|modified| modified.elapsed().ok());
            file.is_file() && file.uid() == us && age.is_some_and(|age| age > KEPT)
        });
        if is_old
            && is_page(&entry.path())
            && Page::read(&entry.path()).is_ok_and(|page| page.life() != Some(Life::Running))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_page(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(EXTENSION))
}

/// A page as it was when it was read.
struct Page {
    header: Vec<u8>,
    counters: Box<Counters>,
}

impl Page {
    fn read(path: &Path) -> io::Result<Self> {
        let mut file = iotide_private::open_ordinary(path)?;
        let mut header = vec![0; HEADER_SIZE];
        file.read_exact(&mut header)?;
        let lanes_used = PageHeader::decode(&header).map_err(io::Error::other)?.lanes_used;
        let mut counters = Box::new(Counters::ZERO);
        let mut lane = vec![0; LANE_SIZE];
        for i in 0..lanes_used {
            let n = read_lane(&file, i, &mut lane)?;
            counters.add_lane(&lane[..n]);
        }
        Ok(Self { header, counters })
    }

    fn header(&self) -> Option<PageHeader<'_>> {
        PageHeader::decode(&self.header).ok()
    }

    fn life(&self) -> Option<Life> {
        let header = self.header()?;
        Some(header.life(started(header.about.pid)))
    }
}

fn read_lane(file: &File, i: usize, into: &mut [u8]) -> io::Result<usize> {
    let (mut n, at) = (0, lane_at(i) as u64);
    while n < into.len() {
        match file.read_at(&mut into[n..], at + n as u64)? {
            0 => break,
            more => n += more,
        }
    }
    Ok(n)
}

/// When a process began, in ticks since the system booted; `None` if there is none of that number, or it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether a daemon collects the pages, and removes those of processes that have ended: what is left of them is not the whole run. Of a directory
/// that somebody names, that is known only if they name the daemon, too.
fn has_collector() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    (!is_set("IOTIDE_LIVE") || is_set("IOTIDE_DAEMON"))
        && UnixStream::connect(Config::held().daemon()).is_ok()
}

/// Prints the counts of the processes of a run on this machine.
pub(super) fn tell(ui: &mut Ui, directory: &Path, run: &OsStr, elapsed: Duration) {
    let ran = text::seconds(elapsed.as_secs_f64());
    if has_collector() {
        ui.status(format_args!(
            "iotide: {ran}; its counters are with the daemon (`iotide jobs`, `iotide job ID`)"
        ));
        return;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let pages: Vec<Page> = entries
        .filter(|path| is_page(path))
        .filter_map(|path| Page::read(&path).ok())
        .filter(|page| {
            page.header().is_some_and(|header| header.text(PageText::Run) == run.as_encoded_bytes())
        })
        .collect();
    if pages.is_empty() && has_room(directory).is_err_and(|why| why.kind() == io::ErrorKind::StorageFull) {
        ui.status(format_args!("iotide: {ran}, no counters: {} is full", directory.display()));
        return;
    }
    if pages.is_empty() {
        // A daemon may have taken them already.
        ui.status(format_args!("iotide: {ran}, no counters left in {}", directory.display()));
        return;
    }
    let processes = text::counted(pages.len() as u64, "page");
    ui.status(format_args!("iotide: {ran}, {processes} of counters in {}", directory.display()));
    for (layer, name) in
        [(PageLayer::MpiIo, "MPI-IO"), (PageLayer::Posix, "POSIX"), (PageLayer::Stdio, "stdio")]
    {
        let (mut calls, mut read, mut written, mut ns) = (0, 0, 0, 0);
        for (_, op, _, sum) in
            pages.iter().flat_map(|page| page.counters.io_entries()).filter(|entry| entry.0 == layer)
        {
            calls += sum.calls;
            ns += sum.ns;
            match op {
                Op::Read => read += sum.bytes,
                Op::Write => written += sum.bytes,
                _ => {}
            }
        }
        if calls > 0 {
            ui.status(format_args!(
                "  {name:<7} {:>9} calls  {:>9} read  {:>9} written  {:>8} in them",
                text::count(calls),
                text::bytes(read as f64),
                text::bytes(written as f64),
                text::seconds(ns as f64 / 1e9),
            ));
        }
    }
    let mpi_ns: u64 = pages.iter().map(|page| page.counters.mpi_ns()).sum();
    if mpi_ns > 0 {
        ui.status(format_args!("  MPI     {} in other calls of it", text::seconds(mpi_ns as f64 / 1e9)));
    }
}
