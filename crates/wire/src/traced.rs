//! Which files a tracer records: what programs read and write, not what the system, the loader and the start of MPI touch on their own.

/// Paths that are left out unless `IOTIDE_INCLUDE` names them: those that the system, the loader, and the start of MPI touch on their own.
pub const EXCLUDED: &[&[u8]] = &[
    b"/proc",
    b"/sys",
    b"/dev",
    b"/run",
    b"/var/run",
    b"/etc",
    b"/usr",
    b"/lib",
    b"/lib64",
    b"/bin",
    b"/sbin",
    b"*.so",
    b"*.so.*",
    b"*.pyc",
    b"*/ompi.*",
    b"*/pmix-*",
    b"*/openmpi-sessions-*",
    b"*.locktest.*",
    b"memfd:*",
    b"/memfd:*",
    b"/SYSV*",
    b"/anon_hugepage*",
];

/// Files in `/dev/shm` are files like any other, but for those by which the processes of a job talk to each other.
const SHARED_MEMORY: &[u8] = b"/dev/shm";
const EXCLUDED_IN_SHARED_MEMORY: &[&[u8]] = &[
    b"/dev/shm/sem.*",
    b"*vader_segment*",
    b"*sm_segment*",
    b"/dev/shm/*osc*",
    b"/dev/shm/ompi*",
    b"/dev/shm/pmix*",
    b"/dev/shm/mpich*",
    b"/dev/shm/ucx*",
    b"/dev/shm/psm*",
    b"/dev/shm/nccl*",
    b"/dev/shm/torch_*",
    b"*.locktest.*",
];

/// Whether files of this path are recorded: `include` and `exclude` are patterns with `:` between them, each a prefix or with stars.
pub fn is_traced(path: &[u8], include: &[u8], exclude: &[u8]) -> bool {
    let listed = |list: &[u8]| list.split(|&byte| byte == b':').any(|pattern| matches(pattern, path));
    let usual = if matches(SHARED_MEMORY, path) { EXCLUDED_IN_SHARED_MEMORY } else { EXCLUDED };
    listed(include) || !(usual.iter().any(|pattern| matches(pattern, path)) || listed(exclude))
}

