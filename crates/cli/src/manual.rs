//! The pages of `docs`, which the program carries: read in the terminal, and by assistants.

/// A page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Name of its file, without the ending.
    pub(crate) name: &'static str,
    /// Its text in Markdown.
    pub(crate) text: &'static str,
}

/// All pages with their names, in alphabetical order.
static PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Returns all pages, in alphabetical order of their names.
pub(crate) fn pages() -> impl Iterator<Item = Page> {
    PAGES.iter().map(|&(name, text)| Page { name, text })
}

impl Page {
    /// Returns the page of a name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        pages().find(|page| page.name == name)
    }

    /// Its first heading.
    pub(crate) fn title(self) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_title() {
        assert!(pages().count() > 30);
        for page in pages() {
            assert!(page.title() != page.name, "{} begins with no heading", page.name);
        }
        assert_eq!(Page::of_name("why").map(Page::title), Some("Why was this run slow?"));
        assert!(Page::of_name("why.md").is_none());
    }
}
