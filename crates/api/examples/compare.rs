//! Differences between two runs, and whether the second run is worse.
#![allow(clippy::print_stdout)]

use iotide_api::{CompareOptions, Document, Ink, Input, Quantity, compare};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The same bytes, in requests that take longer after a change.
    let run = |seconds: f64| {
        let mut table = String::from("rank,op,start,end,bytes,file\n");
        for phase in 0..20 {
            let start = 10.0 * f64::from(phase);
            table += &format!("0,write,{start},{},100000000,/scratch/dump\n", start + seconds);
        }
        table
    };
    let before = Input::bytes("before.csv", run(1.0));
    let after = Input::bytes("after.csv", run(1.5));

    // Each side may have several runs; a difference counts if it is larger than their noise.
    let answer = compare(&[vec![before], vec![after]], &CompareOptions::default())?;
    println!("{}", answer.to_text(100, Ink::Plain));
    let time = answer.quantities.iter().find(|row| row.quantity == Quantity::IoTimePerRank).unwrap();
    assert_eq!(time.changes[0].ratio, Some(1.5));
    assert!(answer.is_worse() && answer.worse[0].contains("time in I/O per rank +50 % (20 s → 30 s)"));
    assert_eq!(answer.files[0].sides[0].as_ref().and_then(|file| file.period_s), Some(10.0));
    Ok(())
}
