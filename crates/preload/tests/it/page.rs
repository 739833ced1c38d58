//! Counters in a page, against the program's own count; and what a page says of its process.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use iotide_wire::Op;
use iotide_wire::page::{Counters, Life, MpiFunction, PageHeader, PageLayer, PageState, PageText, lane_at};

use crate::mpi::N_RANKS;
use crate::support::{Moved, compile_c, directory, library};

/// Contents of a page.
pub struct Page {
    bytes: Vec<u8>,
    pub counters: Box<Counters>,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let header = PageHeader::decode(&bytes).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        let mut counters = Box::new(Counters::ZERO);
        for lane in 0..header.lanes_used {
            counters.add_lane(&bytes[lane_at(lane)..lane_at(lane + 1)]);
        }
        Self { bytes, counters }
    }

    pub fn header(&self) -> PageHeader<'_> {
        PageHeader::decode(&self.bytes).unwrap()
    }
}

/// All pages of a run, by process and then by age.
pub fn pages(directory: &Path) -> Vec<Page> {
    let mut pages: Vec<_> = fs::read_dir(directory.join("pages"))
        .unwrap()
        .map(|entry| Page::read(&entry.unwrap().path()))
        .collect();
    pages.sort_by_key(|page| (page.header().about.pid, page.header().about.start_ns));
    pages
}

/// A program that counts in `directory/pages`, and does nothing else.
pub fn live(directory: &Path, program: &Path, arguments: &[&str]) -> Command {
    fs::create_dir_all(directory.join("pages")).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env("LD_PRELOAD", library())
        .env("IOTIDE_LIVE", directory.join("pages"))
        .env("IOTIDE_INCLUDE", directory)
        .env_remove("IOTIDE_DIR")
        .env_remove("IOTIDE_STREAM");
    command
}

fn ended_well(output: Output) -> Moved {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    Moved::said(&stdout)
}

/// Bytes by layer and direction, as the pages have them.
fn counted(pages: &[Page]) -> Moved {
    let mut moved = Moved::default();
    for page in pages {
        for (layer, op, _, sum) in page.counters.io_entries() {
            let layer = match layer {
                PageLayer::Posix => "posix",
                PageLayer::Stdio => "stdio",
                PageLayer::MpiIo => "mpi",
                PageLayer::Beneath => continue,
            };
            match op {
                Op::Read => moved.add(layer, "read", sum.bytes),
                Op::Write => moved.add(layer, "write", sum.bytes),
                _ => {}
            }
        }
    }
    moved
}

fn check(test: &str, source: &str, arguments: &[&str]) -> Option<(PathBuf, Vec<Page>)> {
    let program = compile_c(source)?;
    let directory = directory(test);
    let said = ended_well(live(&directory, &program, arguments).output().unwrap());
    let pages = pages(&directory);
    assert_eq!(counted(&pages), said);
    assert!(pages.iter().all(|page| page.header().lost_calls == 0));
    assert!(!directory.join("iotide-trace").exists(), "nobody asked for a trace");
    Some((directory, pages))
}

#[test]
fn pages_count_what_programs_moved_by_layer_with_a_trace_and_without() {
    for (test, source) in [
        ("live_posix", "posix_calls.c"),
        ("live_stdio", "stdio_calls.c"),
        ("live_beneath", "beneath_streams.c"),
    ] {
        let Some((_, mut pages)) = check(test, source, &[]) else { return };
        let with_trace = directory(&format!("{test}_traced"));
        let mut command = live(&with_trace, &compile_c(source).unwrap(), &[]);
        let said = ended_well(command.env("IOTIDE_DIR", with_trace.join("trace")).output().unwrap());
        let traced = self::pages(&with_trace);
        assert_eq!(counted(&traced), said);
        assert_eq!(crate::support::Trace::read(&with_trace.join("trace")).moved(), said);
        // The same calls, by the same names.
        let calls = |page: &Page| page.counters.io_entries().map(|(.., sum)| sum.calls).sum::<u64>();
        assert_eq!(calls(&pages.remove(0)), calls(&traced[0]), "{source}");
    }
}

