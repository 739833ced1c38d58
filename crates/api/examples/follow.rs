//! A running job's next phase, predicted while it is followed.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use iotide_api::{Follower, Live, LiveSettings, RunConfig, engine};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What a job has written of its trace by now: a burst every ten seconds.
    let place = std::env::temp_dir().join(format!("iotide-example-{}", std::process::id()));
    std::fs::create_dir(&place)?;
    let mut table = String::from("rank,op,start,end,bytes\n");
    for phase in 0..12 {
        table += &format!("0,write,{0},{0}.5,100000000\n", 10 * phase);
    }
    std::fs::write(place.join("run.csv"), table)?;

    let mut live = Live::new(LiveSettings::default())?; // live.listen(&"unix:/run/me/iotide.sock".parse()?)
    live.follow(&place.join("run.csv"));
    let mut follower = Follower::new(live, engine(&RunConfig::default(), None)?);
    while follower.turn(Duration::from_millis(100), Some(0.5))?.is_none() {}
    follower.finish()?;

    let job = &mut follower.jobs.list()[0];
    let predictions = job.watched.take_predictions();
    let last = predictions.last().ok_or("nothing was predicted")?;
    println!("{} predictions, the last: a period of {:?} s", predictions.len(), last.period_s);
    assert!((last.period_s.ok_or("no period was found")? - 10.0).abs() < 0.1);
    assert_eq!(job.watched.tally().bytes_written, 1.2e9);
    std::fs::remove_dir_all(place)?;
    Ok(())
}
