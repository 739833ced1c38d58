//! An answer in all its forms.

use iotide_look::Ink;

/// An answer in all its forms: for people, for scripts, and where it has them as a page and as pictures.
pub trait Document {
    /// Returns it for people, in lines of at most `width` columns where words allow.
    fn to_text(&self, width: usize, ink: Ink) -> String;

    /// Returns it as JSON, in a stable order, with a final newline.
    ///
    /// What does not exist is `null`; NaN and infinity do not exist.
    fn to_json(&self) -> String;

    /// Returns it as one page that needs nothing else; `None` if it is not shown as one.
    fn to_page(&self) -> Option<String> {
        None
    }

    /// Returns the pictures as SVG, each with a name for its file.
    fn pictures(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
