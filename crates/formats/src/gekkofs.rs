//! GekkoFS client metrics: what one process asked of the file system, as JSON or MessagePack.
//!
//! ```json
//! {"hostname": "x0024", "pid": 34250, "start_t_micro": [65709464], "end_t_micro": [65710026],
//!  "req_size": [33], "avg_throughput_mib": [0.06], "total_bytes": 33, "total_iops": 1}
//! ```
//!
//! MessagePack has the same nine values one after the other, bare or each as a map of one, and again at each flush:
//! `flush_t, hostname, pid, io_type, start_t_micro, end_t_micro, req_size, total_iops, total_bytes`. JSON does not say
//! which way the bytes went; the files are called `write_…` and `read_…`. Times count in microseconds from the
//! client's start.

use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Timestamp, TraceInfo};

use crate::{
    Place,
    error::Fault,
    input::Input,
    json::{Json, Next},
    losses::Losses,
    processes::Processes,
    scanner::Scanner,
    tmio::msgpack::{MessagePack, Token},
};

/// Requests in one flush.
const MOST_REQUESTS: usize = 1 << 22;
/// The order of the values in MessagePack.
const FIELDS: [&str; 9] = [
    "flush_t",
    "hostname",
    "pid",
    "io_type",
    "start_t_micro",
    "end_t_micro",
    "req_size",
    "total_iops",
    "total_bytes",
];

/// Whether a JSON text is one of these.
pub(crate) fn recognises_json(text: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(text, key).is_some();
    // Arrays of times and throughput alone are free text; a client also says what it is and what it asked for.
    has(b"_t_micro\"") && (has(b"\"req_size\"") || has(b"\"hostname\""))
}

/// Whether bytes are one of these as MessagePack.
pub(crate) fn recognises_msgpack(head: &[u8]) -> bool {
    if matches!(head.first(), Some(0x80..=0x8f)) && memchr::memmem::find(head, b"start_t_micro").is_some() {
        return true;
    }
    // A time, a name, a number, "w" or "r".
    let number_len = |bytes: &[u8]| match bytes.first() {
        Some(0x00..=0x7f) => Some(1),
        // Unsigned integers, signed ones (a client's process id is one), floating point.
        Some(0xcc | 0xd0) => Some(2),
        Some(0xcd | 0xd1) => Some(3),
        Some(0xce | 0xd2 | 0xca) => Some(5),
        Some(0xcf | 0xd3 | 0xcb) => Some(9),
        _ => None,
    };
    let after_number =
        |bytes: &'_ [u8]| number_len(bytes).and_then(|len| bytes.get(len..).map(<[u8]>::to_vec));
    let Some(rest) = after_number(head.get(..1024).unwrap_or(head)) else { return false };
    let rest = match rest.first() {
        Some(&byte @ 0xa1..=0xbf) => rest.get(1 + usize::from(byte & 0x1f)..),
        Some(0xd9) => rest.get(1).and_then(|&len| rest.get(2 + usize::from(len)..)),
        _ => None,
    };
    let Some(rest) = rest.and_then(after_number) else { return false };
    matches!(rest.get(..2), Some([0xa1, b'w' | b'r']))
}

/// One process's requests between two flushes.
#[derive(Default)]
struct Flush {
    hostname: String,
    pid: u64,
    op: Option<Op>,
    starts_micro: Vec<f64>,
    ends_micro: Vec<f64>,
    sizes: Vec<f64>,
    throughputs_mib: Vec<f64>,
    total_bytes: Option<f64>,
    /// More requests than are kept.
    overflowed: bool,
}

impl Flush {
    fn list(&mut self, name: &str) -> Option<&mut Vec<f64>> {
        Some(match name {
            "start_t_micro" => &mut self.starts_micro,
            "end_t_micro" => &mut self.ends_micro,
            "req_size" => &mut self.sizes,
            // Both spellings exist.
            "avg_throughput_mib" | "avg_thruput_mib" => &mut self.throughputs_mib,
            _ => return None,
        })
    }

