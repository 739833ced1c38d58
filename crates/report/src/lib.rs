//! The schema and the text of every answer.
//!
//! A [`Report`] is filled from what the analyses found and says it twice: [`Document::to_json`] to scripts and
//! [`Document::to_text`] to a terminal; a crate above makes pages of it. This crate alone knows the names, units and rounding
//! people see; the names of its [`SCHEMA`] are only ever added to.
//!
//! ```
//! use iotide_report::{Document, Report};
//!
//! let report: Report = Report::new("detect");
//! assert!(report.to_json().starts_with("{\n  \"schema\": \"iotide/1\",\n  \"command\": \"detect\""));
//! ```

use serde::Serialize;

pub use iotide_ledger::{JobState, Trust};
pub use iotide_look::{Ink, MARKS, Plot, Untrusted, mark_untrusted, quantity, text};

pub use crate::{
    activity::{Activity, File, HeatMap, HeatRow, LayerTime, Operation as ActivityOperation, SizeRow},
    alarms::{
        AlarmDone, AlarmList, AlarmRule, AlarmState, NewAlarm, ProxyAlarm, ProxyDone, ProxyNewAlarm,
        alarm_level, alertmanager_json, webhook_json,
    },
    archive::{
        ApplicationCount, ArchiveStatistics, CategorizeDocument, IssueCount, IssueShare, Population,
        RejectionCount, ShareCell, ShareTable, Which,
    },
    archive_load::{ApplicationLoad, Coverage, TimeBucket, UserCount, folded},
    card::{Bandwidth, JobCard, SlowRank},
    checkpoint::{CheckpointAdvice, CheckpointDocument, CheckpointsNow, CheckpointsSeen},
    compare::{
        Baseline, BaselineError, Change as SideChange, CompareDocument, CompareSettings, FileRhythm, FileRow,
        FileValues, HistoryDocument, HistoryPoint, IssueRow, LabelRow, MeasuredRun, Outline, Presence,
        Quantity, QuantityRow, Side, SideRun, SizesRow, Values, Verdict as SideVerdict,
    },
    config::{ConfigReport, SettingEntry},
    decisions::{DecisionEntry, DecisionList, EffectEntry, HarmedJob, Judged, RuleEntry, RulePlace},
    demand::{AsyncPhase, Demand, Need},
    doctor::{CheckEntry, CheckState, DoctorReport, HarmEntry},
    document::Document,
    events::{JobEvent, LoginLink, MissedEvents, ModelEvent, PredictionEvent, RatesEvent},
    history::{Comparison, History, LabelShare},
    info::{
        DarshanInfo, Dxt, Function, Heatmap, Info, InfoJob, InfoSource, JobId, LogInfo, Lustre, Map, Module,
        Number, Operation, RecordLine, SegmentLine,
    },
    issue::{Issue, RunIssues},
    job_issues::issues_of_counters,
    job_schedule::{
        DrawnSchedule, Figure, FigureSource, JobFateEntry, JobPolicyEntry, JobsReport, JobsRun, MachineEntry,
        Ratios, ResizeEntry,
    },
    job_summary::{Efficiency, JobResources, JobSummary, NoResource, SummedIo},
    jobs::{
        EarlierRun, JobDocument, JobEntry as WatchedJob, JobIo, JobList, JobMpi, JobStaging, JobTime,
        ProxyJob, ProxyProfile, Refused, answer_json, called,
    },
    known::known_jobs,
    label_glossary::label_meaning,
    labelled::{GainLine, IssueLine, LabelledRun, LineHead, LogIdentity, RejectedLog, ResultLine},
    live::{LiveEnd, Notice, Prediction, Screen, about_job},
    loop_demo::{LoopDemo, LoopJob, LoopRun, LoopSample},
    measure::{MeasureDocument, MeasureEntry, MeasuredJobEntry},
    modules::{FilesByUse, LogModules, ModuleCalls, ModuleCounts, ModuleFacts, UsedFiles},
    nodes::{NodeEntry, NodeList},
    patterns::{
        AccessOrder, CommonSize, FileCounts, FileGroup, MountSums, MpiIoCalls, MpiIoWay, OrderCounts,
        Patterns, RequestSizes, SizeRange,
    },
    pictures::{are_both_seen, pictures, pictures_of_both, pictures_of_dft},
    plan::{PlanEntry, PlanReport},
    profile::{
        ApplicationModels, BuildEntry, Evaluated, ModelLine, ModelLines, ProfileValue, WatchedRuns, profile,
    },
    resize_advice::{ResizeAdvice, SizeAdvice},
    rhythm::{Pause, Rhythm},
    run::{Loss, Run, Source},
    scaling::{
        AdviceEntry, DrawnModel, FactorEntry, ModelEntry, ModelFailure, PieceEntry, PointEntry,
        PredictionEntry, ScalingReport, ScalingSource, TermEntry,
    },
    scaling_print::PrintError,
    schedule::{
        Change, JobEntry, PolicyEntry, Published, ScenarioEntry, SimulationReport, Spread, WorkloadEntry,
    },
    series::{
        CounterOverTime, JobMetrics, JobRates, ListedMetric, MetricList, SeriesDocument, SeriesValue,
        rates_of,
    },
    sets::{JobAtStorage, JobOfSource, SourceJobs, SourceTarget, StorageJobs, WhoKnows},
    signature::{
        FitReport, FitStart, GroupEntry, LogReport, LogRow, LogSource, LogTile, SignatureChart,
        SignatureEntry, SignatureReport, SignatureTable, method_name, signature_of_json,
    },
    staging::{LeftFile, StageAnswer, StagedCheck, StagedFiles, Staging},
    staging_simulation::{
        DrawnStaging, LossEntry, ModelledAt, ModelledFigure, StagingBrief, StagingEntry, StagingReport,
        StateTimes,
    },
    system::{
        CarryAnswer, CarryBrief, CarryEntry, CarryLimitEntry, CarryReport, CarryRuns, CarryStep, Estimate,
        Forecast, ForecastJob, ForecastParts, ForecastState, ForecastStorage, Frame, SaturationEntry, State,
        Stretch, SystemAnswer, SystemBrief, SystemJob, SystemReport, SystemRuns, WhatIf,
    },
    templates::{FileSystemEntry, FoundTemplate, LadderReport, RunOfTemplate, StorageEntry, TemplatesReport},
    timeline::{RowSums, Timeline, TimelineRow},
    why::{EvidenceEntry, JobWhy, WhyDocument, WhyEntry, WhyRun},
    why_archive::{
        LostTime, SlowApplication, SlowFileSystem, SlowRuns, SlowTable, SlowTime, WhyArchive, WhyArchiveRun,
    },
    zero::Zero,
};

