//! Contents of a trace, and its losses.

use std::ops::ControlFlow;

use iotide_formats::darshan::{
    Compression, DarshanOptions, DxtSegment, Endian, Log, ModuleData, Record, Value, lustre_totals,
};
use iotide_formats::{Format, OpenOptions, Reader};
use iotide_report::{
    DarshanInfo, Dxt, Heatmap, Info, InfoJob, InfoSource, JobId, LogInfo, Lustre, Map, Module, Number,
    Operation, RecordLine, SegmentLine,
};
use iotide_trace::{AccessFacts, Event, EventSink, JobInfo, Loss, Op, Tally};

use crate::{Error, Input};

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct InfoOptions {
    /// How the input is opened.
    pub open: OpenOptions,
    /// Whether a Darshan log's events are counted, too, as other questions would see them.
    pub events: bool,
}

/// Says what a trace holds, and what it lost.
///
/// Several logs of one run are events: each log has modules of its own.
pub fn info(input: &Input, options: &InfoOptions) -> Result<Info, Error> {
    let reader = input.open(&options.open)?;
    let format = reader.format();
    if format.is_darshan() && !input.is_several() {
        let log = reader.into_darshan_log()?;
        return Ok(of_log(input.name(), format, &log, options.events.then_some(options.open.darshan)));
    }
    let mut survey = Survey::default();
    let info = reader.read(&mut survey)?;
    let mut told = Info { n_files: info.files.len() as u64, job: of_job(&info.job), ..Info::default() };
    told.source.path = input.name().into();
    told.source.format = format.name().to_owned();
    told.source.n_ranks = info.job.n_procs;
    told.source.is_serial = info.job.has_ranks == Some(false);
    survey.add_to(&mut told);
    told.set_losses(&survey.losses);
    Ok(told)
}

fn of_job(job: &JobInfo) -> InfoJob {
    InfoJob {
        jobid: job.job_id.as_ref().map(|id| JobId::Name(id.into())),
        user: job.user.as_ref().map(Into::into),
        nprocs: job.n_procs,
        start_time: job.start_time_unix_s,
        end_time: job.start_time_unix_s.zip(job.run_time_s).map(|(start, run_time_s)| start + run_time_s),
        run_time_s: job.run_time_s,
        exe: job.exe.as_ref().map(Into::into),
        ..InfoJob::default()
    }
}

fn of_log(path: String, format: Format, log: &Log, events: Option<DarshanOptions>) -> Info {
    let n_procs = log.job.as_ref().and_then(|job| u64::try_from(job.n_procs).ok());
    let mut info = Info {
        source: InfoSource {
            path: path.into(),
            format: format.name().to_owned(),
            n_ranks: n_procs,
            ..InfoSource::default()
        },
        job: InfoJob { log_version: Some((&log.version).into()), ..InfoJob::default() },
        darshan: Some(of_modules(log)),
        n_files: log.names.len() as u64,
        ..Info::default()
    };
    if let Some(job) = &log.job {
        info.job = InfoJob {
            jobid: Some(JobId::Number(job.job_id)),
            uid: Some(job.uid),
            nprocs: n_procs,
            start_time: Some(job.start_time_unix_s()),
            end_time: (job.end_s > 0).then(|| job.end_s as f64 + job.end_ns as f64 / 1e9),
            run_time_s: job.run_time_s(),
            exe: Some((&job.exe).into()),
            ..info.job
        };
    }
    let mut losses = log.losses.clone();
    if let Some(options) = events {
        let mut survey = Survey::default();
        log.events(options, &mut survey);
        survey.add_to(&mut info);
        // Those of the log come again with its events.
        losses.extend(survey.losses.into_iter().filter(|loss| !log.losses.contains(loss)));
    }
    info.set_losses(&losses);
    info
}

