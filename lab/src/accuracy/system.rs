//! How right `templates` and `simulate system` are, on runs and systems made here, and on a directory that is real.
//!
//! *ARI* is the adjusted Rand index of the templates found against those that runs were made of: 1 is all right, 0 what chance would do. *held* says how
//! often the 90 % band holds what one run of the true system came to.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use iotide_sim::system::{Target, requests_per_s};
use serde_json::{Value, json};

use crate::product;
use crate::product::Server;
use crate::synthetic::random::Random;

/// Usage of `run`.
pub const HELP: &str = "accuracy system [SETS [SYSTEMS [SEED]]]
    templates found in made runs by how far they are apart, bands of made systems, and a paced directory predicted and measured; 40 sets a row, 200 systems";

/// Prints the tables.
pub fn run(args: &[String]) -> Result<(), String> {
    let number = |index: usize, default: u64| match args.get(index) {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number")),
        None => Ok(default),
    };
    let (n_sets, n_systems, seed) = (number(0, 40)?, number(1, 200)?, number(2, 1)?);
    product::build()?;
    let folder = std::env::temp_dir().join(format!("iotide-accuracy-system-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let told = templates(&folder, n_sets, seed)
        .and_then(|()| bands(&folder, n_systems, seed))
        .and_then(|()| directory(&folder));
    let _ = std::fs::remove_dir_all(&folder);
    told
}

fn write(folder: &Path, name: &str, value: &Value) -> Result<String, String> {
    let path = folder.join(name);
    std::fs::write(&path, value.to_string()).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

fn iotide(args: &[&str]) -> Result<Value, String> {
    let output = Command::new(product::path())
        .args(args)
        .args(["--format", "json"])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("iotide {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// A kind of application, at 64 processes.
#[derive(Clone, Copy, Debug)]
struct Kind {
    compute_s: f64,
    compute_cv: f64,
    burst_bytes: f64,
    request_bytes: f64,
    burst_s: f64,
}

/// A run of a kind in bins, with bursts that chance makes unequal and others on the storage now and then longer.
fn made_run(
    kind: &Kind,
    program: &str,
    processes: u64,
    n_bursts: usize,
    is_disturbed: bool,
    random: &mut Random,
) -> Value {
    // Ten bins a burst, or a twentieth of what lies between.
    let dt_s = (kind.burst_s / 4.0).min(kind.compute_s / 8.0);
    let mut edges = Vec::new();
    let mut now_s = random.uniform(0.0, kind.compute_s);
    for _ in 0..n_bursts {
        let slower = if is_disturbed && random.chance(0.2) { random.uniform(1.0, 2.0) } else { 1.0 };
        let took_s = kind.burst_s * slower * random.positive_normal(1.0, 0.03);
        edges.push((now_s, now_s + took_s, kind.burst_bytes * random.positive_normal(1.0, 0.03)));
        now_s += took_s + kind.compute_s * random.positive_normal(1.0, kind.compute_cv);
    }
    let mut bytes = vec![0.0; (now_s / dt_s).ceil() as usize + 1];
    for (from_s, to_s, volume) in edges {
        let (first, last) = ((from_s / dt_s) as usize, (to_s / dt_s) as usize);
        for (bin, sum) in bytes.iter_mut().enumerate().take(last + 1).skip(first) {
            let (begin_s, end_s) = (bin as f64 * dt_s, (bin + 1) as f64 * dt_s);
            *sum += volume * (to_s.min(end_s) - from_s.max(begin_s)).max(0.0) / (to_s - from_s);
        }
    }
    let ops: Vec<f64> = bytes.iter().map(|bytes| (bytes / kind.request_bytes).round()).collect();
    let bytes: Vec<f64> = ops.iter().map(|ops| ops * kind.request_bytes).collect();
    json!({"program": program, "processes": processes, "dt_s": dt_s, "ops": ops, "bytes": bytes})
}

/// Runs of four kinds that are `apart` in one figure, each of one or two programs at four or five sizes.
fn made_set(apart: f64, random: &mut Random) -> (Value, Vec<usize>) {
    let base = Kind {
        compute_s: random.uniform(20.0, 100.0),
        compute_cv: random.uniform(0.03, 0.2),
        burst_bytes: random.uniform(1e9, 2e10),
        request_bytes: *random.pick(&[262_144.0, 1_048_576.0, 4_194_304.0]),
        burst_s: random.uniform(2.0, 10.0),
    };
    let figure = random.whole(0, 3);
    let (mut runs, mut labels) = (Vec::new(), Vec::new());
    for label in 0..4usize {
        let factor = apart.powi(label as i32);
        let mut kind = base;
        match figure {
            0 => kind.compute_s *= factor,
            1 => kind.burst_bytes *= factor,
            2 => kind.burst_s *= factor,
            _ => kind.request_bytes = (kind.request_bytes * factor).round(),
        }
        for program in 0..random.whole(1, 2) {
            let (is_weak, is_strong) = (random.chance(0.5), random.chance(0.5));
            for processes in &[16u64, 32, 64, 128, 256][..random.whole(4, 5)] {
                let size = *processes as f64 / 64.0;
                let mut of_size = kind;
                if is_weak {
                    of_size.burst_bytes *= size;
                }
                if is_strong {
                    of_size.compute_s /= size;
                }
                let name = format!("program {label} {program}");
                let n_bursts = random.whole(9, 15);
                runs.push(made_run(&of_size, &name, *processes, n_bursts, true, random));
                labels.push(label);
            }
        }
    }
    (json!({"p_ref": 64, "runs": runs}), labels)
}

fn adjusted_rand_index(a: &[usize], b: &[usize]) -> f64 {
    let pairs = |n: f64| n * (n - 1.0) / 2.0;
    let most = |labels: &[usize]| labels.iter().max().map_or(0, |most| most + 1);
    let mut counts = vec![vec![0.0; most(b)]; most(a)];
    for (a, b) in a.iter().zip(b) {
        counts[*a][*b] += 1.0;
    }
    let both: f64 = counts.iter().flatten().map(|n| pairs(*n)).sum();
    let of_a: f64 = counts.iter().map(|row| pairs(row.iter().sum())).sum();
    let of_b: f64 = (0..most(b)).map(|column| pairs(counts.iter().map(|row| row[column]).sum())).sum();
    let expected = of_a * of_b / pairs(a.len() as f64);
    let highest = 0.5 * (of_a + of_b);
    if highest == expected { 1.0 } else { (both - expected) / (highest - expected) }
}

/// The curve of the adjusted Rand index.
fn templates(folder: &Path, n_sets: u64, seed: u64) -> Result<(), String> {
    println!("templates: 4 kinds, exactly so far apart in one figure; {n_sets} sets a row");
    println!("{:>6} {:>8} {:>8} {:>10}", "apart", "mean ARI", "worst", "K right");
    for apart in [1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2] {
        let mut found = Vec::new();
        let mut n_right = 0;
        for set in 0..n_sets {
            let mut random = Random::new(seed ^ (set << 16) ^ ((apart * 1000.0) as u64) << 32);
            let (runs, labels) = made_set(apart, &mut random);
            let answer = iotide(&["templates", &write(folder, "runs.json", &runs)?])?;
            let told = answer["runs"].as_array().ok_or("no runs")?;
            let told: Vec<usize> =
                told.iter().map(|run| run["template"].as_u64().unwrap_or(0) as usize).collect();
            if told.len() == labels.len() {
                found.push(adjusted_rand_index(&labels, &told));
                n_right += usize::from(told.iter().max() == Some(&3));
            } else {
                found.push(0.0);
            }
        }
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let worst = found.iter().copied().fold(1.0, f64::min);
        println!("{apart:>6} {mean:>8.3} {worst:>8.3} {:>8} %", 100 * n_right / found.len());
    }
    Ok(())
}

/// How often bands hold what the true system does.
fn bands(folder: &Path, n_systems: u64, seed: u64) -> Result<(), String> {
    let names = ["bandwidth", "burst time", "requests at the targets"];
    let (mut held, mut n) = ([0u32; 3], 0u32);
    let mut widths = [0.0; 3];
    for nth in 0..n_systems {
        let mut random = Random::new(seed ^ (nth << 20) ^ 0x5151);
        let (target, kind, count) = made_system(&mut random);
        let (truth, system) = truth_and_found(folder, &target, &kind, count, &mut random)?;
        let answer =
            iotide(&["simulate", "system", &system, "--repetitions", "100", "--seed", &nth.to_string()])?;
        let real = iotide(&[
            "simulate",
            "system",
            &truth,
            "--repetitions",
            "1",
            "--grain",
            "1",
            "--seed",
            &(nth + 7_000_000).to_string(),
        ])?;
        let (band, real) = (&answer["system"]["frame"], &real["system"]["frame"]);
        let cases = [
            (&band["bandwidth_total_bps"], real["bandwidth_total_bps"]["mean"].as_f64()),
            (&band["burst"][0], real["burst_s"][0].as_f64()),
            (&band["requests_total"], real["requests_total"]["mean"].as_f64()),
        ];
        n += 1;
        for (i, (estimate, real)) in cases.into_iter().enumerate() {
            let (Some(low), Some(high), Some(real)) =
                (estimate["interval"][0].as_f64(), estimate["interval"][1].as_f64(), real)
            else {
                continue;
            };
            held[i] += u32::from(low <= real && real <= high);
            widths[i] += (high - low) / real / n_systems as f64;
        }
    }
    println!("\n90 % bands of {n} made systems, calibrated from a ladder and runs");
    for (i, name) in names.iter().enumerate() {
        println!(
            "  {name:<26} held {:>5.1} %   mean width {:>5.1} % of the value",
            100.0 * f64::from(held[i]) / f64::from(n),
            100.0 * widths[i]
        );
    }
    Ok(())
}

fn made_system(random: &mut Random) -> (Target, Kind, u64) {
    let servers = *random.pick(&[1, 2, 4, 8, 16]);
    let bandwidth_bps = random.uniform(5e8, 5e9);
    let target = Target {
        iops: Some(random.uniform(1000.0, 20_000.0)),
        servers,
        bandwidth_bps: Some(bandwidth_bps),
        stream_bps: Some(bandwidth_bps * random.uniform(0.1, 0.6)),
        ..Target::default()
    };
    let request_bytes = *random.pick(&[1_048_576.0, 4_194_304.0]);
    let requests = random.uniform(300.0, 3000.0).round();
    let burst_s = requests / requests_per_s(&target, 16, request_bytes);
    let kind = Kind {
        compute_s: burst_s * random.uniform(2.0, 10.0),
        compute_cv: random.uniform(0.05, 0.3),
        burst_bytes: requests * request_bytes,
        request_bytes,
        burst_s,
    };
    (target, kind, random.whole(2, 8) as u64)
}

/// Writes the true system, and the one that is found from what it shows; returns their paths.
fn truth_and_found(
    folder: &Path,
    target: &Target,
    kind: &Kind,
    count: u64,
    random: &mut Random,
) -> Result<(String, String), String> {
    let mut cells = Vec::new();
    for request_bytes in [65_536.0, 4_194_304.0] {
        for n in [1u64, 2, 4, 8, 16, 32, 64] {
            let expected = 5.0 * requests_per_s(target, n, request_bytes);
            let completions = random.positive_normal(expected, expected.sqrt()).round();
            cells.push(
                json!({"n": n, "request_bytes": request_bytes, "seconds": 5, "completions": completions}),
            );
        }
    }
    let ladder = write(folder, "ladder.json", &json!({"cells": cells}))?;
    let runs: Vec<Value> = (0..3).map(|_| made_run(kind, "a", 16, 12, false, random)).collect();
    let runs = write(folder, "runs.json", &json!({"p_ref": 16, "runs": runs}))?;
    let mut found = iotide(&["templates", &runs, "--storage", &ladder])?;
    let round_s = kind.compute_s + kind.burst_s;
    let frame_s = json!([0, 40.0 * round_s]);
    found["jobs"] = json!([{"template": "template 0", "count": count}]);
    found["frame_s"] = frame_s.clone();
    let truth = json!({
        "storage": {"targets": [{"iops": target.iops, "servers": target.servers, "bandwidth_bps": target.bandwidth_bps, "stream_bps": target.stream_bps}]},
        "templates": [{"name": "template 0", "compute_s": kind.compute_s, "compute_cv": kind.compute_cv, "processes": 16,
                       "requests": (kind.burst_bytes / kind.request_bytes).round() as u64, "request_bytes": kind.request_bytes}],
        "jobs": [{"template": "template 0", "count": count}], "frame_s": frame_s});
    Ok((write(folder, "truth.json", &truth)?, write(folder, "system.json", &found)?))
}

/// A paced directory: measured by a ladder, predicted, and three jobs run on it.
fn directory(folder: &Path) -> Result<(), String> {
    println!("\na directory of this machine, paced to 60 MiB/s: three jobs at once, predicted and measured");
    let (backing, shown) = (folder.join("backing"), folder.join("paced"));
    for place in [&backing, &shown] {
        std::fs::create_dir_all(place).map_err(|error| error.to_string())?;
    }
    let mut command = Command::new(product::path());
    command.arg("mount").args([&backing, &shown]).args(["--policy", "none", "--bandwidth", "60MiB"]);
    let (server, _said) = match Server::start(command, Some(shown.clone()), "is shown at") {
        Ok(started) => started,
        Err(why) => {
            println!("  not measured: {why}");
            return Ok(());
        }
    };
    let place = shown.display().to_string();
    let ladder = iotide(&[
        "ladder",
        &place,
        "--seconds",
        "2",
        "--in-flight",
        "1,2,4,8",
        "--sizes",
        "256K,1M",
        "--room",
        "64M",
    ])?;
    println!(
        "  ladder: {} in all, {} a stream",
        rate(&ladder["storage"]["bandwidth_bps"]),
        rate(&ladder["storage"]["stream_bps"])
    );
    const JOBS: [(f64, u64); 3] = [(3.0, 30), (5.0, 60), (8.0, 90)];
    const FOR_S: f64 = 60.0;
    let templates: Vec<Value> = (JOBS.iter().enumerate())
        .map(|(i, (compute_s, mib))| {
            json!({"name": format!("job {i}"), "compute_s": compute_s, "compute_cv": 0.01, "processes": 1, "requests": mib, "request_bytes": 1_048_576})
        })
        .collect();
    let jobs: Vec<Value> = (0..JOBS.len()).map(|i| json!({"template": format!("job {i}")})).collect();
    let system =
        json!({"storage": ladder["storage"], "templates": templates, "jobs": jobs, "frame_s": [0, FOR_S]});
    let predicted = iotide(&["simulate", "system", &write(folder, "paced.json", &system)?, "--grain", "1"])?;
    let running = start_jobs(&JOBS, FOR_S, &place, folder)?;
    let (mut total, frame) = (0.0, &predicted["system"]["frame"]);
    for (i, (mut child, log)) in running.into_iter().enumerate() {
        child.wait().map_err(|error| error.to_string())?;
        let bursts = bursts_of(&std::fs::read_to_string(&log).map_err(|error| error.to_string())?, FOR_S);
        let mean_s = bursts.iter().map(|(took_s, _)| took_s).sum::<f64>() / bursts.len().max(1) as f64;
        total += bursts.iter().map(|(_, bytes)| bytes).sum::<f64>() / FOR_S;
        println!(
            "  job {i}: a burst takes {:>6.2} s predicted ({:.2} to {:.2}), {mean_s:>6.2} s measured ({} bursts)",
            frame["burst_s"][i].as_f64().unwrap_or(f64::NAN),
            frame["burst"][i]["interval"][0].as_f64().unwrap_or(f64::NAN),
            frame["burst"][i]["interval"][1].as_f64().unwrap_or(f64::NAN),
            bursts.len()
        );
    }
    println!(
        "  all: {} predicted, {:.1} MB/s measured",
        rate(&frame["bandwidth_total_bps"]["mean"]),
        total / 1e6
    );
    drop(server);
    Ok(())
}

/// Starts a job for each pair of compute time and MiB a burst; returns them with where each one logs its bursts.
fn start_jobs(
    jobs: &[(f64, u64)],
    for_s: f64,
    place: &str,
    folder: &Path,
) -> Result<Vec<(Child, PathBuf)>, String> {
    let start = |(i, (compute_s, mib)): (usize, &(f64, u64))| {
        let log = folder.join(format!("job{i}.csv"));
        let mut command = Command::new(product::path());
        command.args(["ioskel", "-n", "1000", "--sync", "-d", place]);
        command.args(["--compute", &compute_s.to_string(), "--until", &for_s.to_string()]);
        command.args(["-s", &format!("{mib}M"), "--log"]).arg(&log);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(|child| (child, log)).map_err(|error| error.to_string())
    };
    jobs.iter().enumerate().map(start).collect()
}

fn rate(value: &Value) -> String {
    value.as_f64().map_or("unknown".to_owned(), |bps| format!("{:.1} MB/s", bps / 1e6))
}

/// How long bursts took that ended in time, and their bytes, from a log of single requests: what lies less than a second apart is one.
fn bursts_of(log: &str, until_s: f64) -> Vec<(f64, f64)> {
    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    for line in log.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split(',').collect();
        if let [_, op, start, end, bytes, ..] = cells[..]
            && matches!(op, "write" | "sync")
            && let (Ok(start), Ok(end)) = (start.parse::<f64>(), end.parse::<f64>())
        {
            rows.push((start, end, bytes.parse().unwrap_or(0.0)));
        }
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first_s = rows.first().map_or(0.0, |row| row.0);
    let mut bursts: Vec<(f64, f64, f64)> = Vec::new();
    for (start, end, bytes) in rows {
        match bursts.last_mut() {
            Some(last) if start - last.1 < 1.0 => {
                last.1 = last.1.max(end);
                last.2 += bytes;
            }
            _ => bursts.push((start, end, bytes)),
        }
    }
    let in_time = bursts.into_iter().filter(|(_, end, _)| end - first_s <= until_s);
    in_time.map(|(start, end, bytes)| (end - start, bytes)).collect()
}
