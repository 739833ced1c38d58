//! `iotide serve`: the daemon.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_act::{ActSettings, Acting, Seat};
use iotide_daemon::store;
use iotide_edge::{
    Addresses, Auth, Config, Served, Steering, TokenRole, TreeConfig, bridge, make_token, places,
    read_storage, serve, write_key,
};
use iotide_report::Untrusted;

use self::keeping::Keeping;
use self::web::Web;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

mod install;
mod keeping;
mod web;

/// Watch every job of this machine, live
///
/// Programs that run under `iotide record --live` count what they read and write in memory; this daemon reads the counters ten times a
/// second, sums them up by job, and keeps what each job did. Ask it with `iotide jobs`, `iotide job ID` and `iotide top`, over HTTP,
/// or with Prometheus (/metrics).
///
/// Run by root, it serves the machine: everyone sees their own jobs, root sees all. Run by anyone else, it serves that user. A job's counts
/// survive the end of the program and of the daemon, by `kill -9` too.
///
/// Daemons of many machines form a tree: each daemon reports to a --parent; daemons with --children accept reports; intermediate ones do both.
/// The root shows the jobs of all. Connections are encrypted, and all daemons of a tree have the same --key. Settings are read from /etc/iotide/serve.toml (when run by root) or from
/// the file of --config; options override them. SIGTERM ends it within 5 s, SIGHUP makes it read its settings again.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Subcommand, Debug)]
enum ServeCommand {
    /// Check the settings and the store, and say what would be used
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Box<Options>),
    /// Answer controllers of this machine by the daemon at --parent
    ///
    /// Carries what is asked at the RPC socket (--socket with .rpc) to the daemon that others connect to (--children), encrypted and authenticated as daemons of a tree are. Only you can use the
    /// socket: who can sees all jobs.
    #[command(after_help = BRIDGE_EXAMPLES)]
    Bridge(Box<Options>),
    /// Install the daemon as a service of systemd, where no package does
    ///
    /// Writes the units, the group that owns counter pages, and settings to change; it starts nothing. Settings and keys that are there stay. To remove all of it, remove the files that it names.
    #[command(after_help = install::EXAMPLES)]
    Install(install::InstallArgs),
    /// Make a key for a tree of daemons
    #[command(after_help = KEY_EXAMPLES)]
    Key {
        /// File to make; only its owner can read it
        #[arg(value_name = "FILE", default_value = KEY_FILE)]
        file: PathBuf,
    },
    /// Create an access token for HTTP clients
    ///
    /// It is printed once; the store keeps its hash. A daemon that runs knows it after SIGHUP. To take a token back, remove its line from the file 'tokens'
    /// of the store.
    #[command(after_help = TOKEN_EXAMPLES)]
    Token {
        /// Role of the token: operator (all jobs), controller (models of all, no jobs) or user:NAME (the jobs of one user)
        #[arg(long, value_name = "ROLE", value_parser = TokenRole::parse)]
        role: TokenRole,
        /// Directory of the store [default: /var/lib/iotide, or in ~/.local/state/iotide]
        #[arg(long, value_name = "DIR")]
        store: Option<PathBuf>,
    },
}

#[derive(clap::Args, Clone, Debug)]
struct Options {
    /// Answer HTTP at this address; 'none' for the unix socket only; beyond loopback with --http-cert only [default: 127.0.0.1:1337]
    #[arg(long, value_name = "ADDR", value_parser = parse_http)]
    http: Option<Http>,
    /// Answer HTTP at this unix socket [default: /run/iotide/serve.sock, or in $XDG_RUNTIME_DIR/iotide]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Keep jobs in this directory [default: /var/lib/iotide, or in ~/.local/state/iotide]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Read counter pages in this directory [default: /run/iotide/pages, or in $XDG_RUNTIME_DIR/iotide]
    #[arg(long, value_name = "DIR")]
    pages: Option<PathBuf>,
    /// Name of this machine [default: the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Send what is counted to one of these daemons; `slurm`: to those of this node's switch
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    parent: Vec<String>,
    /// Take in what daemons of other machines count, at this address
    #[arg(long, value_name = "ADDR")]
    children: Option<SocketAddr>,
    /// Key of the tree, the same for all its daemons (see `iotide serve key`) [default: /etc/iotide/tree.key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// How daemons of the tree know each other: by --key, by munge, as the nodes of a Slurm cluster do, or by certificates [default: key]
    #[arg(long, value_enum, value_name = "HOW")]
    auth: Option<How>,
    /// Socket of munged, if it is not the usual one
    #[arg(long, value_name = "PATH")]
    munge_socket: Option<PathBuf>,
    /// CA certificate of the tree (--auth certificates; --key is then this daemon's private key)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate of this daemon, with its --node among the names
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    #[command(flatten)]
    web: Web,
    #[command(flatten)]
    keeping: Keeping,
    /// Read settings from FILE
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// How daemons of a tree know each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// By the same key
    Key,
    /// By munge: peers are root, or this user
    Munge,
    /// By certificates of the site: a node speaks for itself only
    Certificates,
}

