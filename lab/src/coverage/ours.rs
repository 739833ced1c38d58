//! Records of `iotide record`: those of the system's layer, those beneath streams included.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use iotide_wire::{Flags, Layer, Op, Payload, Step, StreamHeader, next_block};

use super::{Moved, Seen, is_left_out};
use crate::readers::Losses;

/// Adds the records of all processes up.
pub(super) fn seen(trace: &Path) -> Result<Seen, String> {
    let mut seen = Seen::new();
    let entries = fs::read_dir(trace).map_err(|error| format!("nothing was traced: {error}"))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "iot") {
            let bytes = fs::read(&path).map_err(|error| error.to_string())?;
            add_process(&bytes, &mut seen);
        }
    }
    Ok(seen)
}

fn add_process(bytes: &[u8], seen: &mut Seen) {
    let (mut names, mut by_number) = (HashMap::new(), HashMap::<u32, Moved>::new());
    let mut rest = bytes.get(StreamHeader::SIZE..).unwrap_or_default();
    while !rest.is_empty() {
        let used = match next_block(rest) {
            Step::Block { header, payload, used } => {
                match Payload::of(&header, payload) {
                    Ok(Payload::Paths(paths)) => names.extend(
                        paths.map(|entry| (entry.file, String::from_utf8_lossy(entry.path).into_owned())),
                    ),
                    Ok(Payload::Records(records)) => add_records(records, &mut by_number),
                    _ => {}
                }
                used
            }
            Step::Damaged { skip, .. } => skip,
            Step::Need(_) => break,
        };
        rest = &rest[used..];
    }
    for (number, moved) in by_number {
        let path = names.get(&number).cloned().unwrap_or_else(|| "/?".to_owned());
        if is_left_out(&path) {
            continue;
        }
        let sum = seen.entry(path).or_default();
        sum.calls += moved.calls;
        sum.read += moved.read;
        sum.written += moved.written;
    }
}

fn add_records(records: &[u8], by_number: &mut HashMap<u32, Moved>) {
    for record in Payload::records(records).flatten() {
        let is_read = match record.op() {
            Op::Read => true,
            Op::Write => false,
            _ => continue,
        };
        if record.flags.layer() == Some(Layer::Posix) && !record.flags.has(Flags::FAILED) && record.bytes > 0
        {
            by_number.entry(record.file).or_default().add(is_read, record.bytes);
        }
    }
}

/// Returns the losses that the trace reports.
pub(super) fn losses(trace: &Path) -> Result<Vec<String>, String> {
    let mut losses = Losses::default();
    let reader = iotide_formats::open(trace).map_err(|error| format!("nothing was traced: {error}"))?;
    reader.read(&mut losses).map_err(|error| format!("nothing was traced: {error}"))?;
    Ok(losses.0.into_iter().map(|loss| loss.what).collect())
}
