//! The long run in closed form: mean value analysis of the net as a network of queues.
//!
//! Closed systems of endless requests are product-form (Baskett, Chandy, Muntz & Palacios, 1975), and so are single requests that arrive by
//! chance: both are exact here. Bursts of several requests at once are not; then a job is the customer, whose burst is one piece of work at the part of
//! the storage that takes it longest, and what it takes beyond that when it is alone is a delay.

use super::description::{System, Target, Template};
use super::{Means, SystemError};

/// Populations for which the exact recursion is kept in memory, times what is kept of each.
const MOST_KEPT: f64 = 1e7;
/// Work of the exact recursion.
pub(super) const MOST_WORK: f64 = 2e8;
/// Rounds of the approximation.
const MOST_ROUNDS: usize = 10_000;

/// A queue that targets of the same figures have each.
#[derive(Clone, Debug)]
struct Line {
    /// The first target that has it.
    target: usize,
    is_op: bool,
    copies: f64,
    /// Share of the full rate with 1, 2, … requests; beyond, it is 1.
    ramp: Vec<f64>,
    /// Seconds of a request at the full rate, by template, for one of the copies.
    request_s: Vec<f64>,
}

/// Customers of one template.
#[derive(Clone, Debug)]
struct Class {
    template: usize,
    population: f64,
    /// Requests of one round.
    visits: f64,
    /// Seconds of a round that are spent in no queue.
    delay_s: f64,
}

/// Behaviour in the long run.
#[derive(Clone, Debug, PartialEq)]
pub struct LongRun {
    /// Means, with no beginning and no end.
    pub means: Means,
    /// Whether the means are exact.
    pub is_exact: bool,
}

/// Which queues there are.
fn lines(system: &System) -> Vec<Line> {
    let share = 1.0 / system.targets.len() as f64;
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |line: Line| {
        let same = |known: &&mut Line| {
            known.is_op == line.is_op && known.ramp == line.ramp && known.request_s == line.request_s
        };
        match lines.iter_mut().find(same) {
            Some(known) => known.copies += 1.0,
            None => lines.push(line),
        }
    };
    for (index, target) in system.targets.iter().enumerate() {
        if let Some(iops) = target.iops {
            let servers = f64::from(target.servers);
            add(Line {
                target: index,
                is_op: true,
                copies: 1.0,
                ramp: (1..target.servers).map(|n| f64::from(n) / servers).collect(),
                request_s: vec![share / iops; system.templates.len()],
            });
        }
        if let Some(bandwidth_bps) = target.bandwidth_bps {
            add(Line {
                target: index,
                is_op: false,
                copies: 1.0,
                ramp: ramp(target, bandwidth_bps),
                request_s: (system.templates.iter())
                    .map(|template| share * template.request_bytes / bandwidth_bps)
                    .collect(),
            });
        }
    }
    lines
}

/// More streams than this below the full rate count as equal.
const MOST_RAMP: usize = 4096;

fn ramp(target: &Target, bandwidth_bps: f64) -> Vec<f64> {
    let stream_bps = target.stream_bps.unwrap_or(f64::INFINITY);
    (1..=MOST_RAMP).map(|n| n as f64 * stream_bps / bandwidth_bps).take_while(|share| *share < 1.0).collect()
}

/// Seconds of a request that a target without a common bandwidth takes: each stream has its own.
fn own_stream_s(system: &System, template: &Template) -> f64 {
    let own = |target: &Target| match (target.bandwidth_bps, target.stream_bps) {
        (None, Some(stream_bps)) => template.request_bytes / stream_bps,
        _ => 0.0,
    };
    system.targets.iter().map(own).sum::<f64>() / system.targets.len() as f64
}

fn class(system: &System, template: usize, n_jobs: f64) -> Class {
    let figures = &system.templates[template];
    let in_flight = figures.in_flight() as f64;
    let visits = figures.requests.map_or(1.0, |requests| requests as f64 / in_flight);
    // Each request but the first of a process is thought about.
    let thoughts = figures.requests.map_or(1.0, |_| visits - 1.0);
    Class {
        template,
        population: n_jobs * in_flight,
        visits,
        delay_s: thoughts * figures.think_s + visits * own_stream_s(system, figures),
    }
}

