use std::fmt::Write as _;

use iotide_formats::darshan::{Compression, Endian};
use iotide_formats::{Format, NativeWriter, OpenOptions};

use iotide_wire::{
    self as wire, BlockHeader, BlockKind, ClockKind, End, EndReason, Facts, Flags, LossEntries, LossKind,
    PathEntry, StreamHeader,
};

use crate::darshan::writer::LogWriter;

/// A source of each format, with what its events add up to: how many there are, and the bytes they move.
pub struct Sample {
    pub name: &'static str,
    pub format: Format,
    pub bytes: Vec<u8>,
    pub n_events: usize,
    pub n_bytes: f64,
}

/// At least one sample of every format; the tests of damage start from these.
pub fn all() -> Vec<Sample> {
    let text = |name, format, text: &str, n_events, n_bytes| Sample {
        name,
        format,
        bytes: text.as_bytes().to_vec(),
        n_events,
        n_bytes,
    };
    let events = "# nprocs=2\n# exe=./a.out\nrank,op,start,end,bytes,file,opens,seeks\n\
                  0,write,0.0,1.5,4096,\"/scratch/a,b\",1,2\n1,read,1.0,2.5,100,/home/c,0,0\n1,close,2.5,2.5,,/home/c,,\n";
    let [parser, dxt_parser] = crate::darshan::text::samples();
    vec![
        text("events", Format::Csv, events, 5, 4196.0),
        text("series", Format::Csv, "time,read,write\n0,10,0\n1.5,0,20\n3,0,0\n", 4, 45.0),
        text(
            "events_jsonl",
            Format::Jsonl,
            "{\"nprocs\": 2}\n{\"rank\": 0, \"op\": \"write\", \"start\": 0, \"end\": 1e0, \"bytes\": 12, \"file\": \"\\u0041\"}\n",
            1,
            12.0,
        ),
        text(
            "series_jsonl",
            Format::Jsonl,
            "{\"time\": 0, \"bandwidth\": 3}\n{\"time\": 2, \"bandwidth\": 0}\n",
            1,
            6.0,
        ),
        text("tmio", Format::TmioJson, &format!("{{\n\t{}\n}}\n", tmio_mode(3)), 3, 6.0),
        text(
            "tmio_lines",
            Format::TmioJsonl,
            &format!("\t{{{}}}\n\t{{\"io_time\":{{\"a\": NaN}}}}\n\t{{{}}}\n", tmio_mode(2), tmio_mode(1)),
            3,
            4.0,
        ),
        Sample {
            name: "tmio_msgpack",
            format: Format::TmioMsgpack,
            bytes: tmio_msgpack(),
            n_events: 2,
            n_bytes: 300.0,
        },
        text(
            "ftio",
            Format::FtioJson,
            "{\"write_sync\": {\"number_of_ranks\": 4, \"bandwidth\": {\"b_overlap_avr\": [10, 20.0, 0], \"t_overlap\": [1, 2, 4]}}}",
            2,
            50.0,
        ),
        text(
            "text",
            Format::Text,
            "host: \"n1\"\navg_thruput_mib: [1.0,0.5]\nstart_t_micro: [0000,1000]\nend_t_micro: [1000,3000]\n",
            2,
            2.0 * 1_048_576.0,
        ),
        text("dftracer", Format::DfTracer, DFTRACER, 4, 708.0),
        Sample {
            name: "dftracer_gzip",
            format: Format::DfTracer,
            bytes: gzip(DFTRACER),
            n_events: 4,
            n_bytes: 708.0,
        },
        text("strace", Format::Strace, STRACE, 4, 4099.0),
        text("tau", Format::Tau, TAU, 2, 108.0),
        text("gekkofs", Format::Gekkofs, GEKKOFS, 2, 37697.0),
        Sample {
            name: "gekkofs_msgpack",
            format: Format::GekkofsMsgpack,
            bytes: gekkofs_msgpack(),
            n_events: 2,
            n_bytes: 356.0,
        },
        text("proxy", Format::Proxy, PROXY, 2, 8.0),
        Sample {
            name: "proxy_msgpack",
            format: Format::ProxyMsgpack,
            bytes: proxy_msgpack(),
            n_events: 1,
            n_bytes: 5.0,
        },
        text("job_stats", Format::LustreJobStats, JOB_STATS, 3, 12288.0),
        text("lmt", Format::Lmt, LMT, 4, 8_388_608.0),
        text("gluster", Format::Gluster, GLUSTER, 4, 25_165_824.0),
        text("ceph", Format::Ceph, CEPH, 2, 4_194_304.0),
        text("prometheus", Format::Prometheus, PROMETHEUS, 3, 56.0),
        Sample {
            name: "native",
            format: Format::Native,
            bytes: native(events),
            n_events: 5,
            n_bytes: 4196.0,
        },
        Sample {
            name: "tracer",
            format: Format::Native,
            bytes: tracer_stream(),
            n_events: 4,
            n_bytes: 12_288.0,
        },
        Sample {
            name: "darshan",
            format: Format::Darshan,
            bytes: LogWriter::rich(41, Endian::Little, Compression::Zlib).write(),
            n_events: 12,
            n_bytes: 350.0,
        },
        Sample { name: "darshan_parser", format: parser.0, bytes: parser.1, n_events: 5, n_bytes: 18.0 },
        Sample {
            name: "darshan_dxt_parser",
            format: dxt_parser.0,
            bytes: dxt_parser.1,
            n_events: 3,
            n_bytes: 8292.0,
        },
    ]
}

