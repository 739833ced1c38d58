//! Sums over the calls of each function of a layer, added up while a call-level trace streams past.

use std::collections::HashMap;

use iotide_trace::{AccessFacts, Event, EventSink, FunctionSums, Grain, Layer};

/// Adds up calls by their function.
#[derive(Default)]
pub(crate) struct Functions(HashMap<Layer, HashMap<String, FunctionSums>>);

impl Functions {
    /// A damaged trace may name anything; beyond this many names the rest goes uncounted.
    const MOST: usize = 1 << 12;

    /// Counts a call that became an event. What is known by bins of time only has no time of its own.
    pub(crate) fn add(&mut self, name: &str, event: &Event) {
        let seconds = match event.grain {
            Grain::Call => event.end.secs_since(event.start),
            Grain::Bin | Grain::Record => 0.0,
        };
        let (layer, calls, bytes) = (event.layer, u64::from(event.calls), event.bytes);
        let known = self.0.entry(layer).or_default();
        if let Some(sums) = known.get_mut(name) {
            sums.calls = sums.calls.saturating_add(calls);
            sums.bytes += bytes;
            sums.seconds += seconds.max(0.0);
        } else if known.len() < Self::MOST {
            let sums = FunctionSums { name: name.to_owned(), calls, bytes, seconds: seconds.max(0.0) };
            known.insert(name.to_owned(), sums);
        }
    }

    /// The functions of one layer, by name.
    fn take(&mut self, layer: Layer) -> Vec<FunctionSums> {
        let mut functions: Vec<FunctionSums> =
            self.0.remove(&layer).unwrap_or_default().into_values().collect();
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        functions
    }

    /// Tells what was counted, layer by layer.
    pub(crate) fn tell(mut self, sink: &mut dyn EventSink) {
        for layer in Layer::ALL {
            let functions = self.take(layer);
            if !functions.is_empty() {
                sink.access_facts(&AccessFacts { layer, functions, ..AccessFacts::default() });
            }
        }
    }
}
