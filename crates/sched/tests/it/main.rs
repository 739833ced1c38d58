//! Laws of the queue, whatever is asked of it.

mod laws;
mod turns;
