//! Any bytes, as any format: reading must return, with events in order and an error that says something. What comes of the events must
//! too: the bandwidth they add up to, who did what to which file, and the labels of the run.
//!
//! The first byte chooses the format, or leaves it to be detected by the content; `IOTIDE_FUZZ_FORMAT` chooses it for good.
#![no_main]

use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use iotide_analysis::{CategoryConfig, IssueConfig, Observed, issues};
use iotide_api::label_observed;
use iotide_formats::{Format, OpenOptions};
use iotide_report::Source;
use iotide_trace::{Activity, Event, EventSink, Loss, Overlap};
use libfuzzer_sys::fuzz_target;

struct Checked {
    overlap: Overlap,
    activity: Activity,
    observed: Observed,
    losses: Vec<Loss>,
}

impl EventSink for Checked {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        assert!(event.start <= event.end);
        self.overlap.add(event.start, event.end, event.bytes);
        let _ = self.activity.event(event);
        self.observed.event(event)
    }

    fn loss(&mut self, loss: Loss) {
        assert!(!loss.what.is_empty());
        self.observed.loss(loss.clone());
        if self.losses.len() < 20 {
            self.losses.push(loss);
        }
    }

    fn async_event(&mut self, event: Event, waited: iotide_trace::Timestamp) -> ControlFlow<()> {
        assert!(event.start <= event.end);
        self.overlap.add(event.start, event.end, event.bytes);
        let _ = self.activity.async_event(event, waited);
        self.observed.async_event(event, waited)
    }

    fn time_spent(&mut self, spent: iotide_trace::TimeSpent) {
        self.activity.time_spent(spent);
    }

    fn access_facts(&mut self, facts: &iotide_trace::AccessFacts) {
        self.activity.access_facts(facts);
    }
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
    let mut seen = Checked {
        overlap: Overlap::new(),
        activity: Activity::new(),
        observed: Observed::new(),
        losses: Vec::new(),
    };
    let opened = options.from_read("input", Cursor::new(source.to_vec()));
    let read = opened.and_then(|reader| Ok((reader.format(), reader.read(&mut seen)?)));
    match read {
        Ok((format, info)) => {
            let signal = seen.overlap.finish();
            assert!(signal.volume_bytes().is_finite());
            // As an archive labels a log: categories, issues, and the line that is kept of it.
            let source = Source::new("input", format.name(), seen.observed.tally(), &info.job);
            let run =
                label_observed(seen.observed, source, &info.job, &seen.losses, &CategoryConfig::default());
            let found = issues(&seen.activity.finish(&info), &info.job, &[], &IssueConfig::default());
            let line = run.with_issues(&found).to_line();
            assert!(!line.trim_end().contains('\n'), "a run is one line: {line}");
        }
        Err(error) => assert!(error.to_string().contains("input")),
    }
});
