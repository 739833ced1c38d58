//! The exact bytes the tracer writes and the socket carries.
//!
//! A traced process makes one *stream*: a [`StreamHeader`], then blocks until its end. A stream is a file of its own in the
//! trace directory, or a connection to a listener, or part one and part the other: every block stands alone, carries
//! its number and a checksum, and may arrive in either place.
//!
//! ```text
//! stream  = StreamHeader (16 bytes) block*
//! block   = BlockHeader (64 bytes) payload
//! payload = Facts | path* | record* | loss* | End | Totals | Note      chosen by BlockHeader::kind
//! ```
//!
//! All numbers are little-endian. A block is found again after damage by its magic number, and believed only if its
//! checksum agrees. Times are *ticks* of a counter that each [`BlockHeader`] pins to the monotonic clock with one pair, so the
//! process that is traced never has to calibrate anything: see [`ClockMap`].
//!
//! Counts of a process while it runs stand in a file of another kind, which changes in place: [`page`].
//!
//! Messages between a program and the arbiter of its storage are another, smaller matter: [`GateMessage`]. So are questions of controllers
//! to a daemon: [`RpcQuestion`].
//!
//! **Constraints:** `no_std`, no dependency, no allocation, no `unsafe`: the encoder runs inside other people's programs.
//! The decoder checks every length before it uses it and never panics, whatever the bytes.
#![no_std]

pub use crate::{
    block::{
        BlockHeader, BlockKind, Fault, PathEntries, PathEntry, Payload, Step, StreamHeader, next_block,
        skip_torn,
    },
    call::Call,
    clock::{ClockKind, ClockMap},
    facts::{End, EndReason, Facts, LossEntries, LossKind, Text},
    fnv::Fnv1a,
    gate::{
        GATE_WAIT_EVERY_MS, GateChallenge, GateClaim, GateHello, GateKey, GateKeyText, GateMap, GateMessage,
        GateRule, GateSide, MAX_GATE_TARGETS, key_bytes,
    },
    record::{Flags, Layer, NO_FILE, NO_POSITION, Op, Record},
    resp::{RespLine, put_resp_command},
    rpc::{RPC_MAGIC, RpcFields, RpcHeader, RpcKind, RpcQuestion, RpcRhythm, put_rpc_text},
    sha256::{hmac_sha256, sha256},
    text::{cut_text, steers},
    totals::{Note, NoteKind, Total, Totals},
    traced::{decimal, is_traced, job_of, rank_of},
    varint::{put_varint, take_varint, unzigzag, zigzag},
};

pub mod page;

mod block;
mod call;
mod checksum;
mod clock;
mod facts;
mod fnv;
mod gate;
mod record;
mod resp;
mod rpc;
mod sha256;
mod text;
mod totals;
mod traced;
mod varint;
