//! Advice on errors, in terms of this command line.

use iotide_api::{Error, Format, PrometheusError, ReadError, RunError};

use crate::ui::Hint;

/// Adds to an error what to do about it: the message names the input and the fault already.
pub(crate) fn advised(error: impl Into<Error>) -> anyhow::Error {
    let error = error.into();
    let hint = match &error {
        Error::Read(ReadError::UnknownFormat { .. }) => format!(
            "`--input-format` names it if you know better; known are {}",
            Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
        ),
        Error::Read(ReadError::SeveralRuns { .. }) => {
            "`iotide categorize DIR` looks at each log by itself; name the files of one run to read them as one".to_owned()
        }
        Error::Analysis { why: RunError::Sampling(_), .. } => {
            "`--freq auto` chooses a rate that fits; `--window` makes the run shorter".to_owned()
        }
        Error::Analysis { .. } => "`iotide detect --help` lists what can be changed".to_owned(),
        Error::OneSide => "name a second run, or the runs of the other side behind --with".to_owned(),
        Error::NotOneDarshanLog { .. } => {
            "`iotide convert --to csv` lists the events of any trace".to_owned()
        }
        Error::Measurements { .. } => {
            "measurements may be Extra-P text, JSON, JSON Lines, Talpas, .extra-p, .cubex or CSV; see docs/scaling.md. Traces are \
             measured with --from-traces"
                .to_owned()
        }
        Error::NoProfiles { .. } => {
            "a set of profiles is a folder of folders: runs/app.p4.r1/profile.cubex".to_owned()
        }
        Error::NoTraceColumn { .. } => {
            "such a table reads `trace,p,size`, then `run-32.darshan,32,10` for each trace".to_owned()
        }
        Error::ProcessesUnknown => "`--parameters FILE` tells the parameters of each trace".to_owned(),
        Error::Workload { .. } => "docs/scheduling.md says how a workload is written".to_owned(),
        Error::System { .. } => "`iotide simulate system --help` lists what can be changed; docs/system.md says how a system is written".to_owned(),
        Error::Ladder { .. } => "`iotide ladder DIR` measures one".to_owned(),
        Error::Simulation(_) => "`iotide simulate io --help` lists what can be changed".to_owned(),
        Error::NoRequests { .. } => {
            "the question needs a trace of calls, each with its times: of `iotide record`, Darshan's DXT, Recorder, strace or a table of events"
                .to_owned()
        }
        Error::NoCheckpoints { .. } => "`--cost TIME` says how long a checkpoint takes; `iotide detect` says why there is no period".to_owned(),
        Error::NoStartTime { .. } => {
            "a table of events may begin with a line `# start_time=…`, in seconds since 1970; without it in any of them, all count from one zero".to_owned()
        }
        Error::NoServerLog { .. } => {
            "a log of servers is a table `time,read,write` in bytes per second, or another that `iotide signature` reads".to_owned()
        }
        Error::Signature(_) => {
            "a signature is what several runs of one application have in common".to_owned()
        }
        Error::ClocksApart { .. } => "both must count from one zero; `--utc-offset` moves dates of the job log, and \
             SLURM_TIME_FORMAT=%s makes sacct write seconds"
            .to_owned(),
        Error::TooManyStarts { enough_s, .. } => format!("`--fit-step {enough_s}` tries fewer"),
        Error::Prometheus(PrometheusError::TooManyValues { .. }) => {
            "a longer `--step`, or a shorter time by `--from` and `--until`, asks for fewer".to_owned()
        }
        Error::Prometheus(PrometheusError::Refused { .. }) => "`--query` is PromQL that gives bytes per second, for example \
             sum(rate(lustre_write_bytes_total[1m]))"
            .to_owned(),
        Error::Prometheus(PrometheusError::CountsBytes { metric }) => {
            format!("ask for sum(rate({metric}[1m]))")
        }
        Error::Prometheus(PrometheusError::NoSamples { .. }) => "`--from` and `--until` are seconds since 1970 or dates; the \
             server's own page shows what it has"
            .to_owned(),
        Error::Settings { .. } => {
            "`iotide categorize --print-settings` prints every setting with its default".to_owned()
        }
        Error::SignatureSettings { .. } => {
            "`iotide signature --print-settings` prints every setting with its default".to_owned()
        }
        _ => return error.into(),
    };
    Err::<(), _>(error).hint(hint).unwrap_err()
}