/// Whether `path` begins with `pattern`, component by component, or fits it where it has stars.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    if pattern.is_empty() {
        return false;
    }
    if pattern.contains(&b'*') {
        return fits(pattern, path);
    }
    let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
    path.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Whether `path` fits `pattern`, in which a star stands for any bytes, slashes too.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while s < path.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, s));
                p += 1;
            }
            Some(&byte) if byte == path[s] => {
                p += 1;
                s += 1;
            }
            _ => match star {
                // The last star takes one more byte.
                Some((at, taken)) => {
                    p = at + 1;
                    s = taken + 1;
                    star = Some((at, s));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// The job that an environment names, as the user or a batch system says: the variable, and its value.
pub fn job_of<'a>(variable: impl Fn(&[u8]) -> Option<&'a [u8]>) -> Option<(&'static [u8], &'a [u8])> {
    const NAMES: [&[u8]; 9] = [
        b"IOTIDE_JOB_ID",
        b"IOSETS_JOB_ID",
        b"SLURM_JOB_ID",
        b"PBS_JOBID",
        b"LSB_JOBID",
        b"PJM_JOBID",
        b"FLUX_JOB_ID",
        b"COBALT_JOBID",
        b"JOB_ID",
    ];
    NAMES.iter().find_map(|&name| Some((name, variable(name)?)))
}

/// The rank that an environment names, as the user or a launcher says, and the number of ranks.
pub fn rank_of<'a>(variable: impl Fn(&[u8]) -> Option<&'a [u8]>) -> (Option<u32>, Option<u32>) {
    const RANKS: [(&[u8], &[u8]); 11] = [
        (b"OMPI_COMM_WORLD_RANK", b"OMPI_COMM_WORLD_SIZE"),
        (b"PMI_RANK", b"PMI_SIZE"),
        (b"PMIX_RANK", b"PMIX_SIZE"),
        (b"MV2_COMM_WORLD_RANK", b"MV2_COMM_WORLD_SIZE"),
        (b"PALS_RANKID", b"PALS_SIZE"),
        (b"JSM_NAMESPACE_RANK", b"JSM_NAMESPACE_SIZE"),
        (b"FLUX_TASK_RANK", b"FLUX_JOB_SIZE"),
        (b"ALPS_APP_PE", b"ALPS_APP_SIZE"),
        (b"SLURM_PROCID", b"SLURM_NTASKS"),
        // torchrun, accelerate, DeepSpeed. The names are anybody's, so both must be there.
        (b"RANK", b"WORLD_SIZE"),
        (b"HOROVOD_RANK", b"HOROVOD_SIZE"),
    ];
    let number = |name: &[u8]| variable(name).and_then(decimal);
    let small = |n: u64| u32::try_from(n).ok();
    // What the user names comes first: a variable, or two with a colon between them, the second for the number of ranks.
    if let Some(names) = variable(b"IOTIDE_RANK_FROM") {
        let mut names = names.split(|&byte| byte == b':');
        let mut next = || names.next().and_then(number).and_then(small);
        let (rank, n_ranks) = (next(), next());
        if rank.is_some() {
            return (rank, n_ranks);
        }
    }
    // What torchrun starts has all three. It is often started once on each node by srun or mpirun, whose variables then name the node alone.
    if number(b"LOCAL_RANK").is_some()
        && let (Some(rank), Some(n_ranks)) = (number(b"RANK"), number(b"WORLD_SIZE"))
    {
        return (small(rank), small(n_ranks));
    }
    // A batch script and what it starts are no ranks; only a step that srun started has a number of its own.
    let is_step = number(b"SLURM_STEP_ID").is_some();
    let is_ranks = |rank: &[u8], n_ranks: &[u8]| match rank {
        b"SLURM_PROCID" => is_step,
        b"RANK" => number(n_ranks).is_some(),
        _ => true,
    };
    RANKS
        .into_iter()
        .filter(|(rank, n_ranks)| is_ranks(rank, n_ranks))
        .find_map(|(rank, n_ranks)| Some((small(number(rank)?), number(n_ranks).and_then(small))))
        .unwrap_or_default()
}

/// A number in decimal digits.
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, &digit| match digit {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_what_the_innermost_launcher_says() {
        let of = |variables: &[(&str, &'static str)]| {
            let value = |name: &[u8]| variables.iter().find(|known| known.0.as_bytes() == name);
            rank_of(|name| value(name).map(|known| known.1.as_bytes()))
        };
        let step = [("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        let mpirun = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let torchrun = [("LOCAL_RANK", "3"), ("RANK", "7"), ("WORLD_SIZE", "8")];
        assert_eq!(of(&step), (Some(1), Some(2)));
        for node in [&step[..], &mpirun] {
            assert_eq!(of(&[node, &torchrun].concat()), (Some(7), Some(8)), "one torchrun on each node");
            // Without a place on its node nothing was started by torchrun: the names are anybody's.
            assert_eq!(of(&[node, &torchrun[1..]].concat()), (Some(1), Some(2)));
        }
        let named = [("IOTIDE_RANK_FROM", "MINE:ALL"), ("MINE", "4"), ("ALL", "5")];
        assert_eq!(of(&[&torchrun[..], &named].concat()), (Some(4), Some(5)), "the user knows best");
    }

    #[test]
    fn a_pattern_is_a_prefix_of_whole_components_or_has_stars() {
        for (pattern, path, fits) in [
            ("/proc", "/proc/self/maps", true),
            ("/proc", "/process/data", false),
            ("/scratch/", "/scratch/a", true),
            ("/scratch", "/scratch", true),
            ("*.so.*", "/opt/lib/libx.so.6", true),
            ("*.so.*", "/opt/lib/libx.solution", false),
            ("*/tmp*", "/a/b/tmpfile", true),
            ("*a*b*c", "xxaxxbxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("*", "", true),
            ("", "/a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), fits, "{pattern} on {path}");
        }
    }
}
