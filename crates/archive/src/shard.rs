//! A part of an archive, for one of many processes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use iotide_wire::Fnv1a;

/// One of `n` parts that together are the whole.
///
/// A log belongs to a part by a hash of its path below the folder that was given, and so to the same part on every
/// machine and at any time: a log that comes while others are being read moves none of them. Parts are as even as chance
/// makes them, a few per cent apart for thousands of logs each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Shard = Shard { index: 0, count: 1 };

    /// Returns part `index` of `count`, counted from 0 or from 1 as one likes: part `count` is part 0.
    pub fn new(index: u64, count: u64) -> Option<Self> {
        (count > 0 && index <= count).then(|| Self { index: index % count, count })
    }

    /// Which part it is, from 0.
    pub fn index(self) -> u64 {
        self.index
    }

    /// Of how many.
    pub fn count(self) -> u64 {
        self.count
    }

    /// Whether it is all of the archive.
    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Returns the folder in `out` where its results are kept; all of it is kept in `out` itself.
    pub fn folder(self, out: &Path) -> PathBuf {
        if self.is_whole() {
            return out.to_owned();
        }
        let width = self.count.to_string().len();
        out.join(format!("shard-{:0width$}-of-{}", self.index, self.count))
    }

    /// Whether the log at this path, relative to the folder that was given, belongs here.
    pub fn holds(self, relative: &str) -> bool {
        self.is_whole() || hash(relative.as_bytes()) % self.count == self.index
    }

    /// Returns the part that Slurm gives this process: the task of a job array, the task of a step, or both.
    ///
    /// `variable` looks one up in the environment. `None` outside of both, or if there is one task only. In the script of
    /// a batch job, outside of `srun`, `SLURM_PROCID` is 0 whatever the number of tasks, and the whole is meant: a step is
    /// known by `SLURM_STEP_NUM_TASKS`.
    pub fn from_slurm(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ShardError> {
        let number = |name: &'static str| match variable(name) {
            None => Ok(None),
            Some(value) => match value.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(ShardError::Variable { name, value }),
            },
        };
        let (mut index, mut count) = (0, 1);
        if let Some(task) = number("SLURM_ARRAY_TASK_ID")? {
            let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
            let last = number("SLURM_ARRAY_TASK_MAX")?.unwrap_or(task);
            let n_tasks = number("SLURM_ARRAY_TASK_COUNT")?.unwrap_or(1);
            let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
            let even = task >= first && last >= task && (last - first) / step + 1 == n_tasks;
            if !even || (task - first) % step != 0 {
                return Err(ShardError::UnevenArray);
            }
            (index, count) = ((task - first) / step, n_tasks);
        }
        if let (Some(task), Some(n_tasks)) = (number("SLURM_PROCID")?, number("SLURM_STEP_NUM_TASKS")?) {
            if task >= n_tasks {
                let value = task.to_string();
                return Err(ShardError::Variable { name: "SLURM_PROCID", value });
            }
            count *= n_tasks;
            index = index * n_tasks + task;
        }
        Ok((count > 1).then_some(Self { index, count }))
    }
}

/// Why something names no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// It is not of the form `i/n`.
    #[error("{text:?} is no part of a whole: write it as i/n, such as 3/64")]
    Form {
        /// Text that was given.
        text: String,
    },
    /// A variable of Slurm's makes no sense.
    #[error("Slurm's {name} is {value:?}, which is no task")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The job array is a list with gaps, which a process cannot see all of.
    #[error(
        "the tasks of this job array are not evenly numbered, so that a task cannot tell which part is its own"
    )]
    UnevenArray,
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let numbers = || {
            let (index, count) = text.split_once('/')?;
            Shard::new(index.trim().parse().ok()?, count.trim().parse().ok()?)
        };
        numbers().ok_or_else(|| ShardError::Form { text: text.to_owned() })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// FNV-1a with its bits stirred once more, so that the remainder is even, too.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Fnv1a::of(bytes).value();
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slurm(variables: &[(&str, &str)]) -> Result<Option<String>, ShardError> {
        let look_up = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Shard::from_slurm(look_up).map(|shard| shard.map(|shard| shard.to_string()))
    }

    #[test]
    fn each_log_is_in_one_part_and_parts_are_even() {
        for count in [2, 4, 7, 64] {
            let mut sizes = vec![0; count as usize];
            for log in 0..20_000 {
                let path = format!("2019/{}/{}/user_app_id{log}.darshan", log % 12 + 1, log % 28 + 1);
                let parts: Vec<u64> =
                    (0..count).filter(|&i| Shard::new(i, count).unwrap().holds(&path)).collect();
                assert_eq!(parts.len(), 1, "{path}");
                sizes[parts[0] as usize] += 1;
            }
            let mean = 20_000 / count;
            assert!(sizes.iter().all(|size| size * 10 > mean * 7 && size * 10 < mean * 13), "{sizes:?}");
        }
    }

    #[test]
    fn parts_never_change() {
        let part = |path: &str| (0..8).find(|&i| Shard::new(i, 8).unwrap().holds(path)).unwrap();
        assert_eq!(["", "a.darshan", "2019/1/b.darshan", "é"].map(part), [2, 3, 4, 5]);
    }

    #[test]
    fn parts_are_counted_from_0_or_from_1() {
        assert_eq!("4/4".parse::<Shard>(), Ok(Shard::new(0, 4).unwrap()));
        assert_eq!("3/4".parse::<Shard>().unwrap().to_string(), "3/4");
        for wrong in ["", "5/4", "1", "a/b", "1/0", "-1/4"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_task_of_slurm_knows_its_part() {
        assert_eq!(slurm(&[]), Ok(None));
        let array = [
            ("SLURM_ARRAY_TASK_ID", "5"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_MAX", "7"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ];
        assert_eq!(slurm(&array), Ok(Some("2/4".to_owned())));
        assert_eq!(
            slurm(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "3")]),
            Ok(Some("1/3".to_owned()))
        );
        let both = [&array[..], &[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "3")]].concat();
        assert_eq!(slurm(&both), Ok(Some("7/12".to_owned())));
    }

    #[test]
    fn the_script_of_a_batch_job_is_not_one_of_its_tasks() {
        assert_eq!(slurm(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Ok(None));
        assert_eq!(slurm(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]), Ok(None));
    }

    #[test]
    fn an_array_with_gaps_is_refused() {
        let array = [
            ("SLURM_ARRAY_TASK_ID", "5"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_MAX", "9"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        assert_eq!(slurm(&array), Err(ShardError::UnevenArray));
        assert!(slurm(&[("SLURM_ARRAY_TASK_ID", "x")]).is_err());
    }
}
