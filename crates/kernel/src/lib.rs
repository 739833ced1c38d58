//! System calls of a tree of processes, as the kernel itself reports them.
//!
//! [`Tracer::attach`] puts programs at the kernel's tracepoints, [`Tracer::mark`] says which process is meant, with all that it will start;
//! [`Recorder`] turns what they tell into streams of records, as the preloaded tracer writes them. Programs are assembled here, for the
//! kernel that runs: no compiler and no library is needed on site, and where fields stand is read from the kernel's own description of its
//! types. When the [`Tracer`] goes, so does everything in the kernel, however this process ends.
//!
//! **Invariant:** no byte of anybody's data is read. What cannot be seen is counted, or said by [`check`].

mod asm;
mod bpf;
mod btf;
mod calls;
mod event;
mod layout;
mod names;
mod process;
mod programs;
mod record;
mod ring;
mod stream;
mod tracer;

pub use event::{Ended, Event, Side, Thread, What};
pub use process::processes_of_job;
pub use record::{Recorder, Settings};
pub use tracer::{Ability, Events, Lost, Missing, Tracer, check};
