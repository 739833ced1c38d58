//! How much is kept of metrics over time, and whose pages are.

use std::path::PathBuf;
use std::time::Duration;

use iotide_daemon::store::{JobLimits, SeriesLimits};
use iotide_edge::{RedisAddress, RedisConfig};
use iotide_http::Url;

use iotide_report::quantity::{parse_ago, parse_seconds, parse_size};

/// Options and settings of the same names. What is `None` is as usual.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Keeping {
    /// Fold the metrics over time of a job into half when they exceed SIZE [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    series_job: Option<u64>,
    /// Remove the oldest metrics over time when all exceed SIZE [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    series_all: Option<u64>,
    /// Remove metrics over time after TIME without a new sample [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    series_age: Option<f64>,
    /// Remove jobs after TIME since their end [default: 400d]
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    jobs_age: Option<f64>,
    /// Remove the oldest jobs of the user with most when all exceed SIZE [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    jobs_all: Option<u64>,
    /// Let this group own the counter pages (root only) [default: iotide, if there is such a group]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Where cgroups are mounted; not an option, for few have them elsewhere.
    #[arg(skip)]
    cgroups: Option<String>,
    /// Where samples are sent, and how often.
    #[arg(skip)]
    remote_write: Vec<Url>,
    #[arg(skip)]
    remote_write_every: Option<f64>,
    /// Ask this exporter of Prometheus metrics now and then, and show what it says at /metrics; may be given more than once
    #[arg(long, value_name = "URL")]
    scrape: Vec<Url>,
    /// Ask exporters this often [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    scrape_every: Option<f64>,
    /// Notify this Alertmanager of alarms (see `iotide alarms`); may be given more than once
    #[arg(long, value_name = "URL")]
    alertmanager: Vec<Url>,
    /// Post alarms as JSON to this address; may be given more than once
    #[arg(long, value_name = "URL")]
    webhook: Vec<Url>,
    /// Whose alarms receivers get; not an option, for it is about all users of a site.
    #[arg(skip)]
    sends_users_alarms: bool,
    /// Publish models of applications in this Redis database: HOST:PORT, or the path of a socket
    #[arg(long, value_name = "ADDR", value_parser = parse_redis)]
    redis: Option<RedisAddress>,
    /// File with the password of --redis, readable by its owner only
    #[arg(long, value_name = "FILE")]
    redis_password: Option<PathBuf>,
    /// Performance of the storage, as `iotide ladder` measures it or `iotide templates` writes it: for the next ten minutes on the page /load
    #[arg(long, value_name = "LADDER")]
    storage: Option<PathBuf>,
}

fn parse_every(text: &str) -> Result<f64, String> {
    match parse_seconds(text)? {
        seconds if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("between 100ms and 1h".to_owned()),
    }
}

fn parse_redis(text: &str) -> Result<RedisAddress, String> {
    text.parse().map_err(str::to_owned)
}

impl Keeping {
    /// The names of the settings.
    pub(super) const NAMES: &str = "series_job, series_all, series_age, jobs_age, jobs_all, group, cgroups, remote_write, remote_write_every, scrape, scrape_every, alertmanager, webhook, users_alarms, redis, redis_password, storage";

    /// Takes a setting; says whether it is one of these.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "series_job" => self.series_job = Some(parse_size(value)?),
            "series_all" => self.series_all = Some(parse_size(value)?),
            "series_age" => self.series_age = Some(parse_ago(value)?),
            "jobs_age" => self.jobs_age = Some(parse_ago(value)?),
            "jobs_all" => self.jobs_all = Some(parse_size(value)?),
            "group" => self.group = Some(value.to_owned()),
            "remote_write_every" => self.remote_write_every = Some(parse_every(value)?),
            "scrape_every" => self.scrape_every = Some(parse_every(value)?),
            "cgroups" => self.cgroups = Some(value.to_owned()),
            "users_alarms" => {
                self.sends_users_alarms = match value {
                    "site" => true,
                    "none" => false,
                    _ => return Err("site (to the receivers of the site) or none".to_owned()),
                }
            }
            "redis" => self.redis = Some(parse_redis(value)?),
            "redis_password" => self.redis_password = Some(value.into()),
            "storage" => self.storage = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a setting that is a list; says whether it is one.
    pub(super) fn set_list(&mut self, name: &str, value: &toml::Value) -> Result<bool, String> {
        const MOST: usize = 16;
        let list = match name {
            "remote_write" => &mut self.remote_write,
            "scrape" => &mut self.scrape,
            "alertmanager" => &mut self.alertmanager,
            "webhook" => &mut self.webhook,
            _ => return Ok(false),
        };
        let of_text = |value: &toml::Value| match value.as_str() {
            Some(url) => url.parse::<Url>().map_err(|why| format!("{url}: {why}")),
            None => Err("a list of addresses in quotes".to_owned()),
        };
        *list = match value.as_array() {
            Some(list) if list.len() <= MOST => list.iter().map(of_text).collect::<Result<_, _>>()?,
            Some(_) => return Err(format!("at most {MOST} addresses")),
            None => vec![of_text(value)?],
        };
        Ok(true)
    }

