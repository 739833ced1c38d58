//! Commands that do something about it, or try that out.

use crate::util::Dir;

#[test]
fn help_on_simulate_io_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["simulate", "io", "--help"]).exits_with(0).stdout, @r#"
    See what policies of sharing storage would do to periodic jobs

    Runs jobs that compute and then do I/O, over and over, on one storage: without scheduling, with a
    fair share for each job, one job at a time, and with Set-10 (jobs grouped by the order of magnitude
    of their period), knowing the periods or predicting them. Says by how much jobs are stretched, how
    much slower their I/O is, and how much of the time is spent computing.

    WORKLOAD is a JSON file (`-` is stdin), `report` (the workload of Inria report 9537, whose published
    figures are put beside the answers) or `mix` (generated jobs).

    Usage: iotide simulate io [OPTIONS] [WORKLOAD]

    Arguments:
      [WORKLOAD]
              What to run: a JSON file, `report`, or `mix`

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Workload:
          --from-traces <TRACE>...
              Make one job of each trace that has a period

          --copies <N>
              With --from-traces: run each job so many times at once
              
              [default: 1]

          --bandwidth <SIZE>
              What one job alone gets from the storage, in bytes per second [default: as the workload
              says; of traces, the fastest]

          --frame <FROM:TO>
              Judge only this part, in seconds [default: as the workload says]

          --jobs <N>
              `mix`: how many jobs
              
              [default: 60]

          --around <S,…>
              `mix`: the periods lie around these, in seconds
              
              [default: 10 100 1000]

          --load <SHARE>
              `mix`: what share of the storage's time the jobs want together
              
              [default: 0.8]

          --iterations <N>
              `mix`: how often each job does I/O [default: until the end]

    What to run:
          --policies <NAME,…>
              Which of none, fair-share, exclusive, equal-sets, set10, set10-predicted and set10-error;
              the others are compared against the first [default: all]

          --model <MODEL>
              An ideal storage, a server with requests and workers, or both
              
              [default: both]
              [possible values: fluid, requests, both]

          --rules <RULES>
              Whose rules the server's queue follows: iotide's, the report's, or both [default: both for
              `report`, else iotide]
              
              [possible values: iotide, report, both]

          --repetitions <N>
              How often to repeat, with other chances
              
              [default: 10]

          --seed <N>
              Where chances begin
              
              [default: 0]

    Settings:
          --order <ORDER>
              Which job of a set goes first [default: first-come; `id` by the report's rules]
              
              [possible values: first-come, id]

          --unknown <UNKNOWN>
              What becomes of jobs without a prediction: one set, or one each [default: together;
              `apart` by the report's rules]
              
              [possible values: together, apart]

          --sigma <SIGMA>
              Unequal shares where nobody sees to it: deviation of their logarithm [default: 0 ideally,
              0.25 at a server]

          --leak <SHARE>
              Ideal storage: what share of a set's bandwidth leaks to jobs whose turn it is not
              
              [default: 0]

          --credit <CREDIT>
              Server: what a set's share is counted in [default: bytes; requests by the report's rules]
              
              [possible values: bytes, requests]

          --strict
              Server: make others of a set wait even while the one whose turn it is has no request

          --timeout <SECONDS>
              Server: serve a job now and then that was not served for this many seconds; 0 is never
              [default: 60; never by the report's rules]

          --servers <N>
              Server: how many storage targets there are, each with a queue of its own; with several,
              one queue for all is tried, too
              
              [default: 1]

          --stripes <M>
              Server: over how many of them the data of each job are striped; together they move what
              one job alone gets
              
              [default: 1]

          --workers <N>
              Server: how many requests are served at once, at each target
              
              [default: 24]

          --processes <N>
              Server: processes of a job, each with one request at the server
              
              [default: 8]

          --request-size <SIZE>
              Server: size of a request
              
              [default: 1M]

          --latency <SECONDS>
              Server: seconds from the end of a request until the next has come
              
              [default: 0.001]

          --jitter <SHARE>
              Relative deviation of computing times [default: as the workload says; 0.005 for `report`]

          --warm-up <N>
              Predictions are believed after so many phases
              
              [default: 2]

          --error <SHARE>
              `set10-error`: how much too high or too low each prediction is
              
              [default: 0.5]

          --one-error
              `set10-error`: one wrong period for each job, from its beginning to its end, instead of
              predictions that are each wrong

    Output:
          --format <FORM>
              Form of the answer
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout; a name that ends in .html gets a page with
              pictures

          --svg <DIR>
              Write each picture as SVG into DIR, too

    Examples:
      iotide simulate io report                                 the published experiment, beside its
      figures
      iotide simulate io report -o policies.html                the same as a page with pictures
      iotide simulate io mix --jobs 90 --load 0.9 --model fluid generated jobs around 10, 100 and 1000 s
      iotide simulate io report --servers 4 --stripes 2         the same jobs on four storage targets,
      two for each job
      iotide simulate io jobs.json --policies none,set10        your own; docs/scheduling.md says how to
      write it
      iotide simulate io --from-traces a.csv b.darshan --copies 8
                                                                what if eight of each ran at once?
    "#);
}

#[test]
fn help_on_sets_plan_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["sets", "plan", "--help"]).exits_with(0).stdout, @r#"
    Show the sets of jobs with known periods, and tell BeeGFS or Lustre

    PROFILES is a table with lines `job,seconds`, with or without a head, or {"job": seconds}, as for
    `mount --periods` (`-` is stdin); a job without a period is not known yet. Shows the set, priority
    and share of each. With --apply, does what the file system needs, or with --dry-run shows that
    instead.

    Usage: iotide sets plan [OPTIONS] <PROFILES>

    Arguments:
      <PROFILES>
              Table of jobs and periods

    Options:
          --apply <SYSTEM>
              Tell this system: priorities for BeeGFS with the IO-Sets change, or rates for Lustre's
              token bucket filter
              
              [possible values: configfs, lustre-tbf]

          --dry-run
              Print what would be done, and do nothing

          --root <DIR>
              `configfs`: where the directories of jobs are
              
              [default: /sys/kernel/config/iosets]

          --rules <RULES>
              Whose rules put jobs into sets and say which of a set goes first

              Possible values:
              - iotide: Shares in bytes; in a set first come, first served; jobs without a known period
                share one set
              - report: Those of the IO-Sets report: shares in requests, order by id, each job without a
                known period in a set of its own
              
              [default: iotide]

          --capacity <RPCS>
              `lustre-tbf`: RPCs a second that a server can take from all jobs
              
              [default: 10000]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide sets plan jobs.csv                                 who belongs where?
      iotide sets plan jobs.csv --apply configfs --dry-run      what would be set on BeeGFS?
      iotide sets plan jobs.csv --apply lustre-tbf --capacity 8000
    "#);
}

