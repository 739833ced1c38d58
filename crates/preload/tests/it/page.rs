//! Counters in a page, against the program's own count; and what a page says of its process.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use iotide_wire::Op;
use iotide_wire::page::{Counters, Life, PageHeader, PageLayer, PageState, PageText, lane_at};

use crate::support::{Moved, compile_c, directory, library};

/// What was read of a page.
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
    let start = format!("{}-{}-", header.about.pid, header.about.start_ticks);
    assert!(file.file_name().to_str().unwrap().starts_with(&start));
}

/// The build id that the linker says it has put in.
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
            assert!(page.header().lanes_used < 10, "{} lanes", page.header().lanes_used);
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
