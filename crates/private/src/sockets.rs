//! Sockets with a name in the file system.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, chmodat, chownat, openat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::files::with_random_name;

/// Connects to who listens at `path`, and waits for nothing longer than `within`: not for the connection, nor for reading or writing later. Whoever has been
/// stopped takes no connections, and beyond those that the system keeps for it a plain `connect` would wait for ever.
pub fn connect_within(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(within))?;
    }
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(socket.into()),
        Err(Errno::AGAIN) => Err(io::Error::new(io::ErrorKind::TimedOut, "nobody takes the connection")),
        Err(error) => Err(error.into()),
    }
}

/// A socket that is listened to. Its name goes with it, as long as the name is still its own.
#[derive(Debug)]
pub struct OwnSocket {
    listener: UnixListener,
    folder: OwnedFd,
    name: OsString,
    identity: (u64, u64),
    mode: u32,
    path: PathBuf,
}

impl OwnSocket {
    /// Listens at `path`, for whom `mode` and `group` say; asking takes the right to write.
    ///
    /// An existing entry is replaced only if it is a socket, belongs to this user, and nobody answers. The socket has its mode and
    /// group before anyone can connect.
    pub fn bind(path: &Path, mode: u32, group: Option<u32>) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let folder = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        remove_left_over(&folder, &name)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        with_random_name(".iotide-", ".socket", |part| {
            bind(&socket, &address(&folder, part)?)?;
            // Nobody listens yet, and nobody knows the name.
            let prepared = (|| {
                if let Some(group) = group {
                    chownat(&folder, part, None, Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                chmodat(&folder, part, Mode::from_raw_mode(mode), AtFlags::empty())?;
                listen(&socket, 128)?;
                match renameat_with(&folder, part, &folder, &name, RenameFlags::NOREPLACE) {
                    // Not every file system can.
                    Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(&folder, part, &folder, &name),
                    renamed => renamed,
                }
            })();
            prepared.map_err(|error| {
                let _ = unlinkat(&folder, part, AtFlags::empty());
                // Somebody else was faster with the name, not with ours.
                if error == Errno::EXIST { Errno::ADDRINUSE.into() } else { error.into() }
            })
        })?;
        let stat = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Self { listener: UnixListener::from(socket), folder, name, identity, mode, path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether others than its owner may connect.
    pub fn is_for_many(&self) -> bool {
        self.mode & 0o022 != 0
    }

    /// The socket, to take connections from.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let is_ours = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity);
        if is_ours {
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// The user at the other end of a connection on this machine, as the kernel knows them; `None` of other connections.
pub fn peer_user(socket: impl AsFd) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(socket).ok().map(|peer| peer.uid.as_raw())
}

/// Whether someone at the other end of a connection, or the owner of a file, is this user or root.
pub fn is_our_user(user: Option<u32>) -> bool {
    user.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

/// Removes what someone left who listened at a name.
fn remove_left_over(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket"));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a socket of another user"));
    }
    // Without waiting: one whose queue is full has someone who listens.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let caller = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&caller, &address(folder, name)?) {
        Err(Errno::CONNREFUSED) => Ok(unlinkat(folder, name, AtFlags::empty())?),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// A name in a folder that is held: however long the way there is, it fits, and it cannot be changed on the way.
fn address(folder: &OwnedFd, name: &OsStr) -> io::Result<SocketAddrUnix> {
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok(SocketAddrUnix::new(&path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_socket_has_its_mode_and_its_name_goes_with_it() {
        let dir = FreshDir::new("socket");
        let path = dir.join("s");
        let socket = OwnSocket::bind(&path, 0o640, None).unwrap();
        assert_eq!((mode(&path), dir.names()), (0o640, vec!["s".to_owned()]));
        let caller = UnixStream::connect(&path).unwrap();
        let (taken, _) = socket.listener().accept().unwrap();
        assert!(is_our_user(peer_user(&taken)) && !is_our_user(None) && !is_our_user(Some(65534)));
        drop((caller, taken, socket));
        assert!(dir.names().is_empty());
    }

    #[test]
    fn who_takes_no_connections_is_not_waited_for() {
        const WITHIN: Duration = Duration::from_millis(10);
        let dir = FreshDir::new("socket-full");
        let path = dir.join("s");
        assert_eq!(connect_within(&path, WITHIN).unwrap_err().kind(), io::ErrorKind::NotFound);
        let _stopped = OwnSocket::bind(&path, 0o600, None).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match connect_within(&path, WITHIN) {
                Ok(connection) => waiting.push(connection),
                Err(error) => break error,
            }
            assert!(waiting.len() < 10_000);
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        let read = io::Read::read(&mut waiting[0], &mut [0]).unwrap_err();
        assert_eq!(read.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn only_a_socket_of_ours_at_which_nobody_answers_is_replaced() {
        let dir = FreshDir::new("socket-there");
        let file = dir.write("file", "precious");
        let error = OwnSocket::bind(&file, 0o600, None).unwrap_err();
        assert!(error.to_string().contains("no socket"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        // Nor the file that a link leads to, nor the link.
        let link = dir.join("link");
        symlink(&file, &link).unwrap();
        assert!(OwnSocket::bind(&link, 0o600, None).is_err());
        assert_eq!(fs::read_to_string(&link).unwrap(), "precious");

        let path = dir.join("s");
        let listens = OwnSocket::bind(&path, 0o600, None).unwrap();
        assert_eq!(OwnSocket::bind(&path, 0o600, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listens);
        drop(UnixListener::bind(&path).unwrap());
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
        let replaced = OwnSocket::bind(&path, 0o600, None).unwrap();
        // Whoever has taken the name since keeps it.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(replaced);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
    }

    #[test]
    fn someone_who_listens_and_takes_nobody_is_not_replaced() {
        let dir = FreshDir::new("socket-busy");
        let path = dir.join("s");
        let busy = OwnSocket::bind(&path, 0o600, None).unwrap();
        // Its queue is full.
        let mut callers = Vec::new();
        for _ in 0..200 {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let caller = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            let _ = connect(&caller, &SocketAddrUnix::new(&path).unwrap());
            callers.push(caller);
        }
        assert_eq!(OwnSocket::bind(&path, 0o600, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(busy);
    }

    #[test]
    fn a_long_way_is_no_hindrance() {
        let dir = FreshDir::new("socket-long");
        let folder = dir.join("x".repeat(200));
        fs::create_dir(&folder).unwrap();
        let socket = OwnSocket::bind(&folder.join("s"), 0o600, None).unwrap();
        assert!(folder.join("s").exists());
        drop(socket);
        assert!(!folder.join("s").exists());
    }
}
