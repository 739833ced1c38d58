//! The jobs of one node, as the counter pages of their processes tell.
//!
//! A machine without files and clocks: it takes what was seen ([`Leaf::adopt`], [`Leaf::count`], [`Leaf::gone`]) and returns what must be stored
//! ([`Leaf::tick`]). It repeats that until it is stored ([`Leaf::stored`]), so a store that fails is tried again.
//!
//! A count is never lost and never doubled: what a process has counted is either in its page or in the store. A page is removed only after the
//! store has its totals, and the store knows which pages these were.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use iotide_ledger::tree::{Group, GroupNews, KeptRow, Opened};
use iotide_ledger::{About, Cell, Counters, JobId, JobKey, Limits, Losses, Name, Refusal, Trust};
use iotide_private::{Share, Shares};

mod programs;
mod words;

use programs::{Member, Programs};
pub use words::with_rows;
pub use words::{Act, Claim, Earlier, JobView, OwnRow, PageId, Process, View};

/// A job has ended when for so long none of its processes was there: the next step of a script begins within it.
const GRACE_NS: u64 = 1_000_000_000;
/// Within this time after its end, a job that is named by a scheduler goes on when another process of it appears.
const REOPEN_NS: u64 = 24 * 3600 * 1_000_000_000;
/// The same for a run of `iotide record`, which is named after a process.
const REOPEN_RUN_NS: u64 = 60 * 1_000_000_000;
/// How often what running processes have counted is stored.
const KEEP_NS: u64 = 10_000_000_000;
/// How often what was read and written is noted, for rates.
const NOTE_NS: u64 = 1_000_000_000;
/// The time in which a user may begin only so many jobs.
const MINUTE_NS: u64 = 60_000_000_000;
/// The epoch of rows that go up. There is one only: what a job has counted is in the store and goes on across boots of the machine, and so does its
/// row. With another epoch for each boot, what was counted before would be in two rows.
const OWN_EPOCH: u64 = 0;
/// Rates are over this many notes.
const RATE_NOTES: usize = 10;

/// The machine.
#[derive(Debug)]
pub struct Leaf {
    node: Name,
    limits: Limits,
    losses: Losses,
    /// Pages that wait for room, by what they wait for.
    waiting: Losses,
    /// Room for pages and jobs, with a share for each user.
    page_places: Shares,
    job_places: Shares,
    /// By user: the minute, and jobs that have begun in it.
    begun: HashMap<u32, (u64, usize)>,
    /// Whether a daemon above is to have the jobs that end here.
    sends_up: bool,
    pages: BTreeMap<PageId, Page>,
    jobs: BTreeMap<JobKey, Running>,
    /// Counts on this machine of jobs that have ended, since the daemon was started.
    ended: Counters,
    /// The same on others.
    ended_elsewhere: Counters,
    kept_ns: u64,
    noted_ns: u64,
}

#[derive(Debug)]
struct Page {
    key: JobKey,
    /// One that was known before the daemon was started may have none.
    _place: Option<Share>,
    /// Who made it among the job's programs.
    member: Member,
    counters: Arc<Counters>,
    /// Of these, what read and wrote.
    moved: Cell,
    /// Whether the store knows of it.
    is_stored: bool,
    /// Whether it has counted something since it was last kept.
    is_new: bool,
    gone: Option<Option<Refusal>>,
    /// When the process ended, if it has said so.
    ended_ns: Option<u64>,
}

#[derive(Debug)]
struct Running {
    about: About,
    /// One that ran before the daemon was started may have none.
    _place: Option<Share>,
    programs: Programs,
    n_ranks: Option<u32>,
    is_stored: bool,
    /// Counts of processes that are gone.
    done: Counters,
    /// Of that, what read and wrote.
    done_moved: Cell,
    /// Of that, what the sum of all that has ended holds already: the job ended before, and goes on.
    before: Counters,
    /// The same of what other nodes have counted.
    before_elsewhere: Counters,
    n_running: u32,
    n_seen: u32,
    /// Since when no process was seen, if there is none.
    idle_since_ns: u64,
    /// When the last process that is gone from here had ended, as far as is known.
    ended_ns: Option<u64>,
    /// Times with bytes read and written until then.
    recent: VecDeque<(u64, u64, u64)>,
    /// Whether processes or a cgroup of this machine are, or were, part of it.
    is_here: bool,
    /// Whether nobody else knows its id.
    is_local: bool,
    /// The lowest rank on this machine.
    least_rank: Option<u32>,
    /// State of the job on other nodes.
    elsewhere: Option<Elsewhere>,
}

