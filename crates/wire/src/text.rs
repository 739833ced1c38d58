//! Texts of bounded length, and what in them is not text.

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

/// Whether a character steers what shows it rather than being shown: controls (C0 and C1), the marks by which text is made to look as if it
/// stood in another order, and what ends a line for some programs and not for others.
///
/// ```
/// assert!("\x1b\u{9b}\u{202e}".chars().all(iotide_wire::steers) && !"jöb 7".contains(iotide_wire::steers));
/// ```
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