const LMT: &str = "TIMESTAMP\tOST_ID\tREAD_BYTES\tWRITE_BYTES\tPCT_CPU
2013-05-01 12:00:00\t1\t0\t1048576\t2.5
2013-05-01 12:00:05\t1\t4194304\t1048576\tNULL
2013-05-01 12:00:10\t1\t4194304\t5242880\t3
";

/// A volume of two copies, a dump of one brick, and a profile of another.
const GLUSTER: &str = r#"<cliOutput>
  <volInfo>
    <volumes>
      <volume>
        <replicaCount>2</replicaCount>
        <arbiterCount>0</arbiterCount>
        <disperseCount>0</disperseCount>
        <redundancyCount>0</redundancyCount>
        <bricks>
          <brick uuid="00">n1:/data/b1<name>n1:/data/b1</name></brick>
        </bricks>
      </volume>
    </volumes>
  </volInfo>
</cliOutput>
# 1700000000.250000000
"gluster.brick._data_b1.aggr.fop.write.count": 8,
"gluster.brick._data_b1.aggr.bytes_read": 4096,
"gluster.brick._data_b1.aggr.bytes_written": 1048576
<brickName>n2:/data/b2</brickName>
<cumulativeStats>
<totalRead>0</totalRead>
<totalWrite>1048576</totalWrite>
</cumulativeStats>
# 1700000001.250000000
"gluster.brick._data_b1.aggr.fop.write.count": 264,
"gluster.brick._data_b1.aggr.bytes_read": 4096,
"gluster.brick._data_b1.aggr.bytes_written": 34603008
<brickName>n2:/data/b2</brickName>
<cumulativeStats>
<fop>
<name>WRITE</name>
<hits>64</hits>
</fop>
<totalRead>8388608</totalRead>
<totalWrite>1048576</totalWrite>
</cumulativeStats>
"#;

const CEPH: &str = r#"# 1700000000.5 osd.0
{
    "osd": {
        "op_in_bytes": 3482,
        "op_out_bytes": 0,
        "op_r": 0,
        "op_w": 36
    }
}
# 1700000001.5 osd.0
{ "osd": { "op_in_bytes": 4197786, "op_out_bytes": 0, "op_r": 0, "op_w": 37 } }
"#;