/// State of a job on other nodes.
#[derive(Debug)]
struct Elsewhere {
    group: Group,
    sum: Arc<Counters>,
    n_running: u32,
    n_live: usize,
    nodes: Arc<[Name]>,
    silent: Vec<Name>,
    /// When the last process there ended, on the clock of its node, once there is none.
    end_ns: Option<u64>,
}

impl Leaf {
    /// Returns a machine that knows no job.
    pub fn new(node: Name, limits: Limits) -> Self {
        Self {
            node,
            limits,
            losses: Losses::default(),
            waiting: Losses::default(),
            page_places: shares(limits.pages, limits.pages_of_user),
            job_places: shares(limits.jobs, limits.jobs_of_user),
            begun: HashMap::new(),
            sends_up: false,
            pages: BTreeMap::new(),
            jobs: BTreeMap::new(),
            ended: Counters::default(),
            ended_elsewhere: Counters::default(),
            kept_ns: 0,
            noted_ns: 0,
        }
    }

    /// From now on, jobs that end here are kept until a daemon above has them.
    pub fn send_up(&mut self) {
        self.sends_up = true;
    }

    /// Goes on with a job that ran when the daemon ended.
    pub fn restore(&mut self, now_ns: u64, earlier: Earlier) {
        let Some((key, about)) = earlier.job else { return };
        let mut job = Running::new(about, now_ns);
        job.is_stored = true;
        job._place = self.job_places.take(key.uid);
        job.go_on(earlier.done, earlier.n_processes, &earlier.pages);
        self.jobs.insert(key.clone(), job);
        for (page, counters) in earlier.pages {
            let place = self.page_places.take(key.uid);
            self.add_page(page, &key, (Member::RESTORED, place), Arc::new(counters), true);
        }
    }

    /// Whether a page is known.
    pub fn knows(&self, page: &PageId) -> bool {
        self.pages.contains_key(page)
    }

    /// All pages that are known.
    pub fn pages(&self) -> impl Iterator<Item = &PageId> {
        self.pages.keys()
    }

    /// Counts something that was refused.
    pub fn refuse(&mut self, what: Refusal, n: u64) {
        self.losses.add(what, n);
    }

    /// These pages wait for room, by what they wait for: they are not counted yet.
    pub fn waiting(&mut self, pages: Losses) {
        self.waiting = pages;
    }

    /// Takes a process in. What a limit refuses may be tried again. `earlier` asks the store for the last job of a cluster, user and id.
    pub fn adopt(
        &mut self,
        now_ns: u64,
        page: PageId,
        process: Process,
        earlier: impl FnOnce(&Name, u32, &JobId) -> Earlier,
    ) -> Result<(), Refusal> {
        if self.knows(&page) {
            return Ok(());
        }
        let uid = process.uid;
        let place = self.page_places.take(uid).ok_or_else(|| {
            if self.page_places.is_short_of_others(uid) { Refusal::Pages } else { Refusal::PagesOfUser }
        })?;
        let n_jobs = self.jobs.len();
        if !page.is_group() && self.has_begun_enough(now_ns, uid) && !self.knows_job_of(&process) {
            return Err(Refusal::JobsOfUser);
        }
        let key = self.job_of(now_ns, &process, earlier)?;
        if self.jobs.len() > n_jobs {
            let (_, n) = self.begun.entry(uid).or_default();
            *n = n.saturating_add(1);
        }
        let mut member = Member::RESTORED;
        if let Some(job) = self.jobs.get_mut(&key) {
            job.n_ranks = process.n_ranks.or(job.n_ranks);
            job.least_rank = [process.rank, job.least_rank].into_iter().flatten().min();
            job.is_local = matches!(process.claim, Claim::Siblings { .. });
            member = job.programs.meet(&process, page.is_group());
            job.speak();
        }
        self.add_page(page, &key, (member, Some(place)), Arc::default(), false);
        Ok(())
    }

