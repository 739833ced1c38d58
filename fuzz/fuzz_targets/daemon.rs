//! Any text that the daemon and its commands read from others: files of the system and of cgroups, the prolog's job files, Slurm's topology, marks in comments
//! of jobs, answers of munge, queries and forms, tokens, answers over HTTP, logs of decisions. Each is read within bounds, or refused.
#![no_main]

use iotide_report::{
    AlarmList, DecisionEntry, DecisionList, JobDocument, JobList, LoginLink, NodeList, ProxyNewAlarm, Refused,
};
use iotide_sched::jobs::MalleableMark;
use iotide_sched::parse_periods;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    iotide_daemon::fuzz(bytes);
    iotide_edge::fuzz(bytes);
    let _ = (JobList::from_json(bytes), JobDocument::from_json(bytes), NodeList::from_json(bytes));
    let _ = (AlarmList::from_json(bytes), LoginLink::from_json(bytes), Refused::from_json(bytes));
    let _ = (DecisionList::from_json(bytes), ProxyNewAlarm::from_json(bytes).map(ProxyNewAlarm::new_alarm));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(entry) = DecisionEntry::from_json_line(text) {
        assert!(DecisionEntry::from_json_line(&entry.to_json_line()).is_some(), "a log is read as it was written");
    }
    if let Some(Ok(mark)) = MalleableMark::parse(text) {
        assert!(mark.min <= mark.max);
    }
    let _ = parse_periods(text);
});
