//! `iotide sets key`: the key by which one user's programs prove whose they are.

use std::path::PathBuf;

use iotide_gate::{user_number, write_user_key};

use super::super::arbiter::hint;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Make the key by which a user's programs ask arbiters on other machines
///
/// The key is made from that of the site, which arbiters have (`iotide serve key`). It proves that a program is that user's, and
/// nothing of other users. Programs find it by IOTIDE_GATE_KEY. As root the file belongs to the user, otherwise to the caller;
/// nobody else can read it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KeyArgs {
    /// Key of the site
    site: PathBuf,
    /// The user, by name or number
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    user: u32,
    /// File to make; it must not exist
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  iotide serve key /etc/iotide/site.key
  iotide sets key /etc/iotide/site.key --user ada /home/ada/.iotide.key
  export IOTIDE_GATE=tcp:10.0.0.5:7070 IOTIDE_GATE_KEY=$HOME/.iotide.key";

pub(crate) fn run(ui: &mut Ui, args: &KeyArgs) -> anyhow::Result<ExitStatus> {
    if let Err(error) = write_user_key(&args.site, args.user, &args.file) {
        let hint = hint(&error);
        return Err(error).hint(hint);
    }
    ui.status(format_args!("{}: the key of the user {}", args.file.display(), args.user));
    Ok(ExitStatus::Done)
}

fn parse_user(text: &str) -> Result<u32, String> {
    user_number(text).ok_or_else(|| "there is no such user".to_owned())
}
