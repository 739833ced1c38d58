//! The function of each call by its name, and where in the file it went.

use std::collections::BTreeSet;
use std::process::Command;

use iotide_wire::{Call, Flags, Layer, NO_POSITION, Op, Record};

use crate::support::{compile_c, directory, run};

/// "call NAME PLACE BYTES", in the order of the calls.
fn said(records: &[Record]) -> Vec<String> {
    let mut places = records.iter().filter(|record| record.op() == Op::Place);
    let mut lines = Vec::new();
    for record in records {
        if record.flags.has(Flags::NESTED) || !matches!(record.op(), Op::Read | Op::Write) {
            continue;
        }
        let position = match record.flags.has(Flags::ASYNC) {
            true => places.next().unwrap().position,
            false => record.position,
        };
        let place = if position == NO_POSITION { "-".to_owned() } else { position.to_string() };
        lines.push(format!("call {} {place} {}", record.call.name().unwrap(), record.bytes));
    }
    lines
}

#[test]
fn every_call_has_its_name_and_its_place() {
    let Some(program) = compile_c("named_calls.c") else { return };
    let directory = directory("named_calls");
    let output = run(&directory, Command::new(program));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = crate::support::Trace::read(&directory.join("trace"));
    trace.assert_whole();
    let [process] = &trace.0[..] else { panic!("{} processes", trace.0.len()) };
    let expected: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(said(&process.records), expected);
    // What the C library does beneath is another view of the same bytes, with places of its own.
    let beneath: Vec<(Call, u64, u64)> = process
        .records
        .iter()
        .filter(|record| record.flags.has(Flags::NESTED))
        .map(|record| (record.call, record.position, record.bytes))
        .collect();
    let written = |(call, ..): &&(Call, u64, u64)| *call == Call::STREAM_WRITE;
    let (first, n_written) =
        (beneath.iter().find(written), beneath.iter().filter(written).map(|(.., bytes)| bytes).sum::<u64>());
    assert_eq!(first.map(|(_, position, _)| *position), Some(0), "{beneath:?}");
    assert_eq!(n_written, 5000 + 5000 + 4500 + 6000, "{beneath:?}");
    // Where it read, it read a block ahead, from the beginning.
    let read: Vec<_> = beneath.iter().filter(|(call, ..)| *call == Call::STREAM_READ).collect();
    assert_eq!(read.first().map(|(_, position, _)| *position), Some(0), "{beneath:?}");
    assert!(read.iter().map(|(.., bytes)| bytes).sum::<u64>() >= 8400, "{beneath:?}");
    let opens: BTreeSet<_> = process
        .records
        .iter()
        .filter(|record| record.op() == Op::Open)
        .map(|record| record.call.name())
        .collect();
    assert_eq!(opens, BTreeSet::from([Some("open"), Some("fopen")]));
}

#[test]
fn functions_that_take_turns_on_a_stream_stay_one_record() {
    let Some(program) = compile_c("turns.c") else { return };
    let directory = directory("turns");
    let output = run(&directory, Command::new(program));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = crate::support::Trace::read(&directory.join("trace"));
    let stdio = || {
        trace.outer().filter(|record| {
            record.flags.layer() == Some(Layer::Stdio) && record.op() == Op::Write && record.bytes > 0
        })
    };
    assert_eq!(stdio().map(|record| u64::from(record.calls)).sum::<u64>(), 40_000);
    assert_eq!(stdio().map(|record| record.bytes).sum::<u64>(), 10_000 * 4 + 10_000 + 20_000 * 4);
    let n_mixed = stdio().filter(|record| record.call.name().is_none()).count();
    let n_named = stdio().filter(|record| record.call.name() == Some("fputs")).count();
    assert!(n_mixed > 0 && n_named > 0, "{n_mixed} and {n_named}");
    assert!(stdio().count() < 5_000, "{}", stdio().count());
}