#[test]
fn help_on_sets_apply_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["sets", "apply", "--help"]).exits_with(0).stdout, @r#"
    Keep telling BeeGFS or Lustre what jobs deserve, until Ctrl-C

    SOURCE says which jobs there are and what their periods are: `daemon` or `daemon:SOCKET` (`iotide
    serve`), the address or socket of `iotide detect --listen`, the control socket of a mount or an
    arbiter, or a table with lines `job,seconds`. It is asked again each time. Predictions with a
    confidence below 50 % are ignored, and a job changes its set only when another period was found
    twice. Of several sources the first that knows the period of a job is used. A source that is silent
    for 3.5 periods of a job (10 s at least) is not relied on until it answers again.

    Rates of Lustre cap a job even if nobody else wants the storage, so they are set again from what
    jobs send: as a control socket says, else as the server counts (`lctl get_param
    obdfilter.*.job_stats`; run it there, as root). Previous settings are restored at the end, and on
    SIGINT, SIGTERM and SIGHUP.

    Usage: iotide sets apply [OPTIONS] --controller <SYSTEM> <SOURCE>...

    Arguments:
      <SOURCE>...
              Who knows jobs and periods: a daemon, a detector, a control socket or a table; the first
              that knows a job is used

    Options:
          --controller <SYSTEM>
              Tell this system: priorities for BeeGFS with the IO-Sets change, or rates for Lustre's
              token bucket filter
              
              [possible values: configfs, lustre-tbf]

          --interval <TIME>
              Time from one look at the jobs to the next
              
              [default: 2]

          --rounds <N>
              Stop after so many looks

          --dry-run
              Print what would be done, and do nothing

          --root <DIR>
              `configfs`: where the directories of jobs are
              
              [default: /sys/kernel/config/iosets]

          --rules <RULES>
              Whose rules put jobs into sets and say which of a set goes first

              Possible values:
              - iotide: Shares in bytes; in a set first come, first served; jobs without a known period
                share one set
              - report: Those of the IO-Sets report: shares in requests, order by id, each job without a
                known period in a set of its own
              
              [default: iotide]

          --capacity <RPCS>
              `lustre-tbf`: RPCs a second that a server can take from all jobs
              
              [default: 10000]

          --rpc-size <SIZE>
              `lustre-tbf` with a control socket: how large the requests of a client are
              
              [default: 1M]

          --timeout <TIME>
              A program that takes longer than this is ended, and what it was to do is tried anew the
              next time
              
              [default: 10]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide sets apply daemon --controller configfs                 as the daemon sees jobs
      iotide sets apply daemon jobs.csv --controller configfs        with a table to fall back on
      iotide sets apply /run/iotide.sock --controller configfs       as a mount or an arbiter does
      iotide sets apply jobs.csv --controller lustre-tbf --capacity 8000 --dry-run --rounds 1
    "#);
}

