//! Who is at the other end of HTTP: whom the system names at the unix socket, who has a token, who has logged in, whom a proxy names. And how often each
//! may ask.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE};
use iotide_ledger::hex;
use iotide_private::OpenDir;
use iotide_wire::sha256;

use crate::answer::Viewer;
use crate::shared::random;
use crate::turns::Party;
use iotide_daemon::collect::{user_name, user_number};

/// A link that logs in is good for so long.
const ONCE: Duration = Duration::from_secs(60);
/// Links that wait to be used, in all and of one user.
const MOST_ONCE: usize = 256;
const MOST_ONCE_OF_USER: usize = 8;
/// A login lasts so long.
pub(crate) const SESSION: Duration = Duration::from_secs(12 * 3600);
/// Logins at once, in all and of one user: the oldest goes.
const MOST_SESSIONS: usize = 1024;
const MOST_SESSIONS_OF_USER: usize = 32;
/// Questions per second, of an address from which nobody in particular asks; at once after a rest, five times as many.
const RATE: f64 = 20.0;
/// The same of a user who is known: programs of theirs may push metrics.
const RATE_OF_USER: f64 = 200.0;
/// Seconds of rest after which the largest burst of questions is answered at once.
const REST_S: f64 = 5.0;
/// Parties: addresses, and users of this machine who do not say who they are, have numbers below 2^32; users who do have this and their number.
const OF_USERS: u64 = 1 << 32;
/// The party of controllers' tokens.
const CONTROLLER: u64 = 1 << 33;
/// The party of those who have no number of their own.
const NAMELESS: u64 = 1 << 34;
/// Peers whose questions are counted; those who rest are forgotten.
const MOST_PEERS: usize = 4096;
/// The file of the token in the store's directory. Who can read it may see everything: Prometheus, for one.
const TOKEN: &str = "token";
/// The file of tokens in the store's directory: a line for each, with its hash and whose it is.
const TOKENS: &str = "tokens";
/// Tokens there are.
const MOST_TOKENS: usize = 1000;

/// How pages and answers over HTTP are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// Certificate and private key for HTTP over TCP; without them it is answered on loopback only.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A proxy that says who asks.
    pub proxy: Option<ProxyConfig>,
    /// The address of a Prometheus that keeps these metrics: pages of jobs lead there.
    pub prometheus: Option<String>,
}

/// A proxy that has found out who asks, and says so in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// The header with the name of the user.
    pub header: String,
    /// Where the proxy is, or who it is at the unix socket: from others the header does not count.
    pub from: ProxyFrom,
}

/// How a proxy is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyFrom {
    /// By its address, which is not this machine's loopback: from there anybody on it could speak.
    Address(IpAddr),
    /// By the user that it runs as; it connects to the unix socket.
    User(u32),
}

impl ProxyFrom {
    /// Reads an address or the name of a user.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return match address.is_loopback() {
                false => Ok(Self::Address(address)),
                true => Err("every user of this machine can connect from there: name the user of the proxy, and let it connect to the unix socket".to_owned()),
            };
        }
        user_number(text).map(Self::User).ok_or_else(|| "an address, or a user of this machine".to_owned())
    }
}

/// Purpose of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRole {
    /// Sees all.
    Operator,
    /// Sees models.
    Controller,
    /// Sees the jobs of a user.
    User(u32),
}

impl TokenRole {
    /// Reads `operator`, `controller` or `user:NAME`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "operator" => Ok(Self::Operator),
            "controller" => Ok(Self::Controller),
            _ => {
                let user = text.strip_prefix("user:").ok_or("operator, controller or user:NAME")?;
                let number = user.parse().ok().or_else(|| user_number(user));
                number.map(Self::User).ok_or_else(|| "there is no such user on this machine".to_owned())
            }
        }
    }

    fn in_file(&self) -> String {
        match self {
            Self::Operator => "operator".to_owned(),
            Self::Controller => "controller".to_owned(),
            Self::User(uid) => format!("user:{uid}"),
        }
    }

    fn viewer(&self) -> Viewer {
        match self {
            Self::Operator => Viewer::All,
            Self::Controller => Viewer::Controller,
            Self::User(uid) => Viewer::User(*uid),
        }
    }
}

