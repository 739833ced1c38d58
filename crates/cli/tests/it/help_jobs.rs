use crate::util::Dir;

#[test]
fn help_on_simulate_jobs_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["simulate", "jobs", "--help"]).exits_with(0).stdout, @r#"
    See what scheduling policies, and malleable jobs, would do to a machine

    Runs the jobs of a log again, under each policy: first come first served, EASY and conservative
    backfilling, the malleable policies of the ADMIRE project as published and corrected (`+`), others
    from the literature, and iotide's own (`tide`). Reports waits, makespan, slowdown and utilisation,
    each against the first policy.

    LOG is a description in JSON, a log in Standard Workload Format, what `sacct --parsable2` prints
    (`-` is stdin), or `mix` (generated jobs).

    Usage: iotide simulate jobs [OPTIONS] <LOG>

    Arguments:
      <LOG>
              What to run: a job log, a description, or `mix`

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Workload:
          --nodes <N>
              How many nodes the machine has [default: as the log says; 64 for `mix`]

          --first <N>
              Only the first N jobs of the log

          --malleable <PERCENT,…>
              Make this percentage of the jobs malleable, from half to four times their nodes; several
              are run one after the other [default: as the log says; 20 for `mix` if a policy resizes
              jobs]

          --serial-fraction <SHARE>
              Share of the work of these that gains nothing from more nodes
              
              [default: 0.05]

          --alpha <SECONDS>
              Seconds that a change of size costs a job [default: as the log says, else 0]

          --alpha-per-node <SECONDS>
              The same for each node that comes or goes [default: as the log says, else 0]

          --models <FILE>
              Measurements or stored models of `iotide model`, for jobs and storage that name a model

          --io <FILE>
              What jobs read and write, by name: JSON of traces, bytes or labels; docs/jobs.md has the
              format

          --jobs <N>
              `mix`: how many jobs
              
              [default: 300]

          --load <SHARE>
              `mix`: what share of the machine the jobs want together
              
              [default: 0.85]

    What to run:
          --policies <NAME,…>
              Which policies, or `all`; the others are compared against the first [default: easy,
              mebf-aggressive, mebf-aggressive+, common-pool, tide]

          --seeds <N>
              How often to repeat, with other chances: which jobs are malleable, which part of the log,
              which errors
              
              [default: 1]

          --seed <N>
              Where chances begin
              
              [default: 0]

          --window <N>
              Each seed runs N consecutive jobs of the log, from a random one on [default: all of them]

          --threads <N>
              Run so many simulations in parallel; 0 is one for each core. The answer does not depend on
              it
              
              [default: 0]

    Settings:
          --gamma <RATIO>
              `mebf-*`: shrink a job if the rest of it takes at most so many times as long
              
              [default: 2]

          --sharing-factor <SHARE>
              `mebf-hand-off`: share of its nodes that a job hands off
              
              [default: 0.5]

          --limit <SHARE>
              `mebf-keep-spare`: share of its nodes that a job keeps to spare
              
              [default: 0.3]

          --errors <runs=SIGMA,user=SIGMA>
              Put what decisions are based on off the truth, by who says so: deviations of the logarithm

          --recorded-error <SIGMA>
              Put recorded times off the truth: deviation of the logarithm
              
              [default: 0]

          --limit-error <SIGMA>
              Put limits above the truth: deviation of the logarithm
              
              [default: 0]

          --watts <BUSY,IDLE>
              What a busy and an idle node use, in watts, for the energy

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
      iotide simulate jobs log.swf                                     the policies side by side
      iotide simulate jobs log.swf --malleable 0,20,50,100 --seeds 30 -o page.html
                                                                       what malleable jobs would give,
                                                                       with intervals
      iotide simulate jobs log.swf --policies easy,tide --malleable 50 --seeds 20 --window 1000
                                                                       other parts of the log, too
      iotide simulate jobs jobs.json --policies easy,io-balance --io io.json --errors
      manager=0,runs=0.1,user=0.5 --seeds 30
                                                                       what is known of jobs, and what
                                                                       if that is wrong?
      sacct -aPX -o JobID,User,JobName,NNodes,Submit,Start,End,State,Timelimit | iotide simulate jobs -
      --nodes 128
                                                                       your own machine
      iotide simulate jobs jobs.json --format json                     each start, end and resize;
      docs/jobs.md has the format
    "#);
}