/// Rounds per second by class, and requests in a line (one of its copies) by line and class.
struct Solved {
    rounds: Vec<f64>,
    held: Vec<Vec<f64>>,
    is_exact: bool,
}

fn solve(lines: &[Line], classes: &[Class], most_work: f64) -> Solved {
    let n_populations: f64 = classes.iter().map(|class| class.population + 1.0).product();
    let kept: f64 = lines.iter().map(|line| line.ramp.len() as f64 + 2.0).sum();
    if n_populations * kept <= MOST_KEPT && n_populations * kept * classes.len() as f64 <= most_work {
        exact(lines, classes)
    } else {
        approximate(lines, classes)
    }
}

/// The exact recursion over all populations (Reiser & Lavenberg, 1980), with queues whose rate depends on how many they hold.
fn exact(lines: &[Line], classes: &[Class]) -> Solved {
    let sizes: Vec<usize> = classes.iter().map(|class| class.population as usize + 1).collect();
    let strides: Vec<usize> = sizes
        .iter()
        .scan(1, |stride, size| {
            let own = *stride;
            *stride *= size;
            Some(own)
        })
        .collect();
    let n: usize = sizes.iter().product();
    // Of each population: how many a line holds, and how likely it holds 0, 1, … up to where its rate is full.
    let widths: Vec<usize> = lines.iter().map(|line| line.ramp.len() + 1).collect();
    let mut total: Vec<Vec<f64>> = vec![vec![0.0; n]; lines.len()];
    let mut likely: Vec<Vec<f64>> = widths.iter().map(|width| vec![0.0; n * width]).collect();
    for (likely, width) in likely.iter_mut().zip(&widths) {
        likely[..*width].fill(0.0);
        likely[0] = 1.0;
    }
    let mut rounds = vec![0.0; classes.len()];
    let mut waits = vec![vec![0.0; lines.len()]; classes.len()];
    for population in 1..n {
        for (r, class) in classes.iter().enumerate() {
            let here = population / strides[r] % sizes[r];
            rounds[r] = 0.0;
            if here == 0 {
                continue;
            }
            let without = population - strides[r];
            let mut round_s = class.delay_s;
            for (i, line) in lines.iter().enumerate() {
                let own_s = class.visits * line.request_s[class.template];
                let known = &likely[i][without * widths[i]..(without + 1) * widths[i]];
                let slow: f64 = (line.ramp.iter().zip(known).enumerate())
                    .map(|(k, (share, likely))| (k + 1) as f64 * (1.0 / share - 1.0) * likely)
                    .sum();
                waits[r][i] = own_s * (1.0 + total[i][without] + slow);
                round_s += line.copies * waits[r][i];
            }
            rounds[r] = here as f64 / round_s;
        }
        for (i, line) in lines.iter().enumerate() {
            let (mut busy, mut held) = (0.0, 0.0);
            let width = widths[i];
            for (r, class) in classes.iter().enumerate().filter(|(r, _)| rounds[*r] > 0.0) {
                let used = rounds[r] * class.visits * line.request_s[class.template];
                busy += used;
                held += rounds[r] * waits[r][i];
                let without = population - strides[r];
                for (k, share) in line.ramp.iter().enumerate() {
                    let below = likely[i][without * width + k];
                    likely[i][population * width + k + 1] += used * below / share;
                }
            }
            total[i][population] = held;
            let here = &mut likely[i][population * width..(population + 1) * width];
            let slow: f64 =
                line.ramp.iter().zip(&here[1..]).map(|(share, likely)| (1.0 - share) * likely).sum();
            here[0] = (1.0 - busy - slow).max(0.0);
        }
    }
    let held = lines
        .iter()
        .enumerate()
        .map(|(i, _)| classes.iter().enumerate().map(|(r, _)| rounds[r] * waits[r][i]).collect())
        .collect();
    Solved { rounds, held, is_exact: true }
}

