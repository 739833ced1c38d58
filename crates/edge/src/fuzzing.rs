//! What the target `daemon` in `fuzz/` feeds.

use iotide_http::{Answer, Url};

use crate::answer::{Asked, Viewer};
use crate::client::in_query;
use crate::doors::{ProxyFrom, TokenRole, tokens_of};
use crate::routes::find;
use crate::tree;
use crate::web::link_in;

/// Feeds any bytes to what reads queries, forms, tokens, topologies and answers over HTTP.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(answer) = Answer::read(bytes, Some(1 << 20)) {
        assert!(answer.body.len() <= bytes.len());
    }
    let text = &*String::from_utf8_lossy(bytes);
    if let Ok(asked) = Asked::parse(text) {
        let again = Asked::parse(&format!("job={}", in_query(asked.get("job").unwrap_or(""))));
        assert!(again.is_ok_and(|again| again.get("job") == Some(asked.get("job").unwrap_or(""))));
    }
    let _ = (tokens_of(text), link_in(text));
    let _ = (text.parse::<Url>(), ProxyFrom::parse(text), TokenRole::parse(text));
    for viewer in [Viewer::All, Viewer::Sums] {
        let _ = find("GET", text).map(|route| route.check(viewer, false));
    }
    tree::fuzz(text);
}