const DFTRACER: &str = r#"[
{"id":1,"name":"FH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"hhash":9509357668201227806,"name":"/data/f","value":17868160079272185649}}
{"id":2,"name":"open64","cat":"POSIX","pid":5,"tid":5,"ts":1744611912976874,"dur":4,"ph":"X","args":{"hhash":9509357668201227806,"fhash":17868160079272185649,"ret":3}}
{"id":3,"name":"pread","cat":"POSIX","pid":5,"tid":5,"ts":1744611912976974,"dur":1,"ph":"X","args":{"hhash":9509357668201227806,"fhash":17868160079272185649,"ret":8,"count":8}}
{"id":"4","name":"fwrite","cat":"STDIO","pid":"5","tid":"5","ts":"1744611912977000","dur":"1","ph":"X","args":{"hostname":"n1","ret":"50","size":"4","fname":"/data/g"}}
{"name":"write","cat":"POSIX","type":3,"ts":1744611913000000,"ph":3,"pid":5,"tid":5,"args":{"hhash":"ab","ret_sum":500,"dft_cnt":60}}
{"id":9,"name":"end","cat":"dftracer","pid":5,"tid":5,"ts":1744611914000000,"dur":0,"ph":"X","args":{"cfg":{"trace_interval_ms":500}}}
]
"#;

const STRACE: &str = r#"7 1794703154.100000 execve("/bin/app", ["app", "-x"], 0x7ffe /* 24 vars */) = 0 <0.001>
7 1794703154.416946 openat(AT_FDCWD</runs>, "out.dat", O_RDWR|O_CREAT, 0644) = 3</runs/out.dat> <0.000016>
7 1794703154.417008 write(3</runs/out.dat>, "a) = 3 <0.5>\"\0"..., 4096 <unfinished ...>
8 1794703154.417044 write(1</dev/pts/0<char 136:0>>, "x", 1) = 1 <0.000005>
7 1794703154.417069 <... write resumed>) = 4096 <0.000061>
7 1794703154.417100 dup2(3, 9)              = 9 <0.000010>
7 1794703154.417110 clone(child_stack=NULL, flags=CLONE_FILES|SIGCHLD) = 8 <0.000010>
8 1794703154.417120 pread64(9, "abc", 100, 0) = 3 <0.000010>
8 1794703154.417130 close(9) = 0 <0.000010>
8 1794703155.037658 +++ exited with 0 +++
"#;

const TAU: &str = r#"[
{"ts": 1636144555960519, "dur": 616, "ph": "X", "tid": 0, "pid": 0, "step": 0, "cat": "POSIX", "name": "fopen", "args": {"path": "log", "mode": "w"}, "return": "0x2ea32c0"},
{"ts": 1636144555963372, "dur": 33, "ph": "X", "tid": 0, "pid": 0, "step": 0, "cat": "POSIX", "name": "fwrite", "args": {"ptr": 0xa5, "size": 4, "nmemb": 27}, "pathname": "log", "return": 27},
{"ts": 1636144555963400, "dur": 1, "ph": "X", "tid": 0, "pid": 0, "step": 0, "cat": "TAU", "name": "program exit"}
]
"#;

const GEKKOFS: &str = r#"{
"avg_throughput_mib": [0.06,84.12],
"end_t_micro": [65710026,65711143],
"hostname": "x0024",
"pid": 34250,
"req_size": [33,37664],
"start_t_micro": [65709464,65710716],
"total_bytes": 37697,
"total_iops": 2
}"#;

const PROXY: &str = r#"{"argv": ["--freq", "20"], "metrics": {"infos": false, "metrics": {
"write_size": [[0, 0], [1, 5], [2, 9]], "cpu": [[0, 1], [1, 2]], "read_size": [[0, 1], [2, 4]],
"deriv__write_size": [[0.0, 0.0], [1.0, 5.0]]}}, "disable_parallel": true}"#;

