//! A run, from one change of rates to the next.

use iotide_num::SplitMix64;
use iotide_sched::staging::{Controller, Decision, Forecast, Seen, Settings, State};

use super::{StagingSettings, StagingWorkload};

/// A run that takes more steps than this is given up.
const MOST_STEPS: u64 = 20_000_000;
/// Of what is to be drawn, more is left out.
const MOST_SAMPLES: usize = 200_000;
/// Less than a byte is rounding.
const LEAST_BYTES: f64 = 0.5;
/// The job's I/O is seen at once; nothing is quicker than this.
const LEAST_SILENCE_S: f64 = 1e-6;
/// How often the controller is asked in a phase.
const TICK_S: f64 = 0.1;
/// A start lies within so many standard deviations with a probability of 80 %.
const DEVIATIONS_OF_80_PERCENT: f64 = 1.2816;
/// The confidence of predictions; what is idle is as probable.
const CONFIDENCE: f64 = 0.95;

/// How a job and its data fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the job was over; `None` if the buffer filled and nothing could be removed.
    pub run_time_s: Option<f64>,
    /// The same without any staging, in a buffer without limit.
    pub alone_s: f64,
    /// How long after the end of the job everything was safe.
    pub safe_after_end_s: Option<f64>,
    /// The most that was in the buffer.
    pub peak_buffer_bytes: f64,
    /// How long data was moved while the job wrote.
    pub interference_s: f64,
    /// Time that the job lost because the buffer was full.
    pub stalled_s: f64,
    /// Bytes that a crash would have lost on average, at any time until everything was safe.
    pub mean_loss_bytes: f64,
    /// The most that a crash would have cost.
    pub max_loss_bytes: f64,
    /// How often moving began.
    pub flushes: u64,
    /// How long data was moved.
    pub moving_s: f64,
    /// The highest rate of it.
    pub peak_rate_bps: f64,
    /// How long each state lasted, in the order of [`State::ALL`].
    pub states_s: [f64; 6],
    /// Level, and what was done about it.
    pub samples: Vec<Sample>,
    /// When phases began and ended.
    pub phases_s: Vec<(f64, f64)>,
}

/// From a moment on, until the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The moment.
    pub at_s: f64,
    /// Bytes in the buffer.
    pub used_bytes: f64,
    /// Bytes of these that were nowhere else.
    pub unsafe_bytes: f64,
    /// State that the controller reported.
    pub state: State,
}

/// Runs the workload; `None` if it takes too many steps.
pub fn run_staging(workload: &StagingWorkload, settings: &StagingSettings) -> Option<Outcome> {
    let mut run = Run::new(workload, settings);
    for _ in 0..MOST_STEPS {
        if run.is_done() {
            return Some(run.outcome());
        }
        run.step();
    }
    None
}

struct Run<'a> {
    workload: &'a StagingWorkload,
    settings: &'a StagingSettings,
    controller: Controller,
    random: SplitMix64,
    /// Phases that are to come, the next one last.
    to_come: Vec<(f64, f64)>,
    job: Job,
    now_s: f64,
    written_bytes: f64,
    moved_bytes: f64,
    /// Bytes written since the controller was last updated.
    untold_bytes: f64,
    /// The piece that is being moved although nothing more should be: its rate, and its end.
    last_piece: Option<(f64, f64)>,
    /// The rate at which data was moved last.
    rate_bps: f64,
    n_phases: u64,
    phase_start_s: f64,
    is_stuck: bool,
    outcome: Outcome,
    loss_byte_seconds: f64,
}

/// Activity of the job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Computes { until_s: f64, then_bytes: f64 },
    Writes { left_bytes: f64, phase_bytes: f64 },
    Over { since_s: f64 },
}

/// Rates that hold until something changes.
struct Flow {
    /// Into the buffer.
    write_bps: f64,
    /// Out of it.
    move_bps: f64,
    /// Share of the time that the job is kept from writing.
    stalled: f64,
}

