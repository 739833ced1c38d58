//! Help on what keys and maps of arbiters are made with.

use crate::util::Dir;

#[test]
fn help_on_sets_key_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["sets", "key", "--help"]).exits_with(0).stdout, @r#"
    Make the key by which a user's programs ask arbiters on other machines

    The key is made from that of the site, which arbiters have (`iotide serve key`). It proves that a
    program is that user's, and nothing of other users. Programs find it by IOTIDE_GATE_KEY. As root the
    file belongs to the user, otherwise to whoever makes it; nobody else can read it.

    Usage: iotide sets key --user <USER> <SITE> <FILE>

    Arguments:
      <SITE>
              Key of the site

      <FILE>
              File to make; it must not exist

    Options:
          --user <USER>
              The user, by name or number

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide serve key /etc/iotide/site.key
      iotide sets key /etc/iotide/site.key --user ada /home/ada/.iotide.key
      export IOTIDE_GATE=tcp:10.0.0.5:7070 IOTIDE_GATE_KEY=$HOME/.iotide.key
    "#);
}