    fn push(&mut self, name: &str, value: f64) {
        if let Some(list) = self.list(name) {
            if list.len() < MOST_REQUESTS {
                list.push(value);
            } else {
                self.overflowed = true;
            }
        }
    }

    fn set_number(&mut self, name: &str, value: f64) {
        match name {
            "pid" if (0.0..1e15).contains(&value) => self.pid = value as u64,
            "total_bytes" if value >= 0.0 => self.total_bytes = Some(value),
            _ => {}
        }
    }

    fn set_text(&mut self, name: &str, text: &str) {
        match name {
            "hostname" => self.hostname = text.to_owned(),
            "io_type" => self.op = if text.starts_with('r') { Some(Op::Read) } else { Some(Op::Write) },
            _ => {}
        }
    }

    fn emit(
        self,
        op_of_name: Op,
        processes: &mut Processes,
        losses: &mut Losses,
        sink: &mut dyn EventSink,
    ) -> ControlFlow<()> {
        let rank = processes.rank_of(self.hostname.as_bytes(), self.pid);
        let n = self.starts_micro.len().min(self.ends_micro.len());
        let amounts = if self.sizes.is_empty() { &self.throughputs_mib } else { &self.sizes };
        let longest = self.starts_micro.len().max(self.ends_micro.len()).max(amounts.len());
        let n = n.min(amounts.len());
        if longest > n {
            losses.notes((longest - n) as u64, "lengths", Place::Whole, || {
                "the lists of times and sizes differ in length".into()
            });
        }
        if self.overflowed {
            losses.note_of_unknown_size("many", Place::Whole, || {
                "more requests in one flush than can be kept".into()
            });
        }
        let mut sum = 0.0;
        for i in 0..n {
            let time = |micros: f64| Timestamp::from_secs_since_start(micros * 1e-6);
            let (start, end) = (time(self.starts_micro[i]), time(self.ends_micro[i]));
            let (Some(start), Some(end)) = (start, end) else {
                losses.note("time", Place::Whole, || format!("request {i} has no time"));
                continue;
            };
            let bytes = match self.sizes.get(i) {
                Some(&size) => size,
                None => self.throughputs_mib[i] * f64::from(1 << 20) * end.secs_since(start),
            };
            if end < start || !(0.0..=1e30).contains(&bytes) {
                losses.note("request", Place::Whole, || {
                    format!("request {i} ends before it starts, or has no size")
                });
                continue;
            }
            sum += bytes;
            sink.event(Event {
                op: self.op.unwrap_or(op_of_name),
                layer: Layer::Posix,
                grain: Grain::Call,
                rank,
                file: FileId::NONE,
                start,
                end,
                bytes,
                calls: 1,
            })?;
        }
        if let Some(total) = self.total_bytes
            && !self.sizes.is_empty()
            && (total - sum).abs() > 0.5
        {
            losses.note_of_unknown_size("total", Place::Whole, || {
                format!("the requests add up to {sum} bytes, the client counted {total}")
            });
        }
        ControlFlow::Continue(())
    }
}

/// The direction by the name of the file, where the content does not tell.
fn op_of_name(input: &Input) -> Op {
    let name = input.name().file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    if name.is_some_and(|name| name.starts_with("read")) { Op::Read } else { Op::Write }
}

/// Reads a JSON file.
pub(crate) fn read_json(
    input: Input,
    processes: &mut Processes,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let op = op_of_name(&input);
    let mut json = Json::new(Scanner::new(input.into_read()));
    let (mut flush, mut losses) = (Flush::default(), Losses::default());
    match json_object(&mut json, &mut flush) {
        Err(Fault::At(place, fault)) => {
            losses.note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
        }
        result => result?,
    }
    let _ = flush.emit(op, processes, &mut losses, sink);
    losses.report(sink);
    Ok(TraceInfo::default())
}

