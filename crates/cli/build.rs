//! Says where cargo puts the tracer's library, which the program carries.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
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
