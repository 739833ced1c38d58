//! A small run of two ranks, written in each layout that Recorder had.

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use iotide_formats::{Census, Format, LayerChoice, OpenOptions, ReadError};
use iotide_trace::{Event, EventSink, Layer, Loss, Op, Trace};

use crate::damage::{Random, damage};

const FUNCTIONS: [&str; 9] = [
    "creat",
    "open",
    "write",
    "close",
    "umask",
    "MPI_Barrier",
    "MPI_File_open",
    "MPI_File_write_at",
    "H5Dwrite",
];
const RESOLUTION_S: f64 = 1e-6;
const START_UNIX_S: f64 = 1.79e9;

/// A call: function, arguments, result, start and end in ticks.
type Call = (&'static str, String, i32, u32, u32);

/// Returns the calls of one rank. `by_descriptor` is how 2.2 names files; later versions give the path.
fn calls(rank: u32, by_descriptor: bool) -> Vec<Call> {
    let path = format!("/out.{rank}");
    let file = if by_descriptor { "5".to_owned() } else { path.clone() };
    let mut calls: Vec<Call> = vec![
        ("MPI_Barrier", "MPI_COMM_WORLD".into(), 0, 10, 20),
        ("open", format!("{path} 66 420"), 5, 30, 40),
        ("umask", "18".into(), 0, 45, 46),
    ];
    calls.extend((0..4).map(|i| ("write", format!("{file} %p 100"), 0, 100 + 10 * i, 105 + 10 * i)));
    calls.push(("close", file, 0, 150, 151));
    calls.push(("MPI_File_open", "MPI_COMM_WORLD /shared 37 %p 0-1".into(), 0, 160, 170));
    calls.push(("MPI_File_write_at", format!("0-1 {rank}*r+8 %p 25 MPI_DOUBLE [0_0]"), 0, 200, 260));
    calls
}

fn names() -> Vec<u8> {
    FUNCTIONS.iter().flat_map(|name| format!("{name}\n").into_bytes()).collect()
}

fn function_id(name: &str) -> u8 {
    FUNCTIONS.iter().position(|it| *it == name).unwrap() as u8
}

type Files = Vec<(String, Vec<u8>)>;

/// 2.2: records, of which the repeated writes are differences.
fn peephole() -> Files {
    let mut header = RESOLUTION_S.to_le_bytes().to_vec();
    header.extend([2i32, 2, 3, 0].iter().flat_map(|it| it.to_le_bytes()));
    header.extend(names());
    let mut files = vec![("VERSION".into(), b"2.2.0".to_vec()), ("recorder.mt".into(), header)];
    for rank in 0..2 {
        // The second rank begins a second later, on the same clock.
        let start = START_UNIX_S + f64::from(rank);
        files.push((format!("{rank}.mt"), [start.to_le_bytes(), (start + 1.0).to_le_bytes()].concat()));
        let mut stream = Vec::new();
        let calls = calls(rank, true);
        for (i, (name, args, result, start, end)) in calls.iter().enumerate() {
            let repeats = i > 0 && calls[i - 1].0 == *name;
            stream.push(if repeats { 0x80 } else { 0 });
            for field in [*start as i32, *end as i32, *result] {
                stream.extend(field.to_le_bytes());
            }
            // A difference against the record just before: no argument changed.
            stream.push(if repeats { 0 } else { function_id(name) });
            if !repeats {
                stream.extend(format!(" {args}").into_bytes());
            }
            stream.push(b'\n');
        }
        files.push((format!("{rank}.itf"), stream));
    }
    files
}

/// Signatures, grammar and times of one rank; signature numbers begin at `first`.
struct Encoded {
    keys: Vec<Vec<u8>>,
    grammar: Vec<u8>,
    times: Vec<u8>,
}

fn encode(rank: u32, keys: &mut Vec<Vec<u8>>) -> Encoded {
    let mut symbols = Vec::new();
    let mut times = Vec::new();
    let mut previous = 0;
    for (name, args, _, start, end) in calls(rank, false) {
        let text = format!("{args} ");
        let n_args = text.split(' ').count() as u8 - 1;
        let mut key = vec![0; 8];
        key.extend([function_id(name), 0, n_args]);
        key.extend((text.len() as i32).to_le_bytes());
        key.extend(text.into_bytes());
        let number = keys.iter().position(|it| *it == key).unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        });
        symbols.push(number as i32);
        times.extend((start - previous).to_le_bytes());
        times.extend((end - previous).to_le_bytes());
        previous = start;
    }
    // The four writes are a rule that is used twice and repeats its symbol twice.
    let write = symbols[3];
    let mut root: Vec<i32> = Vec::new();
    for &symbol in symbols[..3].iter() {
        root.extend([symbol, 1]);
    }
    root.extend([-2, 2]);
    for &symbol in symbols[7..].iter() {
        root.extend([symbol, 1]);
    }
    let words = [&[2, -1, root.len() as i32 / 2][..], &root, &[-2, 1, write, 2]].concat();
    Encoded {
        keys: keys.clone(),
        grammar: words.iter().flat_map(|it: &i32| it.to_le_bytes()).collect(),
        times,
    }
}