impl<'a> Run<'a> {
    fn new(workload: &'a StagingWorkload, settings: &'a StagingSettings) -> Self {
        let mut random = SplitMix64::new(settings.seed);
        let jitter = settings.jitter.unwrap_or(workload.jitter);
        let mut to_come = Vec::new();
        for part in &workload.parts {
            for _ in 0..part.phases {
                // Cut off at four deviations, and never below nothing.
                let factor = (1.0 + jitter * random.normal().clamp(-4.0, 4.0)).max(0.0);
                to_come.push((part.compute_s * factor, part.phase_bytes));
            }
        }
        to_come.reverse();
        let alone_s = to_come.iter().map(|(compute_s, bytes)| compute_s + bytes / workload.buffer_bps).sum();
        let mut run = Self {
            workload,
            settings,
            controller: Controller::new(Settings {
                capacity_bytes: workload.capacity_bytes,
                high_water: workload.high_water,
                is_purged: workload.is_purged,
                quiet_s: settings.quiet_s.max(LEAST_SILENCE_S),
                recent_s: settings.recent_s.max(LEAST_SILENCE_S),
                bandwidth_bps: settings.bandwidth_bps,
                chunk_s: settings.chunk_s,
                ..Settings::new(settings.policy)
            }),
            random,
            to_come,
            job: Job::Over { since_s: 0.0 },
            now_s: 0.0,
            written_bytes: 0.0,
            moved_bytes: 0.0,
            untold_bytes: 0.0,
            last_piece: None,
            rate_bps: 0.0,
            n_phases: 0,
            phase_start_s: 0.0,
            is_stuck: false,
            outcome: Outcome {
                run_time_s: None,
                alone_s,
                safe_after_end_s: None,
                peak_buffer_bytes: 0.0,
                interference_s: 0.0,
                stalled_s: 0.0,
                mean_loss_bytes: 0.0,
                max_loss_bytes: 0.0,
                flushes: 0,
                moving_s: 0.0,
                peak_rate_bps: 0.0,
                states_s: [0.0; 6],
                samples: Vec::new(),
                phases_s: Vec::new(),
            },
            loss_byte_seconds: 0.0,
        };
        run.next_phase();
        run
    }

    fn is_done(&self) -> bool {
        self.is_stuck || (matches!(self.job, Job::Over { .. }) && self.unsafe_bytes() < LEAST_BYTES)
    }

    fn outcome(mut self) -> Outcome {
        if let Job::Over { since_s } = self.job {
            self.outcome.run_time_s = Some(since_s);
            self.outcome.safe_after_end_s = Some(self.now_s - since_s);
        }
        self.outcome.mean_loss_bytes =
            if self.now_s > 0.0 { self.loss_byte_seconds / self.now_s } else { 0.0 };
        self.sample(State::Idle);
        self.outcome
    }

    /// Asks the controller, and lets everything flow until something changes.
    fn step(&mut self) {
        if matches!(self.job, Job::Writes { .. }) {
            self.controller.activity(self.now_s, self.untold_bytes);
            self.untold_bytes = 0.0;
        }
        let decision = self.controller.decide(&Seen {
            now_s: self.now_s,
            used_bytes: self.used_bytes(),
            eligible_bytes: self.eligible_bytes(),
            is_over: matches!(self.job, Job::Over { .. }),
            has_fault: false,
        });
        self.sample(decision.state);
        let flow = self.flow(&decision);
        let dt_s = self.until_change_s(&decision, &flow);
        if !dt_s.is_finite() {
            self.is_stuck = true;
            return;
        }
        self.pass(&decision, &flow, dt_s);
    }

    fn used_bytes(&self) -> f64 {
        if self.workload.is_purged { self.unsafe_bytes() } else { self.written_bytes }
    }

    fn unsafe_bytes(&self) -> f64 {
        self.written_bytes - self.moved_bytes
    }

    /// Returns the bytes that the buffer can still take.
    fn room_bytes(&self) -> f64 {
        whole(self.workload.capacity_bytes.map_or(f64::INFINITY, |bytes| bytes - self.used_bytes()))
    }

    /// Returns the bytes in files that are closed, and not moved yet.
    fn eligible_bytes(&self) -> f64 {
        let Job::Writes { left_bytes, phase_bytes } = self.job else { return whole(self.unsafe_bytes()) };
        match self.workload.files {
            // Something closes at every moment.
            None => whole(self.unsafe_bytes()).max(f64::MIN_POSITIVE),
            Some(files) => {
                let file_bytes = phase_bytes / files as f64;
                let written_bytes = phase_bytes - left_bytes;
                // A file is closed with its last byte: what is missing of a byte is rounding.
                let n_closed = ((written_bytes + LEAST_BYTES) / file_bytes).floor().min(files as f64);
                let open_bytes = (written_bytes - n_closed * file_bytes).max(0.0);
                whole(self.unsafe_bytes() - open_bytes)
            }
        }
    }

    fn flow(&mut self, decision: &Decision) -> Flow {
        let most_bps = decision.limit_bps.unwrap_or(f64::INFINITY).min(self.workload.pfs_bps);
        let mut move_bps = if decision.state.is_moving() {
            self.last_piece = None;
            most_bps
        } else {
            self.last_piece(decision.state)
        };
        let Job::Writes { .. } = self.job else {
            if self.eligible_bytes() <= 0.0 {
                move_bps = 0.0;
            }
            return Flow { write_bps: 0.0, move_bps, stalled: 0.0 };
        };
        if self.workload.files.is_none() && self.unsafe_bytes() < LEAST_BYTES {
            // No more can be moved than is written.
            move_bps = move_bps.min(self.workload.buffer_bps / 2.0);
        } else if self.eligible_bytes() <= 0.0 {
            move_bps = 0.0;
        }
        let free_bps = self.workload.buffer_bps - move_bps;
        let is_full = self.room_bytes() <= 0.0;
        let freed_bps = if self.workload.is_purged { move_bps } else { 0.0 };
        let write_bps = if is_full { free_bps.min(freed_bps) } else { free_bps };
        Flow { write_bps, move_bps, stalled: 1.0 - write_bps / free_bps }
    }

