//! HTTP that others cannot read on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::ServeError;

/// What encrypts, by a certificate (with those in between) and its private key.
pub(crate) fn acceptor((certificate, key): &(PathBuf, PathBuf)) -> Result<TlsAcceptor, ServeError> {
    let failed = |path: &Path, why: String| ServeError::Certificate(format!("{}: {why}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(|found| found.collect())
        .map_err(|error| failed(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(failed(certificate, "there is no certificate in it".to_owned()));
    }
    let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key_of)
        .map_err(|error| failed(certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