fn of_modules(log: &Log) -> DarshanInfo {
    let mut told = DarshanInfo {
        log: LogInfo {
            byte_order: log.endian.map(|endian| match endian {
                Endian::Little => "little",
                Endian::Big => "big",
            }),
            compression: log.compression.map(|compression| match compression {
                Compression::Zlib => "zlib",
                Compression::Bzip2 => "bzip2",
                Compression::None => "none",
            }),
            library_version: log.library_version().map(Into::into),
            names: log.names.len() as u64,
            mounts: log.job.as_ref().map_or(0, |job| job.mounts.len() as u64),
        },
        ..DarshanInfo::default()
    };
    for module in &log.modules {
        let mut entry = Module {
            version: module.version,
            records: module.n_records(),
            partial: module.partial,
            ..Module::default()
        };
        if let Some(table) = module.counters() {
            entry.totals = Map(table
                .totals()
                .into_iter()
                .map(|(name, total)| (name.to_owned(), number(total)))
                .collect());
        }
        match &module.data {
            ModuleData::Lustre(records) => {
                let totals = lustre_totals(records);
                let sums = [
                    ("components", totals.components),
                    ("stripes", totals.stripes),
                    ("unique_osts", totals.unique_osts),
                ];
                entry.totals =
                    Map(sums.map(|(name, sum)| (name.to_owned(), Number::Int(sum as i64))).to_vec());
                entry.lustre = Some(Lustre {
                    components: totals.components,
                    stripes: totals.stripes,
                    unique_osts: totals.unique_osts,
                });
            }
            ModuleData::Dxt(dxt) => {
                let totals = &dxt.totals;
                let sums = Dxt {
                    records: totals.records,
                    read_segments: totals.read_segments,
                    write_segments: totals.write_segments,
                    bytes_read: totals.bytes_read,
                    bytes_written: totals.bytes_written,
                    first_start_s: totals.first_start_s,
                    last_end_s: totals.last_end_s,
                };
                told.dxt.0.push((module.name.to_string(), sums));
            }
            _ => {}
        }
        told.modules.0.push((module.name.to_string(), entry));
    }
    for totals in log.heatmap_totals() {
        let sums = Heatmap {
            ranks: totals.records,
            bin_width_s: totals.bin_width_s,
            n_bins: totals.n_bins,
            bytes_read: totals.bytes_read,
            bytes_written: totals.bytes_written,
        };
        told.heatmap.0.push((totals.layer, sums));
    }
    told
}

fn number(value: Value) -> Number {
    match value {
        Value::Int(value) => Number::Int(value),
        Value::Float(value) => Number::Float(value),
    }
}

/// Counts events as they stream past.
#[derive(Default)]
struct Survey {
    tally: Tally,
    operations: [Operation; Op::ALL.len()],
    access: Vec<AccessFacts>,
    losses: Vec<Loss>,
}

impl EventSink for Survey {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.tally.add(&event);
        if let Some(at) = Op::ALL.iter().position(|op| *op == event.op) {
            let operation = &mut self.operations[at];
            operation.events += 1;
            operation.calls += u64::from(event.calls);
            operation.bytes += event.bytes;
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }

    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, facts: &AccessFacts) {
        match self.access.iter_mut().find(|known| known.layer == facts.layer) {
            Some(known) => known.join(facts),
            None => self.access.push(facts.clone()),
        }
    }
}

impl Survey {
    fn add_to(&self, info: &mut Info) {
        let Self { tally, operations, access, .. } = self;
        info.set_functions(access);
        let source = &mut info.source;
        source.n_ranks = Some(tally.n_ranks() as u64).filter(|&n| n > 0).or(source.n_ranks);
        source.n_events = Some(tally.n_events);
        source.bytes_read = Some(tally.bytes_read);
        source.bytes_written = Some(tally.bytes_written);
        source.start_s = tally.start.map(|start| start.as_secs());
        source.end_s = tally.end.map(|end| end.as_secs());
        let seen = Op::ALL.iter().zip(operations).filter(|(_, operation)| operation.events > 0);
        info.operations = Some(Map(seen.map(|(op, operation)| (op.name().to_owned(), *operation)).collect()));
    }
}

/// Opens one Darshan log, whose records and segments [`for_each_record`] and [`for_each_segment`] list.
pub fn darshan_log(input: &Input, options: &OpenOptions) -> Result<Log, Error> {
    Ok(open_darshan(input, options)?.into_darshan_log()?)
}