fn json_object(json: &mut Json, flush: &mut Flush) -> Result<(), Fault> {
    json.enter_object()?;
    let (mut first, mut key, mut text) = (true, String::new(), String::new());
    while json.key(&mut first, &mut key)? {
        match json.next()? {
            Next::Array if flush.list(&key).is_some() => {
                json.enter_array()?;
                let mut first = true;
                while json.element(&mut first)? {
                    let value = json.number()?;
                    flush.push(&key, value);
                }
            }
            Next::Number => {
                let value = json.number()?;
                flush.set_number(&key, value);
            }
            Next::String => {
                json.string(&mut text)?;
                flush.set_text(&key, &text);
            }
            _ => json.skip()?,
        }
    }
    Ok(())
}

/// Reads a MessagePack file.
pub(crate) fn read_msgpack(
    input: Input,
    processes: &mut Processes,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let op = op_of_name(&input);
    let mut pack = MessagePack { scanner: Scanner::new(input.into_read()) };
    let mut losses = Losses::default();
    let mut flush = Flush::default();
    let (mut n_seen, mut flow) = (0, ControlFlow::Continue(()));
    while flow.is_continue() && pack.scanner.peek()?.is_some() {
        match msgpack_item(&mut pack, n_seen % FIELDS.len(), &mut flush) {
            Ok(n) => n_seen += n,
            Err(Fault::At(place, fault)) => {
                losses.note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
                break;
            }
            Err(fault) => return Err(fault),
        }
        if n_seen >= FIELDS.len() {
            n_seen = 0;
            flow = std::mem::take(&mut flush).emit(op, processes, &mut losses, sink);
        }
    }
    if flow.is_continue() && n_seen > 0 {
        losses.note_of_the_rest("cut", Place::Whole, || "the last flush is not whole".into());
        let _ = flush.emit(op, processes, &mut losses, sink);
    }
    losses.report(sink);
    Ok(TraceInfo::default())
}

/// Takes one value, or a map of some of them; returns how many fields it held.
fn msgpack_item(pack: &mut MessagePack, at: usize, flush: &mut Flush) -> Result<usize, Fault> {
    match pack.token()? {
        Token::Map(n) => {
            for _ in 0..n {
                let place = pack.place();
                let Token::Bytes(len) = pack.token()? else {
                    return Err(Fault::at(place, "the name of a field should be here"));
                };
                let name = pack.text(len)?;
                let token = pack.token()?;
                msgpack_field(pack, token, &name, flush)?;
            }
            Ok((n as usize).clamp(1, FIELDS.len()))
        }
        token => {
            msgpack_field(pack, token, FIELDS[at], flush)?;
            Ok(1)
        }
    }
}

