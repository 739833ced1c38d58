//! How much is taken in, and what was refused.

use std::collections::BTreeMap;

/// How much is taken in. Beyond it, things are refused and counted as [`Losses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs at once.
    pub jobs: usize,
    /// Of these, jobs of one user.
    pub jobs_of_user: usize,
    /// Jobs of one user that begin on this machine within a minute; later ones wait.
    pub begun_a_minute: usize,
    /// Counter pages at once.
    pub pages: usize,
    /// Of these, pages of one user.
    pub pages_of_user: usize,
    /// Metrics of a job.
    pub metrics: usize,
    /// Of these, metrics that the program defined itself.
    pub own_metrics: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            jobs: 2048,
            jobs_of_user: 512,
            begun_a_minute: 600,
            pages: 8192,
            pages_of_user: 1024,
            metrics: 1024,
            own_metrics: 64,
        }
    }
}

impl Limits {
    /// Returns the same with so many jobs, of which a user may have a quarter.
    pub fn with_jobs(self, jobs: usize) -> Self {
        Self { jobs, jobs_of_user: jobs / 4, ..self }
    }

    /// Returns the same where there is one user, who may have everything.
    pub fn of_one_user(self) -> Self {
        Self { jobs_of_user: self.jobs, pages_of_user: self.pages, begun_a_minute: usize::MAX, ..self }
    }
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many jobs at once.
    Jobs,
    /// Too many jobs of one user, at once or within a minute.
    JobsOfUser,
    /// Too many counter pages at once.
    Pages,
    /// Too many counter pages of one user.
    PagesOfUser,
    /// Too few descriptors for all counter pages.
    Descriptors,
    /// Too many metrics in a job.
    Metrics,
    /// A file in the directory of counter pages that is none.
    NoPage,
    /// No room for another file in the directory of counter pages.
    Full,
    /// Too many files of one user that are no counter pages, or wait.
    FilesOfUser,
    /// An id that is none.
    JobId,
    /// A page that went away, or was cut, while its process ran.
    PageGone,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Jobs,
        Self::JobsOfUser,
        Self::Pages,
        Self::PagesOfUser,
        Self::Descriptors,
        Self::Metrics,
        Self::NoPage,
        Self::Full,
        Self::FilesOfUser,
        Self::JobId,
        Self::PageGone,
    ];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "too_many_jobs",
            Self::JobsOfUser => "too_many_jobs_of_user",
            Self::Pages => "too_many_pages",
            Self::PagesOfUser => "too_many_pages_of_user",
            Self::Descriptors => "too_few_descriptors",
            Self::Metrics => "too_many_metrics",
            Self::NoPage => "not_a_page",
            Self::Full => "page_directory_full",
            Self::FilesOfUser => "too_many_files_of_user",
            Self::JobId => "bad_job_id",
            Self::PageGone => "page_removed",
        }
    }

    /// Returns whether it passes: what is refused for a limit is taken in when there is room.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::Jobs | Self::JobsOfUser | Self::Pages | Self::PagesOfUser | Self::Descriptors)
    }

    /// The number with its words, which follow it in the singular or the plural.
    pub fn in_words(self, n: u64) -> String {
        let what = self.what();
        let one = match self {
            Self::NoPage => "file in the page directory that is no counter page".to_owned(),
            Self::FilesOfUser => {
                "file in the page directory not looked at because its owner has too many".to_owned()
            }
            Self::JobId => "process that named an invalid job id".to_owned(),
            Self::PageGone => "counter page removed or cut while its process ran".to_owned(),
            Self::Full => {
                "time the page directory was full; processes that began then are not counted".to_owned()
            }
            _ => what
                .replacen("processes", "process", 1)
                .replacen("values", "value", 1)
                .replacen("their", "its", 1),
        };
        format!("{n} {}", if n == 1 { &one } else { what })
    }

    /// In words that follow a number.
    pub fn what(self) -> &'static str {
        match self {
            Self::Jobs => "processes not counted because there were too many jobs",
            Self::JobsOfUser => "processes not counted because their user had too many jobs",
            Self::Pages => "processes not counted because there were too many",
            Self::PagesOfUser => "processes not counted because their user had too many",
            Self::Descriptors => {
                "processes not counted because the daemon may open too few files (LimitNOFILE)"
            }
            Self::Metrics => "values not counted because their job had too many metrics",
            Self::NoPage => "files in the page directory that are no counter pages",
            Self::Full => "times the page directory was full; processes that began then are not counted",
            Self::FilesOfUser => "files in the page directory not looked at because their owner has too many",
            Self::JobId => "processes that named an invalid job id",
            Self::PageGone => "counter pages removed or cut while their process ran",
        }
    }
}

/// How often something was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<Refusal, u64>);

impl Losses {
    /// Counts refusals.
    pub fn add(&mut self, what: Refusal, n: u64) {
        if n > 0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    /// How often.
    pub fn get(&self, what: Refusal) -> u64 {
        self.0.get(&what).copied().unwrap_or(0)
    }

    /// All that were refused.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        self.0.iter().map(|(&what, &n)| (what, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_is_in_the_singular() {
        assert_eq!(Refusal::JobId.in_words(1), "1 process that named an invalid job id");
        assert_eq!(Refusal::JobId.in_words(3), "3 processes that named an invalid job id");
        assert_eq!(Refusal::Pages.in_words(1), "1 process not counted because there were too many");
        assert_eq!(Refusal::Metrics.in_words(1), "1 value not counted because its job had too many metrics");
    }
}