    fn add_page(
        &mut self,
        page: PageId,
        key: &JobKey,
        (member, place): (Member, Option<Share>),
        counters: Arc<Counters>,
        is_stored: bool,
    ) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.n_running += u32::from(!page.is_group());
        job.is_here = true;
        if !is_stored && !page.is_group() {
            job.n_seen += 1;
        }
        let moved = counters.io().moved();
        let page_of = Page {
            key: key.clone(),
            _place: place,
            member,
            counters,
            moved,
            is_stored,
            is_new: false,
            gone: None,
            ended_ns: None,
        };
        self.pages.insert(page, page_of);
    }

    /// Whether a job that other nodes tell of runs.
    pub fn knows_elsewhere(&self, group: &Group) -> bool {
        let Group { cluster, uid, id, .. } = group;
        self.runs_of(cluster, *uid, id)
            .any(|(_, job)| job.elsewhere.as_ref().is_some_and(|known| known.group == *group))
    }

    /// Takes over what other nodes say of a job. `earlier` asks the store for the last job of a cluster, user and id.
    pub fn elsewhere(
        &mut self,
        now_ns: u64,
        news: GroupNews,
        earlier: impl FnOnce(&Name, u32, &JobId) -> Earlier,
    ) -> Result<JobKey, Refusal> {
        let process = Process {
            uid: news.group.uid,
            cluster: news.group.cluster.clone(),
            claim: Claim::Job(news.group.id.clone()),
            start_ns: news.start_ns,
            rank: None,
            n_ranks: news.n_ranks,
            about: news.about,
        };
        let key = self.job_of(now_ns, &process, earlier).inspect_err(|what| self.losses.add(*what, 1))?;
        let Some(job) = self.jobs.get_mut(&key) else { return Err(Refusal::Jobs) };
        if !job.is_here && job.about != process.about {
            (job.about, job.is_stored) = (process.about, false);
        }
        if news.n_live > 0 || job.elsewhere.as_ref().is_some_and(|known| known.n_live > 0) {
            job.idle_since_ns = now_ns;
        }
        job.elsewhere = Some(Elsewhere {
            group: news.group,
            sum: Arc::new(news.sum),
            n_running: news.n_running,
            n_live: news.n_live,
            nodes: news.nodes.into(),
            silent: news.silent,
            end_ns: news.end_ns,
        });
        Ok(key)
    }

    /// Returns the act that stores rows of a job; `None` if the job is not known on other nodes.
    pub fn rows_act(&self, key: &JobKey, rows: Vec<KeptRow>) -> Option<Act> {
        let elsewhere = self.jobs.get(key)?.elsewhere.as_ref()?;
        let (sum, nodes) = (Arc::clone(&elsewhere.sum), elsewhere.nodes.clone());
        Some(Act::Rows { key: key.clone(), rows, sum, nodes })
    }

    /// The group of rows that a job is, if other nodes tell of it.
    pub fn group_of(&self, key: &JobKey) -> Option<&Group> {
        Some(&self.jobs.get(key)?.elsewhere.as_ref()?.group)
    }

    /// Jobs that other nodes tell of, and whether all of these are done.
    pub fn groups(&self) -> Vec<(JobKey, Group, bool)> {
        let of_job = |(key, job): (&JobKey, &Running)| {
            let elsewhere = job.elsewhere.as_ref()?;
            Some((key.clone(), elsewhere.group.clone(), elsewhere.n_live == 0))
        };
        self.jobs.iter().filter_map(of_job).collect()
    }

    /// Returns the counts of the processes of this machine, job by job.
    pub fn own_rows(&self) -> Vec<OwnRow> {
        let mut rows = Vec::new();
        for (key, counters) in self.sums_here() {
            let Some(job) = self.jobs.get(&key).filter(|job| job.is_here) else { continue };
            let ended_ns = job.ended_ns.filter(|_| job.n_running == 0);
            rows.push(OwnRow {
                opened: self.opened(&key, job),
                counters,
                n_running: job.n_running,
                ended_ns,
            });
        }
        rows
    }

    /// Returns the counts of a job's processes on this machine that are gone.
    pub fn done(&self, key: &JobKey) -> Option<&Counters> {
        Some(&self.jobs.get(key)?.done)
    }

    /// The name of this machine, and the epoch of its rows.
    pub fn node(&self) -> (&Name, u64) {
        (&self.node, OWN_EPOCH)
    }

    fn opened(&self, key: &JobKey, job: &Running) -> Opened {
        Opened {
            node: self.node.clone(),
            epoch: OWN_EPOCH,
            key: key.clone(),
            about: About { size: job.programs.n_working().unwrap_or(0), ..job.about.clone() },
            is_local: job.is_local,
            rank: job.least_rank.map_or(0, |rank| rank.saturating_add(1)),
            n_ranks: job.n_ranks.unwrap_or(0),
        }
    }

    /// The runs of one id, the last one last.
    fn runs_of(
        &self,
        cluster: &Name,
        uid: u32,
        id: &JobId,
    ) -> impl DoubleEndedIterator<Item = (&JobKey, &Running)> {
        let key = |start_ns| JobKey { cluster: cluster.clone(), uid, id: id.clone(), start_ns };
        self.jobs.range(key(0)..=key(u64::MAX))
    }

    /// Whether a user has begun as many jobs within the last minute as may be.
    fn has_begun_enough(&mut self, now_ns: u64, uid: u32) -> bool {
        let minute = now_ns / MINUTE_NS;
        self.begun.retain(|_, (known, _)| *known == minute);
        let (_, n) = self.begun.entry(uid).or_insert((minute, 0));
        uid != 0 && *n >= self.limits.begun_a_minute
    }

    /// Whether a process belongs to a job that runs.
    fn knows_job_of(&self, process: &Process) -> bool {
        self.runs_of(&process.cluster, process.uid, &id_of(process)).next().is_some()
    }

    /// The job of a process: one that runs, one that goes on, or a new one.
    fn job_of(
        &mut self,
        now_ns: u64,
        process: &Process,
        earlier: impl FnOnce(&Name, u32, &JobId) -> Earlier,
    ) -> Result<JobKey, Refusal> {
        let Process { uid, cluster, claim, .. } = process;
        let id = id_of(process);
        let reopen_ns = match claim {
            Claim::Cgroup(_) | Claim::Job(_) => REOPEN_NS,
            Claim::Run(_) => REOPEN_RUN_NS,
            Claim::Siblings { .. } => 0,
        };
        let running = self.runs_of(cluster, *uid, &id).next_back().map(|(key, _)| key.clone());
        // What the system names is one job on this node, whether or not the cluster was known when it was first seen.
        let running = running.or_else(|| {
            let is_systems = matches!(claim, Claim::Cgroup(_));
            let is_it = |key: &&JobKey| {
                is_systems && key.uid == *uid && key.id == id && self.jobs[*key].about.trust == Trust::Cgroup
            };
            self.jobs.keys().find(is_it).cloned()
        });
        if let Some(key) = running {
            if process.about.trust == Trust::Cgroup
                && let Some(job) = self.jobs.get_mut(&key)
                && job.about.trust == Trust::Claimed
            {
                (job.about.trust, job.is_stored) = (Trust::Cgroup, false);
            }
            return Ok(key);
        }
        let earlier = earlier(cluster, *uid, &id);
        let goes_on = earlier.end_ns.is_some_and(|end_ns| now_ns.saturating_sub(end_ns) < reopen_ns);
        let (key, about, done, n_seen) = match earlier.job {
            Some((key, about)) if goes_on => (key, about, earlier.done, earlier.n_processes),
            // No two runs of an id begin at one time, whatever they say.
            before => {
                let start_ns =
                    before.map_or(0, |(key, _)| key.start_ns.saturating_add(1)).max(process.start_ns);
                let key = JobKey { cluster: cluster.clone(), uid: *uid, id, start_ns };
                (key, process.about.clone(), Counters::default(), 0)
            }
        };
        let place = self.job_places.take(*uid).ok_or_else(|| {
            if self.job_places.is_short_of_others(*uid) { Refusal::Jobs } else { Refusal::JobsOfUser }
        })?;
        let mut job = Running::new(about, now_ns);
        job._place = Some(place);
        job.before = done.clone();
        if goes_on {
            job.before_elsewhere = earlier.elsewhere;
        }
        job.go_on(done, n_seen, &[]);
        self.jobs.insert(key.clone(), job);
        Ok(key)
    }

    /// Takes over what a running process has counted so far.
    pub fn count(&mut self, page: &PageId, counters: &Counters) {
        let Some(page) = self.pages.get_mut(page).filter(|page| page.gone.is_none()) else { return };
        let n_refused = Arc::make_mut(&mut page.counters).raise_all(counters, &self.limits);
        self.losses.add(Refusal::Metrics, n_refused);
        let before = std::mem::replace(&mut page.moved, page.counters.io().moved());
        page.is_new = true;
        let moved = page.moved.bytes.saturating_sub(before.bytes);
        if moved > 0
            && let Some(job) = self.jobs.get_mut(&page.key)
        {
            job.programs.moved(page.member, moved, before.bytes == 0);
            job.speak();
        }
    }

    /// A process is gone, after it was last counted. `loss` says if its page had gone before.
    pub fn gone(&mut self, now_ns: u64, page: &PageId, loss: Option<Refusal>) {
        let is_group = page.is_group();
        let Some(page) = self.pages.get_mut(page).filter(|page| page.gone.is_none()) else { return };
        page.gone = Some(loss);
        if let Some(loss) = loss {
            self.losses.add(loss, 1);
        }
        if let Some(job) = self.jobs.get_mut(&page.key) {
            job.n_running = job.n_running.saturating_sub(u32::from(!is_group));
            job.idle_since_ns = now_ns;
            job.ended_ns = job.ended_ns.max(Some(page.ended_ns.unwrap_or(now_ns)));
        }
    }

    /// A process goes on as another program with a page of its own, before this one is gone.
    pub fn replaced(&mut self, page: &PageId) {
        let Some(page) = self.pages.get(page).filter(|page| page.gone.is_none()) else { return };
        if let Some(job) = self.jobs.get_mut(&page.key) {
            job.programs.replaced(page.member, page.moved.bytes > 0);
            job.speak();
        }
    }

    /// A process has said when it ended, before it is gone.
    pub fn ended(&mut self, at_ns: u64, page: &PageId) {
        if let Some(page) = self.pages.get_mut(page) {
            page.ended_ns = Some(at_ns);
        }
    }

    /// Says what must be stored now, in an order in which it can be.
    pub fn tick(&mut self, now_ns: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        for (key, job) in &self.jobs {
            if !job.is_stored {
                acts.push(Act::Job { key: key.clone(), about: job.about.clone() });
            }
        }
        let keeps = now_ns.saturating_sub(self.kept_ns) >= KEEP_NS;
        let mut has_pages = std::collections::BTreeSet::new();
        for (id, page) in &self.pages {
            has_pages.insert(&page.key);
            if !page.is_stored {
                acts.push(Act::Page { page: id.clone(), key: page.key.clone() });
            }
            let (page_id, key, counters) = (id.clone(), page.key.clone(), Arc::clone(&page.counters));
            if let Some(loss) = page.gone {
                acts.push(Act::Finish { page: page_id, key, counters, loss });
            } else if keeps && page.is_new {
                acts.push(Act::Keep { page: page_id, key, counters });
            }
        }
        if keeps {
            self.kept_ns = now_ns;
        }
        for (key, job) in &self.jobs {
            // Jobs whose last pages are not stored yet end next time.
            let n_live = job.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.n_live);
            if n_live == 0 && !has_pages.contains(key) && now_ns.saturating_sub(job.idle_since_ns) >= GRACE_NS
            {
                let silent = job.elsewhere.as_ref().map(|elsewhere| elsewhere.silent.clone());
                acts.push(Act::End {
                    key: key.clone(),
                    end_ns: job.end_ns().max(key.start_ns),
                    silent: silent.unwrap_or_default(),
                    own: (self.sends_up && job.is_here).then(|| Box::new(self.opened(key, job))),
                });
            }
        }
        if now_ns.saturating_sub(self.noted_ns) >= NOTE_NS {
            self.noted_ns = now_ns;
            self.note_rates(now_ns);
        }
        acts
    }

    /// Marks these acts as stored.
    pub fn stored(&mut self, acts: &[Act]) {
        for act in acts {
            match act {
                Act::Job { key, about } => {
                    if let Some(job) = self.jobs.get_mut(key).filter(|job| job.about == *about) {
                        job.is_stored = true;
                    }
                }
                Act::Page { page, .. } => {
                    if let Some(page) = self.pages.get_mut(page) {
                        page.is_stored = true;
                    }
                }
                Act::Keep { page, .. } => {
                    if let Some(page) = self.pages.get_mut(page) {
                        page.is_new = false;
                    }
                }
                Act::Finish { page, key, counters, .. } => {
                    if self.pages.remove(page).is_none() {
                        continue;
                    }
                    if let Some(job) = self.jobs.get_mut(key) {
                        job.done.add_all(counters);
                        job.done_moved = job.done.io().moved();
                    }
                }
                Act::Rows { .. } => {}
                Act::End { key, .. } => {
                    if let Some(job) = self.jobs.remove(key) {
                        let mut new = job.done.clone();
                        new.subtract_all(&job.before);
                        self.ended.add_all(&new);
                        self.ended_elsewhere.add_all(&job.new_elsewhere());
                    }
                }
            }
        }
    }

    /// The store was begun anew: it knows nothing of what runs. What processes had counted that are gone is still here.
    pub fn store_was_lost(&mut self) -> Vec<(JobKey, Counters)> {
        self.jobs.values_mut().for_each(|job| job.is_stored = false);
        self.pages.values_mut().for_each(|page| (page.is_stored, page.is_new) = (false, true));
        self.jobs.iter().map(|(key, job)| (key.clone(), job.done.clone())).collect()
    }

    /// Returns the reads and writes of each job so far on this machine.
    pub fn moved_here(&self) -> Vec<(JobKey, Cell)> {
        let mut moved: BTreeMap<&JobKey, Cell> =
            self.jobs.iter().map(|(key, job)| (key, job.done_moved)).collect();
        for page in self.pages.values() {
            if let Some(sum) = moved.get_mut(&page.key) {
                sum.add(page.moved);
            }
        }
        moved.into_iter().map(|(key, sum)| (key.clone(), sum)).collect()
    }

    /// Returns the counts of each job, on this and other nodes.
    fn sums(&self) -> BTreeMap<JobKey, Counters> {
        let mut sums = self.sums_here();
        for (key, sum) in &mut sums {
            if let Some(elsewhere) = self.jobs.get(key).and_then(|job| job.elsewhere.as_ref()) {
                sum.add_all(&elsewhere.sum);
            }
        }
        sums
    }

    /// Returns the counts of each job on this machine.
    fn sums_here(&self) -> BTreeMap<JobKey, Counters> {
        let mut sums: BTreeMap<JobKey, Counters> =
            self.jobs.iter().map(|(key, job)| (key.clone(), job.done.clone())).collect();
        for page in self.pages.values() {
            if let Some(sum) = sums.get_mut(&page.key) {
                sum.add_all(&page.counters);
            }
        }
        sums
    }

    fn note_rates(&mut self, now_ns: u64) {
        for (key, counters) in self.sums() {
            let io = counters.io();
            if let Some(job) = self.jobs.get_mut(&key) {
                job.recent.push_back((now_ns, io.read.bytes, io.write.bytes));
                if job.recent.len() > RATE_NOTES + 1 {
                    job.recent.pop_front();
                }
            }
        }
    }

    /// The jobs that run.
    pub fn keys(&self) -> impl Iterator<Item = &JobKey> {
        self.jobs.keys()
    }

    /// Returns the counts of a job whose processes are gone, here and on other nodes.
    pub fn ended_sum(&self, key: &JobKey) -> Option<Counters> {
        Some(self.jobs.get(key)?.sum_of_gone())
    }

    /// Returns the view of the jobs that run now.
    pub fn view(&self, now_ns: u64) -> View {
        let (mut total, mut elsewhere) = (self.ended.clone(), self.ended_elsewhere.clone());
        let mut sums = self.sums_here();
        for (key, sum) in &mut sums {
            let job = &self.jobs[key];
            let mut new = sum.clone();
            new.subtract_all(&job.before);
            total.add_all(&new);
            if let Some(known) = &job.elsewhere {
                elsewhere.add_all(&job.new_elsewhere());
                sum.add_all(&known.sum);
            }
        }
        let jobs = self.jobs.iter().map(|(key, job)| {
            let (read_bps, write_bps) = job.rates();
            JobView {
                key: key.clone(),
                about: job.about.clone(),
                counters: Arc::new(sums.remove(key).unwrap_or_default()),
                n_running: job.n_running + job.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.n_running),
                nodes: job.nodes(&self.node),
                read_bps,
                write_bps,
            }
        });
        View {
            at_ns: now_ns,
            node: self.node.clone(),
            jobs: jobs.collect(),
            total,
            elsewhere,
            losses: self.losses.clone(),
            refused: self.waiting.clone(),
            n_pages: self.pages.keys().filter(|page| !page.is_group()).count(),
        }
    }
}