fn msgpack_field(pack: &mut MessagePack, token: Token, name: &str, flush: &mut Flush) -> Result<(), Fault> {
    match token {
        Token::Number(value) => flush.set_number(name, value),
        Token::Bytes(len) => {
            let text = pack.text(len)?;
            flush.set_text(name, &text);
        }
        Token::Array(n) if flush.list(name).is_some() => {
            for _ in 0..n {
                let value = pack.number()?;
                flush.push(name, value);
            }
        }
        Token::Array(n) => pack.skip(n)?,
        Token::Map(n) => pack.skip(n.saturating_mul(2))?,
        Token::Other => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Trace;
    use std::path::Path;

    fn read(name: &str, bytes: &[u8]) -> Trace {
        let input =
            Input::from_read(Path::new(name), Box::new(std::io::Cursor::new(bytes.to_vec()))).unwrap();
        let mut trace = Trace::default();
        let mut processes = Processes::default();
        trace.info = match recognises_msgpack(bytes) {
            true => read_msgpack(input, &mut processes, &mut trace).unwrap(),
            false => {
                assert!(recognises_json(bytes));
                read_json(input, &mut processes, &mut trace).unwrap()
            }
        };
        trace
    }

    fn shown(trace: &Trace) -> Vec<String> {
        let shown = |event: &Event| {
            let Event { op, start, end, bytes, .. } = event;
            format!(
                "{} {} {}..{} {bytes}",
                event.rank.0,
                op.name(),
                start.as_nanos() / 1000,
                end.as_nanos() / 1000
            )
        };
        trace.events.iter().map(shown).collect()
    }

    const JSON: &str = r#"{
"avg_thruput_mib": [0.06,84.12],
"end_t_micro": [65710026,65711143],
"hostname": "x0024",
"pid": 34250,
"req_size": [33,37664],
"start_t_micro": [65709464,65710716],
"total_bytes": 37697,
"total_iops": 2
}"#;

    #[test]
    fn requests_have_times_and_sizes() {
        let trace = read("write_2024.json", JSON.as_bytes());
        assert_eq!(shown(&trace), ["0 write 65709464..65710026 33", "0 write 65710716..65711143 37664"]);
        assert_eq!(trace.losses, []);
        assert_eq!(read("read_2024.json", JSON.as_bytes()).events[0].op, Op::Read);
    }

    #[test]
    fn requests_that_do_not_add_up_are_a_loss() {
        let trace = read("write", JSON.replace("37697", "40000").replace("[33,37664]", "[33]").as_bytes());
        assert_eq!(trace.events.len(), 1);
        assert_eq!(trace.losses.iter().map(|loss| loss.records).collect::<Vec<_>>(), [Some(1), None]);
    }

    fn packed(pid: &[u8], as_maps: bool) -> Vec<u8> {
        let values: [&[u8]; 9] = [
            &[0xce, 0, 0, 0, 9],
            b"\xa2n1",
            pid,
            b"\xa1r",
            &[0x92, 10, 0xcd, 0, 30],
            &[0x92, 20, 50],
            &[0x92, 100, 0xcd, 1, 0],
            &[2],
            &[0xcd, 0x01, 0x64],
        ];
        let mut bytes = Vec::new();
        for (name, value) in FIELDS.iter().zip(values) {
            if as_maps {
                bytes.extend([0x81, 0xa0 | name.len() as u8]);
                bytes.extend(name.as_bytes());
            }
            bytes.extend(value);
        }
        bytes
    }

    #[test]
    fn message_pack_is_values_one_after_the_other() {
        for as_maps in [false, true] {
            let bytes = packed(&[0xcd, 1, 0], as_maps).repeat(2);
            let trace = read("metrics", &bytes);
            assert_eq!(
                shown(&trace),
                ["0 read 10..20 100", "0 read 30..50 256", "0 read 10..20 100", "0 read 30..50 256"]
            );
            assert_eq!(trace.losses, []);
            let cut = read("metrics", &bytes[..bytes.len() - 8]);
            assert!(cut.events.len() >= 2 && !cut.losses.is_empty());
        }
    }

    /// Clients of 0.9.3 write the process id as a signed integer of the shortest width that holds it.
    #[test]
    fn a_process_id_is_an_integer_of_any_width_and_sign() {
        let same: [&[u8]; 7] = [
            &[100],
            &[0xcc, 100],
            &[0xd0, 100],
            &[0xd1, 0, 100],
            &[0xd2, 0, 0, 0, 100],
            &[0xd3, 0, 0, 0, 0, 0, 0, 0, 100],
            &[0xce, 0, 0, 0, 100],
        ];
        let all: Vec<u8> = same.iter().flat_map(|pid| packed(pid, false)).collect();
        for pid in same {
            assert!(recognises_msgpack(&packed(pid, false)), "{pid:x?}");
        }
        let trace = read("metrics", &all);
        assert_eq!(trace.losses, []);
        assert_eq!(trace.events.len(), 2 * same.len());
        assert!(trace.events.iter().all(|event| event.rank.0 == 0), "one process");
    }
}
