//! Labels of a whole folder of logs, which can be stopped and resumed.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use iotide_api::{Labelling, OpenOptions};
use iotide_archive::{Folder, Job, Limits, Logs, Outputs, Shard, run};
use iotide_private::PrivateDir;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = PrivateDir::new("example")?;
    let (logs, results) = (place.path().join("logs"), place.path().join("results"));
    std::fs::create_dir(&logs)?;
    for (name, start) in [("early", 1), ("late", 90), ("later", 91)] {
        let row = format!("0,write,{start},{},900000000", start + 8);
        let head = "# runtime_s=100\n# exe=/bin/app\nrank,op,start,end,bytes";
        std::fs::write(logs.join(format!("{name}.csv")), format!("{head}\n{row}\n"))?;
    }
    std::fs::write(logs.join("notes.txt"), "no log at all")?;

    let job = Job {
        logs: Logs::Below(vec![logs]),
        shard: Shard::WHOLE,
        options: OpenOptions::default(),
        labelling: Labelling::default(),
        limits: Limits::default(),
        n_workers: 2,
        count_ahead: false,
    };
    let mut folder = Folder::open(&results, &job.made_with(&job.labelling.to_toml()))?;
    let done = run(&job, &mut folder, &Arc::new(AtomicBool::new(false)), |progress| {
        println!("{} logs", progress.n_done());
    })?;
    let statistics = folder.finish(Outputs::All)?;
    assert_eq!((done.n_labelled, done.n_rejected, done.stopped), (3, 1, false));
    let at = statistics.labels.iter().position(|label| *label == "write_on_end").unwrap();
    assert_eq!(statistics.all.of_label[at], 2);
    assert!(results.join("index.html").exists());
    Ok(())
}
