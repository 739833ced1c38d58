//! The `IOTIDE_*` variables, read once and without allocating.
//!
//! | variable | means | otherwise |
//! |---|---|---|
//! | `IOTIDE_DIR` | directory of the trace, one file per process | `iotide-trace` in the working directory |
//! | `IOTIDE_LIVE` | directory of counter pages, one file per process ([`crate::page`]); then there is a trace only with `IOTIDE_DIR` or `IOTIDE_STREAM` | nothing is counted |
//! | `IOTIDE_APP`, `IOTIDE_PARAMS` | what the page calls the application, and its parameters | |
//! | `IOTIDE_EXCLUDE` | paths to leave out, `:` between them: a prefix, or a pattern with `*` | nothing but those of the system |
//! | `IOTIDE_INCLUDE` | paths to keep although they are left out otherwise | nothing |
//! | `IOTIDE_FLUSH` | seconds after which a buffer is written out though not full | 1 |
//! | `IOTIDE_STREAM` | `unix:/path` or `tcp:a.b.c.d:port` (`tcp:[v6]:port`): where a listener wants blocks as they fill | to the file |
//! | `IOTIDE_KEEP` | `1`: what a listener has taken stands in the file, too | only what it has not |
//! | `IOTIDE_GATE` | `unix:/path` or `tcp:…`: the arbiter that says when data may be moved; `/path=ADDRESS,ADDRESS@1M;…`: several, by path and offset | nobody is asked |
//! | `IOTIDE_GATE_KEY` | the file with the key that arbiters at `tcp:` want to be proved | nothing is proved |
//! | `IOTIDE_GATE_BYPASS` | bytes up to which a request is not held | 16384 |
//! | `IOTIDE_GATE_PATIENCE` | seconds after which a request goes on without the arbiter's leave | 60 |
//! | `IOTIDE_NESTED` | `1`: also record what MPI does to its files for an MPI-IO call | only the call itself |
//! | `IOTIDE_BESIDE_KERNEL` | `1`: the kernel's tracer records what passes us by, so that it is no loss | it is a loss |
//! | `IOTIDE_RANK_FROM` | the variable that holds the rank, or `RANK:SIZE` with the one that holds the number of ranks | those of the launchers |
//! | `IOTIDE_JOB_ID` | the job's name | what the scheduler says |
//! | `IOTIDE_RUN` | the run's name, which tells jobs without a scheduler apart | none |
//! | `IOTIDE_DISABLE` | anything but `0`: do nothing at all | |

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};

pub use iotide_wire::decimal as number;
use iotide_wire::{is_traced, job_of, page::PageText, rank_of};

use crate::sys;

/// Bytes of a fixed capacity, cut when they are too many.
pub struct Bytes<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Bytes<N> {
    /// Returns no bytes.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }
    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.len = 0;
    }
    /// Adds bytes. A zero is always left at the end.
    pub fn push(&mut self, more: &[u8]) {
        let n = more.len().min(N - 1 - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&more[..n]);
        self.len += n;
        self.bytes[self.len] = 0;
    }
    /// Adds a number in decimal or hexadecimal digits.
    pub fn push_number(&mut self, mut number: u64, radix: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(number % radix) as usize];
            number /= radix;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }
    /// The bytes.
    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// The bytes as a C string, up to the first zero.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// Settings and job information from the environment.
