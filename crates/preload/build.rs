//! Lets a release name the unwinder of the tracer's library.

fn main() {
    // A linker that brings an unwinder of its own (zig's) would put it into the library. Threads that are cancelled and C++ exceptions come from
    // the program's unwinder, libgcc's, through our hooks: their frames must be read by the same one. `cargo xtask dist` names its file.
    println!("cargo::rerun-if-env-changed=IOTIDE_UNWINDER");
    if let Some(file) = std::env::var_os("IOTIDE_UNWINDER") {
        println!("cargo::rustc-cdylib-link-arg={}", file.display());
    }
}
