//! HTTPS: the server must prove its name by a certificate that this machine trusts.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Where systems keep the certificates that they trust: Debian and Arch, Red Hat, SUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Encrypts what goes over a stream to this host.
pub(crate) fn encrypt<S: Read + Write>(
    host: &str,
    stream: S,
) -> io::Result<StreamOwned<ClientConnection, S>> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| config().map(Arc::new)).clone().map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

fn config() -> Result<ClientConfig, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let places = BUNDLES.iter().map(PathBuf::from);
    let path = named
        .or_else(|| places.into_iter().find(|path| path.is_file()))
        .ok_or("this machine has no file of certificates that it trusts; SSL_CERT_FILE can name one")?;
    let failed = |why: String| format!("{}: {why}", path.display());
    let found = CertificateDer::pem_file_iter(&path).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // Some certificates of a usual file are too old for rustls.
    roots.add_parsable_certificates(found.flatten());
    if roots.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
