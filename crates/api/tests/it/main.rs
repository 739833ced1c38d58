//! The examples give the right answers, and docs/api.md shows them as they are.

use std::path::Path;

#[path = "../../examples/compare.rs"]
mod compare;
#[path = "../../examples/convert.rs"]
mod convert;
#[path = "../../examples/detect.rs"]
mod detect;
#[path = "../../examples/follow.rs"]
mod follow;
#[path = "../../examples/info.rs"]
mod info;
#[path = "../../examples/label.rs"]
mod label;
#[path = "../../examples/model.rs"]
mod model;
#[path = "../../examples/report.rs"]
mod report;
#[path = "../../examples/sets_plan.rs"]
mod sets_plan;
#[path = "../../examples/signature.rs"]
mod signature;
#[path = "../../examples/simulate_io.rs"]
mod simulate_io;

/// An example asserts its answers itself.
macro_rules! run_as_tests {
    ($($name:ident),* $(,)?) => {
        mod answers {
            $(
                #[test]
                fn $name() {
                    super::$name::main().unwrap();
                }
            )*
        }
        const RUN: &[&str] = &[$(stringify!($name)),*];
    };
}

run_as_tests!(
    detect,
    follow,
    report,
    compare,
    info,
    convert,
    label,
    model,
    signature,
    simulate_io,
    sets_plan
);

#[test]
fn every_example_is_run_and_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/api.md")).unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // What stands before the first `use` is for the compiler and for readers of the file.
        let shown = &text[text.find("use ").unwrap()..];
        assert!(
            page.contains(&format!("```rust\n{shown}```\n")),
            "docs/api.md does not show {} as it is: put it there whole, from its first `use` on",
            path.display()
        );
        found.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    found.sort();
    let mut run = RUN.to_vec();
    run.sort_unstable();
    assert_eq!(found, run, "each file in examples/ is a module here and in `run_as_tests!`");
}
