//! Cost of a tree of daemons, and a check of its sums at a size that no machine here has.
//!
//! The peer is the metric proxy of the ADMIRE project, as measured once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

#[cfg(feature = "daemon")]
use iotide_edge::{Leaves, Load};
use iotide_ledger::tree::{Downlink, Hello, Hub, Inbox, Opened, Place, Uplink, VERSIONS, Welcome, trials};
use iotide_ledger::{About, Cell, Counters, JobId, JobKey, Limits, Metric, Name};

use super::serve::{Daemon, compile};
use super::{Bed, Goal, Line};

const N_LEAVES: usize = 10_000;

/// All figures of the tree.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let mut lines = made_leaves()?;
    lines.extend(update()?);
    lines.extend(idle(bed)?);
    lines.extend(visible(bed)?);
    #[cfg(feature = "daemon")]
    lines.extend(many_leaves(bed)?);
    Ok(lines)
}

fn line(what: &str, unit: &'static str, iotide: f64, peer: Option<f64>, goal: Goal) -> Line {
    Line { what: format!("tree: {what}"), unit, iotide, peer, goal }
}

pub(super) fn key(bed: &Bed) -> Result<PathBuf, String> {
    let key = bed.folder.join("tree.key");
    if !key.exists() {
        let mut make = std::process::Command::new(&bed.iotide);
        let made = make.args(["serve", "key"]).arg(&key).status().map_err(|error| error.to_string())?;
        if !made.success() {
            return Err(format!("cannot make {}", key.display()));
        }
    }
    Ok(key)
}

/// A port that nobody has now.
pub(super) fn free_address() -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.to_string()).map_err(|error| error.to_string())
}

/// 10,000 made leaves, killed, cut off, moved and mended: fails if a sum is wrong.
fn made_leaves() -> Result<Vec<Line>, String> {
    let began = Instant::now();
    let tried = std::panic::catch_unwind(|| trials::try_out(2024, N_LEAVES, 400_000));
    let events = tried.map_err(|_| "a sum at the root was wrong; the same seed shows it again".to_owned())?;
    let what = format!(
        "{N_LEAVES} made daemons, {} kills, {} cuts: {} calls counted and all at the root",
        events.kills, events.cuts, events.calls
    );
    Ok(vec![line(&what, "s", began.elapsed().as_secs_f64(), None, Goal::None)])
}

/// From the child's table to the parent's, without a socket: what a counter's update takes at the parent.
fn update() -> Result<Vec<Line>, String> {
    const N_ROWS: usize = 1000;
    const N_CHANGING: usize = 40;
    const N_ROUNDS: usize = 100;
    let place = |instance| Place { node: Name::cut(b"n"), instance };
    let (mut child, mut parent) =
        (Hub::new(place(1), false, Limits::default()), Hub::new(place(2), true, Limits::default()));
    let hello = Hello { versions: VERSIONS, place: place(1), proof: Vec::new() };
    let (mut down, version) = Downlink::begin(&parent, &hello).map_err(|error| error.to_string())?;
    let welcome = Welcome { version, path: Downlink::path(&parent), proof: Vec::new() };
    let mut up = Uplink::begin(&mut child, &welcome).map_err(|error| error.to_string())?;
    let metric = |index: usize| Metric::Mpi { function: format!("MPI_{index}").as_str().into() };
    let mut counters: Counters = (0..50).map(|index| (metric(index), Cell::default())).collect();
    let opened: Vec<Opened> = (0..N_ROWS)
        .map(|row| Opened {
            node: Name::cut(format!("n{row}").as_bytes()),
            epoch: 0,
            key: JobKey {
                cluster: Name::default(),
                uid: 1,
                id: JobId::made_of(&format!("{}", row % 20)),
                start_ns: 1,
            },
            about: About::default(),
            is_local: false,
            rank: 0,
            n_ranks: 0,
        })
        .collect();
    let mut inbox = Inbox::default();
    let mut spent = Duration::ZERO;
    let mut n_bytes = 0;
    for round in 0..N_ROUNDS as u64 {
        let now_ns = (round + 1) * 1_000_000_000;
        (0..N_CHANGING)
            .for_each(|index| counters.add(metric(index), Cell { calls: 3, bytes: 123_456, ns: 7_890 }));
        for opened in &opened {
            child.put_own(now_ns, opened, &counters, 1, false, None);
        }
        let mut bytes = Vec::new();
        up.fill(now_ns, &child, usize::MAX, &mut bytes).map_err(|error| error.to_string())?;
        n_bytes = bytes.len();
        let began = Instant::now();
        inbox
            .take(&bytes, |frame| down.heard(now_ns, frame, &mut parent))
            .map_err(|error| error.to_string())?;
        spent += began.elapsed();
    }
    let shown: u64 =
        parent.changed(1).iter().filter_map(|group| Some(parent.news(1, group)?.sum.mpi().calls)).sum();
    if shown != (3 * N_CHANGING * N_ROUNDS * N_ROWS) as u64 {
        return Err(format!("the parent has {shown} calls"));
    }
    let n = (N_ROWS * N_CHANGING * N_ROUNDS) as f64;
    let ns = spent.as_secs_f64() * 1e9 / n;
    Ok(vec![
        line(
            "update of a counter at the parent (5 M/s: 200 ns)",
            "ns",
            ns,
            Some(1e3 / 0.259),
            Goal::AtMost(200.0),
        ),
        line(
            "a row with 40 of 50 metrics changed",
            "bytes",
            n_bytes as f64 / N_ROWS as f64,
            None,
            Goal::None,
        ),
    ])
}

