//! The program as users run it, one file per command.

mod demo;
mod ioskel;