/// So many places, of which a user gets this many and only root the last sixteenth.
fn shares(places: usize, per_user: usize) -> Shares {
    Shares::new(iotide_private::Limits { places, per_user, reserve: places / 16 })
}

/// The id of the job that a process belongs to.
fn id_of(process: &Process) -> JobId {
    match &process.claim {
        Claim::Cgroup(id) | Claim::Job(id) | Claim::Run(id) => id.clone(),
        Claim::Siblings { parent_pid } => {
            let name: String = process.about.name.as_str().chars().take(40).collect();
            JobId::made_of(&format!("{name}.{parent_pid}"))
        }
    }
}

impl Running {
    /// Takes over what was counted of it before: by processes that are gone, and by those whose pages are not finished.
    fn go_on(&mut self, done: Counters, n_seen: u32, pages: &[(PageId, Counters)]) {
        self.is_here = n_seen > 0 || !done.is_empty();
        self.done_moved = done.io().moved();
        let all = || pages.iter().map(|(_, counters)| counters).chain([&done]);
        // A helper that is met when the ranks have ended is not another one.
        let had_ranks = all().any(Counters::has_ranks);
        self.n_ranks = had_ranks.then_some(self.about.size);
        let bytes = all().map(|counters| counters.io().moved().bytes).fold(0, u64::saturating_add);
        self.programs = Programs::restored(self.about.clone(), n_seen, bytes, had_ranks);
        (self.done, self.n_seen) = (done, n_seen);
    }