/// Where the key of a tree is unless someone says otherwise.
const KEY_FILE: &str = "/etc/iotide/tree.key";

#[derive(Clone, Copy, Debug)]
enum Http {
    At(SocketAddr),
    Nowhere,
}

const EXAMPLES: &str = "\
Examples:
  iotide serve                                     watch this user's jobs (as root: the machine's)
  iotide record --live -- ./simulation             run a program that is watched
  iotide job 4711                                  what it has done so far
  iotide serve --http 127.0.0.1:9337 --store /data/iotide
  iotide serve check                               are the settings right?
  iotide web                                       a link to its pages
  iotide serve --http 0.0.0.0:8443 --http-cert cert.pem --http-key key.pem
  iotide serve key tree.key                        a key for a tree of daemons
  iotide serve --children 0.0.0.0:1338 --key tree.key      the root
  iotide serve --parent root:1338 --key tree.key           each node
  curl -s http://127.0.0.1:1337/metrics            what Prometheus sees";

const CHECK_EXAMPLES: &str = "\
Examples:
  iotide serve check
  iotide serve check --config serve.toml";

const BRIDGE_EXAMPLES: &str = "\
Examples:
  iotide serve bridge --parent root:1338 --key tree.key --socket /tmp/root.sock
  IOTIDE_DAEMON=/tmp/root.sock python3 dist/rpc/iotide_rpc.py app lmp 'posix->write' time 4096";

const KEY_EXAMPLES: &str = "\
Examples:
  iotide serve key                                 /etc/iotide/tree.key; copy it to all machines
  iotide serve key tree.key";

const TOKEN_EXAMPLES: &str = "\
Examples:
  iotide serve token --role controller > controller.token
  iotide serve token --role user:ada --store /data/iotide
  curl -H \"Authorization: Bearer $(cat controller.token)\" 'http://127.0.0.1:1337/api/1/models?app=lmp'";

/// The address that HTTP is answered at unless someone says otherwise: that of the metric proxy.
const USUAL_HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1337);

pub(crate) fn run(ui: &mut Ui, args: &ServeArgs) -> anyhow::Result<ExitStatus> {
    match &args.command {
        Some(ServeCommand::Check(options)) => check(ui, options),
        Some(ServeCommand::Bridge(options)) => carry(ui, options),
        Some(ServeCommand::Install(args)) => install::run(ui, args),
        Some(ServeCommand::Key { file }) => {
            write_key(file)?;
            ui.status(format_args!("{}: a new key; give it to all daemons of the tree", file.display()));
            Ok(ExitStatus::Done)
        }
        Some(ServeCommand::Token { role, store }) => {
            let store = store.clone().unwrap_or_else(places::store);
            let token = make_token(&store, role)
                .with_context(|| format!("cannot keep a token in {}", store.display()))
                .hint("the store is made when the daemon is first started; --store names another one")?;
            ui.out(&format!("{token}\n"))?;
            Ok(ExitStatus::Done)
        }
        None => serve_until_ended(ui, &args.options),
    }
}

fn carry(ui: &mut Ui, options: &Options) -> anyhow::Result<ExitStatus> {
    let (config, _) = settings(options)?;
    // Who gathers for a switch knows nothing of the jobs of others: the settings of all nodes name the root, too.
    let parents = config.tree.as_ref().map_or_else(Vec::new, TreeConfig::named_parents);
    let Some(tree) = config.tree.filter(|_| !parents.is_empty()) else {
        bail!("--parent HOST:PORT says which daemon answers")
    };
    let tree = TreeConfig { parents, ..tree };
    let parents = tree.parents.join(", ");
    match bridge(&config.socket, &tree, |path| {
        ui.status(format_args!("controllers are answered at {} by {parents}", path.display()));
    })? {}
}

