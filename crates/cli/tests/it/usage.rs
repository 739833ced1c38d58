use crate::util::{Dir, Outcome};

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!(Dir::new().iotide(["--help"]).exits_with(0).stdout, @r#"
    Tells the rhythm of an HPC job's I/O

    Reads traces of what a program read and wrote, and says whether its I/O comes in phases, how far
    apart they are, and how sure that is.

    Usage: iotide <COMMAND>

    Commands:
      detect    Find the period of a job's I/O phases
      record    Run a program and trace its I/O
      report    Show everything about a run as one HTML page
      info      Show what a trace holds, and what it lost
      convert   Write a trace in another form
      model     Find how each metric scales with the parameters, and predict it elsewhere
      simulate  Try decisions out: policies side by side on one workload
      sets      Divide jobs into sets by their rhythm, and tell a file system
      ioskel    Run a workload with a known rhythm
      demo      Show the whole chain on this machine in under a minute

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide record -- ./simulation            run a program and trace its I/O
      iotide detect run.csv                    what is the period of this run's I/O?
      iotide detect --format json run.csv      the same for a script
      iotide report run.csv -o run.html        everything about it as a page with pictures
      iotide info job.darshan                  what does this log hold, and what did it lose?
      iotide demo                              see it all at work on this machine
      iotide COMMAND --help                    more on a command
    "#);
}

#[test]
fn help_on_detect_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["detect", "--help"]).exits_with(0).stdout, @r#"
    Find the period of a job's I/O phases

    Says whether the I/O of each run repeats evenly, how far its phases are apart, how sure that is, and
    when the next one is due. Exits with 0 if a period was found, 1 if there is none, 2 if a trace could
    not be analysed.

    Usage: iotide detect [OPTIONS] <TRACE>...

    Arguments:
      <TRACE>...
              Traces, each of one run; `-` is standard input

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Input:
          --one-run
              The traces are parts of one run: one file per rank, or the Darshan logs of one job

          --input-format <FORMAT>
              Read the traces as this format, whatever they look like

          --pattern <FILE>
              Read the traces as free text; FILE says where the numbers are

          --source <SOURCE>
              Darshan: where reads and writes come from; `auto` takes the finest that the log has
              [default: auto]
              
              [possible values: auto, dxt, heatmap, counters]

          --layers <LAYERS>
              Which layers, where a trace sees several; `lowest` counts each byte once, `all` keeps
              layers that see the same bytes [default: lowest]
              
              [possible values: lowest, mpi-io, all]

    Analysis:
          --method <METHOD>
              `auto` weighs evidence from time and frequency; `dft` is the method of the FTIO paper
              
              [default: auto]
              [possible values: auto, dft]

          --mode <MODE>
              Which bytes count; `auto` looks where more are moved
              
              [default: auto]
              [possible values: auto, read, write, both]

          --window <START:END>
              Look only at this part of the trace, in seconds of its own clock; either side may be left
              empty

          --skip-first-phase
              Begin at the second phase

          --freq <HZ|auto>
              Samples per second; `auto` shows the finest steps within bounds, and is FTIO's 10 Hz with
              `dft`
              
              [default: auto]

          --sampling <SAMPLING>
              A sample is the mean over its bin, or the value at its instant [default: `hold` with
              `dft`, as the paper has it, else `mean`]
              
              [possible values: mean, hold]

          --top <N>
              Show the N strongest waves and how well they draw the signal [default: 3 with `dft`, else
              0]

          --tolerance <SHARE>
              `dft`: share of the best score at which a frequency becomes a candidate
              
              [default: 0.8]

          --outliers <OUTLIERS>
              `dft`: what tells an outlying frequency from the rest
              
              [default: zscore]
              [possible values: zscore, dbscan, forest, lof, peaks]

          --seed <SEED>
              `dft`: seed of `--outliers forest`
              
              [default: 0]

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide detect run.csv
      iotide detect --mode read --window 60: run.csv        reads only, without the first minute
      iotide detect --format json *.jsonl -o periods.json   many runs, for a script
      iotide detect --one-run rank-*.csv                    one run, a file per rank
      iotide detect --method dft --freq 10 run.csv          as FTIO does it
    "#);
}

