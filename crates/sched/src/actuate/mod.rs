//! A decision as what a real system must be told: files of BeeGFS's configfs, or rules of Lustre's token buckets.
//!
//! A [`Controller`] is told of the jobs again and again and answers with the [`Action`]s that bring the system from what it
//! was told before to what is right now. It does nothing itself: a front end carries the actions out, or prints them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use crate::{JobId, Order, Placement, SetId};

pub use nrs_policies::former_policies;

mod nrs_policies;

/// Something that can be told who matters how much.
pub trait Controller {
    /// Returns what to do so that the system treats these jobs as they deserve, and forgets all others.
    ///
    /// A job whose id the system could misunderstand is left alone: see [`is_plain_id`].
    fn update(&mut self, jobs: &[ControlledJob]) -> Vec<Action>;

    /// Notes that an action could not be carried out, or nobody knows whether it was: the next update tries anew.
    fn failed(&mut self, action: &Action);

    /// Returns what to do so that nothing of what was done before is left.
    fn withdraw(&mut self) -> Vec<Action>;
}

/// A job as a controller sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlledJob {
    /// Its id in the system's own words.
    pub id: String,
    /// Its set, and what that is worth.
    pub placement: Placement,
    /// Since when it has been doing I/O, if it is.
    pub active_since_s: Option<f64>,
    /// Requests a second that it was seen to send.
    pub demand_rps: f64,
}

/// One step on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a directory.
    MakeDirectory(PathBuf),
    /// Write a line into a file that is there.
    Write {
        /// The file.
        path: PathBuf,
        /// The line, without its end.
        line: String,
    },
    /// Remove an empty directory.
    RemoveDirectory(PathBuf),
    /// Run a program.
    Run(Vec<String>),
}

impl fmt::Display for Action {
    /// As one would type it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::MakeDirectory(path) => write!(f, "mkdir {}", quoted(&path.to_string_lossy())),
            Action::Write { path, line } => {
                write!(f, "echo {} > {}", quoted(line), quoted(&path.to_string_lossy()))
            }
            Action::RemoveDirectory(path) => write!(f, "rmdir {}", quoted(&path.to_string_lossy())),
            Action::Run(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Whether an id is made of letters, digits and `. _ : @ -` alone, does not begin with a dot, and is not too long.
///
/// Anything else could leave its directory or end its rule.
pub fn is_plain_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
    (1..=64).contains(&id.len()) && !id.starts_with('.') && id.chars().all(is_plain)
}

/// Priorities as files of the kernel's configfs, for BeeGFS with RR-9537's change: a directory per job, and in its
/// `priority` a whole number.
#[derive(Clone, Debug)]
pub struct ConfigFs {
    root: PathBuf,
    written: BTreeMap<String, u32>,
}

impl ConfigFs {
    /// Where RR-9537's kernel module has its directories.
    pub const ROOT: &str = "/sys/kernel/config/iosets";

    /// Returns a controller of the directories under `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), written: BTreeMap::new() }
    }