fn table(keys: &[Vec<u8>], with_rank_and_count: bool) -> Vec<u8> {
    let mut table = (keys.len() as i32).to_le_bytes().to_vec();
    for (number, key) in keys.iter().enumerate() {
        let fields = match with_rank_and_count {
            true => vec![number as i32, 0, key.len() as i32, 1],
            false => vec![number as i32, key.len() as i32],
        };
        table.extend(fields.iter().flat_map(|it| it.to_le_bytes()));
        table.extend(key);
    }
    table
}

/// 2.3 and 2.4: three files a rank.
fn per_rank(version: &str) -> Files {
    let mut header = [2i32, 0].iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    header.extend([START_UNIX_S, RESOLUTION_S].iter().flat_map(|it| it.to_le_bytes()));
    header.extend(vec![0; if version == "2.3.0" { 8 } else { 16 }]);
    header.extend(names());
    let mut files = vec![("VERSION".into(), version.as_bytes().to_vec()), ("recorder.mt".into(), header)];
    for rank in 0..2 {
        let encoded = encode(rank, &mut Vec::new());
        files.push((format!("{rank}.cst"), table(&encoded.keys, version != "2.3.0")));
        files.push((format!("{rank}.cfg"), encoded.grammar));
        files.push((format!("{rank}.ts"), encoded.times));
    }
    files
}