#[test]
fn help_on_resize_explains_every_flag() {
    let dir = Dir::new();
    let shown: String = ["advise", "plan", "apply"]
        .map(|command| dir.iotide(["resize", command, "--help"]).exits_with(0).stdout)
        .join("\n----\n");
    insta::assert_snapshot!(shown, @r#"
    See at which size a program should run: time, efficiency, cost, expected wait and turnaround

    MODEL holds measured times against the number of nodes, in any form that `iotide model` reads, or
    models that it stored. LOG is the job log of the machine; a probe job of each size is submitted at
    times spread over it, and its wait is simulated.

    Usage: iotide resize advise [OPTIONS] --log <FILE> <MODEL>

    Arguments:
      <MODEL>
              Measurements of the program, or stored models

    Options:
          --log <FILE>
              Job log of the machine: JSON, Standard Workload Format or sacct

          --nodes <N>
              How many nodes the machine has [default: as the log says]

          --first <N>
              Only the first N jobs of the log

          --sizes <N,…>
              Sizes to look at [default: powers of two up to the machine]

          --policy <NAME>
              How the machine schedules
              
              [default: easy]

          --probes <N>
              How many probe jobs for each size
              
              [default: 30]

          --confidence <SHARE>
              How often intervals of the time hold the truth
              
              [default: 0.95]

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
              Write the answer to FILE rather than to stdout; a name that ends in .html gets a page with
              pictures

          --svg <DIR>
              Write each picture as SVG into DIR, too

    Examples:
      iotide resize advise runs.csv --log log.swf
      iotide resize advise app.models --log sacct.txt --nodes 128 --sizes 8,16,32

    ----
    Show what would be resized on this Slurm now, and change nothing

    Jobs are malleable if their comment says so: `sbatch --comment iotide:min=2,max=16`. All others are
    left alone.

    Usage: iotide resize plan [OPTIONS]

    Options:
          --policy <NAME>
              Which policy decides, of those of `iotide simulate jobs`
              
              [default: tide]

          --alpha <SECONDS>
              Seconds that a change of size costs a job
              
              [default: 5]

          --models <SOURCE>
              Take how a job's time changes with its size from models of earlier runs: `daemon` or
              `daemon:SOCKET` (`iotide serve`); without a model, or with `serial=` in the comment, as
              the comment says

          --partition <NAME>
              Only this partition

          --timeout <TIME>
              A command of Slurm that takes longer than this is ended
              
              [default: 30]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide resize plan
      iotide resize plan --models daemon    as earlier runs of each program have scaled

    ----
    Keep resizing marked jobs of this Slurm, until Ctrl-C

    Jobs are malleable if their comment says so: `sbatch --comment iotide:min=2,max=16`. Before a job is
    shrunk its processes get a signal and a grace period. A job grows through a helper job that asks for
    the nodes (`--dependency=expand`), which Slurm must permit
    (`SchedulerParameters=permit_job_expansion`). Helper jobs are cancelled at the end, and on SIGINT,
    SIGTERM and SIGHUP; those of a run that was killed are cancelled by the next. Sizes stay as they are
    then.

    Usage: iotide resize apply [OPTIONS]

    Options:
          --dry-run
              Print what would be done, and do nothing

          --interval <TIME>
              Time from one look at the queue to the next
              
              [default: 10]

          --rounds <N>
              Stop after so many looks

          --signal <NAME>
              Signal that a job gets before it is shrunk; `none` for no signal
              
              [default: USR1]

          --grace <TIME>
              Time from the signal to the shrink
              
              [default: 10]

          --wait <TIME>
              Time that a helper job may wait for its nodes
              
              [default: 20]

          --state <DIR>
              Folder that remembers what is under way [default: iotide/resize in the user's state
              folder]

          --policy <NAME>
              Which policy decides, of those of `iotide simulate jobs`
              
              [default: tide]

          --alpha <SECONDS>
              Seconds that a change of size costs a job
              
              [default: 5]

          --models <SOURCE>
              Take how a job's time changes with its size from models of earlier runs: `daemon` or
              `daemon:SOCKET` (`iotide serve`); without a model, or with `serial=` in the comment, as
              the comment says

          --partition <NAME>
              Only this partition

          --timeout <TIME>
              A command of Slurm that takes longer than this is ended
              
              [default: 30]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide resize apply --dry-run --rounds 1    what it would do
      iotide resize apply --grace 30
    "#);
}

#[test]
fn help_on_simulate_staging_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["simulate", "staging", "--help"]).exits_with(0).stdout, @r#"
    See when results should leave a buffer, and what that costs the job

    Runs a job that computes and then writes into a buffer, over and over, while its results are staged
    out to a slower file system by the same controller that `iotide stage` runs: at once, between I/O
    phases, or when the job is over. Reports by how much the job is slowed down, when its data is safe,
    how full the buffer becomes, and what a crash would cost.

    WORKLOAD is a JSON file (`-` is stdin) or `example`.

    Usage: iotide simulate staging [OPTIONS] <WORKLOAD>

    Arguments:
      <WORKLOAD>
              What to run: a JSON file, or `example`

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Workload:
          --capacity <SIZE>
              What the buffer holds [default: as the workload says, else without limit]

          --nodes <N>
              How many nodes hold the buffer [default: as the workload says, else 1]

          --buffer <BUFFER>
              Whether the workload describes one buffer for all nodes, or the buffer of one node
              
              [default: shared]
              [possible values: shared, per-node]

          --model <FILE>
              Measurements or stored models of `iotide model`, for figures of the workload at another
              scale

          --at <NAME=NUMBER,…>
              With --model: the scale

          --metric <FIGURE=METRIC>
              With --model: which metric a figure of the workload is [default: the one of its name; a
              single metric is phase_bytes]

    What to run:
          --policies <NAME,…>
              Which of immediate, end, space, gap and deadline
              
              [default: immediate,end,gap,deadline]

          --seeds <N>
              How often to repeat, with other chances
              
              [default: 1]

          --seed <N>
              Where chances begin
              
              [default: 0]

    Settings:
          --error <SHARE>
              By how much predicted starts are wrong: standard deviation, in periods
              
              [default: 0]

          --jitter <SHARE>
              Relative deviation of computing times [default: as the workload says, else 0]

          --warm-up <N>
              Predictions begin after so many phases
              
              [default: 3]

          --lost-after <N>
              Predictions stop after so many phases

          --quiet <SECONDS>
              Without predictions: seconds of silence before data is moved
              
              [default: 0]

          --recent <SECONDS>
              With predictions: seconds of silence before data is moved
              
              [default: 0]

          --bandwidth <SIZE>
              The highest rate at which data is moved, in bytes per second

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
      iotide simulate staging example                           a job whose figures can be checked by
      hand
      iotide simulate staging job.json -o staging.html          your own, with pictures;
      docs/staging-simulation.md says how to write it
      iotide simulate staging example --capacity 50G --error 0.2 --jitter 0.1 --seeds 20
                                                                a small buffer, and predictions that are
                                                                often wrong
      iotide simulate staging job.json --model runs.jsonl --at p=4096 --nodes 128
                                                                which buffer the job needs at another
                                                                scale
    "#);
}
