use crate::util::Dir;

#[test]
fn help_on_simulate_system_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["simulate", "system", "--help"]).exits_with(0).stdout, @r#"
    See which state shared storage will be in

    Runs jobs whose requests queue at storage targets: operations that servers take one after the other,
    then bytes that streams share. Says how many requests wait, what bandwidth each kind of application
    gets, how long bursts take beside how long they would take alone, where the storage clogs and how
    many jobs it bears, each with a band over the repetitions; and what a change does: jobs that come, a
    target that is lost.

    WORKLOAD is a JSON file (`-` is stdin): a system as `iotide templates` writes it, or a workload of
    `iotide simulate io`. `live` is the jobs that a daemon (`iotide serve`) sees now, with the phases it
    expects of them; `daemon:SOCKET` those of another daemon.

    Usage: iotide simulate system [OPTIONS] <WORKLOAD>

    Arguments:
      <WORKLOAD>
              What to run: a JSON file, `live` or `daemon:SOCKET`

    Options:
          --storage <LADDER>
              `live`: what the storage can do, as `iotide ladder` measures it or `iotide templates`
              writes it

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    What if:
          --add <TEMPLATE=N@S>
              So many jobs of a template come at a time [default: 1, at once]

          --lose-target <TARGET@S>
              A target is lost at a time

          --restore-target <TARGET@S>
              A target is back at a time

          --set-target <TARGET:NAME=VALUE@S>
              A target has another figure from a time on: iops, servers, bandwidth_bps or stream_bps

    What to run:
          --horizon <SECONDS>
              Look so many seconds ahead [default: as the workload says, or 600]

          --interval <SECONDS>
              Tell the state every so many seconds [default: a hundredth of the time]

          --repetitions <N>
              How often to repeat, with other chances
              
              [default: 100]

          --seed <N>
              Where chances begin
              
              [default: 0]

          --confidence <SHARE>
              What share of the repetitions bands hold
              
              [default: 0.9]

          --method <METHOD>
              Event by event with chance, mean counts without, or the long run in closed form
              
              [default: ssa]
              [possible values: ssa, mean-field, mva]

          --grain <N>
              How many requests go together as one, or `auto`: as many as leave bursts their length
              
              [default: auto]

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
      iotide simulate system system.json --add checkpoint=3@0 -o state.html
                                                                three jobs of a template on storage that
                                                                `iotide templates` described
      iotide simulate system system.json --add X=2@600 --lose-target 0@900 --horizon 1800
                                                                what if two more came, and then a target
                                                                were lost?
      iotide simulate system live --storage ladder.json         the next ten minutes of the jobs that
      run now
      iotide simulate system jobs.json --method mva             the long run of a workload of `iotide
      simulate io`
    "#);
}

#[test]
fn help_on_templates_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["templates", "--help"]).exits_with(0).stdout, @r#"
    Sum up runs of many programs as a few kinds of applications

    Finds the bursts of each run, brings runs of different sizes to one number of processes by how each
    figure scales, and puts runs together whose figures are alike. The answer as JSON is a system that
    `iotide simulate system` runs.

    RUNS are traces of any format, or JSON files with runs as bins of equal width; docs/system.md says
    how these are written.

    Usage: iotide templates [OPTIONS] <RUNS>...

    Arguments:
      <RUNS>...
              Traces, or JSON files with runs

    Options:
          --storage <LADDER>
              What the storage can do, as `iotide ladder` measures it

          --processes <N>
              Compare runs at so many processes [default: as the runs say, or the middle one]

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
      iotide templates runs/*.darshan                           which kinds of applications are there?
      iotide templates runs/*.darshan --storage ladder.json --format json -o system.json
      iotide simulate system system.json --add 'template 0=4'   four jobs of the first kind on that
      storage
    "#);
}

#[test]
fn help_on_ladder_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["ladder", "--help"]).exits_with(0).stdout, @r#"
    Measure what the storage behind a directory can do

    Keeps 1, 2, 4 … requests of each size in flight for a while and counts how many are done. From that
    follow the bandwidth of all streams, that of one, and how many operations a second there are, by how
    many servers. The answer as JSON is what `iotide templates --storage` takes.

    The files it uses have no names: nothing is left behind, however it ends. Who else uses the storage
    meanwhile is measured along.

    Usage: iotide ladder [OPTIONS] <DIRECTORY>

    Arguments:
      <DIRECTORY>
              A directory on the storage

    Options:
          --in-flight <N,…>
              Requests in flight, one after the other
              
              [default: 1 2 4 8 16 32 64]

          --sizes <SIZE,…>
              Sizes of requests
              
              [default: 64K 4M]

          --seconds <SECONDS>
              Seconds for each number and size
              
              [default: 1]

          --most <SIZE>
              Move no more than this in all
              
              [default: 8G]

          --room <SIZE>
              Take no more room than this
              
              [default: 512M]

          --op <OP>
              What requests do
              
              [default: write]
              [possible values: write, read]

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
      iotide ladder /scratch                                    what can it do?
      iotide ladder /scratch --format json -o ladder.json       for `iotide templates --storage
      ladder.json`
      iotide ladder . --sizes 4K,1M,16M --in-flight 1,8,64 --seconds 0.2
    "#);
}
