//! `iotide web`: a link to the daemon's pages.

use anyhow::Context;
use iotide_edge::{client, places};
use iotide_report::{LoginLink, Refused};

use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Print a link to the pages of the daemon, which logs you in
///
/// The link works once and for a minute. Your login lasts for 12 hours: you see your own jobs, root and the user of the daemon see all. The daemon is the
/// one at IOTIDE_DAEMON (a unix socket), your own, or the machine's (`iotide serve`). For a daemon on another machine, forward its port with
/// `ssh -L` and name the near end with --url.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WebArgs {
    /// Address under which your browser reaches the daemon [default: as the daemon says]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  iotide web
  xdg-open \"$(iotide web)\"
  ssh -L 1337:127.0.0.1:1337 login1 iotide web     open what it prints, while ssh runs
  iotide web --url https://iotide.example.org";

pub(crate) fn run(ui: &mut Ui, args: &WebArgs) -> anyhow::Result<ExitStatus> {
    let socket = places::socket_to_ask();
    let answer = client::send(&socket, "POST", "/api/1/login", b"")
        .hint("`iotide serve` starts a daemon; IOTIDE_DAEMON names the socket of one that runs elsewhere")?;
    if answer.status != 200 {
        let said = Refused::from_json(&answer.body).map(|said| said.error.for_terminal());
        let said = said.unwrap_or_else(|| format!("the daemon refuses ({})", answer.status));
        return Err(anyhow::anyhow!("{said}")).context("the daemon cannot answer");
    }
    let link = LoginLink::from_json(&answer.body)
        .map_err(|why| anyhow::anyhow!("the daemon's answer cannot be read: {why}"))?;
    let address = match (&args.url, &link.http) {
        (Some(url), _) => url.trim_end_matches('/'),
        (None, Some(http)) => http,
        (None, None) => {
            return Err(anyhow::anyhow!("the daemon answers at its unix socket only")).hint(
                "`iotide serve --http ADDR` makes it show pages; --url names a proxy before the unix socket",
            );
        }
    };
    ui.out(&format!("{address}{}\n", link.path))?;
    ui.status("the link works once, within a minute; the login then lasts for 12 hours");
    Ok(ExitStatus::Done)
}
