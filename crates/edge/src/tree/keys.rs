//! Who may be part of a tree: whoever has its key, whom munge knows, or who has a certificate of the site.
//!
//! With certificates, TLS says who is at the other end. Without: connections are encrypted (TLS 1.3) between keys made for the occasion, which nobody checks. Who is at the other end is shown inside: each
//! side proves that it knows the key of the tree, or is root by munge's word, by a message that holds for this connection only, because the secret
//! of the connection is part of it. Whoever sits in the middle has two connections with two secrets, and so no message that holds for either.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use iotide_ledger::tree::Place;
use iotide_ledger::{Name, hex};
use iotide_wire::{key_bytes, sha256};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// The bytes of a key.
const N_BYTES: usize = 32;

/// How daemons of a tree know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// By a key, in this file.
    Key(PathBuf),
    /// By munge, as the nodes of a Slurm cluster do: peers are root, or the daemon's own user.
    Munge {
        /// The socket of munged, if it is not the usual one.
        socket: Option<PathBuf>,
    },
    /// By certificates: both sides show one.
    Certificates {
        /// Who signs them.
        ca: PathBuf,
        /// This daemon's, with those in between.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

impl Auth {
    /// Reads what is needed for it.
    pub fn load(&self) -> Result<Secret, KeyError> {
        match self {
            Self::Key(path) => Key::read(path).map(Secret::Key),
            Self::Munge { socket } => Ok(Secret::Munge { socket: socket.clone() }),
            Self::Certificates { ca, certificate, key } => {
                owned(key)?;
                let failed = |path: &Path| {
                    let path = path.to_owned();
                    move |cause: pem::Error| KeyError::File {
                        path: path.clone(),
                        cause: io::Error::other(cause),
                    }
                };
                let read = |path: &Path| -> Result<Vec<CertificateDer<'static>>, KeyError> {
                    let found = CertificateDer::pem_file_iter(path).map_err(failed(path))?;
                    found.collect::<Result<_, _>>().map_err(failed(path))
                };
                Ok(Secret::Certificates {
                    ca: read(ca)?,
                    chain: read(certificate)?,
                    key: PrivateKeyDer::from_pem_file(key).map_err(failed(key))?,
                })
            }
        }
    }
}

/// What proves that a daemon belongs to a tree.
#[derive(Debug)]
pub enum Secret {
    /// The key.
    Key(Key),
    /// Credentials of munge.
    Munge {
        /// The socket of munged, if it is not the usual one.
        socket: Option<PathBuf>,
    },
    /// A certificate, which TLS shows.
    Certificates {
        /// Who signs them.
        ca: Vec<CertificateDer<'static>>,
        /// This daemon's.
        chain: Vec<CertificateDer<'static>>,
        /// Its private key.
        key: PrivateKeyDer<'static>,
    },
}

impl Secret {
    /// That who is at this end of a connection belongs to the tree.
    pub(super) async fn prove(&self, side: Side, session: &Session, place: &Place) -> io::Result<Vec<u8>> {
        let statement = statement(side, session, place);
        match self {
            Self::Key(key) => Ok(hmac::sign(&key.0, &statement).as_ref().to_vec()),
            Self::Munge { socket } => {
                let mut command = munge("munge", socket.as_deref());
                command.args(["--ttl", MUNGE_TTL_S, "--string", &hex(&sha256(&statement))]);
                let credential = output_of(command, Vec::new()).await?;
                Ok(credential.trim_ascii().to_vec())
            }
            Self::Certificates { .. } => Ok(Vec::new()),
        }
    }

    /// Whether that is proved.
    pub(super) async fn is_proof(
        &self,
        side: Side,
        session: &Session,
        place: &Place,
        proof: &[u8],
    ) -> io::Result<bool> {
        let statement = statement(side, session, place);
        match self {
            // In a time that does not tell how much of it is right.
            Self::Key(key) => Ok(hmac::verify(&key.0, &statement, proof).is_ok()),
            Self::Munge { socket } => {
                let mut command = munge("unmunge", socket.as_deref());
                command.args(["--keys", "STATUS,UID"]);
                // Munge refuses what is expired, was used before or is not its own.
                let said = output_of(command, proof.to_vec()).await?;
                let said = String::from_utf8_lossy(&said);
                let (uid, payload) = unmunged(&said);
                Ok(iotide_private::is_our_user(uid) && payload == hex(&sha256(&statement)))
            }
            Self::Certificates { .. } => Ok(session.names(place.node.as_str())),
        }
    }
}

impl Secret {
    /// Whether who is at the other end may tell of other nodes than itself.
    pub(super) fn speaks_for(&self, session: &Session, node: &Name) -> bool {
        match self {
            Self::Key(_) | Self::Munge { .. } => true,
            Self::Certificates { .. } => session.names(ABOVE_OTHERS) || session.names(node.as_str()),
        }
    }
}

/// A certificate with this name is that of a daemon that others are below.
const ABOVE_OTHERS: &str = "above.iotide";

/// A credential of munge holds for so long, in seconds: as long as a greeting may take, and for clocks that differ.
const MUNGE_TTL_S: &str = "60";

