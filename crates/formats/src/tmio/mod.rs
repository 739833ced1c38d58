//! Output of TMIO (JSON, JSON Lines, MessagePack), and the JSON that FTIO takes from others in the same shape.

pub(crate) mod json;
pub(crate) mod msgpack;
pub(crate) mod write;

use iotide_trace::Op;

/// Returns the meaning of a mode of TMIO's, by its name; `None` for names that are no mode.
///
/// An asynchronous mode comes twice in JSON: `…_async_t` is throughput, until the data had moved, and `…_async_b` is
/// the bandwidth that would have hidden it, until the program first waited. The bytes are the same, so one counts.
pub(crate) fn mode(name: &str) -> Option<Mode> {
    match name {
        "read_sync" | "read_async_t" | "read_async" => Some(Mode::Moved(Op::Read)),
        "write_sync" | "write_async_t" | "write_async" => Some(Mode::Moved(Op::Write)),
        "read_async_b" | "write_async_b" | "io_time" => Some(Mode::Derived),
        _ => None,
    }
}

/// Whether a mode's requests are bytes moved, or figures that say the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Moved(Op),
    Derived,
}
