//! Facts about a job beside its key.

use crate::identity::{Name, Trust};
use crate::parameters::Parameters;

/// Programs that start others. A name may go on, as `mpiexec.hydra` does.
const STARTERS: &[&str] = &[
    "aprun",
    "ash",
    "bash",
    "busybox",
    "chrt",
    "csh",
    "dash",
    "env",
    "fish",
    "flux",
    "hydra_pmi_proxy",
    "ionice",
    "jsrun",
    "ksh",
    "login",
    "mpiexec",
    "mpirun",
    "nice",
    "nohup",
    "numactl",
    "orted",
    "orterun",
    "parallel",
    "pbs_attach",
    "prlimit",
    "prted",
    "prterun",
    "runuser",
    "salloc",
    "sbatch",
    "setsid",
    "sh",
    "slurm_script",
    "slurmstepd",
    "srun",
    "stdbuf",
    "su",
    "sudo",
    "taskset",
    "tcsh",
    "time",
    "timeout",
    "xargs",
    "zsh",
];

/// Names that schedulers give to jobs that have none.
const NO_NAMES: &[&str] = &["wrap", "interactive", "STDIN", "(null)"];

/// Facts about a job beside its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The name of its user, or their number.
    pub user: Name,
    /// Which application it is a run of: see [`crate::app_id`], or the name that the user chose.
    pub app: Name,
    /// Name for people: its name at the scheduler, else its program.
    pub name: Name,
    /// The command line of its program, cut where it is very long.
    pub command: String,
    /// The directory it runs in.
    pub run_dir: String,
    /// The partition of the scheduler; empty if there is none.
    pub partition: Name,
    /// The account that the scheduler charges; empty if there is none.
    pub account: Name,
    /// Name at the scheduler beside its id: `4711_3`, the third of an array; empty if there is none.
    pub alias: Name,
    /// How many processes it has: what the launcher says, or how many were seen to read or write.
    pub size: u32,
    /// Who says that it is this job.
    pub trust: Trust,
    /// Which binary ran: the digits of its build id, or what stands for one; empty if it is not known.
    pub build: Name,
    /// Its own parameters beside its size.
    pub parameters: Parameters,
}

impl About {
    /// Returns the file name of its program; what it is called, where no command is known.
    pub fn program(&self) -> &str {
        let first = self.command.split(' ').next().unwrap_or_default();
        match first.rsplit('/').next() {
            Some(program) if !program.is_empty() => program,
            _ => self.name.as_str(),
        }
    }

    /// Returns whether its program is there to start others: a shell, or a launcher.
    pub fn starts_others(&self) -> bool {
        starts_others(self.program())
    }

    /// Returns a name that a scheduler gave; `None` if it says nothing: it is that of a shell, or what a job without a name gets.
    pub fn name_of_job(given: &[u8]) -> Option<Name> {
        let name = Name::cut(given);
        let says_nothing =
            name.is_empty() || NO_NAMES.contains(&name.as_str()) || starts_others(name.as_str());
        (!says_nothing).then_some(name)
    }
}

fn starts_others(program: &str) -> bool {
    let program = program.strip_prefix('-').unwrap_or(program); // a login shell
    let stem = program.split_once('.').map_or(program, |(stem, _)| stem);
    STARTERS.contains(&program) || STARTERS.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_and_launchers_start_others_and_programs_do_not() {
        let about = |command: &str| About { command: command.to_owned(), ..About::default() };
        for command in ["/bin/bash /var/spool/slurm_script", "-sh", "mpiexec.hydra -n 4 sim", "srun sim"] {
            assert!(about(command).starts_others(), "{command}");
        }
        for command in ["/opt/sim/bin/sim bash", "shells", "python3 sh", ""] {
            assert!(!about(command).starts_others(), "{command}");
        }
        assert_eq!(about("/opt/bin/sim -n 4").program(), "sim");
    }

    #[test]
    fn a_job_without_a_name_is_not_called_after_its_shell() {
        let name = |given: &str| About::name_of_job(given.as_bytes()).map(|name| name.as_str().to_owned());
        assert_eq!(name("flow"), Some("flow".to_owned()));
        for given in ["", "wrap", "bash", "interactive"] {
            assert_eq!(name(given), None, "{given}");
        }
        assert_eq!(name("train.sh"), Some("train.sh".to_owned()));
    }
}
