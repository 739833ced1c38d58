use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use iotide_formats::{OpenOptions, ReadError, open, open_many};
use iotide_trace::{Event, EventSink, Loss, Tally, Trace};

use crate::samples::tmio_mode;

/// A directory of one test's own, gone when the test is.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("iotide-formats-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_of_one_run_are_one_trace() {
    let dir = Dir::new("one-run");
    let header = "rank,op,start,end,bytes,file\n";
    let paths = [
        dir.write("rank0.csv", format!("# nprocs=2\n{header}0,write,0,1,5,/a\n0,write,2,1,5,/b\n")),
        dir.write("rank1.csv", format!("# nprocs=9\n# user=ada\n{header}1,write,0,1,6,/c\n1,write,1,2,7,\n")),
    ];
    let mut trace = Trace::default();
    trace.info = open_many(&paths).unwrap().read(&mut trace).unwrap();
    assert_eq!(trace.info.job.n_procs, Some(2), "the first file's word holds");
    assert_eq!(trace.info.job.user.as_deref(), Some("ada"), "the second file fills in");
    let listed: Vec<_> = trace
        .events
        .iter()
        .map(|event| {
            (event.rank.0, event.bytes, trace.info.files.get(event.file.0 as usize).map(String::as_str))
        })
        .collect();
    assert_eq!(listed, [(0, 5.0, Some("/a")), (1, 6.0, Some("/c")), (1, 7.0, None)]);
    let expected = format!("{}: line 4: end 1 is before start 2", paths[0].display());
    assert_eq!(trace.losses, [Loss::of_records(1, expected)]);
}

#[test]
fn a_file_of_a_run_that_cannot_be_used_is_a_loss_beside_the_others() {
    let dir = Dir::new("unusable");
    let paths = [
        dir.write("rank0.csv", "rank,op,start,end,bytes\n0,write,2,1,5\n"),
        dir.write("rank1.csv", ""),
        dir.write("rank2.csv", "rank,op,start,end,bytes\n2,write,1,2,5\n"),
    ];
    let mut trace = Trace::default();
    open_many(&paths).unwrap().read(&mut trace).unwrap();
    assert_eq!(trace.events.len(), 1);
    let losses: Vec<_> =
        trace.losses.iter().map(|loss| loss.what.replace(&dir.0.display().to_string(), "DIR")).collect();
    assert_eq!(
        losses,
        [
            "DIR/rank0.csv: line 2: end 1 is before start 2",
            "DIR/rank1.csv is empty",
            "DIR/rank0.csv holds no record that can be used: line 2: end 1 is before start 2",
        ]
    );
    let error = open_many(&paths[..2]).unwrap().read(&mut trace).unwrap_err();
    assert!(error.to_string().ends_with("rank1.csv is empty"), "{error}");
}

#[test]
fn long_arrays_are_read_alike_from_files_and_streams() {
    // More values than a column keeps, so that a file is read at several places at once.
    let text = format!("{{{}}}\n{{{}}}\n", tmio_mode(100_000), tmio_mode(40_000));
    let path = Dir::new("long-arrays");
    let path_of_file = path.write("100k.jsonl", &text);
    let mut from_file = Trace::default();
    from_file.info = open(&path_of_file).unwrap().read(&mut from_file).unwrap();
    let mut from_stream = Trace::default();
    let stream = std::io::Cursor::new(text.into_bytes());
    from_stream.info =
        OpenOptions::default().from_read("stream", stream).unwrap().read(&mut from_stream).unwrap();
    assert_eq!(from_file.events.len(), 140_000);
    assert!(from_file == from_stream, "file and stream differ");
}

#[test]
fn of_long_arrays_in_a_cut_file_the_whole_requests_are_kept() {
    let text = format!("{{{}}}\n", tmio_mode(100_000));
    let ends = text.find("t_rank_e").unwrap();
    // Some 60 000 of the ends are there.
    let cut = &text[..ends + (text.len() - ends) * 6 / 10];
    let dir = Dir::new("cut-arrays");
    let mut trace = Trace::default();
    open(&dir.write("cut.jsonl", cut)).unwrap().read(&mut trace).unwrap();
    assert!((55_000..65_000).contains(&trace.events.len()), "{} events", trace.events.len());
    assert!(trace.losses.iter().any(|loss| loss.what.contains("the text ends")), "{:?}", trace.losses);
}

#[test]
fn where_a_stream_is_torn_into_pieces_makes_no_difference() {
    struct Pieces(std::io::Cursor<Vec<u8>>);
    impl std::io::Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let n = buffer.len().min(1);
            self.0.read(&mut buffer[..n])
        }
    }
    for sample in crate::samples::all() {
        let read = |source: Box<dyn std::io::Read + Send>| {
            let mut trace = Trace::default();
            trace.info =
                OpenOptions::default().from_read(sample.name, source).unwrap().read(&mut trace).unwrap();
            trace
        };
        let whole = std::io::Cursor::new(sample.bytes.clone());
        assert_eq!(read(Box::new(Pieces(whole.clone()))), read(Box::new(whole)), "{}", sample.name);
    }
}