pub struct Config {
    /// The trace directory, absolute.
    pub directory: Bytes<2048>,
    /// The directory of counter pages, absolute; empty for none.
    pub live: Bytes<2048>,
    /// Whether records are written anywhere.
    pub traces: bool,
    /// Paths to leave out, as given.
    pub exclude: Bytes<2048>,
    /// Paths to keep, as given.
    pub include: Bytes<2048>,
    /// Where blocks go as they fill; empty for the file.
    pub stream: Bytes<256>,
    /// Whether the file gets what the listener has taken, too.
    pub keep: bool,
    /// The arbiters; empty for none.
    pub gate: Bytes<2048>,
    /// The file with the key for arbiters on other machines; empty for none.
    pub gate_key: Bytes<2048>,
    /// The largest request that does not ask the arbiter.
    pub gate_bypass: u64,
    /// How long the arbiter may hold a request.
    pub gate_patience_ns: u64,
    /// The job's name.
    pub job_id: Bytes<256>,
    /// The variable that says so.
    pub job_source: Bytes<33>,
    /// Scheduler's second name for the job.
    pub alias: Bytes<64>,
    /// Name of the run by `iotide record`.
    pub run: Bytes<64>,
    /// Whether calls on MPI's own files are recorded below the MPI-IO calls they serve.
    pub nested: bool,
    /// Whether the kernel's tracer records what passes us by.
    pub is_beside_kernel: bool,
    /// How long a record may wait in its buffer.
    pub flush_ns: u64,
    /// The rank, as the launcher says it.
    pub rank: Option<u32>,
    /// The number of ranks, as the launcher says it.
    pub n_ranks: Option<u32>,
}

struct Global(UnsafeCell<Config>);
// SAFETY: written once by `read`, before the tracer's state says that anyone may look; only read after that.
unsafe impl Sync for Global {}

static CONFIG: Global = Global(UnsafeCell::new(Config {
    directory: Bytes::new(),
    live: Bytes::new(),
    traces: true,
    exclude: Bytes::new(),
    include: Bytes::new(),
    stream: Bytes::new(),
    gate: Bytes::new(),
    gate_key: Bytes::new(),
    gate_bypass: 16 << 10,
    gate_patience_ns: 60_000_000_000,
    job_id: Bytes::new(),
    job_source: Bytes::new(),
    alias: Bytes::new(),
    run: Bytes::new(),
    nested: false,
    is_beside_kernel: false,
    keep: false,
    flush_ns: 1_000_000_000,
    rank: None,
    n_ranks: None,
}));

/// Returns the settings.
pub fn get() -> &'static Config {
    // SAFETY: see `Global`.
    unsafe { &*CONFIG.0.get() }
}

/// Reads the environment. Returns `false` if there is nothing to do.
pub fn read() -> bool {
    if variable(c"IOTIDE_DISABLE").is_some_and(|value| value != b"0") {
        return false;
    }
    // SAFETY: see `Global`: this is the one write, and nobody looks yet.
    let config = unsafe { &mut *CONFIG.0.get() };
    let (directory, live) = (variable(c"IOTIDE_DIR"), variable(c"IOTIDE_LIVE"));
    config.traces = directory.is_some() || live.is_none() || variable(c"IOTIDE_STREAM").is_some();
    for (to, path) in [(&mut config.directory, directory.or(Some(b"iotide-trace"))), (&mut config.live, live)]
    {
        let Some(path) = path else { continue };
        to.clear();
        if path.first() != Some(&b'/') {
            let mut here = [0; 2048];
            let Some(here) = sys::current_directory(&mut here) else { return false };
            to.push(here);
            to.push(b"/");
        }
        to.push(path);
    }
    config.exclude.push(variable(c"IOTIDE_EXCLUDE").unwrap_or(b""));
    config.include.push(variable(c"IOTIDE_INCLUDE").unwrap_or(b""));
    config.stream.push(variable(c"IOTIDE_STREAM").unwrap_or(b""));
    config.gate.push(variable(c"IOTIDE_GATE").unwrap_or(b""));
    config.gate_key.push(variable(c"IOTIDE_GATE_KEY").unwrap_or(b""));
    if let Some(bytes) = variable(c"IOTIDE_GATE_BYPASS").and_then(number) {
        config.gate_bypass = bytes;
    }
    if let Some(nanos) = variable(c"IOTIDE_GATE_PATIENCE").and_then(seconds_as_nanos) {
        config.gate_patience_ns = nanos;
    }
    if let Some(nanos) = variable(c"IOTIDE_FLUSH").and_then(seconds_as_nanos) {
        config.flush_ns = nanos;
    }
    config.keep = variable(c"IOTIDE_KEEP").is_some_and(|value| value != b"0");
    config.is_beside_kernel = variable(c"IOTIDE_BESIDE_KERNEL").is_some_and(|value| value != b"0");
    config.nested = variable(c"IOTIDE_NESTED").is_some_and(|value| value != b"0");
    config.run.push(variable(c"IOTIDE_RUN").unwrap_or(b""));
    config.read_job();
    (config.rank, config.n_ranks) = rank_of(named);
    true
}