const JOB_STATS: &str = "obdfilter.fs-OST0001.job_stats=
job_stats:
- job_id:          77
  snapshot_time:   1700000010.000000000 secs.nsecs
  start_time:      1700000000.000000000 secs.nsecs
  read_bytes:      { samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }
  write_bytes:     { samples:           1, unit: bytes, min:    4096, max:    4096, sum:            4096 }
  open:            { samples:           1, unit:  reqs }
job_stats:
- job_id:          77
  snapshot_time:   1700000020.000000000 secs.nsecs
  start_time:      1700000000.000000000 secs.nsecs
  write_bytes:     { samples:           3, unit: bytes, min:    4096, max:    4096, sum:           12288 }
  open:            { samples:           1, unit:  reqs }
";

const PROMETHEUS: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
{"metric":{"__name__":"node_disk_written_bytes_total","instance":"n1"},"values":[[100,"10"],[115,"30"],[145,"31"]]},
{"metric":{"device":"sda","op":"read"},"values":[[100,"2"],[110,"3.5"]]}]}}"#;

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn gekkofs_msgpack() -> Vec<u8> {
    let values: [&[u8]; 9] = [
        &[0xce, 0, 0, 0, 9],
        b"\xa2n1",
        &[0xcd, 1, 0],
        b"\xa1r",
        &[0x92, 10, 0xcd, 0, 30],
        &[0x92, 20, 50],
        &[0x92, 100, 0xcd, 1, 0],
        &[2],
        &[0xcd, 0x01, 0x64],
    ];
    values.concat()
}

fn proxy_msgpack() -> Vec<u8> {
    [
        &b"\x83\xa4argv\x91\xa3--f\xa7metrics\x82\xa5infos\xc2\xa7metrics\x82\xa9cpu_usage\x91\x92\x00\x00"[..],
        b"\xb1deriv__write_size\x92\x92\x00\x00\x92\x01\x05\xb0disable_parallel\xc3",
    ]
    .concat()
}

/// `"write_sync": …` with `n` requests of a second each, of 1, 2, 3… bytes.
pub fn tmio_mode(n: usize) -> String {
    let column = |first: usize| {
        (first..first + n).fold(String::new(), |mut column, i| {
            let separator = if column.is_empty() { "" } else { ", " };
            let _ = write!(column, "{separator}{i}.0");
            column
        })
    };
    format!(
        "\"write_sync\":{{\"total_bytes\": 3.29e+02,\"number_of_ranks\": 8,\"bandwidth\": {{\"max\": 0.00e+00,\
         \"b_rank_avr\": [ {}],\"b_rank_sum\": [ 1.0],\"t_rank_s\": [ {}],\"t_rank_e\": [ {}],\"b_ind\": []}}}}",
        column(1),
        column(0),
        column(1)
    )
}

fn tmio_msgpack() -> Vec<u8> {
    let mut out = Vec::new();
    for (name, data) in [("read_async", 0u8), ("write_sync", 200), ("read_sync", 100)] {
        out.extend_from_slice(&[0x9e, 0xa0 | name.len() as u8]);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&[0xc2, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 8, 8]);
        if data == 0 {
            out.push(0x90);
            continue;
        }
        out.extend_from_slice(&[0x91, 0x99, 0xcc, data, 0xcb]);
        out.extend_from_slice(&0.5f64.to_be_bytes());
        out.push(0xcb);
        out.extend_from_slice(&2.5f64.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 0, 0, 1]);
    }
    out.extend_from_slice(b"\x92\xa7io_time\x01");
    out
}