mod activity;
mod alarms;
mod archive;
mod archive_load;
mod card;
mod checkpoint;
mod compare;
mod config;
mod decisions;
mod demand;
mod doctor;
mod document;
mod events;
mod harmonics;
mod history;
mod info;
mod issue;
mod job_issues;
mod job_schedule;
mod job_summary;
mod jobs;
mod known;
mod label_glossary;
mod labelled;
mod live;
mod loop_demo;
mod measure;
mod modules;
mod nodes;
pub mod parquet_file;
mod patterns;
mod pictures;
mod plan;
mod profile;
mod resize_advice;
mod rhythm;
mod run;
#[allow(dead_code)] // Tests of pages show what was made by hand, too.
#[cfg(test)]
mod samples;
mod scaling;
mod scaling_print;
mod schedule;
mod series;
mod sets;
mod signature;
mod staging;
mod staging_simulation;
#[cfg(test)]
mod steering;
mod stream;
mod system;
mod templates;
mod timeline;
mod why;
mod why_archive;
pub mod words;
mod zero;

/// The schema of the JSON form. The number grows only when a name changes its meaning or goes.
pub const SCHEMA: &str = "iotide/1";

/// One answer of one command: what was found, run by run.
#[derive(Clone, Debug, Serialize)]
pub struct Report<R = Run> {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Results, run by run.
    pub runs: Vec<R>,
    /// Statistics over several runs, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics: Option<ArchiveStatistics>,
    /// Inputs of which there is no answer, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// An input of which there is no answer.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The input.
    pub path: Untrusted,
    /// Description of the error.
    pub error: Untrusted,
}

