//! A sample of an archive as a page on which a person confirms or corrects labels, and reads how right they are.

use std::fmt::Write;

use iotide_look::html::{head, own_style};
use iotide_look::{Untrusted, text};
use iotide_report::label_meaning;
use serde::Serialize;
use serde_json::Value;

/// A run of the sample.
#[derive(Clone, Debug, Serialize)]
pub struct SampledRun {
    path: Untrusted,
    /// Names and values, for people.
    facts: Vec<(&'static str, Untrusted)>,
    labels: Vec<Untrusted>,
    /// Evidence for each label, in words.
    evidence: Vec<Untrusted>,
}

impl SampledRun {
    /// Reads a line of `runs.jsonl`.
    pub fn parse(line: &str) -> Result<Self, String> {
        let run: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let words = |value: &Value| value.as_str().map(Untrusted::from);
        let source = &run["source"];
        let number = |value: &Value, shown: fn(f64) -> String| {
            value.as_f64().map(|value| Untrusted::from(shown(value)))
        };
        let facts = [
            ("program", words(&run["application"])),
            ("user", words(&source["job"]["user"])),
            ("began", number(&source["job"]["start_time"], text::date)),
            ("run time", number(&run["run_time_s"], text::seconds)),
            ("processes", number(&source["job"]["nprocs"], |n| text::count(n as u64))),
            ("read", number(&source["bytes_read"], text::bytes)),
            ("written", number(&source["bytes_written"], text::bytes)),
            ("metadata requests", number(&run["metadata"]["requests"], |n| text::count(n as u64))),
        ];
        let labels: Vec<Untrusted> =
            run["categories"].as_array().into_iter().flatten().filter_map(words).collect();
        let evidence = |label: &Untrusted| {
            let numbers = run["evidence"][label.as_said()].as_object().into_iter().flatten();
            let told: Vec<String> = numbers
                .filter_map(|(name, value)| Some(evidence_in_words(name, value.as_f64()?)))
                .take(8)
                .collect();
            Untrusted::from(told.join(", "))
        };
        Ok(Self {
            path: words(&source["path"]).ok_or("the line names no log")?,
            facts: facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            evidence: labels.iter().map(evidence).collect(),
            labels,
        })
    }
}

fn evidence_in_words(name: &str, value: f64) -> String {
    match name {
        "confidence" => format!("confidence {}", text::percent(value)),
        _ => text::named_number(name, value),
    }
}

const SCRIPT: &str = concat!("\n", include_str!("sample/page.js"));

/// Maximum size of the data in a page, in bytes; runs that do not fit are left out, and the page states their number.
const MOST_BYTES: usize = 900_000;

#[derive(Serialize)]
struct Data<'a> {
    seed: u64,
    of: u64,
    labels: Vec<(&'static str, String)>,
    runs: &'a [SampledRun],
}

/// Returns the page of a sample of `of` runs that was drawn with `seed`.
pub fn sample_page(runs: &[SampledRun], of: u64, seed: u64) -> String {
    let labels: Vec<(&'static str, String)> =
        iotide_analysis::Category::all().map(|label| (label.name(), label_meaning(label.name()))).collect();
    let mut n_shown = runs.len();
    let mut data = String::new();
    while n_shown > 0 {
        // `<` is the one character that could end the script element from within a string.
        data = text::json(&Data { seed, of, labels: labels.clone(), runs: &runs[..n_shown] })
            .replace('<', "\\u003c");
        if data.len() <= MOST_BYTES {
            break;
        }
        n_shown = n_shown * MOST_BYTES / data.len().max(1);
    }
    let style = own_style(concat!(include_str!("tables.css"), include_str!("sample/page.css")));
    let mut html = head("Are these labels right? · iotide", &style, SCRIPT);
    let _ = write!(
        html,
        "<main>\n<header><p class=\"path\">{} of {}, drawn with seed {seed}</p><h1>Are these labels right?</h1>\n\
         <p class=\"note\">Look at each run, then confirm its labels, or correct them. The answers stay in this browser; save them as a file before \
         you close it.{}</p></header>\n\
         <section id=\"accuracy\" aria-live=\"polite\"><h2>Accuracy</h2><p class=\"result\">Nothing was reviewed yet.</p><div class=\"labels-reviewed\"></div></section>\n\
         <section id=\"run\"><h2>Run</h2><div class=\"card\"></div></section>\n</main>\n",
        text::counted(n_shown as u64, "run"),
        text::count(of),
        if n_shown < runs.len() {
            format!(" {} more do not fit on this page.", text::count((runs.len() - n_shown) as u64))
        } else {
            String::new()
        },
    );
    let _ = write!(
        html,
        "<footer>Made by iotide {}.</footer>\n<script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
    );
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str) -> String {
        serde_json::json!({
            "source": {"path": path, "bytes_read": 0, "bytes_written": 2e9, "job": {"user": "<i>u", "nprocs": 4}},
            "application": "</script><script>alert(1)</script>",
            "categories": ["write_on_end"],
            "evidence": {"write_on_end": {"confidence": 0.93, "last_quarter": 0.9}},
            "run_time_s": 100.0,
        })
        .to_string()
    }

    #[test]
    fn a_sample_is_a_page_whose_names_are_no_markup() {
        let run = SampledRun::parse(&line("/logs/<b>.darshan")).unwrap();
        let html = sample_page(&[run], 10, 7);
        iotide_look::policy::assert_keeps_its_policy(&html);
        assert!(
            !html.contains("<script>alert")
                && !html.contains("<b>")
                && html.contains("1 run of 10, drawn with seed 7")
        );
        assert!(html.contains("last quarter: 90 %"));
        assert!(SampledRun::parse("{}").is_err());
    }

    #[test]
    fn a_page_stays_below_a_megabyte() {
        let runs: Vec<SampledRun> =
            (0..3000).map(|i| SampledRun::parse(&line(&format!("/logs/{i:0400}"))).unwrap()).collect();
        let html = sample_page(&runs, 3000, 1);
        assert!(html.len() < 1_000_000 && html.contains("more do not fit"), "{}", html.len());
    }
}
