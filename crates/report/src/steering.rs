//! Whether names that others chose steer what shows them.

use iotide_look::text;

/// A name that would clear a terminal, turn the direction of writing and run a script.
pub(crate) fn hostile(what: &str) -> String {
    format!("{what}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}<script>alert(1)</script>\"'&")
}

/// Fails if a text has a character that steers, other than those `allowed`.
pub(crate) fn assert_plain(shown: &str, allowed: &str) {
    let steers = |c: char| text::steers(c) && !allowed.contains(c);
    let found = shown.lines().find(|line| line.contains(steers));
    assert!(found.is_none(), "{found:?}");
}