/// 2.5: all ranks together, compressed.
fn merged() -> Files {
    let block = |bytes: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        let stream = encoder.finish().unwrap();
        let sizes = [stream.len() as u64, bytes.len() as u64].map(u64::to_le_bytes).concat();
        [sizes, stream].concat()
    };
    let mut header = 2i32.to_le_bytes().to_vec();
    header.extend([1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    header.extend([START_UNIX_S, RESOLUTION_S].iter().flat_map(|it| it.to_le_bytes()));
    header.extend([0, 0, 16, 0, 1, 1, 0, 0]);
    header.extend(names());
    let mut keys = Vec::new();
    let encoded = [encode(0, &mut keys), encode(1, &mut keys)];
    // The times of the second rank come in two blocks.
    let (head, tail) = encoded[1].times.split_at(24);
    let times = [block(&encoded[0].times), [block(head), block(tail)].concat()];
    vec![
        ("VERSION".into(), b"2.5.0".to_vec()),
        ("recorder.mt".into(), header),
        ("recorder.cst".into(), block(&table(&keys, true))),
        ("ug.cfg".into(), encoded.iter().flat_map(|it| block(&it.grammar)).collect()),
        ("ug.mt".into(), [0i32, 1, 2].iter().flat_map(|it| it.to_le_bytes()).collect()),
        (
            "recorder.ts".into(),
            times
                .iter()
                .map(|it| (it.len() as u64).to_le_bytes().to_vec())
                .chain(times.clone())
                .flatten()
                .collect(),
        ),
    ]
}

fn layouts() -> [(&'static str, Files); 4] {
    [("2.2", peephole()), ("2.3", per_rank("2.3.0")), ("2.4", per_rank("2.4.0")), ("2.5", merged())]
}

struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("iotide-recorder-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn fill(&self, files: &Files) -> &Path {
        for (name, bytes) in files {
            self.put(name, bytes);
        }
        &self.0
    }

    /// Puts a new file in place of an old one: file systems that fear for data write through when one is emptied.
    fn put(&self, name: &str, bytes: &[u8]) {
        let _ = fs::remove_file(self.0.join(name));
        fs::write(self.0.join(name), bytes).unwrap();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> Result<(Trace, Census), ReadError> {
    let reader = OpenOptions { layers: LayerChoice::All, ..OpenOptions::default() }.open(path)?;
    assert_eq!(reader.format(), Format::Recorder);
    let mut trace = Trace::default();
    let (info, census) = reader.read_with_census(&mut trace)?;
    trace.info = info;
    Ok((trace, census.unwrap()))
}

#[test]
fn every_layout_tells_the_same_story() {
    for (version, files) in layouts() {
        let dir = Dir::new(&format!("story-{version}"));
        let (trace, census) = read(dir.fill(&files)).unwrap();
        assert_eq!(trace.losses, [], "{version}");
        assert_eq!(census.records, 20, "{version}");
        assert_eq!(census.functions["write"], 8, "{version}");
        assert_eq!(census.functions["MPI_Barrier"], 2, "{version}");
        assert_eq!(census.posix_bytes_written, 800, "{version}");
        assert_eq!(trace.info.job.n_procs, Some(2), "{version}");
        assert!((trace.info.job.start_time_unix_s.unwrap() - START_UNIX_S).abs() < 1e-3, "{version}");
        let shown = |rank: i32| -> Vec<String> {
            let events = trace.events.iter().filter(|event| event.rank.0 == rank);
            events
                .map(|event| {
                    let Event { op, layer, start, end, bytes, file, .. } = event;
                    let file = &trace.info.files[file.0 as usize];
                    let micros = |nanos: i64| nanos / 1000;
                    format!(
                        "{} {layer:?} {}..{} {bytes} {file}",
                        op.name(),
                        micros(start.as_nanos()),
                        micros(end.as_nanos())
                    )
                })
                .collect()
        };
        // Only 2.2 has a clock of its own for each rank.
        let shift = if version == "2.2" { 1_000_000 } else { 0 };
        for rank in 0..2 {
            let at = |ticks: i64| ticks + shift * i64::from(rank);
            let mut expected = vec![format!("open Posix {}..{} 0 /out.{rank}", at(30), at(40))];
            expected.extend(
                (0..4).map(|i| {
                    format!("write Posix {}..{} 100 /out.{rank}", at(100 + 10 * i), at(105 + 10 * i))
                }),
            );
            expected.push(format!("close Posix {}..{} 0 /out.{rank}", at(150), at(151)));
            expected.push(format!("open MpiIo {}..{} 0 /shared", at(160), at(170)));
            expected.push(format!("write MpiIo {}..{} 200 /shared", at(200), at(260)));
            assert_eq!(shown(rank), expected, "{version} rank {rank}");
        }
    }
}

#[test]
fn ranks_whose_files_are_missing_are_a_loss() {
    for (version, mut files) in layouts() {
        files.retain(|(name, _)| !name.starts_with("1.") && name != "ug.mt");
        let dir = Dir::new(&format!("missing-{version}"));
        let result = read(dir.fill(&files));
        if version == "2.5" {
            // Without ug.mt nobody knows whose grammar is whose; ranks then have their own.
            continue;
        }
        let (trace, _) = result.unwrap();
        assert!(trace.events.iter().all(|event| event.rank.0 == 0), "{version}");
        assert_eq!(trace.losses.len(), 1, "{version}: {:?}", trace.losses);
        assert_eq!(trace.losses[0].what, "the files of 1 of 2 ranks are missing", "{version}");
    }
}

#[test]
fn a_cut_stream_gives_the_calls_before() {
    for (version, mut files) in layouts() {
        let cut = match version {
            "2.2" => "0.itf",
            "2.5" => "recorder.ts",
            _ => "0.ts",
        };
        let (_, bytes) = files.iter_mut().find(|(name, _)| name == cut).unwrap();
        bytes.truncate(bytes.len() - 20);
        let dir = Dir::new(&format!("cut-{version}"));
        let (trace, census) = read(dir.fill(&files)).unwrap();
        assert!(census.records >= 10 && census.records < 20, "{version}: {}", census.records);
        assert!(!trace.losses.is_empty(), "{version}");
    }
}

#[test]
fn a_time_past_what_the_version_can_hold_is_a_loss() {
    let mut files = peephole();
    let (_, stream) = files.iter_mut().find(|(name, _)| name == "0.itf").unwrap();
    stream[1..5].copy_from_slice(&i32::MIN.to_le_bytes());
    let dir = Dir::new("overflow");
    let (trace, census) = read(dir.fill(&files)).unwrap();
    assert_eq!((census.records, census.unusable), (19, 1));
    assert!(trace.losses[0].what.contains("35.8 minutes"), "{:?}", trace.losses);
}

#[test]
fn a_grammar_that_refers_to_itself_ends() {
    for words in [
        &[2, -1, 1, -2, 1, -2, 1, -2, 1][..],                  // −2 → −2
        &[2, -1, 1, -2, i32::MAX, -2, 0],                      // nothing, two billion times
        &[3, -1, 1, -2, i32::MAX, -2, 1, -3, i32::MAX, -3, 0], // and nested
        &[1, -1, 1, 0, i32::MAX],                              // more calls than times
        &[1, -1, i32::MAX],                                    // more symbols than bytes
    ] {
        let mut files = per_rank("2.4.0");
        let (_, grammar) = files.iter_mut().find(|(name, _)| name == "0.cfg").unwrap();
        *grammar = words.iter().flat_map(|it: &i32| it.to_le_bytes()).collect();
        let dir = Dir::new(&format!("loop-{}", words.len()));
        let (trace, _) = read(dir.fill(&files)).unwrap();
        assert!(trace.events.iter().any(|event| event.rank.0 == 1), "the other rank is not touched");
        assert!(!trace.losses.is_empty(), "{words:?}");
    }
}

#[test]
fn damaged_directories_are_read_or_refused() {
    struct Checked(u64);
    impl EventSink for Checked {
        fn event(&mut self, event: Event) -> ControlFlow<()> {
            assert!(event.start <= event.end && event.bytes >= 0.0);
            assert!(event.layer != Layer::Unknown && event.op != Op::Stat);
            self.0 += 1;
            ControlFlow::Continue(())
        }
        fn loss(&mut self, loss: Loss) {
            assert!(!loss.what.is_empty());
        }

        fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
            self.event(event)
        }

        fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

        fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
    }
    for (version, files) in layouts() {
        let dir = Dir::new(&format!("damage-{version}"));
        dir.fill(&files);
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let (name, bytes) = &files[random.below(files.len())];
            dir.put(name, &damage(bytes, &mut random));
            let mut checked = Checked(0);
            if let Ok(reader) = iotide_formats::open(&dir.0) {
                let _ = reader.read(&mut checked);
            }
            assert!(checked.0 < 10_000, "{version} with seed {seed}: {} events", checked.0);
            dir.put(name, bytes);
        }
    }
}