#[test]
fn help_on_report_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["report", "--help"]).exits_with(0).stdout, @r#"
    Show everything about a run as one HTML page

    The page needs nothing else: no network and no files beside it. Its pictures can be zoomed (wheel),
    moved (drag) and reset (double-click).

    Usage: iotide report [OPTIONS] <TRACE>...

    Arguments:
      <TRACE>...
              Traces, each of one run; `-` is standard input

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Input:
          --one-run
              The traces are parts of one run: one file per rank, or the Darshan logs of one job

          --input-format <FORMAT>
              Read the traces as this format, whatever they look like

          --pattern <FILE>
              Read the traces as free text; FILE says where the numbers are

          --source <SOURCE>
              Darshan: where reads and writes come from; `auto` takes the finest that the log has
              [default: auto]
              
              [possible values: auto, dxt, heatmap, counters]

          --layers <LAYERS>
              Which layers, where a trace sees several; `lowest` counts each byte once, `all` keeps
              layers that see the same bytes [default: lowest]
              
              [possible values: lowest, mpi-io, all]

    Analysis:
          --method <METHOD>
              `auto` weighs evidence from time and frequency; `dft` is the method of the FTIO paper
              
              [default: auto]
              [possible values: auto, dft]

          --mode <MODE>
              Which bytes count; `auto` looks where more are moved
              
              [default: auto]
              [possible values: auto, read, write, both]

          --window <START:END>
              Look only at this part of the trace, in seconds of its own clock; either side may be left
              empty

          --skip-first-phase
              Begin at the second phase

          --freq <HZ|auto>
              Samples per second; `auto` shows the finest steps within bounds, and is FTIO's 10 Hz with
              `dft`
              
              [default: auto]

          --sampling <SAMPLING>
              A sample is the mean over its bin, or the value at its instant [default: `hold` with
              `dft`, as the paper has it, else `mean`]
              
              [possible values: mean, hold]

          --top <N>
              Show the N strongest waves and how well they draw the signal [default: 3 with `dft`, else
              0]

          --tolerance <SHARE>
              `dft`: share of the best score at which a frequency becomes a candidate
              
              [default: 0.8]

          --outliers <OUTLIERS>
              `dft`: what tells an outlying frequency from the rest
              
              [default: zscore]
              [possible values: zscore, dbscan, forest, lof, peaks]

          --seed <SEED>
              `dft`: seed of `--outliers forest`
              
              [default: 0]

    Output:
      -o, --output <FILE>
              Write the page to FILE
              
              [default: report.html]

          --svg <DIR>
              Write each picture as SVG into DIR, too

    Examples:
      iotide report run.csv -o run.html
      iotide report run.csv -o run.html --svg figures/      for a paper
    "#);
}

#[test]
fn help_on_info_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["info", "--help"]).exits_with(0).stdout, @r#"
    Show what a trace holds, and what it lost

    Of a Darshan log: the job, the modules with their counters summed up, DXT and heatmap. Of any other
    trace: the job, its ranks, operations, bytes and files. A damaged trace is told as far as it can be
    read; what is missing is listed. With `--source` or `--layers`, a Darshan log's events are counted
    too, as other commands would see them.

    Usage: iotide info [OPTIONS] <TRACE>...

    Arguments:
      <TRACE>...
              Traces, each of one run; `-` is standard input

    Options:
          --records
              List every record of a Darshan log with all its counters, as columns or JSON Lines

          --dxt
              List every DXT segment of a Darshan log, as columns or JSON Lines

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Input:
          --one-run
              The traces are parts of one run: one file per rank, or the Darshan logs of one job

          --input-format <FORMAT>
              Read the traces as this format, whatever they look like

          --pattern <FILE>
              Read the traces as free text; FILE says where the numbers are

          --source <SOURCE>
              Darshan: where reads and writes come from; `auto` takes the finest that the log has
              [default: auto]
              
              [possible values: auto, dxt, heatmap, counters]

          --layers <LAYERS>
              Which layers, where a trace sees several; `lowest` counts each byte once, `all` keeps
              layers that see the same bytes [default: lowest]
              
              [possible values: lowest, mpi-io, all]

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide info job.darshan
      iotide info --format json *.darshan                   many logs, for a script
      iotide info --records job.darshan | grep BYTES        every counter of every file
      iotide info --dxt --format json job.darshan           every call, a line each
    "#);
}

