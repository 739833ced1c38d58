//! Who has the processor first.

/// Lowers the priority of the calling thread, whose work is for later: it has the processor when others leave it, so questions of now go first.
pub fn give_way() {
    // Without it answers only take a little longer while something is worked out.
    let _ = rustix::process::nice(10);
}
