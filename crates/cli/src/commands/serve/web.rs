//! How pages and answers over HTTP are reached: certificates, a proxy that says who asks, and tokens.

use std::path::PathBuf;

use anyhow::{Context, bail};
use iotide_edge::{ProxyConfig, ProxyFrom, WebConfig};

/// Options and settings of the same names.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Web {
    /// Certificate for HTTPS at --http, in PEM form, with those in between; needed beyond loopback
    #[arg(long, value_name = "FILE", requires = "http_key")]
    http_cert: Option<PathBuf>,
    /// Private key of --http-cert
    #[arg(long, value_name = "FILE", requires = "http_cert")]
    http_key: Option<PathBuf>,
    /// Believe this header of a proxy: it holds the name of the user who asks
    #[arg(long, value_name = "NAME", requires = "proxy_from")]
    proxy_user_header: Option<String>,
    /// Who that proxy is: its address, or the user it runs as if it connects to the unix socket
    #[arg(long, value_name = "ADDR|USER", requires = "proxy_user_header")]
    proxy_from: Option<String>,
    /// Where a Prometheus that keeps these metrics is; not an option, for it is about a site.
    #[arg(skip)]
    prometheus: Option<String>,
}

impl Web {
    /// The names of the settings.
    pub(super) const NAMES: &str = "http_cert, http_key, proxy_user_header, proxy_from, prometheus";

    /// Takes a setting; says whether it is one of these.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "http_cert" => self.http_cert = Some(value.into()),
            "http_key" => self.http_key = Some(value.into()),
            "proxy_user_header" => self.proxy_user_header = Some(value.to_owned()),
            "proxy_from" => self.proxy_from = Some(value.to_owned()),
            "prometheus" => self.prometheus = Some(parse_page(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// These, else the others.
    pub(super) fn or(&self, other: &Self) -> anyhow::Result<WebConfig> {
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
        };
        let files = [&self.http_cert, &self.http_key].into_iter().zip([&other.http_cert, &other.http_key]);
        let mut files = files.map(|(own, other)| own.clone().or(other.clone()).map(absolute).transpose());
        let tls = match (files.next().transpose()?.flatten(), files.next().transpose()?.flatten()) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => bail!("a certificate for HTTP needs its private key: --http-cert and --http-key"),
        };
        let header = self.proxy_user_header.clone().or(other.proxy_user_header.clone());
        let from = self.proxy_from.clone().or(other.proxy_from.clone());
        let proxy = match (header, from) {
            (None, None) => None,
            (Some(header), Some(from)) => {
                if header.is_empty()
                    || !header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                {
                    bail!("--proxy-user-header {header}: the name of a header, as in X-Remote-User");
                }
                let from =
                    ProxyFrom::parse(&from).map_err(|why| anyhow::anyhow!("--proxy-from {from}: {why}"))?;
                Some(ProxyConfig { header: header.to_ascii_lowercase(), from })
            }
            _ => bail!("a header is believed of a proxy that is named: --proxy-user-header and --proxy-from"),
        };
        Ok(WebConfig { tls, proxy, prometheus: self.prometheus.clone().or(other.prometheus.clone()) })
    }
}

/// Takes the address of a page that browsers open.
fn parse_page(text: &str) -> Result<String, String> {
    let is_page = text.starts_with("https://") || text.starts_with("http://");
    match is_page && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>?#".contains(&byte)) {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("an address as https://prometheus.example.org:9090, without ? or #".to_owned()),
    }
}
