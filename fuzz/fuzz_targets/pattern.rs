//! Any pattern on any text: both come from outside. An empty line parts them.
#![no_main]

use std::io::Cursor;

use iotide_formats::{OpenOptions, PatternSpec};
use iotide_trace::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (pattern, text) = text.split_once("\n\n").unwrap_or((&text, ""));
    if let Ok(pattern) = PatternSpec::parse(pattern) {
        let options = OpenOptions { pattern: Some(pattern), ..OpenOptions::default() };
        let mut trace = Trace::default();
        let _ = options
            .from_read("input", Cursor::new(text.as_bytes().to_vec()))
            .and_then(|reader| reader.read(&mut trace));
    }
});