impl Config {
    /// Which job this is, as the user or a batch system says.
    fn read_job(&mut self) {
        if let Some((source, job_id)) = job_of(named) {
            self.job_id.push(job_id);
            self.job_source.push(source);
        }
        if let (Some(array), Some(task)) = (variable(c"SLURM_ARRAY_JOB_ID"), variable(c"SLURM_ARRAY_TASK_ID"))
        {
            self.alias.push(array);
            self.alias.push(b"_");
            self.alias.push(task);
        }
    }
}

/// The name of the job at its scheduler: Slurm, PBS, LSF.
fn job_name() -> Option<&'static [u8]> {
    [c"SLURM_JOB_NAME", c"PBS_JOBNAME", c"LSB_JOBNAME"].into_iter().find_map(variable)
}

/// Returns the texts about the job that a page has beyond those of a trace.
pub fn page_texts() -> impl Iterator<Item = (PageText, &'static [u8])> {
    let mut texts = [
        (PageText::App, variable(c"IOTIDE_APP")),
        (PageText::Params, variable(c"IOTIDE_PARAMS")),
        (PageText::Partition, variable(c"SLURM_JOB_PARTITION")),
        (PageText::Cluster, variable(c"SLURM_CLUSTER_NAME")),
        (PageText::Step, variable(c"SLURM_STEP_ID")),
        (PageText::Job, None),
        (PageText::JobSource, None),
        (PageText::Alias, Some(get().alias.get()).filter(|alias| !alias.is_empty())),
        (PageText::JobName, job_name()),
    ];
    // Where no scheduler has a name for the job, its launcher may.
    if get().job_id.get().is_empty() {
        let names = [c"PMIX_NAMESPACE", c"PMI_JOBID", c"TORCHELASTIC_RUN_ID"];
        if let Some((name, job)) = names.into_iter().find_map(|name| Some((name, variable(name)?))) {
            texts[5].1 = Some(job);
            texts[6].1 = Some(name.to_bytes());
        }
    }
    texts.into_iter().filter_map(|(text, value)| Some((text, value?)))
}

/// Whether files of this path are traced.
pub fn wants(path: &[u8]) -> bool {
    let config = get();
    is_traced(path, config.include.get(), config.exclude.get())
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    named(name.to_bytes())
}

fn named(name: &[u8]) -> Option<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // Walked by hand: a shell exports its own `getenv`, which may allocate or not be ready when we are.
    // SAFETY: `environ` is null or a list of C strings that ends with null; nobody changes it while we load.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if let Some(rest) = text.strip_prefix(name)
                && let Some(value) = rest.strip_prefix(b"=")
            {
                return (!value.is_empty()).then_some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}

fn seconds_as_nanos(text: &[u8]) -> Option<u64> {
    let dot = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let whole = if dot == 0 { 0 } else { number(&text[..dot])? };
    let mut nanos = whole.checked_mul(1_000_000_000)?;
    let mut unit = 100_000_000;
    for &digit in text.get(dot + 1..).unwrap_or(&[]) {
        nanos = nanos.checked_add(number(&[digit])? * unit)?;
        unit /= 10;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(seconds_as_nanos(b"1"), Some(1_000_000_000));
        assert_eq!(seconds_as_nanos(b"0.25"), Some(250_000_000));
        assert_eq!(seconds_as_nanos(b".5"), Some(500_000_000));
        assert_eq!(seconds_as_nanos(b"1e3"), None);
        assert_eq!(seconds_as_nanos(b"99999999999999999999"), None);
    }

    #[test]
    fn bytes_are_cut_and_always_a_c_string() {
        let mut bytes: Bytes<8> = Bytes::new();
        bytes.push(b"abc");
        bytes.push_number(4095, 16);
        bytes.push(b"tail");
        assert_eq!(bytes.get(), b"abcffft");
        assert_eq!(bytes.as_c_str().to_bytes(), b"abcffft");
    }
}
