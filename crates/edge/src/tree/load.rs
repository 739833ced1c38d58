//! Many leaves in one process, to measure what the daemon above them costs.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use iotide_ledger::tree::{AskError, Opened, Place};
use iotide_ledger::{About, Cell, Counters, JobId, JobKey, Metric, Name};

use super::{Key, KeyError, Samples, Secret, Tls, climb, now_ns};
use iotide_daemon::gather::Tree;

/// Parameters of synthetic leaves.
#[derive(Clone, Debug)]
pub struct Load {
    /// The daemon above.
    pub parent: String,
    /// How many there are.
    pub n_leaves: usize,
    /// Jobs they are divided among.
    pub n_jobs: usize,
    /// Metrics of each.
    pub n_metrics: usize,
    /// Of these, how many change each time.
    pub n_changing: usize,
    /// How often they count.
    pub every: Duration,
}

/// Leaves that run until this is dropped. They are those of `iotide serve` but for what they count.
#[derive(Debug)]
pub struct Leaves {
    is_over: Arc<AtomicBool>,
    n_rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Leaves {
    /// Starts them.
    pub fn start(load: Load, key: &Path) -> Result<Self, KeyError> {
        let key = Arc::new(Secret::Key(Key::read(key)?));
        iotide_gate::raise_open_files();
        let (is_over, n_rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, rounds) = (Arc::clone(&is_over), Arc::clone(&n_rounds));
        let thread = std::thread::spawn(move || drop(run(&load, &key, &over, &rounds)));
        Ok(Self { is_over, n_rounds, thread: Some(thread) })
    }

    /// How many times all have counted.
    pub fn n_rounds(&self) -> u64 {
        self.n_rounds.load(Ordering::Relaxed)
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(load: &Load, key: &Arc<Secret>, is_over: &AtomicBool, n_rounds: &AtomicU64) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tls = Arc::new(Tls::new(key)?);
    // They count, and keep nothing.
    let samples = Samples::new(|_| Err(AskError::Unreadable));
    let metric = |index: usize| Metric::Own {
        name: Name::cut(format!("metric_{index}").as_bytes()),
        unit: Name::cut(b"bytes"),
    };
    let metric = |index: usize| match index {
        // A job has 64 of its own at most.
        0..32 => metric(index),
        _ => Metric::Mpi { function: format!("MPI_Function_{index}").as_str().into() },
    };
    let mut counters: Counters = (0..load.n_metrics).map(|index| (metric(index), Cell::default())).collect();
    runtime.block_on(async {
        let mut leaves = Vec::new();
        for index in 0..load.n_leaves {
            let node = Name::cut(format!("leaf{index}").as_bytes());
            let tree = Arc::new(Tree::new(Place { node: node.clone(), instance: index as u64 + 1 }, true));
            let id = JobId::made_of(&format!("load-{}", index % load.n_jobs.max(1)));
            let opened = Opened {
                node,
                epoch: 0,
                key: JobKey { cluster: Name::default(), uid: 1000, id, start_ns: now_ns() },
                about: About { size: 1, name: Name::cut(b"load"), ..About::default() },
                is_local: false,
                rank: 0,
                n_ranks: 0,
            };
            let parents = vec![load.parent.clone()];
            let (key, tls, samples) = (Arc::clone(key), Arc::clone(&tls), Arc::clone(&samples));
            tokio::spawn(climb(parents, Arc::clone(&tree), key, tls, samples));
            leaves.push((tree, opened));
            // They do not all come at once.
            if index % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let mut tick = tokio::time::interval(load.every);
        while !is_over.load(Ordering::Relaxed) {
            tick.tick().await;
            let added = Cell { calls: 3, bytes: 123_456, ns: 7_890 };
            (0..load.n_changing).for_each(|index| counters.add(metric(index), added));
            for part in leaves.chunks(100) {
                for (tree, opened) in part {
                    tree.hub().put_own(now_ns(), opened, &counters, 1, false, None);
                }
                tokio::task::yield_now().await;
            }
            n_rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}
