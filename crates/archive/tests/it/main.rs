//! The example labels its archive.

#[path = "../../examples/archive.rs"]
mod archive;

#[test]
fn the_example_labels_its_archive() {
    archive::main().unwrap();
}