/// Returns the tracer's stream of a process: a block of every kind, calls of every layer, one of them asynchronous, one nested.
fn tracer_stream() -> Vec<u8> {
    let mut stream = StreamHeader { version: StreamHeader::VERSION }.to_bytes().to_vec();
    let mut sequence = 0;
    let mut block = |kind, payload: &[u8]| {
        let at = 1_000_000_000 + 1_000_000 * sequence;
        let payload_len = payload.len() as u32;
        let header = BlockHeader { kind, payload_len, thread: 1, sequence, ticks: at, nanos: at };
        sequence += 1;
        stream.extend(header.seal(payload));
        stream.extend(payload);
    };
    let mut payload = [0; Facts::MAX_SIZE];
    let facts = Facts {
        rank: Some(0),
        n_ranks: Some(2),
        pid: 7,
        parent_pid: 1,
        uid: 1000,
        buffer_records: 1638,
        realtime_offset_ns: 1_700_000_000_000_000_000,
        start_ns: 1_000_000_000,
        clock: ClockKind::MonotonicNanos,
        host: b"node1",
        job_id: b"42",
        exe: b"/bin/app",
        mpi: b"Open MPI v4",
        run: b"",
        command: b"app\0-x\0",
    };
    let n = facts.encode(&mut payload).unwrap();
    block(BlockKind::Facts, &payload[..n]);
    let record = |op, start, flags| wire::Record {
        start,
        duration: 5_000,
        bytes: 4096,
        position: 2_000,
        file: 3,
        calls: 1,
        call: wire::Call::of(op),
        flags,
    };
    let posix = Flags::of(wire::Layer::Posix);
    let records = [
        record(wire::Op::Open, 1_000_100_000, posix),
        record(wire::Op::Write, 1_000_200_000, posix),
        record(wire::Op::Write, 1_000_300_000, Flags::of(wire::Layer::MpiIo).with(Flags::ASYNC)),
        record(wire::Op::Write, 1_000_300_500, posix.with(Flags::NESTED)),
        record(wire::Op::Read, 1_000_400_000, Flags::of(wire::Layer::Stdio)),
    ];
    for record in records {
        block(BlockKind::Records, &record.to_bytes());
    }
    let n = PathEntry { file: 3, path: b"/scratch/out" }.encode(&mut payload).unwrap();
    block(BlockKind::Paths, &payload[..n]);
    block(BlockKind::Losses, &LossEntries::encode(LossKind::InSignal, 0));
    let end = End { reason: EndReason::Exit, n_records: records.len() as u64, realtime_offset_ns: 0 };
    block(BlockKind::End, &end.to_bytes());
    stream
}

fn native(events: &str) -> Vec<u8> {
    let mut writer = NativeWriter::new(Vec::new()).unwrap();
    let source = std::io::Cursor::new(events.as_bytes().to_vec());
    let info = OpenOptions::default().from_read("events", source).unwrap().read(&mut writer).unwrap();
    writer.finish(&info).unwrap()
}

#[test]
fn every_format_has_a_sample() {
    for format in Format::ALL {
        // A directory is no stream of bytes: see `recorder.rs`.
        let is_directory = *format == Format::Recorder;
        assert!(is_directory || all().iter().any(|sample| sample.format == *format), "no sample of {format}");
        assert_eq!(Format::from_name(format.name()), Some(*format));
    }
}

#[test]
fn every_format_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
    let docs = std::fs::read_to_string(path).unwrap();
    for format in Format::ALL {
        assert!(docs.contains(&format!("[`{format}`](#")), "docs/formats.md has no entry for {format}");
    }
}

#[test]
fn every_sample_is_recognised_and_read_without_loss() {
    for Sample { name, format, bytes, n_events, n_bytes } in all() {
        let reader = OpenOptions::default().from_read(name, std::io::Cursor::new(bytes)).unwrap();
        assert_eq!(reader.format(), format, "{name}");
        let mut trace = iotide_trace::Trace::default();
        reader.read(&mut trace).unwrap();
        assert_eq!(trace.losses, [], "{name}");
        assert_eq!(trace.events.len(), n_events, "{name}");
        assert_eq!(trace.events.iter().map(|event| event.bytes).sum::<f64>(), n_bytes, "{name}");
    }
}