/// Reads who made a credential, and what is in it, as `unmunge` prints that.
pub(super) fn unmunged(said: &str) -> (Option<u32>, &str) {
    let (head, payload) = said.split_once("\n\n").unwrap_or((said, ""));
    // As in `UID: ada (1000)`.
    let number = |line: &str| line.rsplit_once('(')?.1.strip_suffix(')')?.parse::<u32>().ok();
    (head.lines().find(|line| line.starts_with("UID:")).and_then(number), payload.trim())
}

fn munge(program: &str, socket: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    if let Some(socket) = socket {
        command.arg("--socket").arg(socket);
    }
    command
}

/// What a program prints; an error if it fails. Munge answers in milliseconds, but other connections wait for nobody.
pub(super) async fn output_of(mut command: Command, input: Vec<u8>) -> io::Result<Vec<u8>> {
    let run = move || {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // It may end before it has read all.
            let _ = stdin.write_all(&input);
        }
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(output.stdout),
            // Of a credential that is whole and yet no good, munge speaks in what it prints.
            false => {
                let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
                let said = String::from_utf8_lossy(said);
                Err(io::Error::other(said.lines().next().unwrap_or("it does not say why").trim().to_owned()))
            }
        }
    };
    tokio::task::spawn_blocking(run).await.map_err(io::Error::other)?
}

/// What all daemons of a tree know, and nobody else.
#[derive(Debug)]
pub struct Key(hmac::Key);

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read or made.
    #[error("the key {}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Others can read it.
    #[error("the key {} can be read by others: chmod 0400", .0.display())]
    Open(PathBuf),
    /// It is none.
    #[error("{} is no key: {} hexadecimal digits, as `iotide serve key` makes them", .0.display(), 2 * N_BYTES)]
    NoKey(PathBuf),
}

/// Makes a key.
pub fn write_key(path: &Path) -> Result<(), KeyError> {
    let failed = |cause| KeyError::File { path: path.to_owned(), cause };
    let mut bytes = [0; N_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| failed(io::Error::other("there are no random numbers")))?;
    iotide_private::write_secret(path, &format!("{}\n", hex(&bytes)), None).map_err(failed)
}

/// Opens a file that nobody else can read.
fn owned(path: &Path) -> Result<std::fs::File, KeyError> {
    let failed = |cause| KeyError::File { path: path.to_owned(), cause };
    iotide_private::open_secret(path).map_err(failed)?.ok_or_else(|| KeyError::Open(path.to_owned()))
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Child,
    Parent,
    /// Who asks, and counts nothing.
    Controller,
}

impl Key {
    /// Reads a key that nobody else can.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |cause| KeyError::File { path: path.to_owned(), cause };
        let file = owned(path)?;
        let mut text = String::new();
        file.take(4 * N_BYTES as u64).read_to_string(&mut text).map_err(failed)?;
        match key_bytes(text.trim().as_bytes()) {
            Some(bytes) => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))),
            None => Err(KeyError::NoKey(path.to_owned())),
        }
    }
}

fn statement(side: Side, session: &Session, place: &Place) -> Vec<u8> {
    let side: &[u8] = match side {
        Side::Child => b"iotide tree 1 child",
        Side::Parent => b"iotide tree 1 parent",
        Side::Controller => b"iotide tree 1 controller",
    };
    let name = place.node.as_str().as_bytes();
    let parts: [&[u8]; 4] = [side, &session.secret, &place.instance.to_le_bytes(), name];
    parts.concat()
}

/// What is known of a connection.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// A secret that both ends know, and nobody else.
    secret: [u8; 32],
    /// The certificate that the other end has shown.
    certificate: Option<CertificateDer<'static>>,
}

impl Session {
    pub(super) fn of<Data>(connection: &rustls::ConnectionCommon<Data>) -> io::Result<Self> {
        let secret = connection
            .export_keying_material([0; 32], b"EXPORTER-iotide-tree", None)
            .map_err(io::Error::other)?;
        let shown = connection.peer_certificates().and_then(|shown| shown.first());
        Ok(Self { secret, certificate: shown.map(|certificate| certificate.clone().into_owned()) })
    }

    /// Whether the certificate at the other end has this name.
    fn names(&self, name: &str) -> bool {
        let Some(certificate) = &self.certificate else { return false };
        let parsed = ParsedCertificate::try_from(certificate);
        let name = ServerName::try_from(name);
        parsed.is_ok_and(|parsed| name.is_ok_and(|name| verify_server_name(&parsed, &name).is_ok()))
    }
}

/// What connections are encrypted with.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    /// Whether the other end has a name to show.
    has_names: bool,
}

impl Tls {
    pub(super) fn new(secret: &Secret) -> io::Result<Self> {
        match secret {
            Secret::Key(_) | Secret::Munge { .. } => Self::between_strangers(),
            Secret::Certificates { ca, chain, key } => Self::by_certificates(ca, chain, key),
        }
    }