#[test]
fn help_on_mount_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["mount", "--help"]).exits_with(0).stdout, @r#"
    Show a directory so that jobs do not get in each other's way

    Shows BACKING at MOUNTPOINT and passes everything on, but serves the reads and writes of each job in
    the order that a policy says. Jobs are identified by job_<id> in the cgroup of the calling process,
    else by IOSETS_JOB_ID or SLURM_JOB_ID in its environment, else by user. How long a job's I/O phases
    are apart is found from its own requests; --periods or --control override it.

    Runs until the directory is unmounted (fusermount3 -u MOUNTPOINT) or a signal ends it. MOUNTPOINT
    may be BACKING itself: paths then stay as they were. As root it serves all users, otherwise the one
    who mounts.

    Usage: iotide mount [OPTIONS] <BACKING> <MOUNTPOINT>

    Arguments:
      <BACKING>
              The directory to show

      <MOUNTPOINT>
              Where to show it: an empty directory, or BACKING itself

    Options:
          --policy <POLICY>
              Who is served when

              Possible values:
              - none:       Requests as they come
              - fair-share: Each job has the same share
              - exclusive:  One job at a time, first come, first served
              - set10:      Jobs with periods of the same order of magnitude take turns; those with
                short periods have the larger share
              
              [default: set10]

          --rules <RULES>
              Whose rules the queue follows

              Possible values:
              - iotide: Shares in bytes; in a set first come, first served; jobs without a known period
                share one set
              - report: Those of the IO-Sets report: shares in requests, order by id, each job without a
                known period in a set of its own
              
              [default: iotide]

          --workers <N>
              How many data requests may be with the storage at once; the policy has no say over those
              [default: 8, or 2 for each target of a stated --bandwidth]

          --phase-gap <TIME>
              A job that was idle for this long has ended its I/O phase, and the next of its set has its
              turn
              
              [default: 250ms]

          --grace-period <TIME>
              How long the storage waits for the next request of the job whose turn it is, before
              another of its set is served in between
              
              [default: 20ms]

          --turn <TIME>
              A job without a known period has its turn for at most this long while others of its set
              wait; with one, for half of it
              
              [default: 2s]

          --time-scale <FACTOR>
              Judge periods as if they were so many times as long, in an experiment whose times were
              divided by that
              
              [default: 1]

          --periods <SOURCE>
              Take periods from a table rather than from what jobs do (lines job,seconds or {"job":
              seconds}; read again on change), or from whoever sees the jobs: `daemon` or
              `daemon:SOCKET` (`iotide serve`), or where `iotide detect --listen` listens; while that is
              silent or wrong, from what jobs do

          --control <PATH>
              Make a socket at PATH to see jobs ("jobs", `iotide sets show`) and say their periods
              ("period JOB SECONDS"), a line each

          --bypass <SIZE>
              Requests of at most this size are not held up, up to 1 MiB/s of a user
              
              [default: 16k]

          --cache <TIME>
              For how long the kernel may cache names and attributes that others change behind the mount
              
              [default: 1s]

          --bandwidth <SIZE>
              Pretend that the backing file system moves no more than this in a second, to try a policy
              out: 110MiB

          --targets <N>
              Pretend that there are N storage targets, each of that bandwidth, with the stripes (1 MiB)
              of a file round robin
              
              [default: 1]

          --gate <MAP>
              Ask these arbiters before data are moved, instead of a queue of this mount's own: an
              address or a map, as IOTIDE_GATE

          --listen-gate <ADDRESS>
              Let programs under the tracer, on this machine or others, ask for turns in the queue of
              this mount: unix:/path or tcp:address:port

          --key <FILE>
              Key by which arbiters at tcp: addresses, or programs that ask here, are known

          --socket-mode <MODE>
              Who may ask at a unix: address, as an octal mode; 0666 is everyone on this machine
              [default: 0600, or 0660 with a group]

          --socket-group <GROUP>
              The group that the socket belongs to, by name or number

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide mount /lustre/scratch /scratch
      iotide mount /scratch /scratch --policy fair-share
      iotide mount /scratch /scratch --periods periods.csv --control /run/iotide.sock
      iotide mount /tmp/store /tmp/slow --policy none --bandwidth 110MiB    what would a slow disk do?
      iotide mount /scratch /scratch --gate tcp:10.0.0.5:7070 --key site.key         turns across nodes
      iotide mount /export /export --listen-gate tcp:10.0.0.5:7070 --key site.key    at a server
      fusermount3 -u /scratch                                               the end of it
    "#);
}

