//! `iotide serve`: the daemon.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_daemon::{Config, Served, places, serve, store};

use self::keeping::Keeping;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

mod keeping;

/// Watch every job of this machine, live
///
/// Programs that run under `iotide record --live` count what they read and write in memory; this daemon reads the counters ten times a
/// second, sums them up by job, and keeps what each job did. Ask it with `iotide jobs`, `iotide job ID` and `iotide top`, over HTTP,
/// or with Prometheus (/metrics).
///
/// Run by root, it serves the machine: everyone sees their own jobs, root sees all. Run by anyone else, it serves that user. A job's counts
/// survive the end of the program and of the daemon, by `kill -9` too. Settings are read from /etc/iotide/serve.toml (when run by root) or from
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
    Check(Options),
}

#[derive(clap::Args, Clone, Debug)]
struct Options {
    /// Answer HTTP at this loopback address; 'none' for the unix socket only [default: 127.0.0.1:1337]
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
    #[command(flatten)]
    keeping: Keeping,
    /// Read settings from FILE
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

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
  curl -s http://127.0.0.1:1337/metrics            what Prometheus sees";

const CHECK_EXAMPLES: &str = "\
Examples:
  iotide serve check
  iotide serve check --config serve.toml";

/// The address that HTTP is answered at unless someone says otherwise: that of the metric proxy.
const USUAL_HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1337);

pub(crate) fn run(ui: &mut Ui, args: &ServeArgs) -> anyhow::Result<ExitStatus> {
    match &args.command {
        Some(ServeCommand::Check(options)) => check(ui, options),
        None => serve_until_ended(ui, &args.options),
    }
}

fn serve_until_ended(ui: &mut Ui, options: &Options) -> anyhow::Result<ExitStatus> {
    let mut config = settings(options)?;
    loop {
        let ready = |http: Option<SocketAddr>| {
            let http = http.map_or(String::new(), |http| format!(" and http://{http}"));
            ui.status(format_args!(
                "serving at {}{http}; counter pages in {} (IOTIDE_LIVE)",
                config.socket.display(),
                config.pages.display()
            ));
        };
        let served = serve(config.clone(), ready).hint(
            "--http, --socket, --store and --pages choose other places; `iotide serve check` shows all settings",
        )?;
        if served == Served::Ended {
            return Ok(ExitStatus::Done);
        }
        ui.status("reading the settings again");
        match settings(options) {
            Ok(changed) => config = changed,
            // Whoever mistypes a setting does not end the daemon by it.
            Err(error) => ui.error(&error.context("the settings stay as they were")),
        }
    }
}

fn check(ui: &mut Ui, options: &Options) -> anyhow::Result<ExitStatus> {
    let config = settings(options)?;
    if let Some(http) = config.http.filter(|http| !http.ip().is_loopback()) {
        bail!(
            "{http} can be reached from other machines, and answers are not encrypted: use a loopback address"
        );
    }
    config.series.check()?;
    let mut text = format!(
        "http    {}\nsocket  {}\nstore   {}\npages   {}\nnode    {}\n",
        config.http.map_or("none".to_owned(), |http| http.to_string()),
        config.socket.display(),
        config.store.display(),
        config.pages.display(),
        config.node
    );
    text.push_str(&format!("series  {}\n", keeping::shown(&config.series)));
    if let Some(group) = &config.group {
        text.push_str(&format!("group   {group}\n"));
        iotide_daemon::group_of_pages(Some(group))?;
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

/// The options, else the settings of the file, else what is usual.
fn settings(options: &Options) -> anyhow::Result<Config> {
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
    let (series, group) = options.keeping.or(&file.keeping);
    let (remote_write, remote_write_every) = file.keeping.remote_write();
    Ok(Config {
        series,
        group,
        cgroups: file.keeping.cgroups(),
        remote_write,
        remote_write_every,
        http,
        socket: absolute(options.socket.clone().or(file.socket).unwrap_or_else(places::socket))?,
        store: absolute(options.store.clone().or(file.store).unwrap_or_else(places::store))?,
        pages: absolute(options.pages.clone().or(file.pages).unwrap_or_else(places::pages))?,
        node: options.node.clone().or(file.node).unwrap_or_else(places::node),
    })
}

#[derive(Debug, Default)]
struct Settings {
    http: Option<Http>,
    socket: Option<PathBuf>,
    store: Option<PathBuf>,
    pages: Option<PathBuf>,
    node: Option<String>,
    keeping: Keeping,
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
            _ => {
                let known = settings.keeping.set(name, value);
                if !known.map_err(|why| anyhow::anyhow!("{}: '{name}': {why}", path.display()))? {
                    bail!(
                        "{}: there is no setting '{name}' (http, socket, store, pages, node, {})",
                        path.display(),
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
