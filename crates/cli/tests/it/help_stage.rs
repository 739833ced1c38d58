use crate::util::Dir;

#[test]
fn help_on_stage_names_its_commands() {
    insta::assert_snapshot!(Dir::new().iotide(["stage", "--help"]).exits_with(0).stdout, @r"
    Move files between a buffer and a parallel file system while a job computes

    Usage: iotide stage <COMMAND>

    Commands:
      out     Copy files from a buffer as they are closed, in the gaps between I/O phases
      in      Bring inputs into a buffer, in the order in which they are needed
      wait    Wait until files of a buffer are safe, or inputs have come
      status  See what is safe, what is left and why
      verify  Read every file that was staged to a directory, and compare it with its receipt

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      iotide stage out /buffer /pfs/results &     keep results safe while the job runs; SIGTERM ends it
      iotide stage out /buffer /pfs/results --once --purge staged
      iotide stage in /pfs/inputs /buffer --list files.txt
      iotide stage wait /buffer/checkpoint-7      until it is safe
      iotide stage verify /pfs/results            is every byte still as it was?
    ");
}

#[test]
fn help_on_stage_out_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["stage", "out", "--help"]).exits_with(0).stdout, @r"
    Copy files from a buffer as they are closed, in the gaps between I/O phases

    Files that nobody can write to any more are copied to DST under temporary names, synced, read back,
    compared, and only then renamed. A journal in SRC/.iotide-stage makes it safe to kill this at any
    time and to start it again. Runs until SIGTERM, SIGINT or SIGUSR1, then copies what is left (a
    second SIGTERM or SIGINT ends at once, and loses nothing either); SIGUSR2 ends it in good order and
    leaves the rest where it is; --once copies what is closed now, and ends.

    Exit status: 0 everything is safe, 1 something is left, with reasons, 2 failed.

    Usage: iotide stage out [OPTIONS] <SRC> <DST>

    Arguments:
      <SRC>
              The buffer

      <DST>
              Where files go; must exist, unless --make

    Options:
          --make
              Make DST if only its last folder is missing

          --once
              Copy what is closed now, and end

          --policy <POLICY>
              When to copy: between I/O phases, at once, when the buffer is above its high-water mark,
              or when the job is over
              
              [default: gap]
              [possible values: gap, immediate, space, end]

          --purge <WHAT>
              What to remove from SRC once it is safe: nothing, the oldest files when room is needed, or
              every file
              
              [default: never]
              [possible values: never, space, staged]

          --quiet <TIME>
              How long a file must not have changed
              
              [default: 1s]

          --jobs <N>
              How many files to copy at once
              
              [default: 2]

          --bandwidth <SIZE>
              Copy no faster than SIZE per second

          --deadline <TIME>
              How long the last copies may take once the job is over; then what is left is reported

          --answer-timeout <TIME>
              How long the destination may take to answer; then it is reported as stuck, and once the
              job is over this ends
              
              [default: 1min]

          --while <PID>
              End with this process, and leave the rest where it is

          --capacity <SIZE>
              What the buffer holds at most [default: its file system]

          --high-water <SHARE>
              The share of the capacity that should not be exceeded
              
              [default: 0.85]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Predictions:
          --follow <TRACE>...
              Predict I/O phases from a trace of the job that is being written, as `iotide detect
              --follow` does

          --listen <ADDRESS>
              Predict them from what is sent: unix:PATH or tcp:HOST:PORT (`iotide record --stream`),
              zmq:tcp://HOST:PORT (TMIO, GekkoFS)

          --predictions <SOURCE>
              Take predictions from whoever sees the job: `daemon` or `daemon:SOCKET` (`iotide serve`),
              where `iotide detect --listen` listens, or the control socket of an arbiter or a mount

          --job <ID>
              `--predictions`: which job fills the buffer [default: as IOTIDE_JOB_ID, IOSETS_JOB_ID or
              the batch system's variable says, else the only one]

    Files:
          --include <GLOB>
              Only files whose name (or, with a slash, path) matches; may be repeated

          --exclude <GLOB>
              Not these

          --first <GLOB>
              These before all others

          --order <ORDER>
              Which of the others come first
              
              [default: oldest]
              [possible values: oldest, newest, smallest]

          --flag <'{}.done'>
              A file is complete when a file of this name is beside it; {} is its own name

    Turns:
          --gate <MAP>
              Ask this arbiter before data is moved to or from DST: unix:PATH or tcp:ADDRESS:PORT, or a
              map of several as IOTIDE_GATE takes

          --control <SOCKET>
              Come last at the arbiter or mount with this control socket, as a job with a period of 10^6
              s; while room runs out, with the period of the job itself

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide stage out /dev/shm/run /pfs/run &             as long as the job runs; kill -TERM ends it
      iotide stage out /nvme/run /pfs/run --follow trace   in the gaps that the trace of the job lets
      expect
      iotide stage out /nvme/run /pfs/run --predictions daemon --job 4711
      iotide stage out /nvme/run /pfs/run --once           copy all that is closed, check it, end
      iotide stage out /nvme/run /pfs/run --purge space --capacity 400G
      iotide stage out /nvme/run /pfs/run --policy end --once --deadline 10min    in an epilog
      iotide stage out /nvme/run /pfs/run --gate unix:/run/pfs.gate --control /run/pfs.control
    ");
}

#[test]
fn help_on_the_other_commands_of_stage_has_examples() {
    for command in ["in", "wait", "status", "verify"] {
        let told = Dir::new().iotide(["stage", command, "--help"]).exits_with(0).stdout;
        assert!(told.contains(&format!("Examples:\n  iotide stage {command} ")), "{told}");
        assert!(told.contains("Exit status: 0 "), "{told}");
    }
}