/// Schweitzer's approximation (1979); a queue whose rate grows is a full one after a delay (Seidmann, 1987).
fn approximate(lines: &[Line], classes: &[Class]) -> Solved {
    let mut held: Vec<Vec<f64>> = (lines.iter())
        .map(|line| {
            classes.iter().map(|class| class.population / (lines.len() as f64 * line.copies + 1.0)).collect()
        })
        .collect();
    let mut rounds = vec![0.0; classes.len()];
    let mut waits = vec![vec![0.0; lines.len()]; classes.len()];
    for _ in 0..MOST_ROUNDS {
        for (r, class) in classes.iter().enumerate() {
            let mut round_s = class.delay_s;
            for (i, line) in lines.iter().enumerate() {
                let own_s = class.visits * line.request_s[class.template];
                let alone = 1.0 / line.ramp.first().copied().unwrap_or(1.0);
                let seen = held[i].iter().sum::<f64>() - held[i][r] / class.population.max(1.0);
                // Those that are not in line but on the slow way do not stand before it.
                let queued = (seen - (alone - 1.0)).max(seen / alone);
                waits[r][i] = own_s * (alone - 1.0) + own_s * (1.0 + queued);
                if alone > 1.0 && queued <= 1.0 {
                    waits[r][i] = own_s * alone;
                }
                round_s += line.copies * waits[r][i];
            }
            rounds[r] = class.population / round_s;
        }
        let mut change = 0.0f64;
        for (i, held) in held.iter_mut().enumerate() {
            for (r, held) in held.iter_mut().enumerate() {
                let now = rounds[r] * waits[r][i];
                change = change.max((now - *held).abs() / classes[r].population.max(1.0));
                // Half the way: the whole one may go to and fro for ever.
                *held = 0.5 * (*held + now);
            }
        }
        if change < 1e-10 {
            break;
        }
    }
    Solved { rounds, held, is_exact: false }
}

/// The means of the long run, without what changes at known times.
pub fn long_run(system: &System) -> Result<LongRun, SystemError> {
    check_open(system)?;
    match (system.jobs.is_empty(), system.arrivals.is_empty()) {
        (true, false) => Ok(open(system)),
        (false, true) => Ok(closed(system, &jobs_by_template(system), MOST_WORK)),
        _ => Err(SystemError::Method(
            "mva takes either jobs that stay or jobs that arrive, not both; ssa takes both",
        )),
    }
}

fn empty_means(system: &System) -> Means {
    let n = system.templates.len();
    Means {
        span_s: [0.0, f64::INFINITY],
        at_op: vec![0.0; n],
        moving: vec![0.0; n],
        waiting: 0.0,
        op_busy: vec![0.0; system.targets.len()],
        move_busy: vec![0.0; system.targets.len()],
        iops: vec![0.0; n],
        bandwidth_bps: vec![0.0; n],
        burst_s: vec![f64::NAN; n],
    }
}

/// Puts the share of time that a line is busy where its targets are.
fn note_busy(system: &System, means: &mut Means, line: &Line, busy: f64) {
    let figures = &system.targets[line.target];
    for (index, target) in system.targets.iter().enumerate() {
        let is_alike = if line.is_op {
            target.iops == figures.iops && target.servers == figures.servers
        } else {
            target.bandwidth_bps == figures.bandwidth_bps && target.stream_bps == figures.stream_bps
        };
        if is_alike {
            let list = if line.is_op { &mut means.op_busy } else { &mut means.move_busy };
            list[index] = busy;
        }
    }
}

/// How many jobs of each template are there.
pub(super) fn jobs_by_template(system: &System) -> Vec<f64> {
    let mut n_jobs = vec![0.0; system.templates.len()];
    for jobs in &system.jobs {
        n_jobs[jobs.template] += jobs.count as f64;
    }
    n_jobs
}

/// The long run of so many jobs of each template, exactly if that takes no more than so much work.
pub(super) fn closed(system: &System, n_jobs: &[f64], most_work: f64) -> LongRun {
    let bursts = |template: usize| n_jobs[template] > 0.0 && system.templates[template].requests.is_some();
    if (0..n_jobs.len()).any(bursts) {
        of_bursts(system, n_jobs, most_work)
    } else {
        of_requests(system, n_jobs, most_work)
    }
}