#[test]
fn a_row_without_an_end_is_passed_over() {
    let long = "x".repeat(3 << 20);
    let table = format!("rank,op,start,end,bytes\n0,write,0,1,5\n{long}\n1,write,0,1,6\n");
    let mut trace = Trace::default();
    let source = std::io::Cursor::new(table.into_bytes());
    OpenOptions::default().from_read("table", source).unwrap().read(&mut trace).unwrap();
    assert_eq!(trace.events.iter().map(|event| event.rank.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(trace.losses, [Loss::of_records(1, "line 3: longer than 1048576 bytes")]);
}

#[test]
fn a_sink_that_breaks_ends_the_reading() {
    struct First(Vec<Event>);
    impl EventSink for First {
        fn event(&mut self, event: Event) -> ControlFlow<()> {
            self.0.push(event);
            if self.0.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn loss(&mut self, _: Loss) {}

        fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
            self.event(event)
        }

        fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

        fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
    }
    let dir = Dir::new("break");
    for sample in crate::samples::all().iter().filter(|sample| sample.n_events >= 3) {
        let path = dir.write(sample.name, &sample.bytes);
        let mut first = First(Vec::new());
        open_many(&[&path, &path]).unwrap().read(&mut first).unwrap();
        assert_eq!(first.0.len(), 3, "{}", sample.name);
    }
}

#[test]
fn runs_in_folders_beside_a_trace_are_losses() {
    let dir = Dir::new("beside");
    dir.write("run.csv", "rank,op,start,end,bytes\n0,write,0,1,8\n");
    fs::create_dir(dir.0.join("recorded")).unwrap();
    dir.write("recorded/1.iot", iotide_wire::StreamHeader { version: 1 }.to_bytes());
    fs::create_dir(dir.0.join("notes")).unwrap();
    let mut trace = Trace::default();
    open(&dir.0).unwrap().read(&mut trace).unwrap();
    let losses: Vec<&str> = trace.losses.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(trace.events.len(), 1);
    assert!(losses.len() == 1 && losses[0].contains("recorded is the trace of another run"), "{losses:?}");
}

#[test]
fn what_is_no_trace_is_refused_with_its_name_and_the_reason() {
    let dir = Dir::new("refused");
    let message =
        |path: PathBuf| open(&path).unwrap_err().to_string().replace(&dir.0.display().to_string(), "DIR");
    assert_eq!(message(dir.write("empty", "")), "DIR/empty is empty");
    assert_eq!(
        message(dir.write("elf", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0")),
        "DIR/elf is not a trace in any known format (it starts with \"\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\")"
    );
    assert_eq!(message(dir.0.clone()), "DIR is a directory, and not a trace in any known format");
    assert!(message(dir.0.join("nowhere")).starts_with("DIR/nowhere: No such file"));
    assert!(matches!(open_many::<&str>(&[]), Err(ReadError::NoInput)));
}

#[test]
fn many_events_need_no_memory_of_their_own() {
    // A stream that never exists as a whole: rows are made as they are read.
    struct Rows {
        row: u64,
        line: Vec<u8>,
        at: usize,
    }
    impl std::io::Read for Rows {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.at == self.line.len() {
                if self.row == 300_000 {
                    return Ok(0);
                }
                self.line =
                    format!("{},write,{}.5,{}.75,4096\n", self.row % 8, self.row, self.row).into_bytes();
                self.row += 1;
                self.at = 0;
            }
            let n = buffer.len().min(self.line.len() - self.at);
            buffer[..n].copy_from_slice(&self.line[self.at..self.at + n]);
            self.at += n;
            Ok(n)
        }
    }
    struct Count(Tally);
    impl EventSink for Count {
        fn event(&mut self, event: Event) -> ControlFlow<()> {
            self.0.add(&event);
            ControlFlow::Continue(())
        }
        fn loss(&mut self, loss: Loss) {
            panic!("{}", loss.what);
        }

        fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
            self.event(event)
        }

        fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

        fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
    }
    let rows = Rows { row: 0, line: b"rank,op,start,end,bytes\n".to_vec(), at: 0 };
    let mut count = Count(Tally::default());
    OpenOptions::default().from_read("rows", rows).unwrap().read(&mut count).unwrap();
    assert_eq!((count.0.n_events, count.0.n_ranks()), (300_000, 8));
    assert_eq!(count.0.bytes_written, 300_000.0 * 4096.0);
}
