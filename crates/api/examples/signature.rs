//! Signature that several runs of one application share, found through the noise of a server's log.
#![allow(clippy::print_stdout)]

use iotide_api::{Document, Input, SignatureOptions, signature};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A burst of 1 GB/s at 20 s and another at 60 s; each time somebody else is on the storage, too.
    let run = |others: std::ops::Range<usize>| {
        let mut table = String::from("time,bandwidth\n");
        for second in 0..100 {
            let own = if matches!(second, 20..25 | 60..65) { 1e9 } else { 0.0 };
            let noise = if others.contains(&second) { 8e8 } else { 1e6 };
            table += &format!("{second},{}\n", own + noise);
        }
        table
    };
    let logs = [run(5..12), run(30..38), run(75..83), run(85..95)];
    let inputs: Vec<Input> =
        logs.iter().enumerate().map(|(i, log)| Input::bytes(format!("run{i}.csv"), log)).collect();
    let found = signature(&inputs, &SignatureOptions::default(), &mut |_| ())?;

    for burst in &found.signature.bursts {
        println!("{} s to {} s, {:.0} bytes", burst.start_s, burst.end_s, burst.bytes);
    }
    assert_eq!(found.signature.bursts.len(), 2);
    assert!((found.signature.bursts[0].start_s - 20.0).abs() <= 1.0);
    assert!((found.signature.bursts[1].start_s - 60.0).abs() <= 1.0);
    assert!(found.report.to_json().contains("\"bursts\""));
    Ok(())
}
