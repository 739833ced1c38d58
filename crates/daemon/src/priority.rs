//! Who has the processor first.

/// What is worked out for later gives way to what is asked now: the calling thread has the processor when others leave it.
pub fn give_way() {
    // Without it answers only take a little longer while something is worked out.
    let _ = rustix::process::nice(10);
}
