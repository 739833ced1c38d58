//! Which files a run read, and when each was read first.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_formats::OpenOptions;
use iotide_trace::{AccessFacts, Event, EventSink, FileId, Loss, Op, TimeSpent, Timestamp};

use crate::{Error, Input};

/// A file that a run read.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstRead {
    /// Its name, as the trace has it.
    pub path: String,
    /// When it was read first, on the trace's clock.
    pub at_s: f64,
}

/// Returns the inputs of a run, the one that is read first at the beginning. What the run wrote before it read it is no input.
pub fn first_reads(input: &Input, options: &OpenOptions) -> Result<Vec<FirstRead>, Error> {
    let mut sink = FirstUse::default();
    let info = input.open(options)?.read(&mut sink)?;
    Ok(sink.inputs(&info.files))
}

/// When files were first read and written.
#[derive(Debug, Default)]
struct FirstUse {
    read: HashMap<FileId, Timestamp>,
    written: HashMap<FileId, Timestamp>,
}

impl FirstUse {
    fn inputs(self, names: &[String]) -> Vec<FirstRead> {
        // Several numbers may stand for one name: one for each part of a trace.
        let by_name = |uses: HashMap<FileId, Timestamp>| {
            let mut first: HashMap<&str, Timestamp> = HashMap::new();
            for (file, at) in uses {
                if let Some(name) = names.get(file.0 as usize) {
                    first.entry(name).and_modify(|known| *known = at.min(*known)).or_insert(at);
                }
            }
            first
        };
        let (read, written) = (by_name(self.read), by_name(self.written));
        let is_input = |name: &str, at: Timestamp| written.get(name).is_none_or(|written| at < *written);
        let mut inputs: Vec<FirstRead> = (read.into_iter())
            .filter(|(name, at)| is_input(name, *at))
            .map(|(name, at)| FirstRead { path: name.to_owned(), at_s: at.as_secs() })
            .collect();
        inputs.sort_by(|one, other| one.at_s.total_cmp(&other.at_s).then_with(|| one.path.cmp(&other.path)));
        inputs
    }
}

impl EventSink for FirstUse {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let uses = match event.op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.written,
            _ => return ControlFlow::Continue(()),
        };
        if event.file != FileId::NONE && event.bytes > 0.0 {
            uses.entry(event.file)
                .and_modify(|known| *known = event.start.min(*known))
                .or_insert(event.start);
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: Loss) {}

    fn time_spent(&mut self, _: TimeSpent) {}

    fn access_facts(&mut self, _: &AccessFacts) {}

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_in_the_order_of_their_first_read_and_results_are_none() {
        let rows = "rank,op,start,end,bytes,file\n\
                    0,write,1,2,9,/pfs/result\n0,read,3,4,9,/pfs/result\n\
                    0,read,2,3,5,/pfs/late\n1,read,0.5,1,5,/pfs/early\n0,read,9,10,5,/pfs/early\n\
                    0,read,4,5,5,/pfs/restart\n0,write,6,7,5,/pfs/restart\n0,open,0,0,0,/pfs/opened\n";
        let input = Input::bytes("rows.csv", rows);
        let found = first_reads(&input, &OpenOptions::default()).unwrap();
        let told: Vec<(&str, f64)> = found.iter().map(|read| (read.path.as_str(), read.at_s)).collect();
        assert_eq!(told, [("/pfs/early", 0.5), ("/pfs/late", 2.0), ("/pfs/restart", 4.0)]);
    }
}
