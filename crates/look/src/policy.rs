//! Policy of a page: it runs only the script and uses only the style it was made with, fetches nothing and sends nothing.
//!
//! The script and the style are named by their hash, so that whatever else should come to stand in the page, by a name that was not escaped
//! say, is neither run nor worn. Widths in attributes are the page's own numbers; a hash cannot name those.

use std::fmt::Write;

/// The element that states the policy of a page with this script and this style, as they stand between the tags.
pub fn content_security_policy(script: &str, style: &str) -> String {
    let script = if script.is_empty() { "'none'".to_owned() } else { source(script) };
    format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {script}; \
         style-src 'unsafe-inline'; style-src-elem {}; style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'\">",
        source(style)
    )
}

fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&iotide_wire::sha256(text.as_bytes())))
}

/// A few letters and digits that stand for a text: another text has others.
pub fn fingerprint(text: &str) -> String {
    let hash = base64(&iotide_wire::sha256(text.as_bytes()));
    hash.chars().filter(char::is_ascii_alphanumeric).take(16).collect()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * i)) as usize & 63]);
            let _ = write!(text, "{}", if i <= three.len() { letter } else { '=' });
        }
    }
    text
}

/// Panics unless a page has the one script and the one style that its policy names, and no other way to run or wear anything; for
/// tests of whoever makes pages.
#[track_caller]
pub fn assert_keeps_its_policy(html: &str) {
    let between = |begin: &str, end: &str| -> Vec<&str> {
        html.split(begin).skip(1).filter_map(|rest| rest.split(end).next()).collect()
    };
    let (scripts, styles) = (between("<script>", "</script>"), between("<style>", "</style>"));
    assert!(scripts.len() <= 1 && styles.len() == 1, "{} scripts, {} styles", scripts.len(), styles.len());
    let policy = content_security_policy(scripts.first().unwrap_or(&""), styles[0]);
    assert!(html.contains(&policy), "{policy}");
    assert_eq!(html.matches("Content-Security-Policy").count(), 1);
    assert!(!policy.contains("script-src 'unsafe-inline'"));
    // Data that the script reads are no script.
    let n_data = html.matches("<script type=\"application/json\"").count();
    assert_eq!(html.matches("<script").count(), scripts.len() + n_data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
