//! Whether names that others chose steer a page or a picture.

use iotide_look::{Ink, policy};

use crate::Page;
use crate::steering::assert_plain;

/// Fails if a document lets a name out unescaped in any of its forms.
pub(crate) fn assert_steers_nothing(document: &impl Page) {
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