/// Returns the token; makes one if there is none, or if a crash or a full disk left an empty file.
pub(crate) fn own_token(store: &Path) -> io::Result<String> {
    let folder = OpenDir::open(store)?;
    let mut token = String::new();
    match folder.read(TOKEN) {
        Ok(file) => drop(file.take(256).read_to_string(&mut token)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Blocks that were never written are read as zeroes.
    let token = token.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
    match token.len() {
        0 => {}
        16.. => return Ok(token),
        _ => {
            let what = format!("{TOKEN} has fewer than 16 characters");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    let token = hex(&random::<32>()?);
    let mut part = folder.replace_secret(TOKEN)?;
    part.write_all(format!("{token}\n").as_bytes())?;
    part.finish_durably()?;
    Ok(token)
}

/// Makes a token for a role and puts its hash into the store; a daemon knows it once it reads its settings again.
pub fn make_token(store: &Path, role: &TokenRole) -> io::Result<String> {
    let folder = OpenDir::open(store)?;
    let mut text = read_tokens(&folder)?.unwrap_or_default();
    if text.lines().count() >= MOST_TOKENS {
        return Err(io::Error::other(format!(
            "there are {MOST_TOKENS} tokens already; remove lines of the file '{TOKENS}'"
        )));
    }
    let token = hex(&random::<32>()?);
    text.push_str(&format!("{} {}\n", hex(&sha256(token.as_bytes())), role.in_file()));
    let mut file = folder.replace(TOKENS)?;
    file.write_all(text.as_bytes())?;
    file.finish_durably()?;
    Ok(token)
}

fn read_tokens(folder: &OpenDir) -> io::Result<Option<String>> {
    match folder.read(TOKENS) {
        Ok(file) => {
            let mut text = String::new();
            file.take(1 << 20).read_to_string(&mut text)?;
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the tokens of a store; an invalid line is an error, so that nobody is locked out without an error message.
pub(crate) fn tokens_of(text: &str) -> io::Result<Vec<([u8; 32], Viewer)>> {
    let line = |line: &str| {
        let (hash, role) = line.split_once(' ')?;
        let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let hash: Option<Vec<u8>> = hash.as_bytes().chunks(2).map(digit).collect();
        Some((hash?.try_into().ok()?, TokenRole::parse(role.trim()).ok()?.viewer()))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty()).take(MOST_TOKENS);
    lines
        .enumerate()
        .map(|(n, text)| {
            line(text).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{TOKENS}: line {}: not a hash and a role", n + 1),
                )
            })
        })
        .collect()
}

/// The peer of a connection, before its first message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Viewer according to the system.
    pub(crate) viewer: Viewer,
    /// The user at the unix socket.
    pub(crate) uid: Option<u32>,
    /// The address over TCP.
    pub(crate) address: Option<IpAddr>,
    /// Number that stands for it where questions are counted.
    pub(crate) number: u32,
    /// Whether the connection is encrypted.
    pub(crate) is_secure: bool,
}

/// Who asks, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asker {
    pub(crate) viewer: Viewer,
    /// Known by a cookie: can log out.
    pub(crate) session: Option<[u8; 32]>,
    /// Stands for it where questions are counted and turns are taken.
    pub(crate) party: Party,
}

impl Asker {
    /// Whom nobody knows.
    pub(crate) fn nobody() -> Self {
        Self { viewer: Viewer::Sums, session: None, party: Party::Other(NAMELESS) }
    }

    /// Gives a party its number: a user is one party, over any way to ask.
    fn new(peer: &Peer, viewer: Viewer, session: Option<[u8; 32]>) -> Self {
        let party = match (viewer, peer.uid) {
            (Viewer::All, _) => Party::Operator,
            (Viewer::User(uid), _) => Party::Other(OF_USERS | u64::from(uid)),
            (Viewer::Controller, _) => Party::Other(CONTROLLER),
            (Viewer::Sums, None) => Party::Other(u64::from(peer.number)),
            // A proxy at the unix socket names nobody.
            (Viewer::Sums, Some(_)) => Party::Other(NAMELESS),
        };
        Self { viewer, session, party }
    }

    /// Questions per second that are answered; `None` where they are not counted.
    pub(crate) fn rate(&self) -> Option<f64> {
        match self.viewer {
            Viewer::All | Viewer::Controller => None,
            Viewer::User(_) => Some(RATE_OF_USER),
            Viewer::Sums => Some(RATE),
        }
    }
}

/// Tokens, logins and how often each has asked.
#[derive(Debug)]
pub(crate) struct Doors {
    token: String,
    tokens: Vec<([u8; 32], Viewer)>,
    proxy: Option<ProxyConfig>,
    /// The name of the cookie: browsers send those of a machine to all its ports.
    pub(crate) cookie: String,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// By the hash of what is in the link.
    once: HashMap<[u8; 32], (Viewer, Instant)>,
    /// By the hash of what is in the cookie.
    sessions: HashMap<[u8; 32], (Viewer, Instant)>,
    asked: HashMap<u64, (f64, Instant)>,
}

impl Doors {
    pub(crate) fn open(
        store: &Path,
        token: String,
        config: &WebConfig,
        port: Option<u16>,
    ) -> io::Result<Self> {
        let folder = OpenDir::open(store)?;
        let tokens = read_tokens(&folder)?.map_or(Ok(Vec::new()), |text| tokens_of(&text))?;
        let cookie = format!("iotide-{}", port.unwrap_or(0));
        Ok(Self { token, tokens, proxy: config.proxy.clone(), cookie, held: Mutex::default() })
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a link for whoever asks at the unix socket.
    pub(crate) fn link(&self, viewer: Viewer, now: Instant) -> io::Result<String> {
        let secret = hex(&random::<16>()?);
        let mut held = self.held();
        held.once.retain(|_, (_, until)| *until > now);
        drop_oldest(&mut held.once, viewer, MOST_ONCE_OF_USER, MOST_ONCE);
        held.once.insert(sha256(secret.as_bytes()), (viewer, now + ONCE));
        Ok(secret)
    }

    /// Whether a link would log in now.
    pub(crate) fn is_link(&self, once: &str, now: Instant) -> bool {
        self.held().once.get(&sha256(once.as_bytes())).is_some_and(|(_, until)| *until > now)
    }

    /// Uses a link; returns what stands in the cookie from now on.
    pub(crate) fn log_in(&self, once: &str, now: Instant) -> io::Result<Option<(String, Viewer)>> {
        let mut held = self.held();
        let Some((viewer, until)) = held.once.remove(&sha256(once.as_bytes())) else { return Ok(None) };
        if until <= now {
            return Ok(None);
        }
        let secret = hex(&random::<32>()?);
        held.sessions.retain(|_, (_, until)| *until > now);
        drop_oldest(&mut held.sessions, viewer, MOST_SESSIONS_OF_USER, MOST_SESSIONS);
        held.sessions.insert(sha256(secret.as_bytes()), (viewer, now + SESSION));
        Ok(Some((secret, viewer)))
    }

    pub(crate) fn log_out(&self, session: &[u8; 32]) {
        self.held().sessions.remove(session);
    }

    /// Says who asks.
    pub(crate) fn asker(&self, peer: &Peer, headers: &HeaderMap, now: Instant) -> Asker {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let named = || bearer.and_then(|token| self.of_token(token)).or_else(|| self.of_proxy(peer, headers));
        if let Some(viewer) = named() {
            return Asker::new(peer, viewer, None);
        }
        if peer.uid.is_none()
            && let Some((session, viewer)) = self.of_cookie(headers, now)
        {
            return Asker::new(peer, viewer, Some(session));
        }
        Asker::new(peer, peer.viewer, None)
    }

    /// Whose token it is, in a time that does not tell how much of it is right.
    fn of_token(&self, said: &[u8]) -> Option<Viewer> {
        let token = self.token.as_bytes();
        if said.len() == token.len() && said.iter().zip(token).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
        {
            return Some(Viewer::All);
        }
        let hash = sha256(said);
        self.tokens.iter().find(|(known, _)| *known == hash).map(|(_, viewer)| *viewer)
    }

    fn of_proxy(&self, peer: &Peer, headers: &HeaderMap) -> Option<Viewer> {
        let proxy = self.proxy.as_ref()?;
        let is_it = match &proxy.from {
            ProxyFrom::Address(address) => peer.address.map(|it| it.to_canonical()) == Some(*address),
            ProxyFrom::User(uid) => peer.uid == Some(*uid),
        };
        if !is_it {
            return None;
        }
        // Whoever comes through the proxy without a name is nobody, not the proxy.
        let mut named = headers.get_all(&proxy.header).iter();
        let Some(name) =
            named.next().and_then(|name| name.to_str().ok()).map(str::trim).filter(|name| !name.is_empty())
        else {
            return Some(Viewer::Sums);
        };
        // Two names are none.
        if named.next().is_some() {
            return Some(Viewer::Sums);
        }
        Some(match user_number(name) {
            Some(uid) if iotide_private::is_our_user(Some(uid)) => Viewer::All,
            Some(uid) => Viewer::User(uid),
            None => Viewer::Sums,
        })
    }

    fn of_cookie(&self, headers: &HeaderMap, now: Instant) -> Option<([u8; 32], Viewer)> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut values =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, secret) = values.find(|(name, _)| *name == self.cookie)?;
        let session = sha256(secret.as_bytes());
        let (viewer, until) = *self.held().sessions.get(&session)?;
        (until > now).then_some((session, viewer))
    }

    /// Counts a question; says whether it is answered.
    pub(crate) fn may_ask(&self, asker: &Asker, now: Instant) -> bool {
        let (Some(rate), Party::Other(number)) = (asker.rate(), asker.party) else { return true };
        let burst = rate * REST_S;
        let mut held = self.held();
        if held.asked.len() >= MOST_PEERS {
            held.asked.retain(|_, (_, last)| now.duration_since(*last).as_secs_f64() < REST_S);
            if held.asked.len() >= MOST_PEERS {
                held.asked.clear();
            }
        }
        let (left, last) = held.asked.entry(number).or_insert((burst, now));
        *left = (*left + now.duration_since(*last).as_secs_f64() * rate).min(burst);
        *last = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }
}

/// Makes room for one more: the oldest of a user goes, and the oldest of all.
fn drop_oldest(
    held: &mut HashMap<[u8; 32], (Viewer, Instant)>,
    viewer: Viewer,
    most_own: usize,
    most: usize,
) {
    let oldest = |held: &HashMap<[u8; 32], (Viewer, Instant)>, is_one: &dyn Fn(Viewer) -> bool| {
        held.iter()
            .filter(|(_, (of, _))| is_one(*of))
            .min_by_key(|(_, (_, until))| *until)
            .map(|(key, _)| *key)
    };
    let count =
        |held: &HashMap<[u8; 32], (Viewer, Instant)>| held.values().filter(|(of, _)| *of == viewer).count();
    while count(held) >= most_own
        && let Some(key) = oldest(held, &|of| of == viewer)
    {
        held.remove(&key);
    }
    while held.len() >= most
        && let Some(key) = oldest(held, &|_| true)
    {
        held.remove(&key);
    }
}

/// Returns the name of a role on pages.
pub(crate) fn name_of(viewer: Viewer) -> String {
    match viewer {
        Viewer::User(uid) => user_name(uid),
        Viewer::All => "all jobs".to_owned(),
        Viewer::Controller => "models".to_owned(),
        Viewer::Sums => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::os::unix::fs::PermissionsExt;

    fn doors(dir: &FreshDir, proxy: Option<ProxyConfig>) -> Doors {
        Doors::open(
            dir.path(),
            "0123456789abcdef".to_owned(),
            &WebConfig { tls: None, proxy, prometheus: None },
            Some(1337),
        )
        .unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    const TCP: Peer = Peer {
        viewer: Viewer::Sums,
        uid: None,
        address: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 5))),
        number: 7,
        is_secure: true,
    };

    #[test]
    fn a_link_logs_in_once_and_for_a_minute() {
        let dir = FreshDir::new("doors-once");
        let doors = doors(&dir, None);
        let now = Instant::now();
        let link = doors.link(Viewer::User(1000), now).unwrap();
        assert_eq!(link.len(), 32);
        assert!(doors.is_link(&link, now) && !doors.is_link("0", now) && !doors.is_link(&link, now + ONCE));
        let (cookie, viewer) = doors.log_in(&link, now).unwrap().unwrap();
        assert!(!doors.is_link(&link, now));
        assert_eq!(viewer, Viewer::User(1000));
        assert!(doors.log_in(&link, now).unwrap().is_none(), "twice");
        let late = doors.link(Viewer::All, now).unwrap();
        assert!(doors.log_in(&late, now + ONCE).unwrap().is_none(), "late");
        let said = headers(&[("cookie", &format!("other=1; iotide-1337={cookie}"))]);
        let asker = doors.asker(&TCP, &said, now);
        assert_eq!(asker.viewer, Viewer::User(1000));
        assert_eq!(doors.asker(&TCP, &said, now + SESSION).viewer, Viewer::Sums, "it ends");
        // Another daemon's cookie is none.
        assert_eq!(
            doors.asker(&TCP, &headers(&[("cookie", &format!("iotide-1338={cookie}"))]), now).viewer,
            Viewer::Sums
        );
        doors.log_out(&asker.session.unwrap());
        assert_eq!(doors.asker(&TCP, &said, now).viewer, Viewer::Sums);
    }

    #[test]
    fn logins_of_one_user_push_out_no_other() {
        let dir = FreshDir::new("doors-many");
        let doors = doors(&dir, None);
        let now = Instant::now();
        let log_in = |viewer, now| doors.log_in(&doors.link(viewer, now).unwrap(), now).unwrap().unwrap().0;
        let cookie = log_in(Viewer::User(1), now);
        for i in 0..100 {
            log_in(Viewer::User(2), now + Duration::from_millis(i));
        }
        let said = headers(&[("cookie", &format!("iotide-1337={cookie}"))]);
        assert_eq!(doors.asker(&TCP, &said, now).viewer, Viewer::User(1));
        assert!(doors.held().sessions.len() <= MOST_SESSIONS_OF_USER + 1);
    }

    #[test]
    fn an_empty_token_is_made_again_and_a_short_one_is_refused() {
        let dir = FreshDir::new("doors-token");
        let first = own_token(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(dir.join(TOKEN)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((own_token(dir.path()).unwrap(), dir.names()), (first.clone(), vec![TOKEN.to_owned()]));
        for left in ["", "\n", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
            std::fs::write(dir.join(TOKEN), left).unwrap();
            let made = own_token(dir.path()).unwrap();
            assert!(made.len() == 64 && made != first, "{left:?}");
            assert_eq!(own_token(dir.path()).unwrap(), made);
        }
        std::fs::write(dir.join(TOKEN), "secret\n").unwrap();
        assert!(own_token(dir.path()).is_err(), "somebody chose it");
    }

    #[test]
    fn tokens_have_roles_and_are_kept_as_hashes() {
        let dir = FreshDir::new("doors-tokens");
        let controller = make_token(dir.path(), &TokenRole::Controller).unwrap();
        let user = make_token(dir.path(), &TokenRole::User(1000)).unwrap();
        let text = std::fs::read_to_string(dir.join(TOKENS)).unwrap();
        assert!(!text.contains(&controller) && text.lines().count() == 2, "{text}");
        let doors = doors(&dir, None);
        let of = |token: &str| {
            doors
                .asker(&TCP, &headers(&[("authorization", &format!("Bearer {token}"))]), Instant::now())
                .viewer
        };
        assert_eq!(
            [of(&controller), of(&user), of("0123456789abcdef"), of("wrong")],
            [Viewer::Controller, Viewer::User(1000), Viewer::All, Viewer::Sums]
        );
        std::fs::write(dir.join(TOKENS), "zz operator\n").unwrap();
        let error = Doors::open(dir.path(), String::new(), &WebConfig::default(), None).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn a_header_counts_from_the_proxy_only() {
        let dir = FreshDir::new("doors-proxy");
        let from = ProxyFrom::parse("10.0.0.5").unwrap();
        assert!(
            ProxyFrom::parse("127.0.0.1").is_err()
                && ProxyFrom::parse("::1").is_err()
                && ProxyFrom::parse("no such user").is_err()
        );
        let doors = doors(&dir, Some(ProxyConfig { header: "x-user".to_owned(), from }));
        let now = Instant::now();
        let daemon = headers(&[("x-user", "daemon")]);
        let uid = user_number("daemon").unwrap();
        assert_eq!(doors.asker(&TCP, &daemon, now).viewer, Viewer::User(uid));
        let elsewhere = Peer { address: Some("10.0.0.6".parse().unwrap()), ..TCP };
        assert_eq!(doors.asker(&elsewhere, &daemon, now).viewer, Viewer::Sums);
        for said in [
            headers(&[]),
            headers(&[("x-user", "no such user")]),
            headers(&[("x-user", "daemon"), ("x-user", "root")]),
        ] {
            assert_eq!(doors.asker(&TCP, &said, now).viewer, Viewer::Sums);
        }
    }

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let dir = FreshDir::new("doors-rate");
        let doors = doors(&dir, None);
        let now = Instant::now();
        let asker = doors.asker(&TCP, &headers(&[]), now);
        let other = doors.asker(&Peer { number: 8, ..TCP }, &headers(&[]), now);
        let n = (0..1000).filter(|_| doors.may_ask(&asker, now)).count();
        assert_eq!(n, 100);
        assert!(doors.may_ask(&other, now));
        let later = now + Duration::from_secs(2);
        assert_eq!((0..1000).filter(|_| doors.may_ask(&asker, later)).count(), 40);
        // A user who is known asks more often, but not by each way as often: at the unix socket and by a proxy.
        let local =
            Peer { viewer: Viewer::User(1000), uid: Some(1000), address: None, number: 0, is_secure: false };
        let user = doors.asker(&local, &headers(&[]), now);
        assert_eq!((0..5000).filter(|_| doors.may_ask(&user, now)).count(), 1000);
        assert!(!doors.may_ask(&Asker::new(&TCP, Viewer::User(1000), Some([7; 32])), now));
        assert!(
            doors.may_ask(
                &doors.asker(&Peer { viewer: Viewer::User(1001), ..local }, &headers(&[]), now),
                now
            )
        );
        let operator = doors.asker(&Peer { viewer: Viewer::All, uid: Some(0), ..local }, &headers(&[]), now);
        assert!((0..5000).all(|_| doors.may_ask(&operator, now)));
    }
}
