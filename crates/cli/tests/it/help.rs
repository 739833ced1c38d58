//! What each command says of itself: a change of a flag is seen here.

use crate::util::Dir;

mod act;
mod understand;

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!(Dir::new().iotide(["--help"]).exits_with(0).stdout, @r#"
    Tells the rhythm of an HPC job's I/O

    Reads traces of what a program read and wrote, and reports whether its I/O comes in phases, how far
    apart they are, and with which confidence.

    Usage: iotide <COMMAND>

    Commands:
      detect      Find the period of a job's I/O phases
      categorize  Label the I/O of a run, or of every run of an archive
      record      Run a program and trace its I/O
      report      Show everything about a run as one HTML page
      compare     Compare runs: what differs, and by how much
      info        Show what a trace holds, and what it lost
      convert     Write a trace in another form
      model       Find how each metric scales with the parameters, and predict it elsewhere
      signature   Find an application's I/O signature in the noisy logs of storage servers
      simulate    Try decisions out: policies side by side on one workload
      ladder      Measure what the storage behind a directory can do
      templates   Sum up runs of many programs as a few kinds of applications
      resize      Find the right size for a job, and resize running jobs of Slurm
      stage       Move files between a buffer and a parallel file system while a job computes
      sets        Divide jobs into sets by their rhythm, tell a file system, and see what became of it
      mount       Show a directory so that jobs do not get in each other's way
      arbiter     Let programs take turns at the storage, without a mount and without root
      serve       Watch every job of this machine, live
      jobs        List the jobs that the daemon has seen
      job         Show what a job has done
      top         Show which jobs load the storage now
      nodes       Show the machines that the daemon hears of, as a tree
      alarms      Show and change alarms on what jobs and the machine do
      decisions   Show what the daemon decided by itself, and what came of it
      web         Print a link to the pages of the daemon, which logs you in
      ioskel      Run a workload with a known rhythm
      demo        Show the whole chain on this machine in under a minute

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide record -- ./simulation            run a program and trace its I/O
      iotide detect run.csv                    what is the period of this run's I/O?
      iotide detect --follow iotide-trace      the same while it runs, and when the next phase begins
      iotide report run.csv -o run.html        everything about it as a page with pictures
      iotide compare before.csv after.csv      what differs between runs, and by how much?
      iotide info job.darshan                  what does this log hold, and what did it lose?
      iotide categorize /logs --out results    what did all the jobs of the year do?
      iotide model --from-traces *.darshan     how does it scale?
      iotide simulate io report                what would scheduling by rhythm do?
      iotide simulate system system.json       which state will the storage be in?
      iotide serve                             watch every job of this machine, live
      iotide demo                              see it all at work on this machine
      iotide COMMAND --help                    more on a command
    "#);
}
