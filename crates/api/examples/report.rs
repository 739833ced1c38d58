//! Everything about a run, as one page.
#![allow(clippy::print_stdout)]

use iotide_api::{Input, Report, ReportOptions, report};
use iotide_pages::RunPage;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Small writes all the time: a run that storage could serve better.
    let mut table = String::from("# nprocs=1\n# exe=/opt/app\nrank,op,start,end,bytes\n");
    for i in 0..2000 {
        table += &format!("0,write,{i},{i}.5,1000\n");
    }
    let answer = report(&Input::bytes("small.csv", table), &ReportOptions::default())?;

    for issue in answer.run.issues.iter().flat_map(|found| &found.issues) {
        println!("{} ({})", issue.id, issue.severity);
    }
    assert!(answer.run.issues.iter().flat_map(|found| &found.issues).any(|issue| issue.id == "small_writes"));
    assert!(answer.run.categories.iter().flatten().any(|label| *label == "write_insignificant"));

    // The same as a page that needs nothing else: to be written to a file, or sent by a server.
    let mut document = Report::new("report");
    document.runs.push(answer.run);
    let html = RunPage { report: document, plots: vec![answer.plots] }.html();
    println!("a page of {} bytes", html.len());
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("small.csv") && html.contains("<svg"));
    Ok(())
}
