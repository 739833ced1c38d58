//! Forecast for the storage as part of a page: two charts, and the data they are based on.

use iotide_look::chart::{Axis, Look, Series, Xs};
use iotide_look::html::escape;
use iotide_look::{Plot, text};
use iotide_report::{Estimate, Forecast, ForecastState, ForecastStorage};

/// As part of a page: two charts, and what they are based on.
pub(crate) fn to_html(forecast: &Forecast, now_unix_s: f64) -> String {
    let mut html = String::new();
    let say = |html: &mut String, line: &str| {
        *html += &format!("<p class=\"note\">{}</p>\n", escape(line));
    };
    if let Some(reason) = &forecast.reason {
        say(&mut html, &format!("Nothing can be foretold: {reason}."));
        return html;
    }
    html += "<div class=\"pair\">\n";
    for plot in plots(forecast) {
        html += &plot.to_figure("forecast");
    }
    html += "</div>\n";
    let full = match forecast.saturated_s {
        Some(at_s) if at_s > 0.0 => {
            format!("The storage is expected to be full for the first time in {}.", text::seconds(at_s))
        }
        Some(_) => "The storage is expected to be full from now on.".to_owned(),
        None => "The storage is not expected to be full.".to_owned(),
    };
    let slow = forecast.jobs.iter().filter_map(|job| Some((job.slowdown?, &job.job)));
    let slow = slow.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(slowdown, _)| *slowdown > 1.05);
    let slow = slow.map_or(String::new(), |(slowdown, job)| {
        format!(
            " Phases of job {} take {} times as long as alone.",
            job.shortened(40).for_terminal(),
            text::digits(slowdown, 2)
        )
    });
    html += &format!("<p>{}</p>\n", escape(&format!("{full}{slow}")));
    let age_s = (now_unix_s - forecast.at_unix_s).max(0.0).round();
    let ago = if age_s < 1.0 { "just now".to_owned() } else { format!("{} ago", text::seconds(age_s)) };
    say(
        &mut html,
        &format!(
            "{} of {} that run, simulated {} with different chances, {ago}: those with a period continue in phases, others at the rate they have now; no job \
             comes or ends.",
            text::count(forecast.n_foretold as u64),
            text::counted(forecast.n_jobs as u64, "job"),
            text::counted(forecast.repetitions as u64, "time"),
        ),
    );
    if let Some(storage) = &forecast.storage {
        say(&mut html, &in_words(storage));
    }
    let rest: Vec<String> = (forecast.jobs.iter().filter(|job| job.continues == "unknown").take(8))
        .map(|job| job.job.shortened(24).for_terminal())
        .collect();
    if !rest.is_empty() {
        say(
            &mut html,
            &format!("Not in it, for they have no period and move nothing now: {}.", rest.join(", ")),
        );
    }
    for loss in &forecast.losses {
        say(&mut html, &format!("{loss}."));
    }
    html
}

fn plots(forecast: &Forecast) -> [Plot; 2] {
    let share = text::percent(forecast.confidence);
    let about = |what: &str| {
        format!("{what} The line is the mean of the repetitions; the band holds {share} of them.")
    };
    [
        plot(
            forecast,
            "forecast-bandwidth",
            "Bandwidth expected",
            about("Bytes moved per second, of all jobs together."),
            |highest| Axis::bandwidth("bandwidth", highest),
            |state| state.bandwidth_bps,
        ),
        plot(
            forecast,
            "forecast-requests",
            "Requests expected at the storage",
            about("Requests at the storage at once, those that wait included."),
            |highest| Axis::linear("requests", 0.0, 1.06 * highest, 1.0, ""),
            |state| state.requests,
        ),
    ]
}

fn plot(
    forecast: &Forecast,
    name: &'static str,
    title: &'static str,
    caption: String,
    y: impl Fn(f64) -> Axis,
    of: impl Fn(&ForecastState) -> Estimate,
) -> Plot {
    let estimates: Vec<Estimate> = forecast.state.iter().map(of).collect();
    let band = |estimate: &Estimate| estimate.interval.unwrap_or([estimate.mean; 2]);
    let highest = estimates.iter().map(|estimate| band(estimate)[1].max(estimate.mean));
    let highest = highest.fold(0.0, f64::max).max(1e-9);
    let step = forecast.state.first().map_or(1.0, |first| first.time_s);
    let mean: Vec<f64> = estimates.iter().map(|estimate| estimate.mean).collect();
    let line = |label: &'static str, look: Look, lo: Vec<f64>, hi: Vec<f64>| Series {
        label: label.into(),
        look,
        colour: 0,
        step: false,
        x: Xs::Even { start: step / 2.0, step },
        mid: mean.clone(),
        lo,
        hi,
    };
    let lo = estimates.iter().map(|estimate| band(estimate)[0]).collect();
    let hi = estimates.iter().map(|estimate| band(estimate)[1]).collect();
    let ribbon = line("most repetitions", Look::Ribbon, lo, hi);
    let mut series = Vec::new();
    series.extend((forecast.repetitions > 1).then_some(ribbon));
    series.push(line("mean", Look::Beat, Vec::new(), Vec::new()));
    Plot {
        name,
        title,
        caption,
        x: Axis::time("time from now", 0.0, forecast.horizon_s),
        y: y(highest),
        bands: Vec::new(),
        series,
        marks: Vec::new(),
        dots: Vec::new(),
        keys: Vec::new(),
    }
}

fn in_words(storage: &ForecastStorage) -> String {
    let least = |name: &str| {
        if storage.at_least.iter().any(|known| known == name) { "at least " } else { "" }
    };
    let mut figures = Vec::new();
    figures.extend(
        storage.bandwidth_bps.map(|bps| format!("{}{}", least("bandwidth_bps"), text::bandwidth(bps))),
    );
    figures.extend(
        storage.stream_bps.map(|bps| format!("{}{} a stream", least("stream_bps"), text::bandwidth(bps))),
    );
    figures
        .extend(storage.iops.map(|iops| format!("{}{} operations/s", least("iops"), text::digits(iops, 3))));
    let figures = figures.join(", ");
    match storage.source {
        "file" if storage.n_targets > 1 => {
            format!(
                "Storage as the setting storage describes it: {} targets, each {figures}.",
                storage.n_targets
            )
        }
        "file" => format!("Storage as the setting storage describes it: {figures}."),
        _ => format!(
            "Assumed: storage as fast as the jobs that run were at their fastest ({figures}). If it can do more, queues are shorter than shown; \
             the setting storage of iotide serve takes what iotide ladder measures."
        ),
    }
}