/// Jobs whose requests come one by one, without end.
fn of_requests(system: &System, n_jobs: &[f64], most_work: f64) -> LongRun {
    let lines = lines(system);
    let classes: Vec<Class> = (n_jobs.iter().enumerate())
        .filter(|(_, n)| **n > 0.0)
        .map(|(template, n)| class(system, template, *n))
        .collect();
    let solved = solve(&lines, &classes, most_work);
    let mut means = empty_means(system);
    for (r, class) in classes.iter().enumerate() {
        let template = class.template;
        means.iops[template] = solved.rounds[r] * class.visits;
        means.bandwidth_bps[template] = means.iops[template] * system.templates[template].request_bytes;
        let own_s = own_stream_s(system, &system.templates[template]);
        means.moving[template] += solved.rounds[r] * class.visits * own_s;
    }
    for (line, held) in lines.iter().zip(&solved.held) {
        let mut busy = 0.0;
        for (r, class) in classes.iter().enumerate() {
            let places = if line.is_op { &mut means.at_op } else { &mut means.moving };
            places[class.template] += line.copies * held[r];
            busy += solved.rounds[r] * class.visits * line.request_s[class.template];
        }
        if line.is_op {
            let servers = line.ramp.len() as f64 + 1.0;
            means.waiting += line.copies * (held.iter().sum::<f64>() - servers * busy).max(0.0);
        }
        note_busy(system, &mut means, line, busy);
    }
    LongRun { means, is_exact: solved.is_exact }
}

/// Jobs some of which have bursts: a customer is a job, or a process of one that has no bursts.
fn of_bursts(system: &System, n_jobs: &[f64], most_work: f64) -> LongRun {
    let lines = lines(system);
    let n_templates = system.templates.len();
    // What one round wants of each line: all targets work on a burst at once.
    let wanted_s = |line: &Line, template: usize| {
        let figures = &system.templates[template];
        figures.requests.map_or(line.copies, |requests| requests as f64) * line.request_s[template]
    };
    let mut wanted: Vec<Line> = lines.clone();
    for line in &mut wanted {
        (line.copies, line.ramp, line.request_s) = (1.0, Vec::new(), vec![0.0; n_templates]);
    }
    let mut classes = Vec::new();
    for template in (0..n_templates).filter(|template| n_jobs[*template] > 0.0) {
        let figures = &system.templates[template];
        let alone_s = alone(system, template).burst_s;
        let longest = (0..lines.len())
            .max_by(|a, b| wanted_s(&lines[*a], template).total_cmp(&wanted_s(&lines[*b], template)));
        let mut in_line_s = 0.0;
        for (i, line) in lines.iter().enumerate() {
            if figures.requests.is_none() || longest == Some(i) {
                wanted[i].request_s[template] = wanted_s(line, template);
                in_line_s += wanted_s(line, template);
            }
        }
        let (population, between_s) = match figures.requests {
            Some(_) => (n_jobs[template], figures.between_s()),
            None => (n_jobs[template] * figures.processes as f64, 0.0),
        };
        classes.push(Class {
            template,
            population,
            visits: 1.0,
            delay_s: between_s + (alone_s - in_line_s).max(0.0),
        });
    }
    let solved = solve(&wanted, &classes, most_work);
    let mut means = empty_means(system);
    for (r, class) in classes.iter().enumerate() {
        let figures = &system.templates[class.template];
        let requests = figures.requests.map_or(1.0, |requests| requests as f64);
        means.iops[class.template] = solved.rounds[r] * requests;
        means.bandwidth_bps[class.template] = means.iops[class.template] * figures.request_bytes;
        let out = match figures.requests {
            None => class.population,
            Some(_) => {
                let burst_s = class.population / solved.rounds[r] - figures.between_s();
                means.burst_s[class.template] = burst_s;
                solved.rounds[r] * burst_s * figures.in_flight() as f64
            }
        };
        // Where a burst is held up is where its requests are.
        let held = |is_op: bool| -> f64 {
            let those = lines.iter().zip(&solved.held).filter(|(line, _)| line.is_op == is_op);
            those.map(|(_, held)| held[r]).sum()
        };
        let at_op = held(true) / (held(true) + held(false)).max(1e-300);
        means.at_op[class.template] = out * at_op;
        means.moving[class.template] = out * (1.0 - at_op);
    }
    for line in &lines {
        let busy = means.iops.iter().zip(&line.request_s).map(|(per_s, own_s)| per_s * own_s).sum();
        note_busy(system, &mut means, line, busy);
    }
    LongRun { means, is_exact: false }
}

