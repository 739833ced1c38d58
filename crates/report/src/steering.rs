//! Whether names that others chose steer what shows them.

use iotide_look::{policy, text};

use crate::{Document, Ink};

/// A name that would clear a terminal, turn the direction of writing and run a script.
pub(crate) fn hostile(what: &str) -> String {
    format!("{what}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}<script>alert(1)</script>\"'&")
}

/// Fails if a document lets a name out unescaped in any of its forms.
pub(crate) fn assert_steers_nothing(document: &impl Document) {
    assert_plain(&document.to_text(100, Ink::Plain), "\n");
    assert_plain(&document.to_json(), "\n");
    let page = document.to_page();
    page.iter().for_each(|page| policy::assert_keeps_its_policy(page));
    let pictures = document.pictures().into_iter().map(|(_, picture)| picture);
    page.into_iter().chain(pictures).for_each(|page| assert_plain_page(&page));
}

/// Fails if a page has a mark that steers, or a script of someone else.
pub(crate) fn assert_plain_page(page: &str) {
    assert_plain(page, "\n\t");
    assert!(!page.contains("<script>alert"), "{page}");
}

/// Fails if a text has a character that steers, other than those `allowed`.
pub(crate) fn assert_plain(shown: &str, allowed: &str) {
    let steers = |c: char| text::steers(c) && !allowed.contains(c);
    let found = shown.lines().find(|line| line.contains(steers));
    assert!(found.is_none(), "{found:?}");
}
