//! Texts of bounded length.

/// The beginning of a text: as many whole characters as have room in `most` bytes.
///
/// ```
/// assert_eq!(iotide_wire::cut_text("drei Jöbs", 7), "drei J");
/// assert_eq!(iotide_wire::cut_text("three", 7), "three");
/// ```
pub fn cut_text(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
