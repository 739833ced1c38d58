use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::ControlFlow;

use iotide_formats::{LayerChoice, NativeWriter, OpenOptions, Reader};
use iotide_trace::{AccessFacts, Event, EventSink, Layer, Loss, TimeSpent, Timestamp};

use crate::samples;

/// Events by layer, and functions by layer and name: calls, bytes, seconds.
#[derive(Default)]
struct Sums {
    events: BTreeMap<Layer, (u64, f64)>,
    functions: BTreeMap<(Layer, String), (u64, f64, f64)>,
}

impl EventSink for Sums {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let sums = self.events.entry(event.layer).or_default();
        *sums = (sums.0 + u64::from(event.calls), sums.1 + event.bytes);
        ControlFlow::Continue(())
    }
    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }
    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, facts: &AccessFacts) {
        for function in &facts.functions {
            let sums = self.functions.entry((facts.layer, function.name.clone())).or_default();
            *sums = (sums.0 + function.calls, sums.1 + function.bytes, sums.2 + function.seconds);
        }
    }
    fn loss(&mut self, _: Loss) {}
}

fn sums(reader: Reader) -> Sums {
    let mut sums = Sums::default();
    reader.read(&mut sums).unwrap();
    sums
}

/// Every event has a function, and none is counted twice; a native trace keeps them.
fn check(open: impl Fn() -> Reader) -> Sums {
    let told = sums(open());
    assert!(!told.functions.is_empty());
    let mut by_layer: BTreeMap<Layer, (u64, f64)> = BTreeMap::new();
    for ((layer, _), (calls, bytes, _)) in &told.functions {
        let sums = by_layer.entry(*layer).or_default();
        *sums = (sums.0 + calls, sums.1 + bytes);
    }
    assert_eq!(by_layer, told.events);
    let mut writer = NativeWriter::new(Vec::new()).unwrap();
    let info = open().read(&mut writer).unwrap();
    let native = writer.finish(&info).unwrap();
    let again = sums(OpenOptions::default().from_read("native", Cursor::new(native)).unwrap());
    assert_eq!(again.functions, told.functions);
    told
}

fn every_layer() -> OpenOptions {
    OpenOptions { layers: LayerChoice::All, ..OpenOptions::default() }
}

#[test]
fn traces_that_name_their_calls_are_told_by_function() {
    for (sample, layer, function) in [
        ("strace", Layer::Posix, "write"),
        ("dftracer", Layer::Posix, "write"),
        ("dftracer_gzip", Layer::Posix, "pread"),
    ] {
        let bytes = samples::all().into_iter().find(|known| known.name == sample).unwrap().bytes;
        let told = check(|| every_layer().from_read(sample, Cursor::new(bytes.clone())).unwrap());
        assert!(
            told.functions.keys().any(|(known, name)| *known == layer && name.starts_with(function)),
            "{sample}: {:?}",
            told.functions
        );
    }
}

#[test]
fn a_recorder_trace_tells_every_layer_by_function() {
    let Some(directory) = iotide_testkit::shared_data("traces/recorder") else { return };
    let mut n_read = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.join("recorder.mt").is_file() {
            let told = check(|| every_layer().open(&path).unwrap());
            n_read += usize::from(told.functions.keys().any(|(layer, _)| *layer == Layer::Posix));
        }
    }
    assert!(n_read > 0);
}
