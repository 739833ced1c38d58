//! TMIO's MessagePack: one array a mode and flush, one after the other.
//!
//! A mode is `[name, is_async, is_write, …, procs, [request…]]` and a request
//! `[data, t_start, t_end_act, t_end_req, T_sum, T_avr, B_sum, B_avr, n_op]`.

use iotide_trace::{Event, EventSink, Layer, Rank, TraceInfo};

use crate::{
    Place,
    error::Fault,
    input::Input,
    losses::{Losses, Nonsense, amount, interval, moment},
    scanner::Scanner,
    tmio::{Mode, mode},
};

/// Where in a mode's array its requests and the number of processes are.
const PROCS: u64 = 12;
const REQUESTS: u64 = 13;
/// Where in a request's array its values are.
const DATA: usize = 0;
const T_START: usize = 1;
const T_END_ACT: usize = 2;
const T_END_REQ: usize = 3;
const T_AVR: usize = 5;
const N_OP: usize = 8;

pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut reader = TmioMsgpack {
        pack: MessagePack { scanner: Scanner::new(input.into_read()) },
        info: TraceInfo::default(),
        losses: Losses::default(),
        stopped: false,
    };
    while !reader.stopped && reader.pack.scanner.peek()?.is_some() {
        match reader.item(sink) {
            Ok(()) => {}
            Err(Fault::At(place, fault)) => {
                // Items have no marks to find the next one by.
                reader.losses.note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    reader.losses.report(sink);
    Ok(reader.info)
}

struct TmioMsgpack {
    pack: MessagePack,
    info: TraceInfo,
    losses: Losses,
    stopped: bool,
}

impl TmioMsgpack {
    fn item(&mut self, sink: &mut dyn EventSink) -> Result<(), Fault> {
        let place = self.pack.place();
        let n_values = match self.pack.token()? {
            Token::Array(n_values) if n_values > 0 => n_values,
            _ => return Err(Fault::at(place, "a mode of TMIO should be here")),
        };
        let name = self.pack.name()?;
        let op = match mode(&name) {
            Some(Mode::Moved(op)) if n_values > REQUESTS => op,
            Some(Mode::Moved(_)) => return Err(Fault::at(place, format!("{name} is too short"))),
            Some(Mode::Derived) => return self.pack.skip(n_values - 1),
            None => return Err(Fault::at(place, format!("{name:?} is not a mode of TMIO"))),
        };
        self.pack.skip(PROCS - 1)?;
        let n_procs = self.pack.number()?;
        if (1.0..1e9).contains(&n_procs) {
            self.info.job.n_procs = Some(self.info.job.n_procs.unwrap_or(0).max(n_procs as u64));
        }
        let Token::Array(n_requests) = self.pack.token()? else {
            return Err(Fault::at(place, format!("the requests of {name} are not an array")));
        };
        for _ in 0..n_requests {
            let place = self.pack.place();
            let mut values = [f64::NAN; N_OP + 1];
            let Token::Array(n) = self.pack.token()? else {
                return Err(Fault::at(place, "a request should be here"));
            };
            for value in values.iter_mut().take(n as usize) {
                *value = self.pack.number()?;
            }
            self.pack.skip(n.saturating_sub(values.len() as u64))?;
            match request(op, &values) {
                Ok(event) => {
                    let flow = match moment("t_end_req", values[T_END_REQ]) {
                        Ok(waited) if name.ends_with("_async") => sink.async_event(event, waited),
                        _ => sink.event(event),
                    };
                    if flow.is_break() {
                        self.stopped = true;
                        return Ok(());
                    }
                }
                Err(nonsense) => self.losses.record(place, nonsense),
            }
        }
        self.pack.skip(n_values - REQUESTS - 1)
    }
}

fn request(op: iotide_trace::Op, values: &[f64; N_OP + 1]) -> Result<Event, Nonsense> {
    let (start, end) = interval(values[T_START], values[T_END_ACT])?;
    // FTIO takes mean throughput times duration. For a phase of several calls that is less than what was moved, and
    // for one call the same.
    let bytes = match amount("data", values[DATA]) {
        Ok(bytes) => bytes,
        Err(_) => amount("throughput", values[T_AVR])? * end.secs_since(start),
    };
    let calls = if (1.0..=f64::from(u32::MAX)).contains(&values[N_OP]) { values[N_OP] as u32 } else { 1 };
    Ok(Event { layer: Layer::MpiIo, calls, ..Event::data(op, Rank::ALL, start, end, bytes) })
}

/// Pulls tokens of MessagePack out of a stream.
pub(crate) struct MessagePack {
    pub(crate) scanner: Scanner,
}

pub(crate) enum Token {
    Number(f64),
    /// Nil, or true or false.
    Other,
    /// This many bytes follow: a string, binary data or an extension.
    Bytes(u64),
    /// This many values follow.
    Array(u64),
    /// This many keys and values follow.
    Map(u64),
}

impl MessagePack {
    /// A name is no longer than this.
    const LONGEST_NAME: u64 = 64;
    /// Nor is any text that anyone asks for longer than this.
    const LONGEST_TEXT: u64 = 64 << 10;

    pub(crate) fn place(&self) -> Place {
        Place::Byte(self.scanner.offset())
    }

    #[inline]
    pub(crate) fn token(&mut self) -> Result<Token, Fault> {
        let place = self.place();
        let Some(kind) = self.scanner.peek()? else {
            return Err(Fault::at(place, "the file ends inside a mode"));
        };
        let n_more = match kind {
            0xc4 | 0xcc | 0xd0 | 0xd9 => 1,
            0xc5 | 0xcd | 0xd1 | 0xda | 0xdc | 0xde => 2,
            0xc6 | 0xca | 0xce | 0xd2 | 0xdb | 0xdd | 0xdf => 4,
            0xcb | 0xcf | 0xd3 => 8,
            0xc7 => 1,
            0xc8 => 2,
            0xc9 => 4,
            _ => 0,
        };
        let Some(more) = self.scanner.want(1 + n_more)?.get(1..1 + n_more) else {
            return Err(Fault::at(place, "the file ends inside a value"));
        };
        let unsigned = more.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        let token = match kind {
            0x00..=0x7f => Token::Number(f64::from(kind)),
            0xe0..=0xff => Token::Number(f64::from(kind as i8)),
            0x80..=0x8f => Token::Map(u64::from(kind & 0x0f)),
            0x90..=0x9f => Token::Array(u64::from(kind & 0x0f)),
            0xa0..=0xbf => Token::Bytes(u64::from(kind & 0x1f)),
            0xc0 | 0xc2 | 0xc3 => Token::Other,
            0xc1 => return Err(Fault::at(place, "a byte that begins no value")),
            0xc4..=0xc6 | 0xd9..=0xdb => Token::Bytes(unsigned),
            0xc7..=0xc9 => Token::Bytes(unsigned + 1),
            0xca => Token::Number(f64::from(f32::from_bits(unsigned as u32))),
            0xcb => Token::Number(f64::from_bits(unsigned)),
            0xcc..=0xcf => Token::Number(unsigned as f64),
            0xd0 => Token::Number(f64::from(unsigned as i8)),
            0xd1 => Token::Number(f64::from(unsigned as i16)),
            0xd2 => Token::Number(f64::from(unsigned as i32)),
            0xd3 => Token::Number(unsigned as i64 as f64),
            0xd4..=0xd8 => Token::Bytes((1 << (kind - 0xd4)) + 1),
            0xdc | 0xdd => Token::Array(unsigned),
            0xde | 0xdf => Token::Map(unsigned),
        };
        self.scanner.advance(1 + n_more);
        Ok(token)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<f64, Fault> {
        let place = self.place();
        match self.token()? {
            Token::Number(number) => Ok(number),
            _ => Err(Fault::at(place, "a number should be here")),
        }
    }

    fn name(&mut self) -> Result<String, Fault> {
        let place = self.place();
        match self.token()? {
            Token::Bytes(len) if len <= Self::LONGEST_NAME => self.text(len),
            _ => Err(Fault::at(place, "the name of a mode should be here")),
        }
    }

    /// The text of `len` bytes that a [`Token::Bytes`] announced; beyond [`MessagePack::LONGEST_TEXT`] it is a fault.
    pub(crate) fn text(&mut self, len: u64) -> Result<String, Fault> {
        let place = self.place();
        if len > Self::LONGEST_TEXT {
            return Err(Fault::at(place, "a name that is far too long"));
        }
        let len = len as usize;
        let Some(text) = self.scanner.want(len)?.get(..len) else {
            return Err(Fault::at(place, "the file ends inside a name"));
        };
        let text = String::from_utf8_lossy(text).into_owned();
        self.scanner.advance(len);
        Ok(text)
    }

    /// Passes over that many values, whatever is in them.
    pub(crate) fn skip(&mut self, n_values: u64) -> Result<(), Fault> {
        // Every value costs a byte, so the file's length bounds this however large a count it claims.
        let mut n_left = n_values;
        while n_left > 0 {
            n_left -= 1;
            match self.token()? {
                Token::Number(_) | Token::Other => {}
                Token::Array(n) => n_left = n_left.saturating_add(n),
                Token::Map(n) => n_left = n_left.saturating_add(2 * n),
                Token::Bytes(len) => self.skip_bytes(len)?,
            }
        }
        Ok(())
    }

    /// Passes over the bytes that a [`Token::Bytes`] announced.
    pub(crate) fn skip_bytes(&mut self, mut len: u64) -> Result<(), Fault> {
        while len > 0 {
            let place = self.place();
            let n_here = (self.scanner.want(1)?.len() as u64).min(len);
            if n_here == 0 {
                return Err(Fault::at(place, "the file ends inside a value"));
            }
            self.scanner.advance(n_here as usize);
            len -= n_here;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    /// A mode with requests of `[data, start, end]`, as TMIO packs it.
    fn mode(name: &str, requests: &[(u32, f64, f64)]) -> Vec<u8> {
        let mut out = vec![0x9e, 0xa0 | name.len() as u8];
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&[0xc2, 0xc3]);
        out.extend_from_slice(&[0; 9]);
        out.extend_from_slice(&[0xcd, 0x01, 0x80]); // 384 processes
        out.extend_from_slice(&[0xdc, 0, requests.len() as u8]);
        for (data, start, end) in requests {
            out.extend_from_slice(&[0x99, 0xce]);
            out.extend_from_slice(&data.to_be_bytes());
            for time in [start, end] {
                out.push(0xcb);
                out.extend_from_slice(&time.to_be_bytes());
            }
            out.extend_from_slice(&[0, 0, 0, 0, 0, 2]);
        }
        out
    }

    #[test]
    fn modes_of_all_flushes_are_read() {
        let io_time = [&[0x93, 0xa7][..], b"io_time", &[1, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        check(
            [
                mode("read_async", &[]),
                mode("read_sync", &[(5, 0.0, 1.0)]),
                io_time,
                mode("write_async", &[(7, 2.0, 4.0)]),
            ]
            .concat(),
            "r-1 read 0..1 5B ×2
             r-1 write 2..4 7B ×2
             procs: 384",
        );
    }

    #[test]
    fn what_comes_before_a_cut_is_kept() {
        let whole = mode("write_sync", &[(5, 0.0, 1.0), (6, 3.0, 2.0), (7, 1.0, 2.0)]);
        check(
            &whole[..whole.len() - 10],
            "r-1 write 0..1 5B ×2
             procs: 384
             loss of 1: byte 59: end 2 is before start 3
             loss: byte 104: the file ends inside a value; what follows is lost",
        );
    }

    #[test]
    fn a_count_that_is_a_lie_ends_with_the_file() {
        let mut lie = mode("write_sync", &[]);
        let len = lie.len();
        lie.splice(len - 3.., [0xdd, 0xff, 0xff, 0xff, 0xff]);
        check(
            lie,
            "error: input holds no record that can be used: byte 31: the file ends inside a mode; what follows is lost",
        );
    }
}
