//! Events as JSON Lines, which [`crate::open`] reads again.

use std::io::{self, Write};

use iotide_trace::{Event, Grain, JobInfo, Layer, Loss};

use super::RowWriter;
use super::json::{Number, Quoted, job_members, loss_object};
use crate::events::Seconds;

pub(super) struct JsonlWriter<W: Write> {
    out: W,
}

impl<W: Write> JsonlWriter<W> {
    /// Writes a line with what is known of the job, and one for each loss.
    pub(super) fn new(mut out: W, job: &JobInfo, losses: &[Loss]) -> io::Result<Self> {
        let facts = job_members(job);
        if !facts.is_empty() {
            writeln!(out, "{{{}}}", facts.join(","))?;
        }
        for loss in losses {
            writeln!(out, "{}", loss_object(loss))?;
        }
        Ok(Self { out })
    }
}

impl<W: Write> RowWriter for JsonlWriter<W> {
    fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()> {
        let Event { op, layer, grain, rank, start, end, bytes, calls, .. } = event;
        write!(
            self.out,
            "{{\"rank\":{},\"op\":\"{}\",\"start\":{},\"end\":{},\"bytes\":{}",
            rank.0,
            op.name(),
            Seconds(*start),
            Seconds(*end),
            Number(*bytes)
        )?;
        if let Some(file) = file {
            write!(self.out, ",\"file\":{}", Quoted(file))?;
        }
        // What is usual is left out: it is most of the lines.
        if *layer != Layer::Unknown {
            write!(self.out, ",\"layer\":\"{}\"", layer.name())?;
        }
        if *grain != Grain::Call {
            write!(self.out, ",\"grain\":\"{}\"", grain.name())?;
        }
        if *calls != 1 {
            write!(self.out, ",\"calls\":{calls}")?;
        }
        writeln!(self.out, "}}")
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