    /// Priorities as whole numbers, with room for six orders of magnitude below a second's; the server looks at ratios.
    fn whole(priority: f64) -> u32 {
        (priority * 1e6).round().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

impl Controller for ConfigFs {
    fn update(&mut self, jobs: &[ControlledJob]) -> Vec<Action> {
        let wanted: BTreeMap<String, u32> = jobs
            .iter()
            .filter(|job| is_plain_id(&job.id))
            .map(|job| (job.id.clone(), Self::whole(job.placement.priority)))
            .collect();
        let mut actions = Vec::new();
        for id in self.written.keys().filter(|id| !wanted.contains_key(*id)) {
            actions.push(Action::RemoveDirectory(self.root.join(id)));
        }
        for (id, priority) in &wanted {
            let before = self.written.get(id);
            if before.is_none() {
                actions.push(Action::MakeDirectory(self.root.join(id)));
            }
            if before != Some(priority) {
                let path = self.root.join(id).join("priority");
                actions.push(Action::Write { path, line: priority.to_string() });
            }
        }
        self.written = wanted;
        actions
    }

    fn failed(&mut self, action: &Action) {
        let directory = match action {
            Action::MakeDirectory(path) => Some(path.as_path()),
            Action::Write { path, .. } => path.parent(),
            Action::RemoveDirectory(_) | Action::Run(_) => None,
        };
        // Making a directory that is there does no harm.
        self.written.retain(|id, _| directory != Some(&self.root.join(id)));
    }

    fn withdraw(&mut self) -> Vec<Action> {
        self.update(&[])
    }
}

/// Rates as rules of Lustre's token bucket filter, one per job.
///
/// A rule caps a job's RPCs even when nobody else wants the storage, so rates are told anew every second or two from what
/// jobs were seen to send: what one leaves, others get ([`divide`]).
#[derive(Clone, Debug)]
pub struct LustreTbf {
    settings: TbfSettings,
    /// Policies of the server before, restored later.
    former: Vec<String>,
    is_enabled: bool,
    n_rules: u64,
    rules: BTreeMap<String, Rule>,
    /// Rules that could not be started or changed, and may be there or not.
    doubtful: Vec<String>,
}

/// Capabilities of a Lustre server, and how it is configured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TbfSettings {
    /// RPCs a second that the server can take from all jobs together.
    pub capacity_rps: f64,
    /// Least rate of every job, so that a job that begins is seen.
    pub least_rps: f64,
    /// How much more than it was seen to send a job may send, as a share of it.
    pub headroom: f64,
    /// Which job of a set goes first.
    pub order: Order,
}

impl Default for TbfSettings {
    fn default() -> Self {
        Self { capacity_rps: 10_000.0, least_rps: 10.0, headroom: 0.25, order: Order::FirstCome }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    name: String,
    rate: u64,
}

impl LustreTbf {
    /// Returns a controller that has told nothing yet.
    pub fn new(settings: TbfSettings) -> Self {
        Self {
            settings,
            former: vec!["fifo".to_owned()],
            is_enabled: false,
            n_rules: 0,
            rules: BTreeMap::new(),
            doubtful: Vec::new(),
        }
    }

    /// Command that shows which policies a server uses; its output is for [`former_policies`].
    pub const SEE_POLICIES: [&str; 4] = ["lctl", "get_param", "-n", "ost.OSS.ost_io.nrs_policies"];

    /// Notes what the server does now, so that it is put back in the end.
    pub fn with_former_policies(mut self, former: Vec<String>) -> Self {
        if !former.is_empty() {
            self.former = former;
        }
        self
    }

    fn set(parameter: &str, value: String) -> Action {
        Action::Run(vec!["lctl".into(), "set_param".into(), format!("ost.OSS.ost_io.{parameter}={value}")])
    }
}

impl Controller for LustreTbf {
    fn update(&mut self, jobs: &[ControlledJob]) -> Vec<Action> {
        let jobs: Vec<ControlledJob> = jobs.iter().filter(|job| is_plain_id(&job.id)).cloned().collect();
        let allowed: BTreeMap<&str, f64> =
            self.rules.iter().map(|(id, rule)| (id.as_str(), rule.rate as f64)).collect();
        let rates = divide(&jobs, &allowed, &self.settings);
        let mut actions = Vec::new();
        if !self.is_enabled && !jobs.is_empty() {
            actions.push(Self::set("nrs_policies", "tbf jobid".into()));
            self.is_enabled = true;
        }
        for name in self.doubtful.drain(..) {
            actions.push(Self::set("nrs_tbf_rule", format!("stop {name}")));
        }
        let ids: BTreeSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        self.rules.retain(|id, rule| {
            let stays = ids.contains(id.as_str());
            if !stays {
                actions.push(Self::set("nrs_tbf_rule", format!("stop {}", rule.name)));
            }
            stays
        });
        for (job, rate) in jobs.iter().zip(rates) {
            let rate = rate.round().max(1.0) as u64;
            match self.rules.get_mut(&job.id) {
                None => {
                    // Lustre's names have at most 15 letters; ids have more.
                    self.n_rules += 1;
                    let name = format!("iotide{}", self.n_rules);
                    let rule = format!("start {name} jobid={{{}}} rate={rate}", job.id);
                    actions.push(Self::set("nrs_tbf_rule", rule));
                    self.rules.insert(job.id.clone(), Rule { name, rate });
                }
                // What hardly changes is not worth a word to every server.
                Some(rule) if rate.abs_diff(rule.rate) as f64 > 0.05 * rule.rate as f64 => {
                    rule.rate = rate;
                    actions.push(Self::set("nrs_tbf_rule", format!("change {} rate={rate}", rule.name)));
                }
                Some(_) => {}
            }
        }
        actions
    }

