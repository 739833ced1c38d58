//! The tracer on real programs, its output read with our own reader.
//!
//! Programs stand in `tests/programs` and count for themselves what they move; a test compares. They are compiled here, so the tests need
//! a C compiler, and those of MPI an MPI: without, they say so on stderr and pass.

mod children; // programs that start others, and what goes past the hooks
mod ends; // how a process ends: exit, _exit, abort, SIGKILL
mod harm; // what a program might notice
mod libraries; // what stands above MPI-IO: HDF5
mod moved; // bytes by layer, against the program's own count
mod mpi; // the same for MPI-IO, with Open MPI and MPICH
mod names; // each call's function and its place in the file
mod page; // counters that others read meanwhile
mod stream; // what a listener gets
mod support;
mod virtual_files;
