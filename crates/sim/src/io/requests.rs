//! Requests at servers: workers take them from queues and share devices.

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
    let n_queues = if settings.coordinated { 1 } else { settings.n_servers };
    let mut queues: Vec<Queue> = (0..n_queues).map(|_| Queue::new(config)).collect();
    if contender.policy.needs_profiles() {
        for (job, player) in play.players.iter().enumerate() {
            queues.iter_mut().for_each(|queue| queue.set_profile(Play::id(job), player.profile));
        }
    }
    // A job alone has the workload's bandwidth, from all the targets it uses together.
    let device = Device::new(workload.bandwidth_bps / settings.n_stripes as f64);
    let mut servers = Servers {
        play,
        queues,
        devices: vec![device; settings.n_servers],
        phases: vec![Phase::default(); workload.jobs.len()],
        coming: VecDeque::new(),
        n_requests: 0,
        wakes_s: None,
    };
    servers.run();
    Outcome { n_requests: servers.n_requests, ..servers.play.outcome() }
}

struct Servers<'a> {
    play: Play<'a>,
    /// One for each device, or one for all of them.
    queues: Vec<Queue>,
    devices: Vec<Device>,
    phases: Vec<Phase>,
    /// Requests on their way: all take equally long, so they come as they were sent.
    coming: VecDeque<(f64, usize)>,
    n_requests: u64,
    /// When the next [`Event::Wake`] is planned.
    wakes_s: Option<f64>,
}

/// Rest of a job's phase.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    bytes_to_send: u64,
    /// How much each of its requests brings.
    request_bytes: u64,
    n_sent: usize,
    n_out: usize,
}

impl Servers<'_> {
    fn run(&mut self) {
        let mut now_s = 0.0;
        while !self.play.is_over(now_s) {
            let (end_s, device) = self.next_end();
            let come_s = self.coming.front().map_or(f64::INFINITY, |&(come_s, _)| come_s);
            let plan_s = self.play.agenda.next_s().unwrap_or(f64::INFINITY);
            if end_s <= come_s && end_s <= plan_s {
                let Some((end_s, job)) = self.devices[device].finish() else { return };
                now_s = end_s;
                self.served(job, device, now_s);
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

    /// When the next request is served, and by which device.
    fn next_end(&self) -> (f64, usize) {
        let ends = self.devices.iter().enumerate().filter_map(|(n, device)| Some((device.next_end_s()?, n)));
        ends.min_by(|(a, _), (b, _)| a.total_cmp(b)).unwrap_or((f64::INFINITY, 0))
    }

    /// The queue that decides for a device.
    fn queue_of(&mut self, device: usize) -> &mut Queue {
        let at = if self.queues.len() == 1 { 0 } else { device };
        &mut self.queues[at]
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
            n_sent: 0,
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
        // Stripes in turn, the first where the jobs before it have ended.
        let &IoSettings { n_servers, n_stripes, .. } = self.play.settings;
        let device = (job * n_stripes + phase.n_sent % n_stripes) % n_servers;
        phase.n_sent += 1;
        let request = Request { job: Play::id(job), bytes, id: device as u64, arrival_s: now_s };
        self.queue_of(device).push(request);
    }

    fn served(&mut self, job: usize, device: usize, now_s: f64) {
        self.n_requests += 1;
        self.queue_of(device).complete(Play::id(job), now_s);
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
                self.queues.iter_mut().for_each(|queue| queue.set_profile(Play::id(job), knows));
            }
        }
    }

    /// Gives idle workers something to do.
    fn employ(&mut self, now_s: f64) {
        let n_devices = self.devices.len() / self.queues.len();
        let mut wakes_s: Option<f64> = None;
        for (at, queue) in self.queues.iter_mut().enumerate() {
            let devices = &mut self.devices[at * n_devices..(at + 1) * n_devices];
            let mut n_in_service: usize = devices.iter().map(Device::n_in_service).sum();
            while n_in_service < n_devices * self.play.settings.n_workers {
                let Some(request) = queue.pop(now_s) else { break };
                let job = (request.job.0 - 1) as usize;
                devices[request.id as usize - at * n_devices].start(now_s, job, request.bytes as f64);
                n_in_service += 1;
                if let Some(timeline) = &mut self.play.timeline {
                    timeline.add(job, now_s, now_s, request.bytes as f64);
                }
            }
            // Where all are busy, the next one that is free looks again; there is no other time to wait for.
            if n_in_service < n_devices * self.play.settings.n_workers && !queue.is_empty() {
                let queue_wakes_s = queue.next_wake_s();
                wakes_s = [wakes_s, queue_wakes_s].into_iter().flatten().min_by(f64::total_cmp);
            }
        }
        if self.play.settings.exclusivity != Exclusivity::Strict {
            return;
        }
        if let Some(wake_s) = wakes_s
            && self.wakes_s.is_none_or(|planned_s| wake_s < planned_s)
        {
            self.wakes_s = Some(wake_s.max(now_s));
            self.play.agenda.plan(wake_s.max(now_s), Event::Wake);
        }
    }
}