    /// A rule under a new name takes the place of one that could not be started or changed: an earlier run that was killed
    /// may have left its own behind, and a server that was started again knows none.
    fn failed(&mut self, action: &Action) {
        let Action::Run(words) = action else { return };
        let Some((parameter, value)) = words.last().and_then(|word| word.split_once('=')) else { return };
        let mut value = value.split(' ');
        match (value.next(), value.next()) {
            (Some("start" | "change"), Some(name)) => {
                self.rules.retain(|_, rule| rule.name != name);
                self.doubtful.push(name.to_owned());
            }
            (Some("tbf"), _) if parameter.ends_with("nrs_policies") => self.is_enabled = false,
            // A rule that cannot be stopped is not there, or the server is not.
            _ => {}
        }
    }

    fn withdraw(&mut self) -> Vec<Action> {
        let names = std::mem::take(&mut self.rules).into_values().map(|rule| rule.name);
        let mut actions: Vec<Action> = names
            .chain(self.doubtful.drain(..))
            .map(|name| Self::set("nrs_tbf_rule", format!("stop {name}")))
            .collect();
        if std::mem::take(&mut self.is_enabled) {
            actions.extend(self.former.iter().map(|policy| Self::set("nrs_policies", policy.clone())));
        }
        actions
    }
}

/// Returns the rate of each job: sets share by priority, inside a set the one that has done I/O longest goes first, and
/// what one cannot use others get.
///
/// A job wants what it was seen to send and some headroom; one that sent nearly all it was `allowed` may want anything.
/// The sum exceeds the capacity by headroom and least rates only.
pub fn divide(jobs: &[ControlledJob], allowed: &BTreeMap<&str, f64>, settings: &TbfSettings) -> Vec<f64> {
    let TbfSettings { capacity_rps, least_rps, headroom, order } = *settings;
    let wants: Vec<f64> = jobs
        .iter()
        .map(|job| match (job.active_since_s, allowed.get(job.id.as_str())) {
            (None, _) => least_rps,
            (Some(_), Some(&allowed)) if job.demand_rps < 0.9 * allowed => {
                (job.demand_rps * (1.0 + headroom)).max(least_rps)
            }
            _ => f64::INFINITY,
        })
        .collect();
    // In each set, whoever came first, or has the lowest id.
    let mut turns: Vec<usize> = (0..jobs.len()).filter(|&i| jobs[i].active_since_s.is_some()).collect();
    turns.sort_by(|&a, &b| {
        let since = |i: usize| match order {
            Order::FirstCome => jobs[i].active_since_s.unwrap_or(f64::INFINITY),
            Order::Id => 0.0,
        };
        let number = |i: usize| JobId::of_name(&jobs[i].id).unwrap_or(JobId::made_up(0));
        let by_id = || number(a).cmp(&number(b)).then_with(|| jobs[a].id.cmp(&jobs[b].id));
        since(a).total_cmp(&since(b)).then_with(by_id)
    });
    let mut sets: BTreeMap<SetId, Vec<usize>> = BTreeMap::new();
    for i in turns {
        sets.entry(jobs[i].placement.set).or_default().push(i);
    }
    // Fill the sets by priority; one that is sated leaves the rest to the others.
    let mut rates: Vec<f64> = vec![least_rps; jobs.len()];
    let mut left = (capacity_rps - least_rps * jobs.len() as f64).max(0.0);
    let mut hungry: Vec<(f64, Vec<usize>)> =
        sets.into_values().map(|members| (jobs[members[0]].placement.priority, members)).collect();
    while left > 1e-9 && !hungry.is_empty() {
        let priorities: f64 = hungry.iter().map(|(priority, _)| priority).sum();
        let wanted = |members: &[usize], rates: &[f64]| -> f64 {
            members.iter().map(|&i| (wants[i] - rates[i]).max(0.0)).sum()
        };
        let (sated, still): (Vec<_>, Vec<_>) = hungry
            .into_iter()
            .partition(|(priority, members)| wanted(members, &rates) <= left * priority / priorities + 1e-12);
        let is_last = sated.is_empty();
        let served = if is_last { &still } else { &sated };
        let mut given = 0.0;
        for (priority, members) in served {
            let mut share = left * priority / priorities;
            for &i in members {
                let more = (wants[i] - rates[i]).max(0.0).min(share);
                rates[i] += more;
                share -= more;
                given += more;
            }
        }
        left -= given;
        if is_last {
            break;
        }
        hungry = still;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoProfile, JobId, Policy, UnknownJobs};
    use proptest::prelude::*;

    fn job(id: &str, w_iter_s: f64, active_since_s: Option<f64>, demand_rps: f64) -> ControlledJob {
        let profile = IoProfile::with_period(w_iter_s);
        let placement = Policy::Set10(UnknownJobs::Together).place(JobId(0), Some(&profile));
        ControlledJob { id: id.into(), placement, active_since_s, demand_rps }
    }

    fn shown(actions: &[Action]) -> String {
        actions.iter().map(|action| format!("{action}\n")).collect()
    }

    #[test]
    fn configfs_has_a_directory_per_job_and_a_number_in_priority() {
        let mut controller = ConfigFs::new(ConfigFs::ROOT);
        let actions = controller.update(&[job("41", 19.2, None, 0.0), job("7", 384.0, None, 0.0)]);
        assert_eq!(
            shown(&actions),
            "mkdir /sys/kernel/config/iosets/41\n\
             echo 100000 > /sys/kernel/config/iosets/41/priority\n\
             mkdir /sys/kernel/config/iosets/7\n\
             echo 1000 > /sys/kernel/config/iosets/7/priority\n"
        );
        // Nothing new, nothing said; a new period, a new number; an ended job, no directory.
        assert_eq!(controller.update(&[job("41", 19.2, None, 0.0), job("7", 384.0, None, 0.0)]), []);
        assert_eq!(
            shown(&controller.update(&[job("7", 100.0, None, 0.0)])),
            "rmdir /sys/kernel/config/iosets/41\necho 10000 > /sys/kernel/config/iosets/7/priority\n"
        );
        assert_eq!(shown(&controller.withdraw()), "rmdir /sys/kernel/config/iosets/7\n");
    }

    #[test]
    fn by_id_the_lowest_number_of_a_set_has_the_rate_whoever_came_first() {
        let jobs = [job("9", 10.0, Some(7.0), 0.0), job("10", 10.0, Some(0.0), 0.0)];
        for (order, rates) in [(Order::FirstCome, [5.0, 995.0]), (Order::Id, [995.0, 5.0])] {
            let settings = TbfSettings { capacity_rps: 1000.0, least_rps: 5.0, headroom: 0.25, order };
            assert_eq!(divide(&jobs, &BTreeMap::new(), &settings), rates, "{order:?}");
        }
    }

    #[test]
    fn lustre_has_a_rule_per_job_that_is_started_changed_and_stopped() {
        let settings =
            TbfSettings { capacity_rps: 1100.0, least_rps: 5.0, headroom: 0.25, order: Order::FirstCome };
        let mut controller = LustreTbf::new(settings);
        let actions =
            controller.update(&[job("dd.0", 10.0, Some(0.0), 0.0), job("7", 100.0, Some(1.0), 0.0)]);
        assert_eq!(
            shown(&actions),
            "lctl set_param 'ost.OSS.ost_io.nrs_policies=tbf jobid'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide1 jobid={dd.0} rate=996'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide2 jobid={7} rate=104'\n"
        );
        // The first uses a tenth of what it may: the other gets the rest.
        let actions =
            controller.update(&[job("dd.0", 10.0, Some(0.0), 100.0), job("7", 100.0, Some(1.0), 104.0)]);
        assert_eq!(
            shown(&actions),
            "lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=change iotide1 rate=125'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=change iotide2 rate=975'\n"
        );
        assert_eq!(
            shown(&controller.update(&[job("7", 100.0, Some(1.0), 975.0)])),
            "lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide1'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=change iotide2 rate=1100'\n"
        );
        assert_eq!(
            shown(&controller.withdraw()),
            "lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide2'\n\
             lctl set_param ost.OSS.ost_io.nrs_policies=fifo\n"
        );
        assert_eq!(controller.withdraw(), []);
    }

    #[test]
    fn what_the_server_did_before_is_put_back() {
        let former = vec!["crrn reg".to_owned(), "fifo hp".to_owned()];
        let mut controller = LustreTbf::new(TbfSettings::default()).with_former_policies(former);
        assert_eq!(controller.update(&[job("7", 10.0, Some(0.0), 0.0)]).len(), 2);
        assert_eq!(
            shown(&controller.withdraw()),
            "lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide1'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_policies=crrn reg'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_policies=fifo hp'\n"
        );
    }

    #[test]
    fn what_failed_is_tried_anew() {
        let mut controller = LustreTbf::new(TbfSettings::default());
        let jobs = [job("7", 100.0, Some(1.0), 0.0)];
        for action in controller.update(&jobs) {
            controller.failed(&action);
        }
        assert_eq!(
            shown(&controller.update(&jobs)),
            "lctl set_param 'ost.OSS.ost_io.nrs_policies=tbf jobid'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide1'\n\
             lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide2 jobid={7} rate=10000'\n"
        );
        let mut controller = ConfigFs::new("/iosets");
        for action in controller.update(&jobs) {
            controller.failed(&action);
        }
        assert_eq!(shown(&controller.update(&jobs)), "mkdir /iosets/7\necho 10000 > /iosets/7/priority\n");
    }

    #[test]
    fn inside_a_set_the_one_that_came_first_has_it_all() {
        let settings =
            TbfSettings { capacity_rps: 1000.0, least_rps: 5.0, headroom: 0.25, order: Order::FirstCome };
        let jobs = [job("a", 100.0, Some(9.0), 5.0), job("b", 100.0, Some(3.0), 500.0)];
        assert_eq!(divide(&jobs, &BTreeMap::new(), &settings), [5.0, 995.0]);
    }

    #[test]
    fn an_id_that_could_be_misunderstood_is_left_alone() {
        for wrong in ["", "..", "../x", "a b", "1} rate=9", "x\n", "é", "$(id)", &"9".repeat(65)] {
            assert!(!is_plain_id(wrong), "{wrong:?}");
            let jobs = [job(wrong, 10.0, Some(0.0), 0.0)];
            assert_eq!(ConfigFs::new("/c").update(&jobs), []);
            assert_eq!(LustreTbf::new(TbfSettings::default()).update(&jobs), []);
        }
        assert!(is_plain_id("1234.batch") && is_plain_id("cp.1000:node-7@x_1"));
    }

    #[test]
    fn what_is_printed_can_be_typed() {
        let write = Action::Write { path: "/a dir/it's".into(), line: "1 2".into() };
        assert_eq!(write.to_string(), r"echo '1 2' > '/a dir/it'\''s'");
    }

    proptest! {
        #[test]
        fn rates_use_the_capacity_if_anybody_wants_it_and_no_more(
            periods in prop::collection::vec((1.0..5000.0f64, prop::option::of(0.0..100.0f64), 0.0..2000.0f64), 1..20),
        ) {
            let settings = TbfSettings { capacity_rps: 5000.0, least_rps: 10.0, headroom: 0.25, order: Order::FirstCome };
            let jobs: Vec<ControlledJob> = periods
                .iter()
                .enumerate()
                .map(|(i, &(w_iter_s, since_s, demand_rps))| job(&i.to_string(), w_iter_s, since_s, demand_rps))
                .collect();
            // Allowed 1000 each: who sent less than 900 wants no more than it sent, and headroom.
            let allowed: BTreeMap<&str, f64> = jobs.iter().map(|job| (job.id.as_str(), 1000.0)).collect();
            let rates = divide(&jobs, &allowed, &settings);
            let sum: f64 = rates.iter().sum();
            prop_assert!(rates.iter().all(|&rate| rate >= 10.0));
            prop_assert!(sum <= 5000.0 + 1e-6, "{sum}");
            if jobs.iter().any(|job| job.active_since_s.is_some() && job.demand_rps >= 900.0) {
                prop_assert!((sum - 5000.0).abs() < 1e-3, "{sum} of 5000 used");
            }
        }
    }
}
