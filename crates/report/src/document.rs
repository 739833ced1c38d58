//! What can be told in every form.

/// A report that can be told in every form.
pub trait Document {
    /// Returns the report for people, in lines of at most `width` characters where that is possible.
    fn to_text(&self, width: usize) -> String;
    /// Returns the report as JSON, with a final newline.
    fn to_json(&self) -> String;
    /// Returns the report as one page that needs nothing else.
    fn to_page(&self) -> String;
    /// Returns the pictures as SVG, each with a name for its file.
    fn pictures(&self) -> Vec<(String, String)>;
}