#[test]
fn a_page_says_whose_it_is() {
    let Some(program) = compile_c("page.c") else { return };
    let directory = directory("live_whose");
    let mut command = live(&directory, &program, &["turns", "2"]);
    for (name, value) in [
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_JOB_PARTITION", "long"),
        ("SLURM_CLUSTER_NAME", "elephant"),
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "8"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_ARRAY_JOB_ID", "4700"),
        ("SLURM_ARRAY_TASK_ID", "11"),
        ("IOTIDE_APP", "waves"),
        ("IOTIDE_PARAMS", "nx=512"),
        ("IOTIDE_RUN", "waves-1"),
    ] {
        command.env(name, value);
    }
    ended_well(command.output().unwrap());
    let [page] = &pages(&directory)[..] else { panic!("one process") };
    let header = page.header();
    let text = |text| String::from_utf8(header.text(text).to_vec()).unwrap();
    assert_eq!((header.rank, header.n_ranks), (Some(3), Some(8)));
    assert_eq!((text(PageText::Job), text(PageText::JobSource)), ("4711".into(), "SLURM_JOB_ID".into()));
    assert_eq!((text(PageText::Partition), text(PageText::Cluster)), ("long".into(), "elephant".into()));
    assert_eq!((text(PageText::App), text(PageText::Params)), ("waves".into(), "nx=512".into()));
    assert_eq!(text(PageText::Run), "waves-1");
    assert_eq!((text(PageText::Step), text(PageText::Alias)), ("0".into(), "4700_11".into()));
    assert_eq!(text(PageText::Exe), program.to_str().unwrap());
    assert_eq!(text(PageText::Directory), directory.to_str().unwrap());
    assert_eq!(
        header.arguments().collect::<Vec<_>>(),
        [program.to_str().unwrap().as_bytes(), b"turns", b"2"]
    );
    assert_eq!(header.text(PageText::BuildId), build_id(&program));
    assert_eq!(header.about.uid, fs::metadata(&directory).unwrap().uid());
    assert_eq!((header.state, header.life(None)), (PageState::Exiting, Life::Ended));
    let lasted = header.end_ns.unwrap() - header.about.start_ns;
    assert!(page.counters.io_ns() <= lasted, "one thread at a time cannot do more");
    let named: Vec<_> = header.file_systems().map(|fs| fs.mount.to_vec()).collect();
    assert_eq!(named.len(), 1);
    assert!(directory.as_os_str().as_encoded_bytes().starts_with(&named[0]));
    let place = page.counters.io_entries().map(|(_, _, fs, _)| fs).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(place.into_iter().collect::<Vec<_>>(), [1], "all of it on that file system");
    let file = fs::read_dir(directory.join("pages")).unwrap().next().unwrap().unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    // In the machine's directory the daemon's group may read it, and nobody else.
    let site = directory.join("site");
    fs::create_dir(&site).unwrap();
    if std::os::unix::fs::chown(&site, None, Some(4242)).is_ok() {
        fs::set_permissions(&site, fs::Permissions::from_mode(0o3733)).unwrap();
        ended_well(live(&directory, &program, &["turns", "1"]).env("IOTIDE_LIVE", &site).output().unwrap());
        let page = fs::read_dir(&site).unwrap().next().unwrap().unwrap().metadata().unwrap();
        assert_eq!((page.permissions().mode() & 0o7777, page.gid()), (0o640, 4242));
    }
    let start = format!("{}-{}-", header.about.pid, header.about.start_ticks);
    assert!(file.file_name().to_str().unwrap().starts_with(&start));
}

