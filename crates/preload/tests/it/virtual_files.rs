//! Descriptors that the kernel does not know, since a preloaded library serves them: GekkoFS's is such a library.

use std::process::Command;

use iotide_wire::{LossKind, Op, Total};

use crate::support::{Trace, compile, compile_c, directory, library};

#[test]
fn a_virtual_descriptor_keeps_the_path_it_was_opened_with() {
    let (Some(serving), Some(program)) =
        (compile("gcc", "virtual_library.c", &["-shared", "-fPIC"]), compile_c("virtual.c"))
    else {
        return;
    };
    let directory = directory("virtual");
    let output = Command::new(program)
        .current_dir(&directory)
        .env("LD_PRELOAD", format!("{}:{}", library().display(), serving.display()))
        .env("IOTIDE_DIR", directory.join("trace"))
        .env_remove("IOTIDE_EXCLUDE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = Trace::read(&directory.join("trace"));
    let [process] = &trace.0[..] else { panic!("{} processes", trace.0.len()) };
    let written: Vec<(&str, u64)> = (process.records.iter())
        .filter(|record| record.op() == Op::Write)
        .map(|record| (process.names[&record.file].as_str(), record.bytes))
        .collect();
    let a = directory.join("virtual/a");
    let a = a.to_str().unwrap();
    assert_eq!(written, [(a, 1000), (a, 500), ("/somewhere/virtual/b", 70)]);
    assert_eq!(process.losses.iter().find(|(kind, _)| *kind == LossKind::UnknownDescriptor).unwrap().1, 2);
    // The kernel has moved none of it: it is no part of what was seen of the kernel's bytes.
    assert_eq!(process.totals.get(Total::SeenWritten), 0);
}
