//! The period of a run's I/O phases.
#![allow(clippy::print_stdout)]

use iotide_api::{DetectOptions, Direction, Input, detect};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two ranks write for half a second every ten seconds, and read a little in between.
    let mut table = String::from("rank,op,start,end,bytes\n");
    for phase in 0..20 {
        let start = 10 * phase;
        table += &format!("0,write,{start},{start}.5,100000000\n1,write,{start},{start}.5,100000000\n");
        table += &format!("0,read,{start}.7,{start}.8,1000\n");
    }
    let input = Input::bytes("run.csv", table); // or Input::file("run.csv"), Input::files(["rank-0.csv", "rank-1.csv"])

    let mut options = DetectOptions::default();
    options.run.direction = Some(Direction::Write);
    let run = detect(&input, &options)?;

    println!("{}: {}", input.name(), run.headline());
    assert!(run.is_periodic());
    assert!((run.period.period_s.unwrap() - 10.0).abs() < 0.1);
    assert!((run.period.next_phase_s.unwrap() - 200.0).abs() < 0.5);
    assert_eq!(run.source.bytes_written, 4e9);
    assert!(run.losses.is_empty());
    Ok(())
}