/// The build id that the linker says it has put in.
/// Slurm gives it a number among the tasks, too: always the first.
#[test]
fn what_a_batch_script_starts_is_no_rank() {
    let Some(program) = compile_c("page.c") else { return };
    let directory = directory("live_batch");
    let mut command = live(&directory, &program, &["turns", "2"]);
    command.env("SLURM_JOB_ID", "4711").env("SLURM_PROCID", "0").env("SLURM_NTASKS", "8");
    ended_well(command.output().unwrap());
    let [page] = &pages(&directory)[..] else { panic!("one process") };
    assert_eq!((page.header().rank, page.header().n_ranks), (None, None));
}

fn build_id(program: &Path) -> Vec<u8> {
    let output = Command::new("readelf").arg("-n").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let Some((_, id)) = text.split_once("Build ID: ") else { return Vec::new() };
    let digits = id.lines().next().unwrap().trim();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn more_threads_than_lanes_lose_nothing_and_lanes_are_taken_over() {
    let Some((_, pages)) = check("live_threads", "page.c", &["threads", "300"]) else { return };
    assert_eq!(pages[0].header().lanes_used, pages[0].header().about.n_lanes as usize);
    let Some((_, pages)) = check("live_turns", "page.c", &["turns", "400"]) else { return };
    assert!(pages[0].header().lanes_used <= 4, "{} lanes", pages[0].header().lanes_used);
    assert_eq!(pages[0].counters.own(Op::Write).calls, 1200);
    check("live_mixed", "threads.c", &[]);
}

#[test]
fn a_forked_child_has_a_page_of_its_own_however_it_was_forked() {
    for how in ["fork", "rawfork"] {
        let Some((_, pages)) = check(&format!("live_{how}"), "page.c", &[how]) else { return };
        let mut bytes: Vec<_> = pages.iter().map(|page| page.counters.own(Op::Write).bytes).collect();
        bytes.sort();
        assert_eq!(bytes, [300, 330], "{how}");
        let child = pages.iter().find(|page| page.counters.own(Op::Write).bytes == 330).unwrap();
        let parent = pages.iter().find(|page| page.counters.own(Op::Write).bytes == 300).unwrap();
        assert_eq!(child.header().about.parent_pid, parent.header().about.pid, "{how}");
        assert_eq!(child.header().life(None), Life::Ended, "{how}");
    }
    check("live_vfork", "vfork.c", &[]);
}

#[test]
fn a_program_that_becomes_another_ends_its_page_and_one_that_cannot_goes_on() {
    let Some((_, pages)) = check("live_exec", "page.c", &["exec"]) else { return };
    let [before, after] = &pages[..] else { panic!("{} pages", pages.len()) };
    let who = |page: &Page| (page.header().about.pid, page.header().about.start_ticks);
    assert_eq!(who(before), who(after), "the process is the same");
    let there = Some(before.header().about.start_ticks);
    assert_eq!((before.header().state, before.header().life(there)), (PageState::Replaced, Life::Ended));
    assert_eq!((before.counters.own(Op::Write).bytes, after.counters.own(Op::Write).bytes), (81, 42));

    let Some((_, pages)) = check("live_noexec", "page.c", &["noexec"]) else { return };
    assert_eq!(pages.len(), 1);
    assert_eq!(pages[0].header().state, PageState::Exiting);
    let directory = directory("live_killed");
    let output = live(&directory, &compile_c("page.c").unwrap(), &["noexec", "1"]).output().unwrap();
    assert_eq!(output.status.code(), None);
    let pages = self::pages(&directory);
    assert_eq!((pages[0].header().state, pages[0].header().life(None)), (PageState::Running, Life::Killed));
    assert_eq!(pages[0].counters.own(Op::Write).bytes, 162);
}

#[test]
fn a_killed_program_leaves_its_last_values() {
    let Some(program) = compile_c("page.c") else { return };
    for round in 0..12u64 {
        let directory = directory(&format!("live_kill_{round}"));
        let mut child = live(&directory, &program, &["append"]).spawn().unwrap();
        // Random, but for the first rounds: those reach into the making of the page.
        let spread =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos() as u64;
        std::thread::sleep(Duration::from_micros(if round < 6 { 300 * round } else { spread % 150_000 }));
        child.kill().unwrap();
        child.wait().unwrap();
        let n_written = fs::metadata(directory.join("appended")).map_or(0, |file| file.len());
        let files: Vec<_> = fs::read_dir(directory.join("pages")).unwrap().collect();
        let header_is_there = |path: &Path| PageHeader::decode(&fs::read(path).unwrap()).is_ok();
        let counted: u64 = files
            .iter()
            .map(|file| file.as_ref().unwrap().path())
            .filter(|path| header_is_there(path))
            .map(|path| Page::read(&path).counters.own(Op::Write).bytes)
            .sum();
        assert!(
            counted <= n_written && n_written - counted <= 1000,
            "{counted} of {n_written}: one call was under way"
        );
    }
}

#[test]
fn a_full_file_system_stops_the_counting_and_not_the_program() {
    let Some(program) = compile_c("page.c") else { return };
    // So small that there is no page at all; that only some lanes have room.
    for (size, makes_page) in [("16k", false), ("96k", true)] {
        let directory = directory(&format!("live_full_{size}"));
        let disk = directory.join("disk");
        fs::create_dir_all(&disk).unwrap();
        let option = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &option, "tmpfs"]).arg(&disk).status();
        if !mounted.is_ok_and(|status| status.success()) {
            iotide_testkit::skip(iotide_testkit::Missing::Data, "the right to mount a small file system");
            return;
        }
        let mut command = live(&directory, &program, &["threads", "40"]);
        let output = command.env("IOTIDE_LIVE", &disk).output().unwrap();
        let mut left: Vec<_> =
            fs::read_dir(&disk).unwrap().map(|entry| Page::read(&entry.unwrap().path())).collect();
        assert!(Command::new("umount").arg(&disk).status().unwrap().success());
        let said = ended_well(output);
        assert_eq!(left.len(), usize::from(makes_page), "what could not be made is not left behind");
        if let Some(page) = left.pop() {
            // Several threads may have asked for a lane before the first was told that there is no room.
            assert!(page.header().lanes_used < 40, "{} lanes", page.header().lanes_used);
            assert_eq!(counted(&[page]), said, "the others shared a lane");
        }
    }
}

