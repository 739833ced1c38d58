//! Files, folders and sockets of our own among strangers: nobody else can plant, replace or redirect them.
//!
//! iotide often runs as root, or in a folder that others may write to. Whatever it makes there goes through this crate:
//! - [`PrivateDir`] is a new folder under a random name, for its owner alone. It goes when dropped.
//! - [`nameless`] is a temporary file without a name.
//! - [`OpenDir`] is a folder that the user named, held by its descriptor. Files in it are opened relative to the descriptor and
//!   never through a symbolic link, so that it matters little who made the folder.
//! - [`OwnSocket`] listens at a path: it replaces nothing but a socket of ours that nobody answers at, and has its mode before anyone can
//!   connect. [`is_our_user`] tells who did.
//! - [`write_secret`] and [`open_secret`] are for keys.
//! - [`pages_directory`] is where processes keep their counters for others to read.
//! - [`Shares`] divides what there is little of among users, so that none takes it all.
//! - [`own_program`] is the file that starts this program again.
//! - [`FileSystem`] tells which file system a path is on, and whether other machines write to it too.
//!
//! `xtask tidy` refuses `temp_dir` and `create_dir_all` in the code of all other crates.

mod file_systems;
mod files;
mod pages;
mod program;
mod secrets;
mod shares;
mod sockets;

pub use crate::file_systems::{FileSystem, machine_mounts};
pub use crate::files::{
    OpenDir, Part, PrivateDir, is_virtual, nameless, nameless_direct_in, nameless_in, open_ordinary,
    open_to_read, temporary_files,
};
pub use crate::pages::{SITE_PAGES, pages_directory};
pub use crate::program::{own_arguments, own_program, set_own_program};
pub use crate::secrets::{open_secret, write_secret};
pub use crate::shares::{Limits, OTHERS, Share, Shares};
pub use crate::sockets::{OwnSocket, connect_within, is_our_user, peer_user};
