//! Any bytes, as any format: reading must return, with events in order and an error that says something.
//!
//! The first byte chooses the format, or leaves it to be told by the content.
#![no_main]

use std::io::Cursor;
use std::ops::ControlFlow;

use iotide_formats::{Format, OpenOptions};
use iotide_trace::{Event, EventSink, Loss};
use libfuzzer_sys::fuzz_target;

struct Checked;

impl EventSink for Checked {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        assert!(event.start <= event.end);
        ControlFlow::Continue(())
    }

    fn loss(&mut self, loss: Loss) {
        assert!(!loss.what.is_empty());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, source)) = bytes.split_first() else { return };
    let input_format = Format::ALL.get(usize::from(choice) % (Format::ALL.len() + 1)).copied();
    let options = OpenOptions { input_format, ..OpenOptions::default() };
    let read = options.from_read("input", Cursor::new(source.to_vec())).and_then(|reader| reader.read(&mut Checked));
    if let Err(error) = read {
        assert!(error.to_string().contains("input"));
    }
});
