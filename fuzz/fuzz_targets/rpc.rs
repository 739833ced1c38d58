//! Any bytes as frames of a controller: refused, or questions within their bounds; as answers of Redis and of those who know jobs; as alarms in JSON; and
//! any text as an alarm's condition.
#![no_main]

use iotide_ledger::alarm::Rule;
use iotide_report::{AlarmState, NewAlarm, known_jobs};
use iotide_wire::{RespLine, RpcHeader, RpcKind, RpcQuestion, RpcRhythm};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((head, rest)) = bytes.split_first_chunk::<{ RpcHeader::SIZE }>()
        && let Some(header) = RpcHeader::decode(head, RpcHeader::MAX_QUESTION)
    {
        assert!(header.payload <= RpcHeader::MAX_QUESTION);
        assert_eq!(RpcHeader::decode(&header.encode(), RpcHeader::MAX_QUESTION), Some(header));
        let _ = RpcQuestion::decode(header.kind, &rest[..header.payload.min(rest.len())]);
    }
    if let Ok(Some((_, n))) = RespLine::decode(bytes) {
        assert!(n <= bytes.len());
    }
    for kind in RpcKind::QUESTIONS {
        match RpcQuestion::decode(kind as u8, bytes) {
            Some(RpcQuestion::Evaluate { n_points, coordinates, .. }) => {
                assert!(n_points <= RpcHeader::MAX_POINTS && coordinates.len() % 8 == 0);
            }
            Some(RpcQuestion::Resolve { mut parameters, n_parameters, .. }) => {
                assert!(n_parameters <= RpcHeader::MAX_PARAMETERS);
                assert!((0..n_parameters).all(|_| parameters.text().is_some()));
            }
            _ => {}
        }
    }
    if let Some(rhythms) = RpcRhythm::all(bytes) {
        let mut again = bytes[..4].to_vec();
        rhythms.for_each(|rhythm| rhythm.put(&mut again));
        assert_eq!(again, bytes);
    }
    if let Ok(jobs) = std::str::from_utf8(bytes).map_err(drop).and_then(|text| known_jobs(text, 1e9).map_err(drop)) {
        assert!(jobs.iter().all(|job| job.forecast.is_none_or(|forecast| forecast.is_possible())));
    }
    if let Ok(rule) = NewAlarm::from_json(bytes).map_err(drop).and_then(|alarm| alarm.rule(Some(7)).map_err(drop)) {
        // Numbers of JSON may differ in their last digit.
        let again = NewAlarm::from_json(NewAlarm::of(&rule).to_json().as_bytes());
        let again = again.ok().and_then(|alarm| alarm.rule(Some(7)).ok());
        assert_eq!(again.map(|again| (again.name.clone(), again.expr())), Some((rule.name.clone(), rule.expr())));
    }
    let _ = AlarmState::from_json(bytes);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(rule) = Rule::new("fuzzed", text)
    {
        let again = Rule::new("fuzzed", &rule.expr());
        assert_eq!(again.as_ref(), Ok(&rule), "{text}");
    }
});
