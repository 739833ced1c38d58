//! Controllers at the port of the tree: who proves that it belongs here asks in frames, as at the unix socket.
//!
//! They say so in the handshake (ALPN), and prove it as daemons do. A program on another machine has a bridge there, which proves it on its behalf: see [`bridge`].

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;

use iotide_ledger::Name;
use iotide_ledger::tree::{Downlink, Frame, Hello, Inbox, LinkError, Place, VERSIONS, Welcome};
use iotide_private::OwnSocket;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::keys::{Secret, Session, Side, Tls};
use super::{BREATHER, Encrypted, GREET_WITHIN, PeerError, TreeConfig, first_frame, send};
use crate::config::ServeError;
use crate::serve::{make_directory, rpc_socket};
use iotide_daemon::gather::Tree;

/// What a controller calls its protocol.
pub(super) const PROTOCOL: &[u8] = b"iotide-rpc";
/// What it calls itself; with certificates, the name that its certificate must have.
const NAME: &str = "controller.iotide";
/// Controllers at once.
pub(super) const MOST: usize = 64;

fn place() -> Place {
    Place { node: Name::ours(NAME), instance: 0 }
}

/// Hears that a controller belongs here, and proves the same.
pub(super) async fn greet(
    stream: &mut Encrypted,
    session: &Session,
    tree: &Tree,
    key: &Secret,
) -> Result<(), PeerError> {
    let hello: Hello = first_frame(stream, &mut Inbox::default(), |frame| match frame {
        Frame::Hello(hello) => Some(hello.clone()),
        _ => None,
    })
    .await?;
    let is_one = hello.place == place();
    if !is_one || !key.is_proof(Side::Controller, session, &hello.place, &hello.proof).await? {
        return Err(PeerError::Key);
    }
    let own = tree.hub().own.clone();
    let proof = key.prove(Side::Parent, session, &own).await?;
    let path = Downlink::path(&tree.hub());
    let mut bytes = Vec::new();
    Frame::Welcome(Welcome { version: VERSIONS.1, path, proof }).write(&mut bytes);
    send(stream, &bytes).await
}

/// Answers controllers of this machine by a daemon above: what they say at a unix socket is said there. It is the caller's own: who may use it sees all jobs.
///
/// Returns only if that cannot begin; `ready` is called once it has.
pub fn bridge(socket: &Path, tree: &TreeConfig, ready: impl FnOnce(&Path)) -> Result<Infallible, ServeError> {
    let key = Arc::new(tree.auth.load()?);
    let tls = Arc::new(Tls::new(&key)?.for_controllers());
    let path = rpc_socket(socket);
    make_directory(path.parent().unwrap_or(Path::new("/")))?;
    let own = OwnSocket::bind(&path, 0o600, None)
        .map_err(|cause| ServeError::Listen { at: path.display().to_string(), cause })?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build()?;
    let parents: Arc<[String]> = tree.parents.clone().into();
    runtime.block_on(async move {
        own.listener().set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(own.listener().try_clone()?)?;
        ready(&path);
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(BREATHER).await;
                continue;
            };
            if !iotide_private::is_our_user(iotide_private::peer_user(&stream)) {
                continue;
            }
            let (parents, key, tls) = (Arc::clone(&parents), Arc::clone(&key), Arc::clone(&tls));
            tokio::spawn(async move { carry(stream, &parents, &key, &tls).await });
        }
    })
}

/// Carries what is said between a controller and the first parent that can be reached.
async fn carry(mut near: UnixStream, parents: &[String], key: &Secret, tls: &Tls) {
    for parent in parents {
        if let Ok(Ok(mut far)) = timeout(GREET_WITHIN, reach(parent, key, tls)).await {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            return;
        }
    }
}

async fn reach(address: &str, key: &Secret, tls: &Tls) -> Result<Encrypted, PeerError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host.trim_matches(['[', ']']));
    let stream = tls.connect(stream, host).await?;
    let session = Session::of(stream.get_ref().1)?;
    // A daemon that does not know controllers would take this for a node.
    if stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
        return Err(io::Error::other("the daemon there does not answer controllers").into());
    }
    let mut stream: Encrypted = Box::new(stream.into());
    let proof = key.prove(Side::Controller, &session, &place()).await?;
    let mut bytes = Vec::new();
    Frame::Hello(Hello { versions: VERSIONS, place: place(), proof }).write(&mut bytes);
    send(&mut stream, &bytes).await?;
    let welcome: Welcome = first_frame(&mut stream, &mut Inbox::default(), |frame| match frame {
        Frame::Welcome(welcome) => Some(welcome.clone()),
        _ => None,
    })
    .await?;
    let there = welcome.path.first().cloned().ok_or(LinkError::Protocol("it does not say who it is"))?;
    if !key.is_proof(Side::Parent, &session, &there, &welcome.proof).await? {
        return Err(PeerError::Key);
    }
    Ok(stream)
}
