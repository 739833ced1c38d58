//! A trace in another form.
#![allow(clippy::print_stdout)]

use iotide_api::{InfoOptions, Input, OpenOptions, Target, convert, info};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let table = Input::bytes("run.csv", "rank,op,start,end,bytes\n0,write,0,1,4096\n3,read,1,2,1024\n");

    // Anything that can be written to will do: a file, a socket, memory.
    let mut native = Vec::new();
    let done = convert(table.open(&OpenOptions::default())?, Target::Native, &mut native)?;
    println!("{} events, {} bytes", done.n_events, native.len());
    assert_eq!((done.n_events, done.losses.len()), (2, 0));

    // What was written can be read, and goes on from there.
    let native = Input::bytes("run.iot", native);
    assert_eq!(info(&native, &InfoOptions::default())?.source.format, "native");
    let mut lines = Vec::new();
    convert(native.open(&OpenOptions::default())?, Target::Jsonl, &mut lines)?;
    let lines = String::from_utf8(lines)?;
    println!("{lines}");
    assert!(lines.contains("\"bytes\":4096") && lines.contains("\"rank\":3"));
    Ok(())
}
