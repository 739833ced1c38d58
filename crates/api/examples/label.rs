//! The labels of a run.
#![allow(clippy::print_stdout)]

use iotide_api::{Document, Input, LabelOptions, Report, label};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // It reads its input, computes, and writes its result at the end.
    let table = "# runtime_s=1000\n# nprocs=4\n# exe=/sw/bin/lmp -in melt\nrank,op,start,end,bytes\n\
                 0,read,1,20,5000000000\n0,write,980,999,5000000000\n";
    let run = label(&Input::bytes("lammps.csv", table), &LabelOptions::default())?;

    println!("{}", run.categories.join(", "));
    assert!(run.categories.contains(&"read_on_start"), "{:?}", run.categories);
    assert!(run.categories.contains(&"write_on_end"), "{:?}", run.categories);
    assert_eq!(run.application.as_ref().map(|name| name.as_said()), Some("lmp"));
    assert!(run.rejected.is_none());

    // As `iotide categorize --format json` prints it.
    let mut document = Report::new("categorize");
    document.runs.push(run);
    assert!(document.to_json().contains("\"write_on_end\""));
    Ok(())
}
