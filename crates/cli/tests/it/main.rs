//! The program as users run it, one file per command.

mod ioskel;
