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

#[test]
fn help_on_sets_map_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["sets", "map", "--help"]).exits_with(0).stdout, @r#"
    Print the value of IOTIDE_GATE for files of Lustre or BeeGFS, from their layout

    Asks `lfs getstripe` or `beegfs-ctl --getentryinfo` how large the stripes of each PATH are and at
    which targets, and puts the arbiters of these targets in that order. A directory stands for the
    files that will be made in it. Elsewhere stripes are taken to be round robin over all arbiters.

    Usage: iotide sets map [OPTIONS] --target <NUMBER=ADDRESS> <PATH>...

    Arguments:
      <PATH>...
              Directories or files

    Options:
          --target <NUMBER=ADDRESS>
              Arbiter of a storage target, by the number that the file system has for it:
              0=tcp:10.0.0.5:7070; once for each

          --layout <SYSTEM>
              Who knows the layout

              Possible values:
              - auto:        Whatever file system it is on
              - lustre:      `lfs getstripe`
              - beegfs:      `beegfs-ctl --getentryinfo`
              - round-robin: Nobody: stripes of --stripe-size over all arbiters
              
              [default: auto]

          --stripe-size <SIZE>
              Round robin: how much of a file lies at one target before the next
              
              [default: 1M]

          --timeout <TIME>
              How long the file system's tool may take
              
              [default: 10s]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide sets map /scratch/run --target 0=tcp:10.0.0.5:7070 --target 1=tcp:10.0.0.6:7070
      iotide sets map /beegfs/run/data.h5 --target 101=tcp:10.0.0.5:7070 --target 201=tcp:10.0.0.6:7070
      iotide sets map /data --stripe-size 4M --target 0=unix:/run/a --target 1=unix:/run/b
      export IOTIDE_GATE=$(iotide sets map /scratch/run --target 0=tcp:10.0.0.5:7070)
    "#);
}