fn serve_until_ended(ui: &mut Ui, options: &Options) -> anyhow::Result<ExitStatus> {
    let (mut config, mut act) = settings(options)?;
    loop {
        let steering = Steering::default();
        // What it did is taken back when it is dropped.
        let mut acting = None;
        let said = std::cell::RefCell::new(&mut *ui);
        let ready = |addresses: &Addresses| {
            let scheme = if config.web.tls.is_some() { "https" } else { "http" };
            let http = addresses.http.map_or(String::new(), |http| format!(" and {scheme}://{http}"));
            let children = addresses
                .children
                .map_or(String::new(), |children| format!("; daemons below connect to {children}"));
            // Who is told that it serves finds its decisions there.
            if let Some(act) = &act {
                let seat = Seat {
                    socket: config.socket.clone(),
                    pages: config.pages.clone(),
                    store: config.store.clone(),
                };
                match Acting::start(act, steering.clone(), &seat) {
                    Ok(begun) => acting = Some(begun),
                    Err(error) => said.borrow_mut().error(&error),
                }
            }
            said.borrow_mut().status(format_args!(
                "serving at {}{http}; counter pages in {} (IOTIDE_LIVE){children}",
                config.socket.display(),
                config.pages.display()
            ));
        };
        let say = |text: &str| said.borrow_mut().status(Untrusted::from(text).for_terminal());
        let served = serve(config.clone(), steering.clone(), ready, say).or_else(|error| {
            let runs_there = std::os::unix::net::UnixStream::connect(&config.socket).is_ok();
            let others = "--http, --socket, --store and --pages choose other places; `iotide serve check` shows all settings";
            Err(error).hint(match runs_there {
                true => format!("a daemon runs at {} already: `iotide jobs` asks it; {others}", config.socket.display()),
                false => others.to_owned(),
            })
        })?;
        drop(acting);
        if served == Served::Ended {
            return Ok(ExitStatus::Done);
        }
        ui.status("reading the settings again");
        match settings(options) {
            Ok(changed) => (config, act) = changed,
            // Whoever mistypes a setting does not end the daemon by it.
            Err(error) => ui.error(&error.context("the settings stay as they were")),
        }
    }
}

fn check(ui: &mut Ui, options: &Options) -> anyhow::Result<ExitStatus> {
    let (config, act) = settings(options)?;
    config.check_http()?;
    config.series.check()?;
    let mut text = format!(
        "http    {}\nsocket  {}\nstore   {}\npages   {}\nnode    {}\n",
        config.http.map_or("none".to_owned(), |http| http.to_string()),
        config.socket.display(),
        config.store.display(),
        config.pages.display(),
        config.node
    );
    if let Some(tree) = &config.tree {
        tree.auth.load()?;
        let auth = match &tree.auth {
            Auth::Key(key) => format!("key     {}", key.display()),
            Auth::Munge { .. } => "auth    munge".to_owned(),
            Auth::Certificates { certificate, .. } => format!("cert    {}", certificate.display()),
        };
        let parents =
            if tree.parents.is_empty() { "none: the root".to_owned() } else { tree.parents.join(", ") };
        let children = tree.children.map_or("none".to_owned(), |address| address.to_string());
        text.push_str(&format!("parent  {parents}\nchildren {children}\n{auth}\n"));
    }
    text.push_str(&format!("series  {}\n", keeping::shown(&config.series)));
    text.push_str(&format!("jobs    {}\n", keeping::jobs_shown(&config.jobs)));
    text.push_str(&open_files());
    text.extend(config.storage.iter().map(|path| format!("storage {}\n", path.display())));
    text.extend(act.iter().map(|act| format!("act     {}\n", act.in_words())));
    if let Some(group) = &config.group {
        text.push_str(&format!("group   {group}\n"));
        iotide_edge::group_of_pages(Some(group))?;
    }
    if config.store.join(store::DATABASE).exists() {
        let reader = store::Reader::open(&config.store)?;
        let states = reader.states()?;
        let states: Vec<String> = states.iter().map(|(state, n)| format!("{n} {state}")).collect();
        text.push_str(&format!(
            "jobs    {}\n",
            if states.is_empty() { "none".to_owned() } else { states.join(", ") }
        ));
        for loss in reader.losses(None)? {
            text.push_str(&format!("loss    {}\n", iotide_report::text::printable(&loss)));
        }
    } else {
        text.push_str("jobs    none: the store is made when the daemon is first started\n");
    }
    ui.out(&text)?;
    Ok(ExitStatus::Done)
}