/// A root with two children that nobody asks.
fn idle(bed: &Bed) -> Result<Vec<Line>, String> {
    let (key, address) = (key(bed)?, free_address()?);
    let key = key.to_str().ok_or("a path that is no text")?;
    let root = Daemon::start_with(bed, "tree-root", &["--key", key, "--children", &address])?;
    let leaf = |name| Daemon::start_with(bed, name, &["--key", key, "--parent", &address, "--node", name]);
    let _leaves = [leaf("one")?, leaf("two")?];
    wait_for_nodes(&root, 3)?;
    let (before, began) = (root.cpu_s(None)?, Instant::now());
    std::thread::sleep(Duration::from_secs(20));
    let share = (root.cpu_s(None)? - before) / began.elapsed().as_secs_f64() * 100.0;
    if share <= 0.0 {
        return Err("an idle root still hears its children".to_owned());
    }
    Ok(vec![line("idle root with two children, CPU", "% of a core", share, Some(36.0), Goal::AtMost(1.0))])
}

/// How long it takes until the root shows what a program has written, one and three hops above it; and until daemons are back at a root that was
/// killed and started again.
fn visible(bed: &Bed) -> Result<Vec<Line>, String> {
    const N_UPDATES: u64 = 20;
    let program = compile(bed)?;
    let key = key(bed)?;
    let key = key.to_str().ok_or("a path that is no text")?;
    let mut lines = Vec::new();
    for n_hops in [1, 3] {
        let addresses = (0..n_hops).map(|_| free_address()).collect::<Result<Vec<_>, _>>()?;
        let daemon = |level: usize| {
            let name = format!("hop{n_hops}-{level}");
            let mut options = vec!["--key", key, "--node", &name];
            if level > 0 {
                options.extend(["--parent", &addresses[level - 1]]);
            }
            if level < n_hops {
                options.extend(["--children", &addresses[level]]);
            }
            Daemon::start_with(bed, &name, &options)
        };
        let mut daemons = (0..=n_hops).map(daemon).collect::<Result<Vec<_>, _>>()?;
        wait_for_nodes(&daemons[0], n_hops + 1)?;
        let mut job = daemons[n_hops].job(bed, &program, "seen", "again")?;
        let mut more = job.stdin.take().ok_or("no stdin")?;
        let mut shown = wait_for_bytes(&daemons[0], "seen", 1)?;
        let mut sum = Duration::ZERO;
        for n in 0..N_UPDATES {
            std::thread::sleep(Duration::from_millis(300 + 137 * n % 1000));
            let began = Instant::now();
            std::io::Write::write_all(&mut more, b"x").map_err(|error| error.to_string())?;
            shown = wait_for_bytes(&daemons[0], "seen", shown + 1)?;
            sum += began.elapsed();
        }
        drop(more);
        job.wait().map_err(|error| error.to_string())?;
        let mean_s = sum.as_secs_f64() / N_UPDATES as f64;
        let what = format!("until the root shows what was written, {n_hops} hops");
        lines.push(line(
            &what,
            "s",
            mean_s,
            Some((13 * n_hops) as f64 / 10.0),
            Goal::AtMost((12 * n_hops) as f64 / 10.0),
        ));
        if n_hops == 1 {
            // Its address is kept: whoever was below comes back.
            drop(daemons.remove(0));
            let began = Instant::now();
            let root = daemon(0)?;
            wait_for_nodes(&root, n_hops + 1)?;
            lines.push(line(
                "until a child is back at a root that was killed",
                "s",
                began.elapsed().as_secs_f64(),
                None,
                Goal::AtMost(3.0),
            ));
        }
    }
    Ok(lines)
}