fn open(system: &System) -> LongRun {
    let lines = lines(system);
    let mut means = empty_means(system);
    let mut rates = vec![0.0; system.templates.len()];
    for arrivals in &system.arrivals {
        rates[arrivals.template] += arrivals.per_s * requests_of_life(&system.templates[arrivals.template]);
    }
    let mut response_s = vec![0.0; system.templates.len()];
    for (template, per_s) in rates.iter().enumerate() {
        let figures = &system.templates[template];
        let own_s = own_stream_s(system, figures);
        means.iops[template] = *per_s;
        means.bandwidth_bps[template] = per_s * figures.request_bytes;
        means.moving[template] += per_s * own_s;
        response_s[template] += own_s;
    }
    for line in &lines {
        let used: Vec<f64> = rates.iter().zip(&line.request_s).map(|(per_s, own_s)| per_s * own_s).collect();
        let busy: f64 = used.iter().sum();
        let held = held_open(line, busy);
        for (template, used) in used.iter().enumerate().filter(|(_, used)| **used > 0.0) {
            let places = if line.is_op { &mut means.at_op } else { &mut means.moving };
            let of_template = held * used / busy;
            places[template] += line.copies * of_template;
            response_s[template] += line.copies * of_template / rates[template];
        }
        if line.is_op {
            let servers = line.ramp.len() as f64 + 1.0;
            means.waiting += line.copies * (held - servers * busy).max(0.0);
        }
        note_busy(system, &mut means, line, busy);
    }
    let mut is_exact = true;
    for arrivals in &system.arrivals {
        let template = &system.templates[arrivals.template];
        let rounds = template.requests.map_or(1.0, |requests| requests as f64 / template.in_flight() as f64);
        means.burst_s[arrivals.template] =
            rounds * response_s[arrivals.template] + (rounds - 1.0) * template.think_s;
        is_exact &= template.requests == Some(1);
    }
    LongRun { means, is_exact }
}

/// How many requests are in a line to which so much work comes: a birth and death process.
fn held_open(line: &Line, busy: f64) -> f64 {
    let (mut weight, mut sum, mut held) = (1.0, 1.0, 0.0);
    for (k, share) in line.ramp.iter().enumerate() {
        weight *= busy / share;
        sum += weight;
        held += (k + 1) as f64 * weight;
    }
    // From there on each is `busy` times as likely as the one before.
    let first = line.ramp.len() as f64 + 1.0;
    let tail = weight * busy / (1.0 - busy);
    sum += tail;
    held += tail * (first + busy / (1.0 - busy));
    held / sum
}

fn requests_of_life(template: &Template) -> f64 {
    let requests = template.requests.map_or(f64::INFINITY, |requests| requests as f64);
    template.iterations.map_or(f64::INFINITY, |iterations| iterations as f64) * requests
}

/// Whether what arrives can be done.
pub(super) fn check_open(system: &System) -> Result<(), SystemError> {
    if let Some(index) = system
        .arrivals
        .iter()
        .position(|arrivals| requests_of_life(&system.templates[arrivals.template]).is_infinite())
    {
        let place = format!("arrivals[{index}].template");
        return Err(SystemError::Stays { place });
    }
    let share = 1.0 / system.targets.len() as f64;
    let (mut requests, mut bytes) = (0.0, 0.0);
    for arrivals in &system.arrivals {
        let template = &system.templates[arrivals.template];
        let per_s = arrivals.per_s * requests_of_life(template);
        requests += per_s;
        bytes += per_s * template.request_bytes;
    }
    for (index, target) in system.targets.iter().enumerate() {
        let asked = [("iops", requests, target.iops), ("bandwidth_bps", bytes, target.bandwidth_bps)];
        for (name, wanted, has) in asked {
            let utilization = has.map_or(0.0, |has| share * wanted / has);
            if utilization >= 1.0 {
                let place = format!("storage.targets[{index}].{name}");
                return Err(SystemError::Unbounded { place, utilization });
            }
        }
    }
    Ok(())
}