/// How many descriptors the daemon may have: it holds two for each process that it watches.
fn open_files() -> String {
    const PER_PROCESS: usize = 2;
    const ENOUGH: usize = 16_384;
    let most = iotide_gate::raise_open_files();
    let advice = if most < ENOUGH { "; set LimitNOFILE=65536 in the unit" } else { "" };
    format!(
        "files   {most} at once, for about {} processes{advice}\n",
        most.saturating_sub(512) / PER_PROCESS
    )
}

/// The options, else the settings of the file, else what is usual.
fn settings(options: &Options) -> anyhow::Result<(Config, Option<ActSettings>)> {
    let system = places::config_file();
    let is_root = rustix::process::geteuid().is_root();
    let file = match &options.config {
        Some(file) => read_settings(file)?,
        None if is_root && system.exists() => read_settings(&system)?,
        None => Settings::default(),
    };
    let http = match options.http.or(file.http) {
        None => Some(USUAL_HTTP),
        Some(Http::At(address)) => Some(address),
        Some(Http::Nowhere) => None,
    };
    let absolute =
        |path: PathBuf| std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()));
    let parents = if options.parent.is_empty() { file.parent } else { options.parent.clone() };
    let key = options.key.clone().or(file.key);
    let munge_socket = options.munge_socket.clone().or(file.munge_socket);
    let auth = match options.auth.or(file.auth).unwrap_or(How::Key) {
        How::Key => Auth::Key(absolute(key.unwrap_or_else(|| KEY_FILE.into()))?),
        How::Munge => Auth::Munge { socket: munge_socket },
        How::Certificates => {
            let needed = |name: &str, path: Option<PathBuf>| {
                path.with_context(|| format!("--auth certificates needs --{name} FILE"))
            };
            Auth::Certificates {
                ca: absolute(needed("ca", options.ca.clone().or(file.ca))?)?,
                certificate: absolute(needed("cert", options.cert.clone().or(file.cert))?)?,
                key: absolute(needed("key", key)?)?,
            }
        }
    };
    let (series, group) = options.keeping.or(&file.keeping);
    let (remote_write, remote_write_every) = file.keeping.remote_write();
    let (scrape, scrape_every) = options.keeping.scrape(&file.keeping);
    let [alertmanagers, webhooks] = options.keeping.receivers(&file.keeping);
    let config = Config {
        web: options.web.or(&file.web)?,
        series,
        jobs: options.keeping.jobs(&file.keeping),
        group,
        cgroups: file.keeping.cgroups(),
        remote_write,
        remote_write_every,
        scrape,
        scrape_every,
        alertmanagers,
        webhooks,
        sends_users_alarms: file.keeping.sends_users_alarms(),
        redis: options.keeping.redis(&file.keeping),
        storage: options.keeping.storage(&file.keeping).map(absolute).transpose()?,
        http,
        socket: absolute(options.socket.clone().or(file.socket).unwrap_or_else(places::socket))?,
        store: absolute(options.store.clone().or(file.store).unwrap_or_else(places::store))?,
        pages: absolute(options.pages.clone().or(file.pages).unwrap_or_else(places::pages))?,
        node: options.node.clone().or(file.node).unwrap_or_else(places::node),
        tree: tree_settings(parents, options.children.or(file.children), auth, file.most_children)?,
    };
    // A mistake in it is found before a daemon that runs is ended to use it.
    config.storage.as_deref().map(read_storage).transpose()?;
    Ok((config, file.act))
}