    /// Exporters that are asked, and how often: these, else the others.
    pub(super) fn scrape(&self, other: &Self) -> (Vec<Url>, Duration) {
        let addresses = if self.scrape.is_empty() { &other.scrape } else { &self.scrape };
        let every = self.scrape_every.or(other.scrape_every).unwrap_or(15.0);
        (addresses.clone(), Duration::from_secs_f64(every))
    }

    /// Returns the file with the performance of the storage: from here, else from `other`.
    pub(super) fn storage(&self, other: &Self) -> Option<PathBuf> {
        self.storage.clone().or(other.storage.clone())
    }

    /// Where models are published: here, else there.
    pub(super) fn redis(&self, other: &Self) -> Option<RedisConfig> {
        let address = self.redis.clone().or(other.redis.clone())?;
        Some(RedisConfig { address, password: self.redis_password.clone().or(other.redis_password.clone()) })
    }

    /// Alertmanagers and webhooks: these, else the others.
    pub(super) fn receivers(&self, other: &Self) -> [Vec<Url>; 2] {
        let of = |own: &Vec<Url>, other: &Vec<Url>| {
            if own.is_empty() { other.clone() } else { own.clone() }
        };
        [of(&self.alertmanager, &other.alertmanager), of(&self.webhook, &other.webhook)]
    }

    /// Whether receivers get users' alarms, too.
    pub(super) fn sends_users_alarms(&self) -> bool {
        self.sends_users_alarms
    }

    /// Where samples are sent, and how often.
    pub(super) fn remote_write(&self) -> (Vec<Url>, Duration) {
        (self.remote_write.clone(), Duration::from_secs_f64(self.remote_write_every.unwrap_or(15.0)))
    }

    /// Where cgroups are looked for; `None` for nowhere.
    pub(super) fn cgroups(&self) -> Option<PathBuf> {
        match self.cgroups.as_deref() {
            Some("none") => None,
            said => Some(said.unwrap_or("/sys/fs/cgroup").into()),
        }
    }

    /// These, else the others, else what is usual.
    pub(super) fn or(&self, other: &Self) -> (SeriesLimits, Option<String>) {
        let usual = SeriesLimits::default();
        let limits = SeriesLimits {
            file_bytes: self.series_job.or(other.series_job).unwrap_or(usual.file_bytes),
            all_bytes: self.series_all.or(other.series_all).unwrap_or(usual.all_bytes),
            age_s: self.series_age.or(other.series_age).map_or(usual.age_s, |seconds| seconds as u64),
            ..usual
        };
        (limits, self.group.clone().or(other.group.clone()))
    }
}

impl Keeping {
    /// How many jobs are kept: by these, else by the others, else as usual.
    pub(super) fn jobs(&self, other: &Self) -> JobLimits {
        let usual = JobLimits::default();
        JobLimits {
            age_s: self.jobs_age.or(other.jobs_age).map_or(usual.age_s, |seconds| seconds as u64),
            all_bytes: self.jobs_all.or(other.jobs_all).unwrap_or(usual.all_bytes),
        }
    }
}

/// As `serve check` shows it.
pub(super) fn shown(limits: &SeriesLimits) -> String {
    use iotide_report::quantity::human_bytes;
    let age = age(limits.age_s);
    format!("{} a job, {} in all, for {age}", human_bytes(limits.file_bytes), human_bytes(limits.all_bytes))
}

/// The same of jobs.
pub(super) fn jobs_shown(limits: &JobLimits) -> String {
    use iotide_report::quantity::human_bytes;
    format!("{} in all, for {}", human_bytes(limits.all_bytes), age(limits.age_s))
}

fn age(seconds: u64) -> String {
    match seconds {
        seconds if seconds % 86_400 == 0 => format!("{} d", seconds / 86_400),
        seconds => format!("{seconds} s"),
    }
}
