//! Tests of the output that users of `iotide` see: one file per subcommand, each test in a directory of its own.

/// A directory, traces to put there, and the program run in it with a clean environment.
mod util;

/// `--version`, and the errors for a command line that makes no sense.
mod usage;

/// Settings of users and sites: what they change, and mistakes in them.
mod config;

/// `iotide run`: a program recorded and reported in one command.
mod run;

/// `iotide detect`: answers, settings, and everything that can be wrong with a trace.
mod detect;

/// Plain cases that once broke, row by row, with what is right.
mod rhythm_table;

/// `iotide detect --method dft`: window, rate, harmonics and samples as the FTIO paper has them.
mod detect_dft;

/// `iotide detect --follow` and `--listen`: jobs that run, files that grow, sockets, the screen.
mod follow;

/// Code of the pages, run as it stands.
mod documents;

/// `iotide mcp`: sessions of a client, with names and paths that mean harm.
mod mcp;

/// `iotide report`: the page and the pictures beside it.
mod report;

mod archive_page;
/// A browser under remote control, and a checker of pages in it.
mod browser;
/// Every kind of page, checked for people who cannot see well or have no mouse.
mod page_access;
/// The page in a browser, where there is one: what its script does.
mod page_script;

/// `iotide record`: a program under the tracer, its exit status and the last word.
mod record;

/// Results from our own recordings: the issues of a Darshan log, functions by name, and the header.
mod record_issues;

/// `iotide record --live`: counters that are read while a program runs, against its own count.
mod record_live;

/// `iotide record --kernel`: what a preloaded library cannot see, counted beside other tools.
mod record_kernel;

/// How `iotide record` ends: as its program does, and after it.
mod record_ends;

/// `iotide model`: functions, predictions, rankings, and measurements with faults.
mod model;
mod model_page;

/// `iotide why`: verdicts on runs made here, what is excluded, and what cannot be used.
mod why;

/// `iotide signature`: samples, long logs with jobs, a real Prometheus server, and where to run.
mod signature;

/// `iotide simulate`: policies side by side, workloads of every kind, and what is wrong with one.
mod simulate;
mod system;

/// `iotide simulate jobs`: job logs of every kind under scheduling policies.
mod simulate_jobs;
mod simulate_staging;

/// `iotide resize`: which size to run at, and a real Slurm whose jobs shrink and grow.
mod resize;

/// `iotide sets`: who belongs where, and how sets are set in file systems.
mod sets;
mod sets_apply;

/// `iotide info`: what a trace holds, also against what an independent reader found in real logs.
mod info;

/// `iotide compare`: what differs, what is noise, and the status for CI.
mod closed_loop;
mod compare;

/// `iotide compare` with files of figures: the gate, its summary, and the history.
mod compare_baseline;
mod measure;

mod checkpoint;

mod doctor;

/// `iotide convert`: forms, losses, and what is left behind when it fails.
mod convert;

/// `iotide convert --hash-names`: nothing of a name is left, and an analysis is the same.
mod convert_names;

/// Turns across machines: keys, mounts and layouts.
mod turns;

/// `iotide arbiter` and `iotide sets`: programs that take turns, and that go on alone.
mod arbiter;

/// `iotide serve`, `jobs`, `job`, `top`: exact counts whatever is killed, who sees what, and junk.
mod serve;
mod serve_service;

/// Models of what `iotide serve` has seen: refitted, evaluated, split by binary, and for Extra-P.
mod serve_models;

/// MPI programs under `iotide serve`: models by function, asynchronous writes, and where their time went.
mod serve_mpi;

/// Daemons of many machines.
mod tree;
mod tree_series;

/// Jobs of a real Slurm with several nodes, counted without a wrapper.
mod slurm;
mod slurm_site;
mod slurm_topology;

/// Summaries of jobs at their end, by the epilogs of schedulers.
mod epilog;

/// A writer of Darshan logs, the one the reader is tested with.
#[allow(dead_code)]
#[path = "../../../formats/tests/it/darshan/writer.rs"]
mod darshan_log;

/// `iotide ioskel`: real processes, real files, a table of what they did.
mod ioskel;

/// `iotide categorize`: runs, archives that are interrupted and resumed, shards, the page, and real Slurm.
mod categorize;

/// `iotide demo`: from a running workload to a page, with nothing left behind.
mod demo;

/// Attacks of an ordinary user on someone who runs iotide; each worked once.
mod strangers;

/// Clients of every server that ask and ask and never read the answers.
mod unread;

/// Actors that a daemon or a detector tells of jobs.
mod sources;

/// A daemon that acts by itself.
mod act;
/// The same when something fails.
mod failures;

/// Distributed file systems: what `mount`, `ladder`, `stage` and `signature` do there.
mod storage;

/// `iotide stage`: odd trees, refusals, inputs.
mod stage;
/// `iotide stage` under faults: kills, errors of the destination, the order of system calls.
mod stage_faults;
/// `iotide stage out`: what its options do, and with the rest of the house.
mod stage_options;
/// `iotide stage out` and power failures.
mod stage_power;
/// The scripts for a batch system, with signals and an environment alone.
mod stage_scripts;
/// `iotide stage` with storage that keeps less, goes away and comes back, or is shared.
mod stage_storage;
/// `iotide stage` beside users who mean harm.
mod stage_strangers;

/// `iotide mount`: what POSIX asks, random operations beside a plain file, crashes, and whose requests they are.
mod mount;
