//! The traces that lie beside the repository, if they do.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use iotide_formats::{OpenOptions, is_one_trace};
use iotide_trace::{Event, EventSink, Loss};

use super::law::{Tried, law_1, law_2, law_9, law_12, one_engine};
use crate::repository;
use crate::synthetic::family::of_events;
use crate::synthetic::random::Random;

/// The files (and folders that are one trace) in `../shared/data`, by name: all of them, or of the large sets of like
/// traces one in ten.
pub fn files(all: bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(folder) = repository().parent().map(|above| above.join("shared/data")) {
        walk(&folder, &mut files);
    }
    files.sort();
    let mut n_alike = 0;
    files.retain(|file| {
        let alike = LARGE_SETS.iter().any(|set| name(file).starts_with(set));
        n_alike += usize::from(alike);
        all || !alike || n_alike % 10 == 0
    });
    files
}

/// Hundreds of traces of a few kinds.
const LARGE_SETS: [&str; 2] = ["categories/", "signature/"];

/// Returns the name of a file in the table: its path in the data.
pub fn name(file: &Path) -> String {
    let root = repository().parent().map(|above| above.join("shared/data"));
    let name = root.and_then(|root| file.strip_prefix(root).ok().map(Path::to_owned));
    name.unwrap_or_else(|| file.to_owned()).display().to_string()
}

/// Tries the laws of invariance on a file; `None` if it is no trace or moves nothing.
pub fn try_file(file: &Path) -> Option<Vec<Tried>> {
    let mut kept = Kept::default();
    OpenOptions::default().open(file).ok()?.read(&mut kept).ok()?;
    let trace = of_events(&name(file), &kept.events);
    if trace.bytes() <= 0.0 {
        return None;
    }
    // The same for a file whatever else is there.
    let seed = name(file).bytes().fold(7u64, |seed, byte| seed.wrapping_mul(1_000_003) ^ u64::from(byte));
    let mut tried = law_1(&trace, &mut Random::new(seed));
    tried.extend(law_2(&trace));
    tried.extend(law_9(&trace));
    tried.extend(law_12(&trace));
    tried.extend(one_engine(&trace));
    Some(tried)
}

/// Keeps what moves bytes.
#[derive(Default)]
struct Kept {
    events: Vec<Event>,
}

/// No more rows than this are kept: the beginning of a trace is a trace. (Larger ones: law 1b.)
const MOST_EVENTS: usize = 100_000;

impl EventSink for Kept {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.op.moves_data() && event.bytes > 0.0 && event.bytes.is_finite() && event.start <= event.end {
            self.events.push(event);
        }
        if self.events.len() >= MOST_EVENTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn loss(&mut self, _: Loss) {}
    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }
    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}
    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !is_one_trace(&path) {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}