#[test]
fn help_on_arbiter_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["arbiter", "--help"]).exits_with(0).stdout, @r#"
    Let programs take turns at the storage, without a mount and without root

    Programs that run under `iotide record` with IOTIDE_GATE set to ADDRESS ask here before they move
    data, and are answered in the order that a policy says. Jobs are identified by IOTIDE_JOB_ID,
    IOSETS_JOB_ID or the batch system's variable. How long a job's I/O phases are apart is found from
    its own requests; --periods or --control override it.

    If the arbiter goes away or stops answering, programs go on without it after a second at most. One
    arbiter stands for one storage target. Runs until a signal ends it.

    At a tcp: address that other machines can reach, programs prove whose they are by a key (`iotide
    serve key`, `iotide sets key`); without --key such an address is refused.

    Usage: iotide arbiter [OPTIONS] <ADDRESS>

    Arguments:
      <ADDRESS>
              Where programs ask: unix:/path, or tcp:address:port

    Options:
          --policy <POLICY>
              Who is served when

              Possible values:
              - none:       Requests as they come
              - fair-share: Each job has the same share
              - exclusive:  One job at a time, first come, first served
              - set10:      Jobs with periods of the same order of magnitude take turns; those with
                short periods have the larger share
              
              [default: set10]

          --rules <RULES>
              Whose rules the queue follows

              Possible values:
              - iotide: Shares in bytes; in a set first come, first served; jobs without a known period
                share one set
              - report: Those of the IO-Sets report: shares in requests, order by id, each job without a
                known period in a set of its own
              
              [default: iotide]

          --workers <N>
              How many data requests may be with the storage at once; the policy has no say over those
              [default: 8, or 2 for each target of a stated --bandwidth]

          --phase-gap <TIME>
              A job that was idle for this long has ended its I/O phase, and the next of its set has its
              turn
              
              [default: 250ms]

          --grace-period <TIME>
              How long the storage waits for the next request of the job whose turn it is, before
              another of its set is served in between
              
              [default: 20ms]

          --turn <TIME>
              A job without a known period has its turn for at most this long while others of its set
              wait; with one, for half of it
              
              [default: 2s]

          --time-scale <FACTOR>
              Judge periods as if they were so many times as long, in an experiment whose times were
              divided by that
              
              [default: 1]

          --periods <SOURCE>
              Take periods from a table rather than from what jobs do (lines job,seconds or {"job":
              seconds}; read again on change), or from whoever sees the jobs: `daemon` or
              `daemon:SOCKET` (`iotide serve`), or where `iotide detect --listen` listens; while that is
              silent or wrong, from what jobs do

          --control <PATH>
              Make a socket at PATH to see jobs ("jobs", `iotide sets show`) and say their periods
              ("period JOB SECONDS"), a line each

          --lease <TIME>
              For how long a program that is alone need not ask again; another waits for this long at
              most before it has a say
              
              [default: 20ms]

          --bandwidth <SIZE>
              Let SIZE a second through at most, as a storage of that speed would: to try a policy out

          --key <FILE>
              Key of the site, by which programs at a tcp: address prove whose they are

          --socket-mode <MODE>
              Who may ask at a unix: address, as an octal mode; 0666 is everyone on this machine
              [default: 0600, or 0660 with a group]

          --socket-group <GROUP>
              The group that the socket belongs to, by name or number

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide arbiter unix:/tmp/scratch.gate --control /tmp/scratch.control
      IOTIDE_GATE=unix:/tmp/scratch.gate iotide record -- mpirun -n 64 ./simulation
      iotide sets show /tmp/scratch.control                     jobs, periods, sets and shares, live
      iotide arbiter unix:/run/scratch.gate --socket-group hpc  the programs of a group
      iotide arbiter tcp:10.0.0.5:7070 --key /etc/iotide/site.key   programs on all nodes
    "#);
}