#[test]
fn no_directory_and_no_permission_are_survived() {
    let Some(program) = compile_c("page.c") else { return };
    let directory = directory("live_nowhere");
    let mut command = live(&directory, &program, &["threads", "3"]);
    let said = ended_well(command.env("IOTIDE_LIVE", directory.join("none")).output().unwrap());
    assert!(!said.0.is_empty());
    // A limit on the size of files, whose signal would end the program.
    let mut command = Command::new("sh");
    let line = format!("ulimit -f 100; exec {} turns 3", program.display());
    let limited = live(&directory, &program, &[]);
    command.args(["-c", &line]).current_dir(&directory);
    limited.get_envs().for_each(|(name, value)| {
        value.map(|value| command.env(name, value));
    });
    ended_well(command.output().unwrap());
    // The shell has one, of before.
    assert!(pages(&directory).iter().all(|page| page.header().state == PageState::Replaced));
}

#[test]
fn a_program_counts_what_it_likes_and_nothing_without_the_library() {
    let Some(program) = compile_c("counters.c") else { return };
    let directory = directory("live_own");
    let output = live(&directory, &program, &[]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "again 1, senseless -1\n");
    assert!(output.status.success());
    let mut sums = std::collections::BTreeMap::new();
    for page in pages(&directory) {
        for counter in page.header().user_counters() {
            *sums.entry((counter.name.to_owned(), counter.unit.to_owned())).or_insert(0) +=
                page.counters.user(counter.place);
        }
    }
    let expected =
        [(("cells".to_owned(), String::new()), 2007), (("steps".to_owned(), "1".to_owned()), 4000)];
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), expected);
    let plain = Command::new(&program).output().unwrap();
    assert!(plain.status.success(), "{}", plain.status);
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "again 1, senseless -1\n");
}