    /// Says of the job what its programs tell now.
    fn speak(&mut self) {
        let Some(speaker) = self.programs.speaker() else { return };
        let size = self.n_ranks.or(self.programs.n_working()).unwrap_or(speaker.size);
        let about = About { size, trust: self.about.trust, ..speaker.clone() };
        if about != self.about {
            (self.about, self.is_stored) = (about, false);
        }
    }

    /// When the last process ended; where nobody says so, since when none was seen. Clocks of other nodes may be ahead.
    fn end_ns(&self) -> u64 {
        let end_ns = match &self.elsewhere {
            None => self.ended_ns,
            Some(elsewhere) => elsewhere.end_ns.map(|end_ns| end_ns.max(self.ended_ns.unwrap_or(0))),
        };
        end_ns.map_or(self.idle_since_ns, |end_ns| end_ns.min(self.idle_since_ns))
    }

    fn new(about: About, now_ns: u64) -> Self {
        Self {
            about,
            _place: None,
            programs: Programs::default(),
            n_ranks: None,
            is_stored: false,
            done: Counters::default(),
            done_moved: Cell::default(),
            before: Counters::default(),
            before_elsewhere: Counters::default(),
            n_running: 0,
            n_seen: 0,
            idle_since_ns: now_ns,
            ended_ns: None,
            recent: VecDeque::new(),
            is_here: false,
            is_local: false,
            least_rank: None,
            elsewhere: None,
        }
    }