#[test]
fn help_on_convert_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["convert", "--help"]).exits_with(0).stdout, @r#"
    Write a trace in another form

    Any trace that can be read can be written: as a native trace, which keeps everything and is read
    fastest; as a table (CSV, JSON Lines, Parquet); or as a Chrome trace, which https://ui.perfetto.dev
    opens. Memory does not grow with the trace. What is known to be missing is told on stderr, and kept
    in the result.

    Usage: iotide convert [OPTIONS] --to <FORM> <TRACE>...

    Arguments:
      <TRACE>...
              Traces, each of one run; `-` is standard input

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Input:
          --one-run
              The traces are parts of one run: one file per rank, or the Darshan logs of one job

          --input-format <FORMAT>
              Read the traces as this format, whatever they look like

          --pattern <FILE>
              Read the traces as free text; FILE says where the numbers are

          --source <SOURCE>
              Darshan: where reads and writes come from; `auto` takes the finest that the log has
              [default: auto]
              
              [possible values: auto, dxt, heatmap, counters]

          --layers <LAYERS>
              Which layers, where a trace sees several; `lowest` counts each byte once, `all` keeps
              layers that see the same bytes [default: lowest]
              
              [possible values: lowest, mpi-io, all]

    Output:
          --to <FORM>
              The form to write: native, csv, jsonl, chrome or parquet

      -o, --output <FILE>
              Write to FILE rather than to stdout

    Examples:
      iotide convert job.darshan --to csv | head
      iotide convert job.darshan --to chrome -o job.json    for https://ui.perfetto.dev
      iotide convert --source counters job.darshan --to parquet -o job.parquet
      iotide convert --one-run rank-*.csv --to native -o run.iot
    "#);
}

#[test]
fn every_command_has_an_example() {
    let dir = Dir::new();
    let help = dir.iotide(["--help"]).exits_with(0).stdout;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = (commands.lines().filter(|line| !line.starts_with("   ")))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(names.len() >= 2, "{names:?}");
    for name in names {
        let help = dir.iotide([name, "--help"]).exits_with(0).stdout;
        assert!(help.contains("Example") && help.contains(&format!("\n  iotide {name}")), "{name}: {help}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = Dir::new().iotide(["--version"]).exits_with(0).stdout;
    assert_eq!(version, format!("iotide {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_command_line_that_makes_no_sense_fails_with_one_message() {
    let dir = Dir::new();
    let said = |outcome: Outcome| outcome.exits_with(2).complaint();
    insta::assert_snapshot!(said(dir.iotide(["detcet", "a"])), @r#"
    iotide: unrecognized subcommand 'detcet'

      tip: a similar subcommand exists: 'detect'

    Usage: iotide <COMMAND>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect", "--no-such-flag", "a"])), @r#"
    iotide: unexpected argument '--no-such-flag' found

      tip: to pass '--no-such-flag' as a value, use '-- --no-such-flag'

    Usage: iotide detect [OPTIONS] <TRACE>...

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect"])), @r#"
    iotide: the following required arguments were not provided:
      <TRACE>...

    Usage: iotide detect <TRACE>...

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect", "--freq", "fast", "a"])), @r#"
    iotide: invalid value 'fast' for '--freq <HZ|auto>': a rate is a positive number of samples per second, or `auto`

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect", "--window", "60:10", "a"])), @r#"
    iotide: invalid value '60:10' for '--window <START:END>': the window ends before it begins

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect", "--input-format", "papyrus", "a"])), @r#"
    iotide: invalid value 'papyrus' for '--input-format <FORMAT>': known formats are (formats)

    For more information, try '--help'.
    "#);
}