/// Results of one run, in words.
pub trait Tell: Serialize {
    /// Returns it in lines of at most `width` columns where words allow, each with a final newline.
    fn tell(&self, width: usize, ink: Ink) -> String;
}

impl<R: Tell> Report<R> {
    /// Returns a report with nothing in it yet.
    pub fn new(command: &'static str) -> Self {
        Self { schema: SCHEMA, command, runs: Vec::new(), statistics: None, failures: Vec::new() }
    }
}

impl<R: Tell> Document for Report<R> {
    fn to_json(&self) -> String {
        text::json_document(self)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = String::new();
        for (i, run) in self.runs.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            out.push_str(&run.tell(width, ink));
        }
        if let Some(statistics) = &self.statistics {
            out.push('\n');
            out.push_str(&statistics.to_text(width, ink));
        }
        if !self.failures.is_empty() {
            if !self.runs.is_empty() {
                out.push('\n');
            }
            out.push_str(&format!(
                "{} could not be analysed:\n",
                text::counted(self.failures.len() as u64, "input")
            ));
            for failure in &self.failures {
                // Most errors name their file already.
                let is_named = failure.error.begins_with(&failure.path);
                let path = if is_named { String::new() } else { failure.path.for_terminal() + ": " };
                out.push_str(&format!("  {path}{}\n", failure.error.for_terminal()));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{aperiodic, periodic, silent, two_rhythms};

    fn told(runs: Vec<Run>) -> Report {
        Report { runs, ..Report::new("detect") }
    }

    #[test]
    fn a_period_is_told_in_one_sentence_and_a_few_lines() {
        insta::assert_snapshot!(told(vec![periodic().1]).to_text(90, Ink::Plain), @r#"
        run.csv: period 5 s, confidence 93 %: 10 phases of about 2 GB written

          ██       ▄█▄      ▂█▆       ▆█▁      ▄█▄       █▇       ▇█▂      ▂█▄       █▇       ▅█
          0 s                                 up to 2 GB/s                                  46 s

          source           csv of ./a.out, job 4711, 32 ranks, 12 800 events
          volume           0 B read, 20 GB written
          analysed         writes from 0 s to 46 s, as 460 samples at 10 Hz
          phases           10, on average 1 s long and 2 GB
          next phase       expected at 50 s, 4 s after the end of the data
          periodicity      0.97, very regular: bytes per period vary by 1 %, I/O time by 2 %
          active I/O       22 % of the run, 2 GB/s on average
          per phase        2 GB
          candidates       5 s (93 %, accepted), 2.5 s (4 %)
          autocorrelation  5 s (99 %); all evidence together: 95 %
          waves            of 5 s draw the signal with an error of 77 %
          losses           line 12: the end is before the start (2 records)
        "#);
    }

    #[test]
    fn no_period_is_an_answer() {
        insta::assert_snapshot!(told(vec![aperiodic().1]).to_text(90, Ink::Plain), @r#"
        noise.csv: no period: the writes do not repeat evenly (confidence 88 %)

          ██       ▄█▄      ▂█▆       ▆█▁      ▄█▄       █▇       ▇█▂      ▂█▄       █▇       ▅█
          0 s                                 up to 2 GB/s                                  46 s

          source      csv of ./a.out, job 4711, 32 ranks, 12 800 events
          volume      0 B read, 20 GB written
          analysed    writes from 0 s to 46 s, as 460 samples at 10 Hz
          active I/O  20 % of the run, 2 GB/s on average
          candidates  12.5 s (4 %)
          losses      line 12: the end is before the start (2 records)
        "#);
    }

    #[test]
    fn what_is_unclear_says_why_and_has_no_confidence() {
        let unclear = |reason, confidence, candidates: &[(f64, f64)]| {
            let mut analysis = aperiodic().0;
            analysis.estimate.verdict = iotide_analysis::Verdict::Unclear;
            analysis.estimate.reason = Some(reason);
            analysis.estimate.confidence = confidence;
            analysis.estimate.candidates = (candidates.iter())
                .map(|&(period_s, confidence)| iotide_analysis::Candidate { period_s, confidence })
                .collect();
            let run =
                Run::analysed(Source::default(), &[], &iotide_analysis::RunConfig::default(), &analysis);
            assert_eq!(run.headline_confidence(), None);
            run.headline()
        };
        use iotide_analysis::Reason;
        insta::assert_snapshot!(unclear(Reason::TooFewPhases, 1.0, &[]), @"unclear: fewer than three phases");
        insta::assert_snapshot!(unclear(Reason::TooCoarse, 1.0, &[]), @"unclear: the source is too coarse to show when phases begin and end");
        insta::assert_snapshot!(unclear(Reason::MixedEvidence, 0.45, &[(12.0, 0.55)]), @"unclear: the evidence is mixed; the best candidate is 12 s with a confidence of 55 %");
    }

    #[test]
    fn two_rhythms_are_both_named() {
        insta::assert_snapshot!(two_rhythms().1.headline(), @"periods 5 s and 750 ms, confidence 90 %: 10 phases of about 2 GB and 60 of about 20 MB written");
    }

    #[test]
    fn a_run_without_data_says_so_and_keeps_its_losses() {
        insta::assert_snapshot!(told(vec![silent()]).to_text(60, Ink::Plain), @r#"
        silent.csv: nothing to analyse: no bytes were read or
        written

          source  csv, 0 events
          volume  0 B read, 0 B written
          losses  line 7: the file ends within a record (3 records)
        "#);
    }

    #[test]
    fn a_narrow_terminal_gets_the_same_words_in_shorter_lines() {
        let text = told(vec![periodic().1]).to_text(44, Ink::Plain);
        assert!(text.lines().all(|line| line.chars().count() <= 44), "{text}");
        assert!(text.contains("autocorrelation"), "{text}");
    }

    #[test]
    fn colours_add_nothing_but_colours() {
        let report = told(vec![periodic().1, aperiodic().1]);
        let mut plain = String::new();
        for (i, part) in report.to_text(90, Ink::Ansi).split('\x1b').enumerate() {
            plain.push_str(if i == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(plain, report.to_text(90, Ink::Plain));
    }

    #[test]
    fn what_could_not_be_analysed_stands_at_the_end() {
        let mut report = told(vec![aperiodic().1]);
        report.failures.push(Failure { path: "b\x07.csv".into(), error: "b\x07.csv is empty".into() });
        assert!(
            report
                .to_text(90, Ink::Plain)
                .ends_with("1 input could not be analysed:\n  b\\u{7}.csv is empty\n")
        );
        assert!(report.to_json().contains("\"failures\""));
    }

    #[test]
    fn json_has_the_promised_names_and_nulls() {
        insta::assert_snapshot!(told(vec![periodic().1]).to_json(), @r#"
        {
          "schema": "iotide/1",
          "command": "detect",
          "runs": [
            {
              "source": {
                "path": "run.csv",
                "format": "csv",
                "n_ranks": 32,
                "n_events": 12800,
                "bytes_read": 0,
                "bytes_written": 20000000000,
                "start_s": 0.0,
                "end_s": 46.0,
                "job": {
                  "jobid": "4711",
                  "exe": "./a.out",
                  "user": null,
                  "nprocs": 32,
                  "run_time_s": null,
                  "start_time": null
                }
              },
              "settings": {
                "method": "auto",
                "sample_rate_hz": 10.0,
                "window_s": [
                  0.0,
                  46.0
                ],
                "mode": "write",
                "sampling": "mean",
                "n_samples": 460,
                "abstraction_error": 0.0,
                "signal_error": 0.0,
                "skip_first_phase": false,
                "outliers": null,
                "tolerance": null,
                "harmonics": null,
                "as_ftio": null,
                "substantial_bps": null,
                "seed": null
              },
              "period": {
                "verdict": "periodic",
                "reason": null,
                "period_s": 5.0,
                "frequency_hz": 0.2,
                "confidence": 0.93,
                "candidates": [
                  {
                    "period_s": 5.0,
                    "confidence": 0.93,
                    "accepted": true
                  },
                  {
                    "period_s": 2.5,
                    "confidence": 0.04,
                    "accepted": false
                  }
                ],
                "periods_s": [
                  5.0
                ],
                "rhythms": [
                  {
                    "period_s": 5.0,
                    "mean_distance_s": 5.0,
                    "spread": 0.0,
                    "missed": 0,
                    "n_phases": 10,
                    "bytes": 20000000000,
                    "byte_share": 1.0,
                    "time_share": 1.0,
                    "depth": 1.0,
                    "start_s": 0.0,
                    "end_s": 46.0,
                    "confidence": 0.93,
                    "pauses": []
                  }
                ],
                "autocorrelation": {
                  "period_s": 5.0,
                  "confidence": 0.99,
                  "candidates_s": [
                    5.0,
                    5.0
                  ]
                },
                "refined_confidence": 0.95,
                "next_phase_s": 50.0,
                "bytes_per_phase": 2000000000,
                "harmonics": [],
                "bursts": null
              },
              "scores": {
                "sigma_vol": 0.01,
                "sigma_time": 0.02,
                "periodicity": 0.97,
                "io_time_ratio": 0.217,
                "io_bandwidth_bps": 2000000000.0,
                "bytes_per_period": 2170000000,
                "active_ratio": 0.21739130434782608
              },
              "phases": [
                {
                  "start_s": 0.0,
                  "end_s": 1.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 5.0,
                  "end_s": 6.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 10.0,
                  "end_s": 11.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 15.0,
                  "end_s": 16.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 20.0,
                  "end_s": 21.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 25.0,
                  "end_s": 26.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 30.0,
                  "end_s": 31.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 35.0,
                  "end_s": 36.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 40.0,
                  "end_s": 41.0,
                  "bytes": 2000000000
                },
                {
                  "start_s": 45.0,
                  "end_s": 46.0,
                  "bytes": 2000000000
                }
              ],
              "waves": [
                {
                  "frequency_hz": 0.2,
                  "period_s": 5.0,
                  "amplitude_bps": 750000000.0,
                  "phase_rad": -0.6,
                  "power_share": 0.4
                }
              ],
              "reconstruction_error": 0.77,
              "demand": null,
              "not_analysed": null,
              "losses": [
                {
                  "what": "line 12: the end is before the start",
                  "records": 2,
                  "since_s": null
                }
              ]
            }
          ]
        }
        "#);
        let silent: serde_json::Value = serde_json::from_str(&told(vec![silent()]).to_json()).unwrap();
        let run = &silent["runs"][0];
        for name in [
            "period_s",
            "frequency_hz",
            "confidence",
            "next_phase_s",
            "autocorrelation",
            "refined_confidence",
        ] {
            assert!(run["period"][name].is_null(), "{name}: {run}");
        }
        assert_eq!(run["period"]["periods_s"], serde_json::json!([]));
        assert!(run["scores"]["periodicity"].is_null() && run["settings"]["window_s"].is_null());
        assert_eq!(run["not_analysed"], "no bytes were read or written");
    }

    #[test]
    fn what_is_not_a_number_is_null() {
        let mut run = periodic().1;
        run.scores.sigma_vol = Some(f64::NAN);
        run.source.bytes_read = f64::INFINITY;
        let json: serde_json::Value = serde_json::from_str(&told(vec![run]).to_json()).unwrap();
        assert!(json["runs"][0]["scores"]["sigma_vol"].is_null());
        assert!(json["runs"][0]["source"]["bytes_read"].is_null());
    }
}