    fn nodes(&self, own: &Name) -> Arc<[Name]> {
        match &self.elsewhere {
            Some(elsewhere) if !self.is_here || elsewhere.nodes.contains(own) => Arc::clone(&elsewhere.nodes),
            elsewhere => {
                let others = elsewhere.iter().flat_map(|elsewhere| elsewhere.nodes.iter());
                others.chain([own]).cloned().collect()
            }
        }
    }

    /// Returns the counts of processes that are gone, plus those of other nodes.
    fn sum_of_gone(&self) -> Counters {
        let mut sum = self.done.clone();
        if let Some(elsewhere) = &self.elsewhere {
            sum.add_all(&elsewhere.sum);
        }
        sum
    }

    /// Returns the counts of other nodes since the job was resumed.
    fn new_elsewhere(&self) -> Counters {
        let mut new = self.elsewhere.as_ref().map(|known| Counters::clone(&known.sum)).unwrap_or_default();
        new.subtract_all(&self.before_elsewhere);
        new
    }

    fn rates(&self) -> (f64, f64) {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else { return (0.0, 0.0) };
        let seconds = (last.0 - first.0) as f64 / 1e9;
        if seconds <= 0.0 {
            return (0.0, 0.0);
        }
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        (rate(first.1, last.1), rate(first.2, last.2))
    }
}