/// Waits until a daemon shows at least `least` bytes written by a job, and returns them.
fn wait_for_bytes(root: &Daemon, job: &str, least: u64) -> Result<u64, String> {
    let began = Instant::now();
    loop {
        let answer = root.get(&format!("/api/1/jobs/{job}")).unwrap_or_default();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        match answer["io"]["bytes_written"].as_u64() {
            Some(bytes) if bytes >= least => return Ok(bytes),
            shown if began.elapsed() > Duration::from_secs(30) => {
                return Err(format!("{shown:?} bytes of {least}"));
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

pub(super) fn wait_for_nodes(root: &Daemon, n: usize) -> Result<Duration, String> {
    let began = Instant::now();
    loop {
        let n_nodes = root.get("/api/1/nodes")?.matches("\"node\":").count();
        if n_nodes >= n {
            return Ok(began.elapsed());
        }
        if began.elapsed() > Duration::from_secs(180) {
            return Err(format!("{n_nodes} nodes of {n}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Many leaves below a daemon that was started by hand, until this is interrupted: to look at the daemon with other tools.
#[cfg(feature = "daemon")]
pub(crate) fn leaves(args: &[String]) -> Result<crate::Outcome, String> {
    let [parent, key, n_leaves] = args else {
        return Err("usage: cargo xtask leaves HOST:PORT KEY-FILE NUMBER".to_owned());
    };
    let n_leaves = n_leaves.parse().map_err(|_| format!("{n_leaves} is no number"))?;
    let leaves = Leaves::start(load(parent, n_leaves), key.as_ref()).map_err(|error| error.to_string())?;
    loop {
        std::thread::sleep(Duration::from_secs(10));
        println!("{n_leaves} leaves have counted {} times", leaves.n_rounds());
    }
}

#[cfg(feature = "daemon")]
fn load(parent: &str, n_leaves: usize) -> Load {
    Load {
        parent: parent.to_owned(),
        n_leaves,
        n_jobs: 100,
        n_metrics: 50,
        n_changing: 40,
        every: Duration::from_secs(1),
    }
}

/// 10,000 leaves that count each second, each over its own encrypted connection.
#[cfg(feature = "daemon")]
fn many_leaves(bed: &Bed) -> Result<Vec<Line>, String> {
    let (key, address) = (key(bed)?, free_address()?);
    let settings = bed.folder.join("many.toml");
    std::fs::write(&settings, "most_children = \"20000\"\n").map_err(|error| error.to_string())?;
    let texts = [&key, &settings].map(|path| path.to_str().unwrap_or_default().to_owned());
    let options = ["--key", &texts[0], "--config", &texts[1], "--children", &address];
    let root = Daemon::start_with(bed, "tree-many", &options)?;
    let leaves = Leaves::start(load(&address, N_LEAVES), &key).map_err(|error| error.to_string())?;
    // The root has heard of all once all jobs together have as many processes.
    let began = Instant::now();
    let n_here = || -> Result<usize, String> {
        let jobs: serde_json::Value =
            serde_json::from_str(&root.get("/api/1/jobs?limit=1000")?).map_err(|error| error.to_string())?;
        let sizes = jobs["jobs"].as_array().into_iter().flatten().filter_map(|job| job["size"].as_u64());
        Ok(sizes.sum::<u64>() as usize)
    };
    while n_here()? < N_LEAVES {
        if began.elapsed() > Duration::from_secs(240) {
            return Err(format!("{} of {N_LEAVES} leaves", n_here()?));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let joined_s = began.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_secs(10));
    let (before, began, round) = (root.cpu_s(None)?, Instant::now(), leaves.n_rounds());
    let by_thread = |root: &Daemon| -> Result<[f64; 2], String> {
        Ok([root.cpu_s(Some("iotide-tree"))?, root.cpu_s(Some("iotide-collect"))?])
    };
    let before_by = by_thread(&root)?;
    std::thread::sleep(Duration::from_secs(30));
    let span_s = began.elapsed().as_secs_f64();
    let share = (root.cpu_s(None)? - before) / span_s * 100.0;
    let after_by = by_thread(&root)?;
    let rate_hz = (leaves.n_rounds() - round) as f64 / span_s;
    let part = |index: usize| (after_by[index] - before_by[index]) / span_s * 100.0;
    let memory = root.memory("VmRSS")? / 1e6;
    let what = |what: &str| format!("{N_LEAVES} leaves over TLS at {rate_hz:.2} Hz, {what}");
    Ok(vec![
        line(&what("CPU of the root"), "% of a core", share, None, Goal::AtMost(25.0)),
        line(&what("of that, connections"), "% of a core", part(0), None, Goal::None),
        line(&what("of that, jobs and store"), "% of a core", part(1), None, Goal::None),
        line(&what("memory"), "MB", memory, None, Goal::AtMost(200.0)),
        line(&what("until all are heard"), "s", joined_s, None, Goal::None),
    ])
}