/// For how long the busiest part of the storage works on so many requests of each template.
pub(super) fn busiest(system: &System, requests: &[f64]) -> f64 {
    let work_s = |line: &Line| requests.iter().zip(&line.request_s).map(|(n, own_s)| n * own_s).sum();
    lines(system).iter().map(work_s).fold(0.0, f64::max)
}

/// A job that has the storage to itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// How long a burst takes; of one without an end, one request of each process.
    pub burst_s: f64,
    /// Bytes a second in the burst.
    pub bandwidth_bps: f64,
}

/// Returns the burst time and the bandwidth of a job of a template when it is alone.
pub fn alone(system: &System, template: usize) -> Alone {
    let class = class(system, template, 1.0);
    let lines = lines(system);
    let (population, visits) = (class.population, class.visits);
    let solved = solve(&lines, &[class], MOST_WORK);
    let rounds = solved.rounds[0];
    Alone {
        burst_s: population / rounds,
        bandwidth_bps: rounds * visits * system.templates[template].request_bytes,
    }
}

/// How long a job of a template takes from one burst to the next when it is alone; of one without an end, one request of each process.
pub(super) fn round_alone_s(system: &System, template: usize) -> f64 {
    let figures = &system.templates[template];
    let between_s = if figures.requests.is_some() { figures.between_s() } else { 0.0 };
    between_s + alone(system, template).burst_s
}

/// Where a system clogs.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// The target.
    pub target: usize,
    /// Whether it is its operations; else its bandwidth.
    pub is_op: bool,
    /// How busy it is in the long run.
    pub utilization: f64,
    /// With so many jobs, mixed as they are, there is as much to do as can be done.
    pub knee_jobs: f64,
    /// By template: how many more jobs until then.
    pub more_jobs: Vec<u64>,
}

/// Where a system of jobs that stay clogs first; `None` where nobody stays, or no queue is.
pub fn saturation(system: &System) -> Option<Saturation> {
    let lines = lines(system);
    let n_jobs = jobs_by_template(system);
    let sum_jobs: f64 = n_jobs.iter().sum();
    if sum_jobs == 0.0 || lines.is_empty() {
        return None;
    }
    let demand_s = |line: &Line, template: usize| {
        let figures = &system.templates[template];
        figures.requests.unwrap_or(figures.in_flight()) as f64 * line.request_s[template]
    };
    let round_s: Vec<f64> =
        (0..system.templates.len()).map(|template| round_alone_s(system, template)).collect();
    let wanted = |line: &Line| -> f64 {
        n_jobs.iter().enumerate().map(|(template, n)| n * demand_s(line, template) / round_s[template]).sum()
    };
    let line = lines.iter().max_by(|a, b| wanted(a).total_cmp(&wanted(b)))?;
    let means = closed(system, &n_jobs, MOST_WORK).means;
    let utilization = if line.is_op { means.op_busy[line.target] } else { means.move_busy[line.target] };
    let mixed =
        |of: &dyn Fn(usize) -> f64| -> f64 { n_jobs.iter().enumerate().map(|(t, n)| n * of(t)).sum() };
    let rest = (1.0 - wanted(line)).max(0.0);
    Some(Saturation {
        target: line.target,
        is_op: line.is_op,
        utilization,
        knee_jobs: mixed(&|template| round_s[template]) / mixed(&|template| demand_s(line, template)),
        more_jobs: (0..system.templates.len())
            .map(|template| {
                let of_one = demand_s(line, template) / round_s[template];
                if of_one > 0.0 { (rest / of_one).floor().min(1e9) as u64 } else { 0 }
            })
            .collect(),
    })
}