    /// The piece that is on its way when moving has to stop is still moved.
    fn last_piece(&mut self, state: State) -> f64 {
        if state != State::Hold || self.rate_bps <= 0.0 {
            self.last_piece = None;
            return 0.0;
        }
        let (rate_bps, until_s) =
            *self.last_piece.get_or_insert((self.rate_bps, self.now_s + self.settings.chunk_s));
        if self.now_s < until_s { rate_bps } else { 0.0 }
    }

    fn until_change_s(&self, decision: &Decision, flow: &Flow) -> f64 {
        let mut dt_s = f64::INFINITY;
        let mut at_most = |limit_s: f64| {
            if limit_s > 0.0 {
                dt_s = dt_s.min(limit_s);
            }
        };
        let look_again_s = decision.look_again_s - self.now_s;
        match self.job {
            Job::Computes { until_s, .. } => {
                at_most(until_s - self.now_s);
                at_most(look_again_s);
            }
            Job::Writes { left_bytes, phase_bytes } => {
                if flow.write_bps > 0.0 {
                    at_most(left_bytes / flow.write_bps);
                    if let Some(files) = self.workload.files {
                        let file_bytes = phase_bytes / files as f64;
                        let written_bytes = phase_bytes - left_bytes;
                        let n_closed = ((written_bytes + LEAST_BYTES) / file_bytes).floor();
                        at_most(((n_closed + 1.0) * file_bytes - written_bytes) / flow.write_bps);
                    }
                    let grows_bps =
                        flow.write_bps - if self.workload.is_purged { flow.move_bps } else { 0.0 };
                    if grows_bps > 0.0 {
                        at_most(self.room_bytes() / grows_bps);
                    }
                } else if flow.move_bps <= 0.0 {
                    // Nothing goes in and nothing goes out: it stays so, whoever is asked.
                    return f64::INFINITY;
                }
                // While the job writes, the controller is told so all the time.
                if self.workload.capacity_bytes.is_some() {
                    let usual_s = phase_bytes / self.workload.buffer_bps;
                    at_most(look_again_s.max(TICK_S.max(usual_s / 200.0)));
                }
            }
            Job::Over { .. } => {}
        }
        if flow.move_bps > 0.0 {
            // As long as something is there. What closes meanwhile comes on top, if all files close evenly.
            let comes_bps = if self.workload.files.is_none() { flow.write_bps } else { 0.0 };
            let there_bytes =
                if self.workload.files.is_none() { self.unsafe_bytes() } else { self.eligible_bytes() };
            if flow.move_bps > comes_bps {
                at_most(there_bytes / (flow.move_bps - comes_bps));
            }
            if let Some((_, until_s)) = self.last_piece {
                at_most(until_s - self.now_s);
            }
        }
        dt_s
    }

    fn pass(&mut self, decision: &Decision, flow: &Flow, dt_s: f64) {
        let before_bytes = self.unsafe_bytes();
        let written_bytes = flow.write_bps * dt_s;
        let moved_bytes = (flow.move_bps * dt_s).min(before_bytes + written_bytes);
        self.written_bytes += written_bytes;
        self.untold_bytes += written_bytes;
        self.moved_bytes += moved_bytes;
        let is_writing = matches!(self.job, Job::Writes { .. });
        let outcome = &mut self.outcome;
        if moved_bytes > 0.0 {
            // The controller wants to know how fast storage is, not what it allowed.
            if self.rate_bps <= 0.0 || self.controller.rate_bps().is_none() {
                self.controller.moved(self.workload.pfs_bps * dt_s, dt_s);
            }
            if self.rate_bps <= 0.0 {
                outcome.flushes += 1;
            }
            outcome.moving_s += dt_s;
            outcome.peak_rate_bps = outcome.peak_rate_bps.max(flow.move_bps);
            if is_writing {
                outcome.interference_s += dt_s;
            }
        }
        self.rate_bps = if moved_bytes > 0.0 { flow.move_bps } else { 0.0 };
        outcome.stalled_s += flow.stalled * dt_s;
        let index = State::ALL.iter().position(|&state| state == decision.state);
        outcome.states_s[index.unwrap_or(0)] += dt_s;
        let after_bytes = self.unsafe_bytes();
        self.loss_byte_seconds += (before_bytes + after_bytes) / 2.0 * dt_s;
        self.now_s += dt_s;
        self.outcome.max_loss_bytes = self.outcome.max_loss_bytes.max(after_bytes);
        self.outcome.peak_buffer_bytes = self.outcome.peak_buffer_bytes.max(self.used_bytes());
        self.advance_job(written_bytes);
    }