    fn by_certificates(
        ca: &[CertificateDer<'static>],
        chain: &[CertificateDer<'static>],
        key: &PrivateKeyDer<'static>,
    ) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in ca {
            roots.add(certificate.clone()).map_err(io::Error::other)?;
        }
        let roots = Arc::new(roots);
        let versions = [&rustls::version::TLS13];
        let checks = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(io::Error::other)?
            .with_client_cert_verifier(checks.build().map_err(io::Error::other)?)
            .with_single_cert(chain.to_vec(), key.clone_key())
            .map_err(io::Error::other)?;
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![super::controllers::PROTOCOL.to_vec()];
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.to_vec(), key.clone_key())
            .map_err(io::Error::other)?;
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { acceptor: Arc::new(server).into(), connector: Arc::new(client).into(), has_names: true })
    }

    /// Between keys that are made for the occasion.
    fn between_strangers() -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let made = ring::signature::Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| io::Error::other("there are no random numbers"))?;
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.as_ref().to_vec()));
        let signing = rustls::crypto::ring::sign::any_supported_type(&private).map_err(io::Error::other)?;
        let public = signing.public_key().ok_or_else(|| io::Error::other("the key has no public part"))?;
        let certified = CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], signing);
        let versions = [&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
        // A child that comes back shakes hands anew: nothing is kept of ten thousand that do not.
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![super::controllers::PROTOCOL.to_vec()];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyKey(provider)))
            .with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { acceptor: Arc::new(server).into(), connector: Arc::new(client).into(), has_names: false })
    }

    /// The same, for who says in its handshake that it is a controller.
    pub(super) fn for_controllers(mut self) -> Self {
        let mut client = ClientConfig::clone(self.connector.config());
        client.alpn_protocols = vec![super::controllers::PROTOCOL.to_vec()];
        self.connector = Arc::new(client).into();
        self
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }

    /// `host` is the name that a certificate at the other end must have.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let host = if self.has_names { host } else { "iotide" };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}

/// Takes any key: who has it is proved inside the connection.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::{FreshDir, program};

    fn session(secret: u8) -> Session {
        Session { secret: [secret; 32], certificate: None }
    }

    fn place(node: &str) -> Place {
        Place { node: iotide_ledger::Name::cut(node.as_bytes()), instance: 7 }
    }

    fn now<T>(wait: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(wait)
    }

    /// Whoever has heard a proof cannot use it: it holds on its own connection only, for who made it, and for that end.
    #[test]
    fn a_proof_that_is_replayed_proves_nothing() {
        let key = |byte: u8| Secret::Key(Key(hmac::Key::new(hmac::HMAC_SHA256, &[byte; N_BYTES])));
        let secret = key(1);
        let proof = now(secret.prove(Side::Child, &session(1), &place("n"))).unwrap();
        let holds = |secret: &Secret, side, of: u8, node: &str, proof: &[u8]| {
            now(secret.is_proof(side, &session(of), &place(node), proof)).unwrap()
        };
        assert!(holds(&secret, Side::Child, 1, "n", &proof));
        assert!(!holds(&secret, Side::Child, 2, "n", &proof), "another connection");
        assert!(!holds(&secret, Side::Parent, 1, "n", &proof), "the other end");
        assert!(!holds(&secret, Side::Child, 1, "m", &proof), "another node");
        assert!(!holds(&key(2), Side::Child, 1, "n", &proof), "another key");
        assert!(
            !holds(&secret, Side::Child, 1, "n", &proof[1..]) && !holds(&secret, Side::Child, 1, "n", b"")
        );
    }

    struct Munged(std::process::Child);

    impl Drop for Munged {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn credentials_of_munge_that_are_replayed_or_expired_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let Some(munged) = program("munged") else { return };
        let dir = FreshDir::new("keys-munge");
        let key = dir.write("key", "0123456789abcdef".repeat(8));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o400)).unwrap();
        let socket = dir.join("sock");
        let mut command = Command::new(munged);
        command.args(["--foreground", "--force"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.arg(format!("--key-file={}", key.display())).arg(format!("--socket={}", socket.display()));
        for (option, name) in [("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")] {
            command.arg(format!("--{option}={}", dir.join(name).display()));
        }
        let _munged = Munged(command.spawn().unwrap());
        let is_there = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
        while !is_there() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let secret = Secret::Munge { socket: Some(socket.clone()) };
        let judged = |of: u8, proof: &[u8]| {
            now(secret.is_proof(Side::Child, &session(of), &place("n"), proof)).map_err(|it| it.to_string())
        };
        let made = |of: u8| now(secret.prove(Side::Child, &session(of), &place("n"))).unwrap();
        let first = made(1);
        assert_eq!(judged(1, &first), Ok(true));
        let said = judged(1, &first).unwrap_err();
        assert!(said.contains("Replayed credential"), "{said}");
        assert_eq!(judged(2, &made(1)), Ok(false), "it was made for another connection");
        // One that holds for a second.
        let mut command = munge("munge", Some(&socket));
        let text = hex(&sha256(&statement(Side::Child, &session(1), &place("n"))));
        let brief = command.args(["--ttl", "1", "--string", &text]).output().unwrap().stdout;
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let said = judged(1, brief.trim_ascii()).unwrap_err();
        assert!(said.contains("Expired credential"), "{said}");
    }
}
