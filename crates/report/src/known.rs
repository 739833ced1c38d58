//! Jobs as a control socket or a listening detector reports them, for programs that act on them.

use iotide_analysis::online::NextPhase;
use iotide_look::Untrusted;
use iotide_sched::staging::Forecast;
use iotide_sched::{KnownJob, Load, PeriodSource};
use serde::Deserialize;

use crate::sets::JobAtStorage;

/// Reads the line that answers `jobs`: of a mount or an arbiter (`--control`), or of `iotide detect --listen`.
///
/// `now_unix_s` is when it came. Times of forecasts are from then on.
pub fn known_jobs(line: &str, now_unix_s: f64) -> Result<Vec<KnownJob>, serde_json::Error> {
    Ok(match serde_json::from_str(line)? {
        Answer::Storage { jobs, .. } => jobs.into_iter().map(at_storage).collect(),
        Answer::Detector { jobs } => jobs.into_iter().map(|job| job.known(now_unix_s)).collect(),
    })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Storage {
        #[serde(rename = "policy")]
        _policy: String,
        jobs: Vec<JobAtStorage>,
    },
    Detector {
        jobs: Vec<Detected>,
    },
}

fn at_storage(job: JobAtStorage) -> KnownJob {
    let name = job.job.as_said();
    // Where several users claim one name it is said whose it is.
    let of_user = name.strip_prefix("uid:").and_then(|rest| rest.split_once('/'));
    let of_user = of_user.and_then(|(uid, name)| Some((uid.parse().ok()?, name)));
    KnownJob {
        job: of_user.map_or(name, |(_, name)| name).to_owned(),
        uid: of_user.map(|(uid, _)| uid),
        period_s: job.period_s,
        load: Some(Load {
            is_active: job.share.is_some(),
            bandwidth_bps: job.bandwidth_bps,
            seen_period_s: job.period_s.filter(|_| job.period_source == Some(PeriodSource::Predicted)),
        }),
        ..KnownJob::default()
    }
}

/// A job, as a detector sees it.
#[derive(Deserialize)]
struct Detected {
    age_s: f64,
    prediction: Predicted,
}

/// As [`crate::Prediction`] is written.
#[derive(Deserialize)]
struct Predicted {
    #[serde(default)]
    job: Option<Untrusted>,
    at_s: f64,
    at_unix_s: Option<f64>,
    period_s: Option<f64>,
    confidence: f64,
    next_phase: Option<Next>,
    #[serde(default)]
    idle_gaps: Vec<Gap>,
}

#[derive(Deserialize)]
struct Next {
    start_s: f64,
    start_interval_s: (f64, f64),
    bytes: f64,
    duration_s: f64,
}

#[derive(Deserialize)]
struct Gap {
    probability: f64,
}

impl Detected {
    fn known(self, now_unix_s: f64) -> KnownJob {
        let Self { age_s, prediction } = self;
        let forecast = prediction.period_s.zip(prediction.next_phase).map(|(period_s, next)| {
            let Next { start_s, start_interval_s, bytes, duration_s } = next;
            let next = NextPhase { start_s, start_interval_s, bytes, duration_s };
            let idle_probability = prediction.idle_gaps.first().map(|gap| gap.probability);
            Forecast::of_phase(prediction.at_s, prediction.confidence, period_s, &next, idle_probability)
        });
        // Onto a clock that is 0 now. If nobody knows when the trace's began, a prediction is as old as the line that says it.
        let at_s = prediction.at_unix_s.map_or(-age_s, |at_unix_s| at_unix_s - now_unix_s);
        KnownJob {
            job: prediction.job.map_or_else(String::new, |job| job.as_said().to_owned()),
            period_s: prediction.period_s,
            confidence: Some(prediction.confidence),
            age_s,
            forecast: forecast
                .map(|forecast| forecast.shifted(at_s - prediction.at_s))
                .filter(Forecast::is_possible),
            ..KnownJob::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prediction;
    use iotide_analysis::online;

    #[test]
    fn a_control_socket_says_who_is_active_and_whose_a_name_is() {
        let job = |name: &str, share: &str| {
            format!(
                r#"{{"job":"{name}","period_s":2.5,"period_source":"given","set":"0","share":{share},
                    "bandwidth_bps":100,"bytes":1,"waiting":0,"phases":1}}"#
            )
        };
        let line = format!(
            r#"{{"policy":"set10","rules":"iotide","jobs":[{},{}]}}"#,
            job("7", "0.5"),
            job("uid:1000/8", "null")
        );
        let jobs = known_jobs(&line, 0.0).unwrap();
        let about: Vec<_> =
            jobs.iter().map(|job| (job.job.as_str(), job.uid, job.load.unwrap().is_active)).collect();
        assert_eq!(about, [("7", None, true), ("8", Some(1000), false)]);
        assert!(jobs.iter().all(|job| job.confidence.is_none() && job.period_s == Some(2.5)));
        assert_eq!(jobs[0].load.unwrap().seen_period_s, None, "it was said, not seen");
        let seen = known_jobs(&line.replace("given", "predicted"), 0.0).unwrap();
        assert_eq!(seen[0].load.unwrap().seen_period_s, Some(2.5));
    }

    #[test]
    fn a_detector_says_when_the_next_phase_begins_from_now_on() {
        let mut predictor = online::Predictor::new(online::PredictorConfig::default());
        let mut newest = None;
        for tenth in 0..2000 {
            use iotide_trace::{Span, Timestamp};
            let at = |tenth: i32| Timestamp::from_secs_since_start(f64::from(tenth) / 10.0).unwrap();
            let span = Span { start: at(tenth), end: at(tenth + 1) };
            let rate_bps = if tenth % 100 < 10 { 1e9 } else { 0.0 };
            newest = predictor.push_sample(span, rate_bps).or(newest);
        }
        let made = newest.unwrap();
        // The trace's clock began 1000 s after the epoch, if anybody knows.
        for (origin_unix_s, now_unix_s) in [(Some(1000.0), 1000.0 + made.at_s + 0.5), (None, 77.0)] {
            let line = Prediction::new("4711", &made, origin_unix_s).to_json();
            let line = format!(r#"{{"jobs":[{{"age_s":0.5,"prediction":{line}}}]}}"#);
            let [job] = known_jobs(&line, now_unix_s).unwrap().try_into().unwrap();
            assert_eq!((job.job.as_str(), job.age_s), ("4711", 0.5));
            // JSON keeps its digits but for the last.
            assert!((job.confidence.unwrap() - made.confidence).abs() < 1e-12, "{job:?}");
            assert!((job.period_s.unwrap() - 10.0).abs() < 0.1, "{job:?}");
            let forecast = job.forecast.unwrap();
            let start_in_s = made.next_phase.unwrap().start_s - made.at_s - 0.5;
            assert!((forecast.start_s - start_in_s).abs() < 1e-6, "{forecast:?}");
            assert!((forecast.at_s + 0.5).abs() < 1e-6, "{forecast:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for line in ["", "null", "{}", r#"{"error":"no"}"#, r#"{"jobs":[{}]}"#, "HTTP/1.1 400 Bad Request"] {
            assert!(known_jobs(line, 0.0).is_err(), "{line}");
        }
        assert_eq!(known_jobs(r#"{"jobs":[]}"#, 0.0).unwrap(), []);
    }
}