/// Where the daemon stands in a tree, if it is in one.
fn tree_settings(
    parents: Vec<String>,
    children: Option<SocketAddr>,
    auth: Auth,
    most_children: Option<usize>,
) -> anyhow::Result<Option<TreeConfig>> {
    if parents.is_empty() && children.is_none() {
        return Ok(None);
    }
    for parent in &parents {
        if !TreeConfig::is_parent(parent) {
            bail!("--parent {parent}: a host and a port, as in root:1338, or slurm");
        }
    }
    if let Auth::Key(key) = &auth
        && !key.exists()
    {
        bail!(
            "{}: there is no key; `iotide serve key` makes one, which all daemons of the tree need",
            key.display()
        );
    }
    let most_children = most_children.unwrap_or(TreeConfig::MOST_CHILDREN);
    Ok(Some(TreeConfig { parents, children, auth, most_children }))
}

#[derive(Debug, Default)]
struct Settings {
    parent: Vec<String>,
    children: Option<SocketAddr>,
    key: Option<PathBuf>,
    auth: Option<How>,
    munge_socket: Option<PathBuf>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    most_children: Option<usize>,
    http: Option<Http>,
    socket: Option<PathBuf>,
    store: Option<PathBuf>,
    pages: Option<PathBuf>,
    node: Option<String>,
    web: Web,
    keeping: Keeping,
    act: Option<ActSettings>,
}

fn read_settings(path: &Path) -> anyhow::Result<Settings> {
    let cannot = || format!("cannot read the settings in {}", path.display());
    let text = std::fs::read_to_string(path).with_context(cannot)?;
    let table: toml::Table = text.parse().with_context(cannot)?;
    let mut settings = Settings::default();
    for (name, value) in &table {
        let wrong = |why| anyhow::anyhow!("{}: '{name}': {why}", path.display());
        if settings.keeping.set_list(name, value).map_err(wrong)? {
            continue;
        }
        if name == "act" {
            settings.act = Some(ActSettings::read(value).map_err(wrong)?);
            continue;
        }
        let Some(value) = value.as_str() else {
            bail!("{}: '{name}' must be a text in quotes", path.display());
        };
        match name.as_str() {
            "http" => {
                let parsed =
                    parse_http(value).map_err(|why| anyhow::anyhow!("{}: 'http': {why}", path.display()))?;
                settings.http = Some(parsed);
            }
            "socket" => settings.socket = Some(value.into()),
            "store" => settings.store = Some(value.into()),
            "pages" => settings.pages = Some(value.into()),
            "node" => settings.node = Some(value.to_owned()),
            "parent" => settings.parent = value.split(',').map(|parent| parent.trim().to_owned()).collect(),
            "children" => {
                let Ok(address) = value.parse() else {
                    bail!("{}: 'children': an address and a port, as in 0.0.0.0:1338", path.display());
                };
                settings.children = Some(address);
            }
            "key" => settings.key = Some(value.into()),
            "auth" => match value {
                "key" => settings.auth = Some(How::Key),
                "munge" => settings.auth = Some(How::Munge),
                "certificates" => settings.auth = Some(How::Certificates),
                _ => bail!("{}: 'auth': 'key', 'munge' or 'certificates'", path.display()),
            },
            "ca" => settings.ca = Some(value.into()),
            "cert" => settings.cert = Some(value.into()),
            "munge_socket" => settings.munge_socket = Some(value.into()),
            "most_children" => {
                let Ok(most) = value.parse() else {
                    bail!("{}: 'most_children': a whole number", path.display());
                };
                settings.most_children = Some(most);
            }
            _ => {
                let known = match settings.web.set(name, value) {
                    Ok(false) => settings.keeping.set(name, value),
                    known => known,
                };
                if !known.map_err(|why| anyhow::anyhow!("{}: '{name}': {why}", path.display()))? {
                    bail!(
                        "{}: there is no setting '{name}' (http, socket, store, pages, node, parent, children, key, auth, ca, cert, munge_socket, most_children, act, {}, {})",
                        path.display(),
                        Web::NAMES,
                        Keeping::NAMES
                    );
                }
            }
        }
    }
    Ok(settings)
}

fn parse_http(text: &str) -> Result<Http, String> {
    if text == "none" {
        return Ok(Http::Nowhere);
    }
    text.parse()
        .map(Http::At)
        .map_err(|_| "an address and a port, as in 127.0.0.1:1337, or 'none'".to_owned())
}
