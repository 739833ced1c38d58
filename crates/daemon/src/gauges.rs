//! What goes up and down while a job runs, as two figures of it: mean and maximum.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iotide_ledger::JobKey;

use crate::collect::NodeReading;
use crate::memory;
use crate::store::Figure;

/// How often gauges are looked at.
const EVERY_NS: u64 = 1_000_000_000;

/// The gauges of running jobs.
#[derive(Debug, Default)]
pub struct Gauges {
    jobs: HashMap<JobKey, BTreeMap<&'static str, Seen>>,
    last_ns: u64,
    /// Busy and all time of the processors when they were last looked at.
    processors: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sum: f64,
    n: u64,
    maximum: f64,
}

impl Gauges {
    /// Looks at the machine once a second: what it does while a job runs is measured in that job's name.
    pub fn see<'a>(
        &mut self,
        now_ns: u64,
        running: impl Iterator<Item = &'a JobKey>,
        machine: impl FnOnce() -> Arc<NodeReading>,
    ) {
        if now_ns.saturating_sub(self.last_ns) < EVERY_NS {
            return;
        }
        self.last_ns = now_ns;
        let values = self.values(&machine());
        for key in running {
            let job = self.jobs.entry(key.clone()).or_default();
            for (name, value) in &values {
                job.entry(name).or_default().add(*value);
            }
        }
    }

    /// Sees a gauge of one job, and the most it ever was, where that is known.
    pub fn see_of(&mut self, key: &JobKey, name: &'static str, value: f64, most: Option<f64>) {
        let seen = self.jobs.entry(key.clone()).or_default().entry(name).or_default();
        seen.add(value);
        seen.maximum = most.map_or(seen.maximum, |most| seen.maximum.max(most));
    }

    /// The most that a gauge of a job was.
    pub fn most(figures: &[Figure], name: &str) -> Option<f64> {
        figures.iter().find(|it| it.callpath == name && it.metric == "maximum").map(|it| it.value)
    }

    fn values(&mut self, machine: &NodeReading) -> Vec<(&'static str, f64)> {
        let mut values = Vec::new();
        values.extend(machine.load.map(|[load, ..]| ("node->load", load)));
        values.extend(
            machine.memory.map(|(all, free)| ("node->memory_used_bytes", all.saturating_sub(free) as f64)),
        );
        let all_ns: u64 = machine.cpu_ns.iter().map(|(_, ns)| ns).sum();
        let is_idle = |name: &str| name.starts_with("idle") || name.starts_with("iowait");
        let idle_ns: u64 = machine.cpu_ns.iter().filter(|(name, _)| is_idle(name)).map(|(_, ns)| ns).sum();
        let busy_ns = all_ns - idle_ns;
        if all_ns > 0
            && let Some((busy_before, all_before)) = self.processors.replace((busy_ns, all_ns))
            && all_ns > all_before
        {
            let share = busy_ns.saturating_sub(busy_before) as f64 / (all_ns - all_before) as f64;
            values.push(("node->cpu_share", share.min(1.0)));
        }
        let hottest = machine.temperatures.iter().map(|(_, celsius)| *celsius).reduce(f64::max);
        values.extend(hottest.map(|celsius| ("node->temperature_celsius", celsius)));
        values
    }

    /// What was seen of a job.
    pub fn of(&self, key: &JobKey) -> Vec<Figure> {
        let Some(job) = self.jobs.get(key) else { return Vec::new() };
        let figures = job.iter().flat_map(|(name, seen)| {
            let figure = |metric: &str, value| Figure {
                callpath: (*name).to_owned(),
                metric: metric.to_owned(),
                value,
            };
            [figure("mean", seen.sum / seen.n as f64), figure("maximum", seen.maximum)]
        });
        figures.collect()
    }

    /// Forgets a job that has ended.
    pub fn forget(&mut self, key: &JobKey) {
        self.jobs.remove(key);
        memory::shrink(&mut self.jobs);
    }
}

impl Seen {
    fn add(&mut self, value: f64) {
        self.maximum = if self.n == 0 { value } else { self.maximum.max(value) };
        self.sum += value;
        self.n += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::{JobId, Name};

    #[test]
    fn a_gauge_becomes_its_mean_and_its_maximum_while_the_job_ran() {
        let key =
            |id: &str| JobKey { cluster: Name::default(), uid: 1, id: JobId::new(id).unwrap(), start_ns: 5 };
        let mut gauges = Gauges::default();
        let machine = |load: f64, busy: u64, idle: u64| {
            Arc::new(NodeReading {
                load: Some([load, 0.0, 0.0]),
                cpu_ns: vec![("user", busy), ("idle", idle)],
                memory: Some((100, 40)),
                ..NodeReading::default()
            })
        };
        let (a, b) = (key("a"), key("b"));
        gauges.see(1_000_000_000, [&a].into_iter(), || machine(1.0, 10, 10));
        gauges.see(1_100_000_000, [&a].into_iter(), || panic!("not yet"));
        gauges.see(2_000_000_000, [&a, &b].into_iter(), || machine(4.0, 40, 20));
        let value = |key: &JobKey, callpath: &str, metric: &str| {
            let of = gauges.of(key);
            of.iter().find(|of| of.callpath == callpath && of.metric == metric).map(|of| of.value)
        };
        assert_eq!(
            (value(&a, "node->load", "mean"), value(&a, "node->load", "maximum")),
            (Some(2.5), Some(4.0))
        );
        assert_eq!(value(&b, "node->load", "mean"), Some(4.0));
        assert_eq!(value(&b, "node->cpu_share", "mean"), Some(0.75));
        assert_eq!(value(&a, "node->memory_used_bytes", "maximum"), Some(60.0));
        gauges.forget(&a);
        assert!(gauges.of(&a).is_empty());
    }

    #[test]
    fn of_thousands_of_jobs_that_have_ended_no_room_is_kept() {
        let key = |n: u32| {
            let id = JobId::made_of(&n.to_string());
            JobKey { cluster: Name::default(), uid: 1, id, start_ns: 5 }
        };
        let mut gauges = Gauges::default();
        (0..3000).for_each(|n| gauges.see_of(&key(n), "cgroup->memory_bytes", 5.0, None));
        assert!(gauges.jobs.capacity() >= 3000);
        (0..3000).for_each(|n| gauges.forget(&key(n)));
        assert!(gauges.jobs.is_empty() && gauges.jobs.capacity() < 200, "{}", gauges.jobs.capacity());
    }
}
