//! Where things are unless someone says otherwise.
//!
//! A daemon of root's serves the machine and uses the system's directories; anyone else's serves its user.

use std::path::{Path, PathBuf};

/// The address of a daemon, for those who ask it: a unix socket.
pub const DAEMON_VARIABLE: &str = "IOTIDE_DAEMON";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The directory of sockets and pages: `/run/iotide`, or the user's runtime directory.
pub fn runtime() -> PathBuf {
    if is_root() {
        return "/run/iotide".into();
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(runtime) => runtime.join("iotide"),
        // As `iotide record --live` has it.
        None => Path::new("/tmp").join(format!("iotide-{}", rustix::process::getuid().as_raw())),
    }
}

/// The socket of a daemon of one's own.
pub fn socket() -> PathBuf {
    runtime().join("serve.sock")
}

/// Where to ask: what `IOTIDE_DAEMON` says, a daemon of one's own, or the machine's.
pub fn socket_to_ask() -> PathBuf {
    if let Some(said) = std::env::var_os(DAEMON_VARIABLE).filter(|said| !said.is_empty()) {
        let said = PathBuf::from(said);
        return said.to_str().and_then(|said| said.strip_prefix("unix:")).map(PathBuf::from).unwrap_or(said);
    }
    let own = socket();
    let system = PathBuf::from("/run/iotide/serve.sock");
    if !own.exists() && system.exists() { system } else { own }
}

/// The directory of counter pages.
pub fn pages() -> PathBuf {
    if is_root() { iotide_private::SITE_PAGES.into() } else { runtime().join("pages") }
}

/// The directory of the store: `/var/lib/iotide`, or the user's state directory.
pub fn store() -> PathBuf {
    if is_root() {
        return "/var/lib/iotide".into();
    }
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    state.map_or_else(|| runtime().join("store"), |state| state.join("iotide"))
}

/// The configuration of the machine's daemon.
pub fn config_file() -> PathBuf {
    "/etc/iotide/serve.toml".into()
}

/// The name of this machine.
pub fn node() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
