//! Messages, each whole in itself, as TMIO and GekkoFS send them to a predictor.
//!
//! A message is what the sender would have written to its file at a flush: TMIO's MessagePack, GekkoFS's client metrics, or any
//! other format detected by its content. FTIO also takes a plain map, `{"b": […], "ts": […], "te": […], "ranks": n}`: bandwidths of
//! requests, their starts and their ends.

use std::io::Cursor;

use iotide_trace::{EventSink, Loss, Op};

use crate::{
    OpenOptions, ReadError, Run,
    error::Fault,
    losses::Losses,
    scanner::Scanner,
    tmio::{
        json::request,
        msgpack::{MessagePack, Token},
    },
};

/// Reads messages of one job. A process that sends several of them stays one.
#[derive(Default)]
pub struct Messages {
    options: OpenOptions,
    run: Run,
}

impl Messages {
    /// Requests in one message of the plain form.
    const MOST_REQUESTS: u64 = 1 << 20;

    /// Returns a reader of messages that are opened by `options`: a format that is named there is not detected by content.
    pub fn new(options: OpenOptions) -> Self {
        Self { options, run: Run::default() }
    }

    /// Pushes the events of a message; says what it is not if it is nothing that is known.
    pub fn read(&mut self, message: &[u8], sink: &mut dyn EventSink) -> Result<(), ReadError> {
        const NAME: &str = "message";
        let is_told_by_content = self.options.input_format.is_none() && self.options.pattern.is_none();
        if is_told_by_content && is_plain(message) {
            return plain(message, sink).map_err(|fault| ReadError::from_fault(NAME.as_ref(), fault));
        }
        let reader = self.options.from_read(NAME, Cursor::new(message.to_vec()))?;
        for part in reader.parts {
            let input = part.source.into_input()?;
            crate::read_as(part.format, input, part.pattern, part.darshan, &mut self.run, &mut &mut *sink)
                .map_err(|fault| ReadError::from_fault(NAME.as_ref(), fault))?;
        }
        Ok(())
    }
}

/// Whether a message is a map of FTIO's.
fn is_plain(message: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(message, key).is_some();
    matches!(message.first(), Some(0x83..=0x8f | 0xde)) && has(b"\xa1b") && has(b"\xa2ts") && has(b"\xa2te")
}

fn plain(message: &[u8], sink: &mut dyn EventSink) -> Result<(), Fault> {
    let mut pack = MessagePack { scanner: Scanner::new(Box::new(Cursor::new(message.to_vec()))) };
    let place = pack.place();
    let Token::Map(n_members) = pack.token()? else {
        return Err(Fault::at(place, "a map should be here"));
    };
    let [mut rates, mut starts, mut ends] = [const { Vec::new() }; 3];
    for _ in 0..n_members {
        let place = pack.place();
        let Token::Bytes(len) = pack.token()? else {
            return Err(Fault::at(place, "the name of a member should be here"));
        };
        let values = match pack.text(len)?.as_str() {
            "b" => &mut rates,
            "ts" => &mut starts,
            "te" => &mut ends,
            _ => {
                pack.skip(1)?;
                continue;
            }
        };
        let place = pack.place();
        match pack.token()? {
            Token::Array(n) if n <= Messages::MOST_REQUESTS => {
                for _ in 0..n {
                    values.push(pack.number()?);
                }
            }
            Token::Array(n) => return Err(Fault::at(place, format!("{n} requests in one message"))),
            Token::Number(value) => values.push(value),
            _ => return Err(Fault::at(place, "numbers should be here")),
        }
    }
    let mut losses = Losses::default();
    for ((&rate_bps, &start_s), &end_s) in rates.iter().zip(&starts).zip(&ends) {
        match request(Op::Write, rate_bps, start_s, end_s) {
            Ok(event) => {
                if sink.event(event).is_break() {
                    break;
                }
            }
            Err(nonsense) => losses.record(place, nonsense),
        }
    }
    losses.report(sink);
    let longest = rates.len().max(starts.len()).max(ends.len());
    let shortest = rates.len().min(starts.len()).min(ends.len());
    if longest > shortest {
        let what = "the arrays of a message differ in length";
        sink.loss(Loss::of_records((longest - shortest) as u64, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use iotide_trace::Trace;

    fn message(b: &[f64], ts: &[f64], te: &[f64]) -> Vec<u8> {
        let mut out = vec![0x84, 0xa5];
        out.extend(b"ranks\x04");
        for (name, values) in [("b", b), ("ts", ts), ("te", te)] {
            out.push(0xa0 | name.len() as u8);
            out.extend(name.as_bytes());
            out.extend([0xdc, 0, values.len() as u8]);
            for value in values {
                out.push(0xcb);
                out.extend(value.to_be_bytes());
            }
        }
        out
    }

    #[test]
    fn a_plain_map_is_its_requests() {
        let mut trace = Trace::default();
        let bytes = message(&[10.0, 20.0, f64::NAN, 1.0], &[0.0, 1.0, 2.0, 3.0], &[2.0, 1.5, 3.0]);
        Messages::default().read(&bytes, &mut trace).unwrap();
        assert_eq!(trace.events.iter().map(|event| event.bytes).collect::<Vec<_>>(), [20.0, 10.0]);
        assert_eq!(trace.losses.iter().map(|loss| loss.records).collect::<Vec<_>>(), [Some(1), Some(1)]);
    }

    #[test]
    fn a_message_that_is_nothing_is_refused_and_one_that_is_cut_is_too() {
        let mut trace = Trace::default();
        let mut messages = Messages::default();
        assert!(messages.read(b"", &mut trace).is_err());
        assert!(messages.read(b"hello", &mut trace).is_err());
        let whole = message(&[10.0], &[0.0], &[2.0]);
        for len in 0..whole.len() {
            assert!(messages.read(&whole[..len], &mut trace).is_err(), "{len} bytes");
        }
        assert_eq!(trace.events, []);
    }

    #[test]
    fn a_format_that_is_named_is_not_told_by_content() {
        let mut flush = vec![9];
        flush.extend(b"\xa2n1\x07\xa1w\x91\x0a\x91\x14\x91\x64\x01\x64");
        // A host without a name: content alone does not tell.
        let nameless = [&flush[..1], b"\xa0", &flush[4..]].concat();
        let plain = message(&[10.0], &[0.0], &[2.0]);
        let read = |format, bytes: &[u8]| {
            let mut trace = Trace::default();
            let options = OpenOptions { input_format: format, ..OpenOptions::default() };
            Messages::new(options).read(bytes, &mut trace).map(|()| trace.events.len())
        };
        assert_eq!(read(None, &flush).unwrap(), 1);
        assert_eq!(read(None, &plain).unwrap(), 1);
        assert!(read(None, &nameless).is_err());
        assert_eq!(read(Some(Format::GekkofsMsgpack), &nameless).unwrap(), 1);
        assert_eq!(read(Some(Format::TmioMsgpack), &plain).unwrap_or(0), 0);
    }

    #[test]
    fn a_client_that_sends_twice_is_one_process() {
        let mut flush = vec![9];
        flush.extend(b"\xa2n1\x07\xa1w\x91\x0a\x91\x14\x91\x64\x01\x64");
        let other = [&flush[..4], &[8], &flush[5..]].concat();
        let (mut messages, mut trace) = (Messages::default(), Trace::default());
        for bytes in [&flush, &other, &flush] {
            messages.read(bytes, &mut trace).unwrap();
        }
        assert_eq!(trace.events.iter().map(|event| event.rank.0).collect::<Vec<_>>(), [0, 1, 0]);
    }
}