#[test]
fn calls_of_mpi_are_counted_by_function_and_time_adds_up() {
    for mpi in crate::mpi::BOTH {
        let Some(program) = crate::support::compile(&format!("mpicc.{}", mpi.name), "mpi_time.c", &["-w"])
        else {
            continue;
        };
        let directory = directory(&format!("live_mpi_{}", mpi.name));
        let (pages, stdout) = ranks(&directory, &mpi, &program);
        assert_eq!(pages.len(), N_RANKS, "{}", mpi.name);
        for page in &pages {
            let header = page.header();
            assert!(header.mpi.starts_with(mpi.calls_itself.as_bytes()));
            let rank = header.rank.unwrap() as u64;
            assert_eq!(header.n_ranks, Some(N_RANKS as u32));
            let sum = |name| page.counters.mpi(MpiFunction::of_name(name).unwrap());
            let is = |name, calls, bytes| {
                assert_eq!((sum(name).calls, sum(name).bytes), (calls, bytes), "{} {rank} {name}", mpi.name)
            };
            is("MPI_Init", 1, 0);
            is("MPI_Finalize", 1, 0);
            is("MPI_Isend", 5, 5 * 80_000);
            is("MPI_Irecv", 5, 5 * 80_000);
            is("MPI_Waitall", 5, 0);
            is("MPI_Allreduce", 5, 5 * 24);
            is("MPI_Gather", 5, if rank == 0 { 0 } else { 5 * 80_000 });
            is("MPI_Alltoallv", 5, 5 * (1 + 2 + 3 + 4) * 8);
            is("MPI_Barrier", 5, 0);
            is("MPI_Send", u64::from(rank == 0), if rank == 0 { 80 } else { 0 });
            let last = rank == N_RANKS as u64 - 1;
            is("MPI_Recv", u64::from(last), if last { 80 } else { 0 });
            is("MPI_File_open", 1, 0);
            is("MPI_File_write_at_all", 1, 80_000);
            is("MPI_File_iwrite_at", 1, 80_000);
            is("MPI_Wait", 1, 0);
            is("MPI_File_read_shared", 1, 800);
            is("MPI_File_read_ordered", 1, 800);
            assert_eq!(page.counters.own(Op::Write).bytes, 160_000 + stdout_of(page));
            assert_eq!(page.counters.own(Op::Read).bytes, 1600);
            // What the program measured around its calls is what was counted in them, and what it computed is the rest.
            let line = stdout.lines().find(|line| line.starts_with(&format!("rank {rank} "))).unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            let said = |i: usize| words[i].parse::<f64>().unwrap();
            let (computed_s, talked_s) = (said(3), said(5));
            let talked = [
                "MPI_Irecv",
                "MPI_Isend",
                "MPI_Waitall",
                "MPI_Allreduce",
                "MPI_Gather",
                "MPI_Alltoallv",
                "MPI_Barrier",
                "MPI_Send",
                "MPI_Recv",
            ];
            let counted_s = talked.iter().map(|name| sum(name).ns as f64).sum::<f64>() / 1e9;
            assert!(
                counted_s <= talked_s * 1.001 && counted_s > 0.0,
                "{}: {counted_s} of {talked_s}",
                mpi.name
            );
            let lasted_ns = page.counters.thread_ns(header.end_ns.unwrap());
            let rest_ns = lasted_ns - page.counters.mpi_ns() - page.counters.io_ns();
            assert!(rest_ns as f64 / 1e9 >= computed_s * 0.999, "{}: {rest_ns} ns, {computed_s} s", mpi.name);
        }
    }
}

/// Returns the bytes that a rank printed, where its output is a file.
fn stdout_of(page: &Page) -> u64 {
    let posix =
        page.counters.io_entries().filter(|(layer, op, ..)| *layer == PageLayer::Stdio && *op == Op::Write);
    posix.map(|(.., sum)| sum.bytes).sum()
}

