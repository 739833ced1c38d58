//! Any bytes, as any format: reading must return, with events in order and an error that says something.
//!
//! The first byte chooses the format, or leaves it to be told by the content; `IOTIDE_FUZZ_FORMAT` chooses it for good.
#![no_main]

use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::LazyLock;

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

    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

static FIXED: LazyLock<Option<Format>> = LazyLock::new(|| {
    let name = std::env::var("IOTIDE_FUZZ_FORMAT").ok()?;
    Some(Format::from_name(&name).expect("IOTIDE_FUZZ_FORMAT names a format"))
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, source)) = bytes.split_first() else { return };
    let input_format =
        FIXED.or_else(|| Format::ALL.get(usize::from(choice) % (Format::ALL.len() + 1)).copied());
    let options = OpenOptions { input_format, ..OpenOptions::default() };
    let read = options.from_read("input", Cursor::new(source.to_vec())).and_then(|reader| reader.read(&mut Checked));
    if let Err(error) = read {
        assert!(error.to_string().contains("input"));
    }
});