    fn advance_job(&mut self, written_bytes: f64) {
        match &mut self.job {
            Job::Computes { until_s, then_bytes } => {
                if self.now_s >= *until_s {
                    self.phase_start_s = self.now_s;
                    self.job = Job::Writes { left_bytes: *then_bytes, phase_bytes: *then_bytes };
                }
            }
            Job::Writes { left_bytes, phase_bytes } => {
                *left_bytes -= written_bytes;
                if *left_bytes < LEAST_BYTES {
                    let phase_bytes = *phase_bytes;
                    self.end_phase(phase_bytes);
                }
            }
            Job::Over { .. } => {}
        }
    }

    fn end_phase(&mut self, phase_bytes: f64) {
        self.n_phases += 1;
        self.outcome.phases_s.push((self.phase_start_s, self.now_s));
        self.controller.activity(self.now_s, self.untold_bytes);
        self.untold_bytes = 0.0;
        self.next_phase();
        let is_lost = self.settings.lost_after_phases.is_some_and(|n| self.n_phases > n);
        if is_lost {
            self.controller.forecast(self.now_s, None);
        } else if self.n_phases >= self.settings.warm_up_phases {
            let forecast = self.forecast(phase_bytes);
            self.controller.forecast(self.now_s, forecast);
        }
    }

    /// The job computes again, or is over.
    fn next_phase(&mut self) {
        self.job = match self.to_come.pop() {
            Some((compute_s, then_bytes)) if compute_s > 0.0 => {
                Job::Computes { until_s: self.now_s + compute_s, then_bytes }
            }
            Some((_, then_bytes)) => {
                self.phase_start_s = self.now_s;
                Job::Writes { left_bytes: then_bytes, phase_bytes: then_bytes }
            }
            None => Job::Over { since_s: self.now_s },
        };
    }

    /// Returns the prediction a predictor would make: phases come as they came, give or take.
    fn forecast(&mut self, phase_bytes: f64) -> Option<Forecast> {
        let [.., before, last] = self.outcome.phases_s[..] else { return None };
        let period_s = last.0 - before.0;
        let mut index = self.n_phases - 1;
        let part = self.workload.parts.iter().find(|part| {
            let is_here = index < part.phases;
            index = index.saturating_sub(if is_here { 0 } else { part.phases });
            is_here
        })?;
        let wrong_s = self.settings.error * period_s * self.random.normal().clamp(-4.0, 4.0);
        let start_s = (self.now_s + part.compute_s + wrong_s).max(self.now_s);
        let jitter_s = self.settings.jitter.unwrap_or(self.workload.jitter) * part.compute_s;
        let half_s = DEVIATIONS_OF_80_PERCENT * (self.settings.error * period_s).hypot(jitter_s);
        Some(Forecast {
            at_s: self.now_s,
            confidence: CONFIDENCE,
            period_s,
            start_s,
            start_interval_s: ((start_s - half_s).max(self.now_s), start_s + half_s),
            bytes: phase_bytes,
            duration_s: last.1 - last.0,
            idle_probability: CONFIDENCE,
        })
    }

    /// Notes where things stand, if that is not on the line of the last two.
    fn sample(&mut self, state: State) {
        let sample = Sample {
            at_s: self.now_s,
            used_bytes: self.used_bytes(),
            unsafe_bytes: self.unsafe_bytes(),
            state,
        };
        let samples = &mut self.outcome.samples;
        if let [.., a, b] = samples[..]
            && a.state == b.state
            && is_on_line(&a, &b, &sample)
        {
            samples.pop();
        }
        if samples.len() < MOST_SAMPLES {
            samples.push(sample);
        }
    }
}

/// Returns `bytes`, or 0 if it is less than a byte.
fn whole(bytes: f64) -> f64 {
    if bytes < LEAST_BYTES { 0.0 } else { bytes }
}

/// Whether `b` can be left out.
fn is_on_line(a: &Sample, b: &Sample, c: &Sample) -> bool {
    let whole_s = c.at_s - a.at_s;
    if whole_s <= 0.0 {
        return true;
    }
    let share = (b.at_s - a.at_s) / whole_s;
    let is_near = |a: f64, b: f64, c: f64| {
        let between = a + share * (c - a);
        (between - b).abs() <= 1e-6 * (a.abs() + b.abs() + c.abs() + 1.0)
    };
    is_near(a.used_bytes, b.used_bytes, c.used_bytes)
        && is_near(a.unsafe_bytes, b.unsafe_bytes, c.unsafe_bytes)
}
