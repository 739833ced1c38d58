//! Bandwidth that is divided as the policy says, at once and without loss.

use iotide_sched::{Order, Policy};

use super::{Contender, Event, IoSettings, Play};
use crate::metrics::Outcome;
use crate::storage::{Fluid, Inside, Transfer};
use crate::workload::Workload;

pub(super) fn run(workload: &Workload, contender: &Contender, settings: &IoSettings, seed: u64) -> Outcome {
    let mut play = Play::new(workload, contender, settings, seed);
    let mut storage = Fluid::new(workload.bandwidth_bps, settings.leak);
    let inside = match contender.policy {
        Policy::Unscheduled => Inside::Shared,
        _ => Inside::Turns,
    };
    let mut n_begun = 0;
    let mut now_s = 0.0;
    while !play.is_over(now_s) {
        let end_s = storage.next_end_s();
        let plan_s = play.agenda.next_s();
        let next_s = match (end_s, plan_s) {
            (Some(end_s), Some(plan_s)) => end_s.min(plan_s),
            (Some(next_s), None) | (None, Some(next_s)) => next_s,
            (None, None) => break,
        };
        if let Some(timeline) = &mut play.timeline {
            storage.rates(|job, rate_bps| timeline.add(job, now_s, next_s, rate_bps * (next_s - now_s)));
        }
        now_s = next_s;
        // Of an end and a beginning at the same time the end is first: the one who comes finds the storage free.
        if end_s.is_some_and(|end_s| plan_s.is_none_or(|plan_s| end_s <= plan_s)) {
            if let Some((end_s, job)) = storage.finish() {
                play.end_phase(job, end_s);
            }
        } else if let Some((now_s, Event::Phase(job))) = play.agenda.pop() {
            let weight = play.begin_phase(job, now_s);
            let bytes = workload.jobs[job].io_bytes;
            if bytes == 0.0 {
                play.end_phase(job, now_s);
                continue;
            }
            n_begun += 1;
            let key = match settings.order {
                Order::FirstCome => n_begun,
                Order::Id => job as u64,
            };
            storage.start(now_s, Transfer { job, bytes, key, weight }, play.placement(job), inside);
        }
    }
    play.outcome()
}
