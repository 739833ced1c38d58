//! Says where cargo puts the tracer's library and lists the pages of `docs`, both of which the program carries.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    list_pages();
    if env::var_os("CARGO_FEATURE_SYSTEM").is_none() {
        return;
    }
    // …/build/iotide-<hash>/out: the libraries that the program is built from lie in …/deps, and are there before the program is compiled.
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let Some(place) = Path::new(&out).ancestors().nth(3) else { return };
    let library = place.join("deps/libiotide.so");
    if !library.exists() {
        // `cargo check` and `clippy` make no libraries, and want a file all the same. A build puts the library in its place.
        let _ = fs::create_dir_all(place.join("deps")).and_then(|()| fs::write(&library, ""));
    }
    println!("cargo:rustc-env=IOTIDE_TRACER={}", library.display());
}

/// Writes the pages of `docs` with their names as a table of Rust; without `commands.md`, which `--help` prints, and the table of contents.
fn list_pages() {
    let docs = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../docs");
    println!("cargo:rerun-if-changed={}", docs.display());
    let mut names: Vec<String> = fs::read_dir(&docs)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".md")?.to_owned()))
        .filter(|name| !["commands", "SUMMARY"].contains(&name.as_str()))
        .collect();
    names.sort();
    let mut table = String::from("&[\n");
    for name in names {
        let path = docs.join(format!("{name}.md"));
        let _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
    }
    let out = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("pages.rs");
    fs::write(out, table + "]\n").expect("cargo gives a folder to write to");
}