/// Opens one Darshan log without the sums of its DXT modules; see [`Reader::into_darshan_log_without_dxt_sums`].
pub fn darshan_log_without_dxt_sums(input: &Input, options: &OpenOptions) -> Result<Log, Error> {
    Ok(open_darshan(input, options)?.into_darshan_log_without_dxt_sums()?)
}

fn open_darshan(input: &Input, options: &OpenOptions) -> Result<Reader, Error> {
    let reader = input.open(options)?;
    if !reader.format().is_darshan() || input.is_several() {
        return Err(Error::NotOneDarshanLog { name: input.name() });
    }
    Ok(reader)
}

/// Hands over every record of a Darshan log with all its counters, until one fails.
pub fn for_each_record<E>(
    log: &Log,
    mut take: impl FnMut(&RecordLine<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for module in &log.modules {
        let mut put = |id: u64, rank: i64, counters: Vec<(String, Number)>| {
            take(&RecordLine {
                module: &module.name,
                rank,
                id,
                file: log.names.get(id),
                counters: Map(counters),
            })
        };
        if let Some(table) = module.counters() {
            let counters = |record: Record<'_>| {
                record.counters().map(|(name, value)| (name.to_owned(), number(value))).collect()
            };
            until_error(|stop| table.for_each(|record| stop(put(record.id, record.rank, counters(record)))))?;
        }
        match &module.data {
            ModuleData::Lustre(records) => until_error(|stop| {
                records.for_each(|record| {
                    let mut counters = Vec::new();
                    for (part, component) in record.components.iter().enumerate() {
                        // Where a file's layout has one part only, counters have their own names.
                        let suffix =
                            if record.components.len() > 1 { format!("[{part}]") } else { String::new() };
                        counters.extend(
                            component
                                .counters
                                .iter()
                                .map(|(name, value)| (format!("{name}{suffix}"), Number::Int(*value))),
                        );
                    }
                    let osts = record.osts.iter().enumerate();
                    counters.extend(osts.map(|(i, ost)| (format!("LUSTRE_OST_ID_{i}"), Number::Int(*ost))));
                    stop(put(record.id, record.rank, counters))
                })
            })?,
            ModuleData::Heatmap(records) => until_error(|stop| {
                records.for_each(|record| {
                    let mut counters =
                        vec![("HEATMAP_F_BIN_WIDTH_SECONDS".to_owned(), Number::Float(record.bin_width_s))];
                    for (name, bins) in [("READ", &record.read), ("WRITE", &record.write)] {
                        let bins = bins.iter().enumerate();
                        counters.extend(
                            bins.map(|(i, bytes)| (format!("HEATMAP_{name}_BIN_{i}"), Number::Int(*bytes))),
                        );
                    }
                    stop(put(record.id, record.rank, counters))
                })
            })?,
            _ => {}
        }
    }
    Ok(())
}

/// Runs a loop that goes on while all is well: `stop` turns what went wrong into a break.
fn until_error<E>(run: impl FnOnce(fn(Result<(), E>) -> ControlFlow<E>) -> ControlFlow<E>) -> Result<(), E> {
    let stop = |done| match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    };
    match run(stop) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Hands over every DXT segment of a Darshan log, until one fails.
pub fn for_each_segment<E>(
    log: &Log,
    mut take: impl FnMut(&SegmentLine<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut taken = Ok(());
    for module in &log.modules {
        let mut n_seen = [0, 0];
        // What is missing is known already: sums were made when the log was read.
        log.for_each_dxt_segment(module, |record, segment| {
            let Some(DxtSegment { is_write, offset, length, start_s, end_s, .. }) = segment else {
                n_seen = [0, 0];
                return ControlFlow::Continue(());
            };
            let line = SegmentLine {
                module: &module.name,
                rank: record.rank,
                op: if is_write { "write" } else { "read" },
                segment: n_seen[usize::from(is_write)],
                offset,
                length,
                start_s,
                end_s,
                host: &record.host,
                id: record.id,
                file: log.names.get(record.id),
            };
            n_seen[usize::from(is_write)] += 1;
            taken = take(&line);
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if taken.is_err() {
            break;
        }
    }
    taken
}
