use std::fmt::Write as _;

use iotide_formats::{Format, NativeWriter, OpenOptions};

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
        Sample {
            name: "native",
            format: Format::Native,
            bytes: native(events),
            n_events: 5,
            n_bytes: 4196.0,
        },
    ]
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
        out.extend_from_slice(&[0xc0; 0]);
        out.extend_from_slice(&[0, 0, 0, 0, 0, 1]);
    }
    out.extend_from_slice(b"\x92\xa7io_time\x01");
    out
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
        assert!(all().iter().any(|sample| sample.format == *format), "no sample of {format}");
        assert_eq!(Format::from_name(format.name()), Some(*format));
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
