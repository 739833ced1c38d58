//! An answer in words and in JSON.

use iotide_look::Ink;

/// An answer in its two forms: for people and for scripts.
pub trait Document {
    /// Returns it for people, in lines of at most `width` columns where words allow.
    fn to_text(&self, width: usize, ink: Ink) -> String;

    /// Returns it as JSON, in a stable order, with a final newline.
    ///
    /// Missing values, NaN and infinity are `null`.
    fn to_json(&self) -> String;
}
