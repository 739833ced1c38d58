//! Contents of a trace, and its losses.
#![allow(clippy::print_stdout)]

use iotide_api::{InfoOptions, Input, info};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The third row ends before it begins: it is left out, and said to be missing.
    let table = "# jobid=4711\n# nprocs=2\nrank,op,start,end,bytes\n\
                 0,write,0,1,1000\n1,write,0,1,1000\n1,read,5,4,1000\n0,read,2,3,500\n";
    let held = info(&Input::bytes("job.csv", table), &InfoOptions::default())?;

    println!("{} events of {} ranks", held.source.n_events.unwrap(), held.source.n_ranks.unwrap());
    assert_eq!((held.source.n_events, held.source.n_ranks), (Some(3), Some(2)));
    assert_eq!((held.source.bytes_read, held.source.bytes_written), (Some(500.0), Some(2000.0)));
    assert_eq!(held.job.nprocs, Some(2));
    for loss in &held.losses {
        println!("lost: {}", loss.what.as_said());
    }
    assert_eq!(held.losses.len(), 1);
    Ok(())
}
