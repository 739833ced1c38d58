//! Asking a daemon for the rhythms of jobs, in frames.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use iotide_live::Address;
use iotide_sched::KnownJob;
use iotide_sched::staging::Forecast;
use iotide_wire::{RPC_MAGIC, RpcFields, RpcHeader, RpcKind, RpcRhythm, put_rpc_text};

use crate::line::Line;
use crate::{MAX_ANSWER, WITHIN};

/// Where a daemon hears frames.
pub(crate) fn socket_of(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".rpc");
    name.into()
}

/// Asks for all jobs; inside, why the daemon refuses.
pub(crate) fn ask(socket: &Path, is_ours: bool) -> io::Result<Result<Vec<KnownJob>, String>> {
    let mut line = Line::connect(&Address::Unix(socket_of(socket)), WITHIN, MAX_ANSWER)?;
    if is_ours && !iotide_private::is_our_user(line.peer_user()) {
        let why = "another user's program listens there";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut question = Vec::new();
    put_rpc_text(&mut question, "");
    let head = RpcHeader { payload: question.len(), kind: RpcKind::Rhythms as u8, flags: 0, id: 1 };
    line.write_all(&[&RPC_MAGIC[..], &head.encode(), &question].concat())?;
    let mut head = [0; RpcHeader::SIZE];
    line.read_exact(&mut head)?;
    let Some(head) = RpcHeader::decode(&head, RpcHeader::MAX_FRAME) else {
        return Ok(Err("what it says is no frame".to_owned()));
    };
    let mut payload = vec![0; head.payload];
    line.read_exact(&mut payload)?;
    Ok(read(head.kind, &payload))
}

fn read(kind: u8, payload: &[u8]) -> Result<Vec<KnownJob>, String> {
    if kind == RpcKind::Refused as u8 {
        let mut fields = RpcFields(payload);
        let why = fields.u16().and_then(|_| fields.text()).unwrap_or_default();
        return Err(format!("it refuses: {why} (a daemon of another version?)"));
    }
    if kind != RpcKind::RhythmsNow as u8 {
        return Err("it answers another question".to_owned());
    }
    let rhythms = RpcRhythm::all(payload).ok_or("its answer is cut")?;
    Ok(rhythms.map(known).collect())
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
