//! Requests at a server: workers take them from the queue and share a device.

use std::collections::VecDeque;

use iotide_sched::{Exclusivity, Queue, QueueConfig, Request};

use super::{Contender, Event, IoSettings, Play};
use crate::metrics::Outcome;
use crate::storage::Device;
use crate::workload::Workload;

pub(super) fn run(workload: &Workload, contender: &Contender, settings: &IoSettings, seed: u64) -> Outcome {
    let config = QueueConfig {
        policy: contender.policy,
        credit: settings.credit,
        order: settings.order,
        exclusivity: settings.exclusivity,
        ageing: settings.ageing,
        ..QueueConfig::new(contender.policy)
    };
    let play = Play::new(workload, contender, settings, seed);
    let mut queue = Queue::new(config);
    if contender.policy.needs_profiles() {
        for (job, player) in play.players.iter().enumerate() {
            queue.set_profile(Play::id(job), player.profile);
        }
    }
    let mut server = Server {
        play,
        queue,
        device: Device::new(workload.bandwidth_bps),
        phases: vec![Phase::default(); workload.jobs.len()],
        coming: VecDeque::new(),
        n_requests: 0,
        wakes_s: None,
    };
    server.run();
    Outcome { n_requests: server.n_requests, ..server.play.outcome() }
}

struct Server<'a> {
    play: Play<'a>,
    queue: Queue,
    device: Device,
    phases: Vec<Phase>,
    /// Requests on their way: all take equally long, so they come as they were sent.
    coming: VecDeque<(f64, usize)>,
    n_requests: u64,
    /// When the next [`Event::Wake`] is planned.
    wakes_s: Option<f64>,
}

/// What is left of a job's phase.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    bytes_to_send: u64,
    /// How much each of its requests brings.
    request_bytes: u64,
    n_out: usize,
}

impl Server<'_> {
    fn run(&mut self) {
        let mut now_s = 0.0;
        while !self.play.is_over(now_s) {
            let end_s = self.device.next_end_s().unwrap_or(f64::INFINITY);
            let come_s = self.coming.front().map_or(f64::INFINITY, |&(come_s, _)| come_s);
            let plan_s = self.play.agenda.next_s().unwrap_or(f64::INFINITY);
            if end_s <= come_s && end_s <= plan_s {
                let Some((end_s, job)) = self.device.finish() else { return };
                now_s = end_s;
                self.served(job, now_s);
            } else if come_s <= plan_s {
                let Some((come_s, job)) = self.coming.pop_front() else { return };
                now_s = come_s;
                self.send(job, now_s);
            } else {
                let Some((plan_s, event)) = self.play.agenda.pop() else { return };
                now_s = plan_s;
                match event {
                    Event::Phase(job) => self.begin_phase(job, now_s),
                    Event::Wake => self.wakes_s = None,
                }
            }
            self.employ(now_s);
        }
    }

    fn begin_phase(&mut self, job: usize, now_s: f64) {
        let weight = self.play.begin_phase(job, now_s);
        let bytes = self.play.workload.jobs[job].io_bytes;
        if bytes == 0.0 {
            self.play.end_phase(job, now_s);
            return;
        }
        // Whole bytes; the last request of a phase has what is left.
        // Within bounds, so that chance makes neither one request of a phase nor millions.
        let request_bytes = self.play.settings.request_bytes as f64 * weight.clamp(1.0 / 16.0, 16.0);
        self.phases[job] = Phase {
            bytes_to_send: bytes.ceil() as u64,
            request_bytes: request_bytes.round().max(1.0) as u64,
            n_out: 0,
        };
        for _ in 0..self.play.settings.n_processes {
            self.send(job, now_s);
        }
    }

    fn send(&mut self, job: usize, now_s: f64) {
        let phase = &mut self.phases[job];
        if phase.bytes_to_send == 0 {
            return;
        }
        let bytes = phase.request_bytes.min(phase.bytes_to_send);
        phase.bytes_to_send -= bytes;
        phase.n_out += 1;
        self.queue.push(Request { job: Play::id(job), bytes, id: bytes, arrival_s: now_s });
    }

    fn served(&mut self, job: usize, now_s: f64) {
        self.n_requests += 1;
        self.queue.complete(Play::id(job), now_s);
        let phase = &mut self.phases[job];
        phase.n_out -= 1;
        if phase.bytes_to_send > 0 {
            match self.play.settings.latency_s {
                0.0 => self.send(job, now_s),
                latency_s => self.coming.push_back((now_s + latency_s, job)),
            }
        } else if phase.n_out == 0 {
            let known = self.play.players[job].profile;
            self.play.end_phase(job, now_s);
            let knows = self.play.players[job].profile;
            if knows != known && self.play.contender.policy.needs_profiles() {
                self.queue.set_profile(Play::id(job), knows);
            }
        }
    }

    /// Gives idle workers something to do.
    fn employ(&mut self, now_s: f64) {
        while self.device.n_in_service() < self.play.settings.n_workers {
            let Some(request) = self.queue.pop(now_s) else { break };
            let job = (request.job.0 - 1) as usize;
            self.device.start(now_s, job, request.bytes as f64);
            if let Some(timeline) = &mut self.play.timeline {
                timeline.add(job, now_s, now_s, request.bytes as f64);
            }
        }
        if self.play.settings.exclusivity == Exclusivity::Strict
            && !self.queue.is_empty()
            && let Some(wake_s) = self.queue.next_wake_s()
            && self.wakes_s.is_none_or(|planned_s| wake_s < planned_s)
        {
            self.wakes_s = Some(wake_s.max(now_s));
            self.play.agenda.plan(wake_s.max(now_s), Event::Wake);
        }
    }
}
