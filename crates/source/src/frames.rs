//! Asking a daemon for the rhythms of jobs and the models of their applications, in frames.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use iotide_live::Address;
use iotide_report::JobList;
use iotide_sched::staging::Forecast;
use iotide_sched::{KnownJob, batch_id};
use iotide_wire::{RPC_MAGIC, RpcFields, RpcHeader, RpcKind, RpcRhythm, put_rpc_text};

use crate::line::Line;
use crate::{MAX_ANSWER, WITHIN};

/// Where a daemon hears frames.
pub(crate) fn socket_of(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".rpc");
    name.into()
}

/// A connection to a daemon.
pub(crate) struct Frames {
    line: Line,
    id: u32,
}

impl Frames {
    pub(crate) fn connect(socket: &Path, is_ours: bool) -> io::Result<Self> {
        let line = Line::connect(&Address::Unix(socket_of(socket)), WITHIN, MAX_ANSWER)?;
        if is_ours && !iotide_private::is_our_user(line.peer_user()) {
            let why = "another user's program listens there";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { line, id: 0 })
    }

    /// Asks; returns the payload of the answer, or inside, why there is none.
    fn ask(
        &mut self,
        kind: RpcKind,
        flags: u8,
        payload: &[u8],
        wanted: RpcKind,
    ) -> io::Result<Result<Vec<u8>, String>> {
        self.id += 1;
        let head = RpcHeader { payload: payload.len(), kind: kind as u8, flags, id: self.id };
        // The first question begins the connection.
        let magic = if self.id == 1 { &RPC_MAGIC[..] } else { &[] };
        self.line.write_all(&[magic, &head.encode(), payload].concat())?;
        let mut head = [0; RpcHeader::SIZE];
        self.line.read_exact(&mut head)?;
        let Some(head) = RpcHeader::decode(&head, RpcHeader::MAX_FRAME) else {
            return Ok(Err("what it says is no frame".to_owned()));
        };
        let mut answer = vec![0; head.payload];
        self.line.read_exact(&mut answer)?;
        if head.kind == RpcKind::Refused as u8 {
            let mut fields = RpcFields(&answer);
            let why = fields.u16().and_then(|_| fields.text()).unwrap_or_default();
            return Ok(Err(format!("it refuses: {why}")));
        }
        Ok(if head.kind == wanted as u8 { Ok(answer) } else { Err("it answers another question".to_owned()) })
    }

    /// All jobs that run; inside, why the daemon refuses.
    pub(crate) fn rhythms(&mut self) -> io::Result<Result<Vec<KnownJob>, String>> {
        let mut question = Vec::new();
        put_rpc_text(&mut question, "");
        let answer = self.ask(RpcKind::Rhythms, 0, &question, RpcKind::RhythmsNow)?;
        Ok(answer.and_then(|payload| {
            let rhythms = RpcRhythm::all(&payload).ok_or("its answer is cut")?;
            Ok(rhythms.map(known).collect())
        }))
    }

    /// How many processes jobs have that run.
    pub(crate) fn sizes(&mut self) -> io::Result<Result<HashMap<String, u32>, String>> {
        let mut question = Vec::new();
        put_rpc_text(&mut question, "state=running&limit=1000");
        let answer = self.ask(RpcKind::Jobs, 0, &question, RpcKind::JobList)?;
        Ok(answer.and_then(|json| {
            let list = JobList::from_json(&json)?;
            Ok(list.jobs.iter().map(|job| (batch_id(job.job.as_said()).to_owned(), job.size)).collect())
        }))
    }

    /// Returns the run times of a job's application at some numbers of processes: value, low and high of each.
    pub(crate) fn times(&mut self, job: &str, sizes: &[f64]) -> io::Result<Result<Vec<[f64; 3]>, String>> {
        let mut question = vec![1];
        [job, "run", "time"].iter().for_each(|text| put_rpc_text(&mut question, text));
        question.push(1);
        put_rpc_text(&mut question, "size");
        let handle = match self.ask(RpcKind::Resolve, 0, &question, RpcKind::Resolved)? {
            Ok(answer) => RpcFields(&answer).u32(),
            Err(why) => return Ok(Err(why)),
        };
        let Some(handle) = handle else { return Ok(Err("its answer is cut".to_owned())) };
        let mut question = handle.to_le_bytes().to_vec();
        question.extend((sizes.len() as u32).to_le_bytes());
        sizes.iter().for_each(|size| question.extend(size.to_le_bytes()));
        let answer = self.ask(RpcKind::Evaluate, RpcHeader::INTERVALS, &question, RpcKind::Values)?;
        Ok(answer
            .and_then(|payload| values(&payload, sizes.len()).ok_or_else(|| "its answer is cut".to_owned())))
    }
}

fn values(payload: &[u8], n: usize) -> Option<Vec<[f64; 3]>> {
    let mut fields = RpcFields(payload);
    fields.u64()?;
    (fields.u32()? as usize == n).then_some(())?;
    (0..n).map(|_| Some([fields.f64()?, fields.f64()?, fields.f64()?])).collect()
}

fn known(rhythm: RpcRhythm<'_>) -> KnownJob {
    let there = |figure: f64| figure.is_finite().then_some(figure);
    let forecast = Forecast {
        at_s: -rhythm.age_s,
        confidence: rhythm.confidence,
        period_s: rhythm.period_s,
        start_s: rhythm.start_in_s,
        start_interval_s: (rhythm.earliest_in_s, rhythm.latest_in_s),
        bytes: rhythm.bytes,
        duration_s: rhythm.duration_s,
        idle_probability: rhythm.idle_probability,
    };
    KnownJob {
        job: rhythm.job.to_owned(),
        uid: Some(rhythm.uid),
        period_s: there(rhythm.period_s),
        confidence: Some(there(rhythm.confidence).unwrap_or(0.0)),
        age_s: there(rhythm.age_s).unwrap_or(0.0),
        forecast: forecast.is_possible().then_some(forecast),
        load: None,
    }
}
