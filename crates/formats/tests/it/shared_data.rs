use std::path::{Path, PathBuf};

use iotide_formats::{Format, open};
use iotide_trace::{ReadWrite, Tally, Timestamp};

/// FTIO's example traces, if they are kept beside the project.
fn ftio_data() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/data/ftio"))
        .find(|folder| folder.is_dir());
    if found.is_none() {
        use std::io::Write as _;
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: no shared/data/ftio above {}", env!("CARGO_MANIFEST_DIR"));
    }
    found
}

struct Expected {
    path: &'static str,
    format: Format,
    n_events: u64,
    n_procs: Option<u64>,
    span_s: [f64; 2],
    bytes_read: f64,
    bytes_written: f64,
}

/// Results of FTIO on its own examples: number of requests, first start and last end, and the volume of the overlap it
/// computes. Where FTIO takes a MiB for 1.07e6 bytes, the volume is ours.
const EXPECTED: [Expected; 9] = [
    Expected {
        path: "tmio/JSONL/8.jsonl",
        format: Format::TmioJsonl,
        n_events: 2190,
        n_procs: Some(8),
        span_s: [0.05309, 29.028889],
        bytes_read: 4937.482729595688,
        bytes_written: 4937.485803086016,
    },
    Expected {
        path: "tmio/ior/parallel/384.msgpack",
        format: Format::TmioMsgpack,
        n_events: 61_440,
        n_procs: Some(384),
        span_s: [3.167433545, 83.149311686],
        bytes_read: 64_424_509_440.0,
        bytes_written: 64_424_509_440.0,
    },
    Expected {
        path: "tmio/ior/collective/test.json",
        format: Format::TmioJson,
        n_events: 73,
        n_procs: Some(1536),
        span_s: [2.507478, 2.557778],
        bytes_read: 329.16743386,
        bytes_written: 0.0,
    },
    // 8 MiB of synchronous writes and 8 MiB of asynchronous ones, of which TMIO's mean bandwidth keeps some.
    Expected {
        path: "tmio/tmio_main_4ranks_mixed.json",
        format: Format::TmioJson,
        n_events: 20,
        n_procs: Some(4),
        span_s: [0.008553, 0.237827],
        bytes_read: 0.0,
        bytes_written: 18_887_244.141,
    },
    Expected {
        path: "custom/JSON/custom.json",
        format: Format::TmioJson,
        n_events: 32,
        n_procs: Some(4),
        span_s: [0.05999, 21.592681],
        bytes_read: 0.0,
        bytes_written: 1_677_721_581.433_768_7,
    },
    Expected {
        path: "custom/JSON/custom_app.json",
        format: Format::FtioJson,
        n_events: 5,
        n_procs: Some(4),
        span_s: [1.0, 8.0],
        bytes_read: 0.0,
        bytes_written: 18e9,
    },
    Expected {
        path: "custom/txt/2.txt",
        format: Format::Text,
        n_events: 14,
        n_procs: None,
        span_s: [0.0, 65.0],
        bytes_read: 0.0,
        bytes_written: 27_000.0 * 1_048_576.0,
    },
    Expected {
        path: "custom/txt/4.txt",
        format: Format::Text,
        n_events: 1024,
        n_procs: None,
        span_s: [529.523, 918.299],
        bytes_read: 0.0,
        // The file's own total, a thousandfold: its times are microseconds, read as milliseconds as FTIO does.
        bytes_written: 536_870_912e3,
    },
    Expected {
        path: "API/gekkoFs/JSON/write_2024-02-28_20:50:02_x0024_34250.json",
        format: Format::Gekkofs,
        n_events: 230,
        n_procs: Some(1),
        span_s: [65.709464, 516.402901],
        bytes_read: 0.0,
        // The file's own total.
        bytes_written: 1_554_714_330.0,
    },
];

#[test]
fn ftio_examples_hold_what_ftio_finds_in_them() {
    let Some(data) = ftio_data() else { return };
    for expected in EXPECTED {
        let path = expected.path;
        let reader = open(&data.join(path)).unwrap();
        assert_eq!(reader.format(), expected.format, "{path}");
        let mut found = ReadWrite::default();
        let info = reader.read(&mut found).unwrap();
        assert_eq!(found.losses, [], "{path}");
        assert_eq!(info.job.n_procs, expected.n_procs, "{path}");
        let Tally { n_events, bytes_read, bytes_written, start, end, .. } = found.tally;
        assert_eq!(n_events, expected.n_events, "{path}");
        let secs = |at: Option<Timestamp>| at.unwrap().as_secs();
        assert!((secs(start) - expected.span_s[0]).abs() < 1e-9, "{path}: {start:?}");
        assert!((secs(end) - expected.span_s[1]).abs() < 1e-9, "{path}: {end:?}");
        let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected;
        assert!(near(bytes_read, expected.bytes_read), "{path}: {bytes_read} bytes read");
        assert!(near(bytes_written, expected.bytes_written), "{path}: {bytes_written} bytes written");
        let volume = found.write.finish().volume_bytes();
        assert!(near(volume, expected.bytes_written), "{path}: a volume of {volume} bytes");
    }
}

/// Six flushes of a client of GekkoFS 0.9.3, of four writes of a MiB each, every one as it was sent.
#[test]
fn metrics_of_a_real_client_are_recognised_and_add_up() {
    let Some(path) = iotide_testkit::shared_data("gekkofs/client-metrics-0.9.3.msgpack") else { return };
    let reader = open(&path).unwrap();
    assert_eq!(reader.format(), Format::GekkofsMsgpack);
    let mut found = ReadWrite::default();
    reader.read(&mut found).unwrap();
    assert_eq!(found.losses, []);
    assert_eq!((found.tally.n_events, found.tally.bytes_written), (24, 24.0 * 1_048_576.0));
}