#[test]
fn calls_of_mpi_from_fortran_are_counted_like_those_of_c() {
    for (mpi, source) in crate::mpi::BOTH.iter().flat_map(|mpi| [(mpi, "talk_h.f90"), (mpi, "talk_f08.f90")])
    {
        let Some(program) = crate::support::compile(&format!("mpifort.{}", mpi.name), source, &["-w"]) else {
            continue;
        };
        let directory = directory(&format!("live_{source}_{}", mpi.name));
        let pages = ranks(&directory, mpi, &program).0;
        assert_eq!(pages.len(), N_RANKS, "{} {source}", mpi.name);
        for page in pages {
            let rank = page.header().rank.unwrap();
            let is = |name, calls, bytes| {
                let sum = page.counters.mpi(MpiFunction::of_name(name).unwrap());
                assert_eq!((sum.calls, sum.bytes), (calls, bytes), "{} {source} {rank} {name}", mpi.name);
            };
            is("MPI_Init", 1, 0);
            is("MPI_Bcast", 3, 24_000);
            is("MPI_Barrier", 3, 0);
            is("MPI_Send", if rank == 0 { 3 } else { 0 }, if rank == 0 { 240 } else { 0 });
            is("MPI_Recv", if rank == 1 { 3 } else { 0 }, if rank == 1 { 240 } else { 0 });
            is("MPI_Finalize", 1, 0);
        }
    }
}

/// Runs a program on several ranks. Returns their pages, by rank, and what they printed.
fn ranks(directory: &Path, mpi: &crate::mpi::Mpi, program: &Path) -> (Vec<Page>, String) {
    let mut command = mpi.launch(N_RANKS, program, &[]);
    command.current_dir(directory);
    live(directory, program, &[]).get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(command.env(name, value)),
        None => drop(command.env_remove(name)),
    });
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {stdout}\n{stderr}", mpi.name);
    let mut pages: Vec<_> = pages(directory).into_iter().filter(|page| page.counters.mpi_ns() > 0).collect();
    pages.sort_by_key(|page| page.header().rank);
    (pages, stdout.into_owned())
}

#[test]
fn what_interrupts_the_counting_is_lost_and_counted() {
    let Some(program) = compile_c("harm.c") else { return };
    let directory = directory("live_harm");
    let said = ended_well(live(&directory, &program, &[]).output().unwrap());
    let [page] = &pages(&directory)[..] else { panic!("one process") };
    // Each call of a handler writes one byte: what was not seen was counted.
    let counted = page.counters.own(Op::Write).bytes + page.header().lost_calls;
    assert_eq!(counted, said.0[&("posix", "write")]);
}

#[test]
fn requests_that_go_on_beside_the_program_count_their_bytes_and_no_time_of_its_own() {
    let Some((_, pages)) = check("live_libaio", "libaio.c", &[]) else { return };
    assert!(pages[0].counters.own(Op::Write).bytes > 0);
    for mpi in crate::mpi::BOTH {
        for (compiler, source) in
            [("mpicc", "mpi_calls.c"), ("mpifort", "mpi_f08.f90"), ("mpifort", "mpif_h.f90")]
        {
            let compiler = format!("{compiler}.{}", mpi.name);
            let Some(program) = crate::support::compile(&compiler, source, &["-w"]) else { continue };
            let directory = directory(&format!("live_{source}_{}", mpi.name));
            let (pages, stdout) = ranks(&directory, &mpi, &program);
            assert_eq!(pages.len(), N_RANKS, "{} {source}", mpi.name);
            assert_eq!(counted(&pages), Moved::said(&stdout), "{} {source}", mpi.name);
            for page in &pages {
                let lasted_ns = page.counters.thread_ns(page.header().end_ns.unwrap());
                let spent_ns = page.counters.mpi_ns() + page.counters.io_ns();
                assert!(spent_ns <= lasted_ns, "{} {source}: {spent_ns} of {lasted_ns}", mpi.name);
            }
        }
    }
}
