//! Commands that say what a job's I/O does.

use crate::util::Dir;

#[test]
fn help_on_signature_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["signature", "--help"]).exits_with(0).stdout, @r#"
    Find an application's I/O signature in the noisy logs of storage servers

    A server's throughput log knows nothing of jobs: it shows what the application did, what others did
    meanwhile, and the delays that caused. Several runs of one application have only the application in
    common, and that is its signature: the load it puts on the storage, as a series and as bursts.

    Without `--jobs` each input is the log of one run. With `--jobs` the inputs are the files of one
    long log (or a Prometheus server has it), the job log says who ran what and when, and each
    application that ran often enough gets a signature. `--fit` tells on which partition, and when, an
    application would be disturbed least.

    Usage: iotide signature [OPTIONS] [SAMPLE|LOG]...

    Arguments:
      [SAMPLE|LOG]...
              Tables `time,bandwidth`, or traces: one per run, or with `--jobs` the files of one
              throughput log

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Input:
          --input-format <FORMAT>
              Read the inputs as this format, whatever they look like

          --mode <MODE>
              Which way the bytes that count went
              
              [default: both]
              [possible values: read, write, both]

          --interval <SECONDS>
              Seconds that a value of the throughput log holds [default: as it was logged]

    Throughput log and jobs:
          --jobs <FILE>
              Who ran what, and when: text of `sacct -P`, or a table `user,name,nodes,start,end`; `-` is
              standard input

          --utc-offset <OFFSET>
              How far dates in the job log are ahead of UTC, e.g. +01:00; seconds since 1970 are not
              concerned
              
              [default: Z]

          --prometheus <URL>
              Ask this Prometheus server for the throughput log

          --query <PROMQL>
              PromQL that gives bytes per second, e.g. sum(rate(lustre_write_bytes_total[1m]))

          --from <TIME>
              Ask from this time on: seconds since 1970, or a date [default: when the first job began]

          --until <TIME>
              Ask until this time [default: when the last job ended]

          --step <SECONDS>
              Ask for a value every so many seconds
              
              [default: 15]

    Applications:
          --min-runs <N>
              An application that ran less often gets no signature
              
              [default: 3]

          --max-samples <N>
              Use at most so many runs of an application, spread evenly over time
              
              [default: 16]

          --weak-scaling
              Take runs on different numbers of nodes for one application, normalised to the fewest

          --all-states
              Use runs, too, that failed or were cancelled

    Method:
          --method <METHOD>
              How the signature is found: ours, the IOSI paper's, or by warping time

              Possible values:
              - consensus:    Background load only adds, contention only delays
              - iosi:         As the IOSI paper has it
              - dtw:          Barycentre under dynamic time warping
              - dtw-pairwise: One sample after the other under dynamic time warping
              
              [default: consensus]

          --settings <FILE>
              Take settings of the methods from FILE

          --print-settings
              Print all settings with their values, and exit

          --no-preprocess
              With --method iosi or dtw: use samples as they are, as in the paper's comparison; none is
              left out or shortened, and no background is taken away

          --threads <N>
              How many cores to use (all, if not given); the answer does not depend on it

    Where to run:
          --fit <LOG>...
              Rank these logs of partitions, and starts on them, by the interference expected

          --signature <FILE>
              Take the signature from an answer of this command (JSON) rather than from samples

          --fit-step <SECONDS>
              Try a start every so many seconds
              
              [default: 60]

          --capacity <BPS>
              What a partition can carry, in bytes per second [default: the most it was seen to carry]

          --top <N>
              List so many starts
              
              [default: 10]

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout; a name that ends in .html, .svg, .jsonl or
              .parquet says what it gets. May be given several times

    Examples:
      iotide signature run1.csv run2.csv run3.csv -o signature.html    what these runs have in common
      SLURM_TIME_FORMAT=%s sacct -P -o JobID,User,JobName,NNodes,Start,End,State > jobs.txt
      iotide signature ost-*.csv --jobs jobs.txt -o all.parquet        every application of a long log
      iotide signature --jobs jobs.txt --prometheus http://localhost:9090 --query 'sum(rate(…[1m]))'
      iotide signature run*.csv --fit widow0.csv widow1.csv            where, and when, to run it
    "#);
}

#[test]
fn help_on_model_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["model", "--help"]).exits_with(0).stdout, @r#"
    Find how each metric scales with the parameters, and predict it elsewhere

    Reads measurements at several sizes (Extra-P text, JSON, JSON Lines, Talpas, .extra-p, files of
    Extra-P 3, folders of Score-P profiles, or CSV), finds for each call path and metric a function like
    1.5 + 0.2 * p^(1/2) * log2(p)^(1), with intervals of confidence. A value, a line or a point that
    cannot be used costs that value, line or point, never the file.

    With --from-traces it measures for itself: bytes, operations, time in I/O and computing, bandwidth,
    and the period of the I/O phases, of one program's traces at several sizes. With --job or --app it
    asks the daemon (`iotide serve`) for what all runs of an application have measured.

    Usage: iotide model [OPTIONS] [MEASUREMENTS]...

    Arguments:
      [MEASUREMENTS]...
              Measurements, or traces with --from-traces; `-` is stdin

    Options:
          --from-traces
              The inputs are traces of one program at several sizes; their parameter is the number of
              processes, p

          --parameters <FILE>
              With --from-traces: a table `trace,p,size` that tells the parameters of each trace

          --by <GROUP>
              With --from-traces: how to separate the calls of a layer, posix->write or posix->pwrite64

              Possible values:
              - operation: What calls do
              - function:  The function, by its own name
              
              [default: operation]

          --input-format <NAME>
              Form of the measurements, if the content does not tell

          --scaling <KIND>
              With a folder of .cubex profiles: whether processes are repetitions (weak), those at work
              (weak-threaded), or parts of a sum (strong)

              Possible values:
              - weak:          The work grows with the processes: each is a repetition
              - weak-threaded: The same, and threads without a value have no say
              - strong:        The work stays the same: the sum over processes counts
              
              [default: weak]

          --store <FILE>
              Keep models and measurements in FILE: what is new is added, and only metrics that changed
              are fitted again

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Runs that `iotide serve` has seen:
          --job <ID>
              All runs of this job's application that have ended

          --app <APP>
              All runs of this application, by id or by program name

          --build <BUILD>
              Only runs of the binary whose build id begins with these digits; `this` is that of the
              job, or of the latest run

          --last <N>
              Only the last N runs

          --since <TIME>
              Only runs started within this time before now, as in 30m, 12h, 7d

    Questions:
          --at <POINT>
              Predict at this point, e.g. p=4096,size=10; may be given several times

          --confidence <SHARE>
              How often the interval of a prediction holds the truth
              
              [default: 0.9]

          --rank-by <ORDER>
              Order of the answers; growth and value are evaluated at the first --at, or at 16 times the
              largest sizes

              Possible values:
              - input:  As in the input
              - growth: Value there over the value at the largest sizes measured
              - value:  Value there
              
              [default: input]

          --callpath <TEXT>
              Only call paths that contain TEXT

          --metric <TEXT>
              Only metrics that contain TEXT

          --advise
              Say which point would be worth measuring next, and what it would cost

          --points [<FILE.jsonl>]
              Show mean and median of each point; with FILE.jsonl, write all measurements there as
              Extra-P reads them

          --print <FORMAT>
              Print each model as FORMAT says: all, callpaths, metrics, parameters, functions, or a text
              with Extra-P's placeholders, e.g. '{callpath} {metric}: {model:python}'

    Method:
          --method <NAME>
              How models are found: ours, or step by step what Extra-P 4.2 does
              
              [default: auto]
              [possible values: auto, extrap]

          --measure <NAME>
              Which figure stands for repeated values
              
              [default: mean]
              [possible values: mean, median, minimum, maximum]

          --modeler <NAME>
              With --method extrap: the search for models of one parameter
              
              [default: basic]
              [possible values: basic, refining, segmented]

          --option <KEY=VALUE>
              With --method extrap: an option under Extra-P's name, e.g. allow_negative_exponents=true;
              may be given several times

          --threads <N>
              How many cores to use (all, if not given); the answer does not depend on it

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
      iotide model runs.jsonl --at p=4096                     every metric there, with its interval
      iotide model runs.jsonl --at p=4096 --rank-by growth    what will hurt there, the worst first
      iotide model runs.txt --metric time -o models.html      one page with pictures
      iotide model runs.csv --advise                          where to measure next
      iotide model --from-traces *.darshan --at p=4096        from logs of one program at several sizes
      iotide model --store app.models tonight.jsonl           add a night's runs, refit what changed
      iotide model scorep-runs/ --scaling strong              a folder of app.p4.r1/profile.cubex
      iotide model runs.csv -o runs.extra-p                   an experiment that Extra-P opens
      iotide model --job 4711 --at size=4096                  from runs that `iotide serve` saw
      iotide model --app lmp --build this --last 10           the ten last runs of the present binary
      iotide model runs.txt --method extrap                   as Extra-P does it
    "#);
}

#[test]
fn help_on_detect_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["detect", "--help"]).exits_with(0).stdout, @r#"
    Find the period of a job's I/O phases

    Says whether the I/O of each run repeats evenly, how far its phases are apart, with which
    confidence, and when the next one is due. Exits with 0 if a period was found, 1 if there is none, 2
    if a trace could not be analysed.

    With --follow or --listen it does so while the job runs, and predicts the next phase again and again
    until the job is over or Ctrl-C is pressed.

    Usage: iotide detect [OPTIONS] [TRACE]...

    Arguments:
      [TRACE]...
              Traces, each of one run; `-` is standard input

    Options:
          --issues
              Report the I/O issues of each run, too

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

          --job <ID>
              Ask the daemon (`iotide serve`) for what it has seen of this job, running or not, rather
              than reading a trace

          --metric <NAME>
              Look at this metric rather than at bytes moved: name, name{label="x"}, or start*; for
              --job, traces of the metric proxy and answers of Prometheus

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
              Samples per second; `auto` shows the finest steps, as far as memory goes [default: `auto`;
              with `dft` one sample a bin for heatmaps and the like, else FTIO's 10 Hz]

          --sampling <SAMPLING>
              A sample is the mean over its bin, or the value at its instant [default: `hold` with
              `dft`, as the paper has it, else `mean`]
              
              [possible values: mean, hold]

          --top <N>
              Show the N strongest waves and how well they draw the signal [default: 3 with `dft`, else
              0]

          --substantial <BANDWIDTH>
              I/O above this bandwidth is substantial, for example 200MB (a second) [default: the mean
              bandwidth]

          --tolerance <SHARE>
              `dft`: share of the best score at which a frequency becomes a candidate [default: 0.8]

          --outliers <METHOD,…>
              `dft`: what tells an outlying frequency from the rest; of several, separated by commas,
              all must agree [default: zscore]
              
              [possible values: zscore, dbscan, forest, lof, peaks]

          --harmonics <HARMONICS>
              `dft`: which multiples of a candidate are dropped as its harmonics: `all`, or `two` for
              even ones only, as the paper has it [default: all]
              
              [possible values: all, two]

          --as-ftio
              `dft`: cut the window at the first and last change of bandwidth, and trust the samples
              whatever their error, as FTIO 0.0.9 does

          --seed <SEED>
              `dft`: seed of `--outliers forest` [default: 0]

    While it runs:
          --follow
              Follow traces that are being written: the directory of `iotide record`, TMIO's JSON Lines
              or MessagePack, a table; what is not there yet is waited for

          --listen <ADDRESS>
              Listen for what is sent as it happens: unix:PATH or tcp:HOST:PORT (`iotide record
              --stream`), zmq:tcp://HOST:PORT (TMIO, GekkoFS); may be given several times, also beside
              --follow

          --on-prediction <CMD>
              Run CMD by the shell at each prediction (JSON on stdin, and IOTIDE_* variables); while it
              runs, only the newest prediction of each job waits for it

          --idle <TIME>
              Exit after TIME without new data; otherwise when the job ends, or with Ctrl-C

          --adapt <WINDOW>
              Which part of the past a prediction looks at: since behaviour last changed
              (`change-points`), all of it, K periods once a period was found more than K times in a row
              (`hits=K`, as in the FTIO paper), a fixed time (`length=60s`), a fixed number of periods
              (`periods=5`), or what came since the last prediction but one (`data`) [default:
              `change-points`; with `--method dft` `hits=3`]

          --poll <TIME>
              Look at the files every TIME, instead of relying on the kernel's notifications (default on
              network file systems: 1 s)

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
      iotide detect --method dft run.csv                    by the method of the FTIO paper
      iotide detect --metric mpi_time proxy.json            phases of anything that was sampled
      iotide detect --job 4711                              a job that `iotide serve` has seen
      iotide record -o run7 -- mpirun -n 4 ./simulation &
      iotide detect --follow run7                           watch it while it runs
      iotide detect --follow run7 --format json --on-prediction 'systemd-cat'
      iotide detect --listen zmq:tcp://*:5555               in the place of FTIO, for TMIO and GekkoFS
    "#);
}

#[test]
fn help_on_report_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["report", "--help"]).exits_with(0).stdout, @r#"
    Show everything about a run as one HTML page

    The page needs nothing else: no network and no files beside it. It begins with the job, the answer
    and the I/O issues. Pictures can be zoomed (drag, or Ctrl + wheel), moved (Shift + drag, arrow keys)
    and reset (double-click, Escape), and have their numbers behind them.

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
              Samples per second; `auto` shows the finest steps, as far as memory goes [default: `auto`;
              with `dft` one sample a bin for heatmaps and the like, else FTIO's 10 Hz]

          --sampling <SAMPLING>
              A sample is the mean over its bin, or the value at its instant [default: `hold` with
              `dft`, as the paper has it, else `mean`]
              
              [possible values: mean, hold]

          --top <N>
              Show the N strongest waves and how well they draw the signal [default: 3 with `dft`, else
              0]

          --substantial <BANDWIDTH>
              I/O above this bandwidth is substantial, for example 200MB (a second) [default: the mean
              bandwidth]

          --tolerance <SHARE>
              `dft`: share of the best score at which a frequency becomes a candidate [default: 0.8]

          --outliers <METHOD,…>
              `dft`: what tells an outlying frequency from the rest; of several, separated by commas,
              all must agree [default: zscore]
              
              [possible values: zscore, dbscan, forest, lof, peaks]

          --harmonics <HARMONICS>
              `dft`: which multiples of a candidate are dropped as its harmonics: `all`, or `two` for
              even ones only, as the paper has it [default: all]
              
              [possible values: all, two]

          --as-ftio
              `dft`: cut the window at the first and last change of bandwidth, and trust the samples
              whatever their error, as FTIO 0.0.9 does

          --seed <SEED>
              `dft`: seed of `--outliers forest` [default: 0]

          --history <DIR>
              Compare each run with the earlier ones of its application in these results of `iotide
              categorize`

    Thresholds:
          --settings <FILE>
              Take thresholds from FILE; `iotide categorize --print-settings` prints them all

    Output:
          --format <FORMAT>
              As a page, or as what stands on it in words or for a script
              
              [default: html]
              [possible values: html, text, json]

      -o, --output <FILE>
              Write to FILE [default: report.html for a page, else standard output]

          --svg <DIR>
              Write each picture as SVG into DIR, too

    Examples:
      iotide report run.csv -o run.html
      iotide report run.csv -o run.html --svg figures/      for a paper
      iotide report --format text run.darshan               what the run does that its storage does not
      like
      iotide report run.darshan --history 2019-results      and whether that is usual for this
      application
    "#);
}

#[test]
fn help_on_categorize_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["categorize", "--help"]).exits_with(0).stdout, @r#"
    Label the I/O of a run, or of every run of an archive

    Labels say when a run reads and writes, whether periodically, and what it asks of metadata servers.
    They are those of the MOSAIC paper, each with its confidence and evidence. A folder, or a list of
    files, is an archive: its logs are labelled in parallel, and their statistics are reported. With
    `--out` results are kept, an interrupted run is resumed by the same command, and `index.html` shows
    it all.

    Usage: iotide categorize [OPTIONS] [TRACE|DIR]...

    Arguments:
      [TRACE|DIR]...
              Traces, each of one run, or folders of many; with `--merge` folders or files of results

    Options:
          --files <LIST>
              Label the logs that LIST names, one a line; `-` is standard input

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Labels:
          --method <METHOD>
              How labels are found: by our own rules, or as the paper has it

              Possible values:
              - auto:   Ours
              - mosaic: The paper's

          --print-settings
              Print all thresholds as such a file, and end

          --issues
              Report the I/O issues of each run, too

          --history <DIR>
              Compare each run with the earlier ones of its application in these results of an archive

    Thresholds:
          --settings <FILE>
              Take thresholds from FILE; `iotide categorize --print-settings` prints them all

    Archives:
          --out <DIR>
              Keep results in DIR, and go on with what is there

          --shard <I/N>
              Label part I of N only, into a folder of its own in DIR [default: as Slurm numbers the
              tasks of a job array or of srun]

          --merge
              Put results together: of all shards in a folder, of several folders, of files of lines

          --jobs <N>
              Process N logs in parallel [default: number of cores]

          --time-limit <SECONDS>
              Give a log up after SECONDS
              
              [default: 300]

          --size-limit <MIB>
              Do not open logs larger than MIB mebibytes
              
              [default: 4096]

          --sample <N>
              Draw N runs of the results by chance, for a person to confirm or correct their labels:
              sample.html in DIR tells the accuracy

          --seed <SEED>
              With --sample: where chance begins; the same results and the same SEED give the same runs
              
              [default: 1]

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
      iotide categorize job.darshan
      iotide categorize job.darshan --issues                        and its I/O issues
      iotide categorize job.darshan --history 2019-results          is that usual for this application?
      iotide categorize /logs/2019 --out 2019-results               a year; the same again goes on
      find /logs -name '*.darshan' | iotide categorize --files - --out results
      sbatch --array=0-63 --wrap 'iotide categorize /logs --out results'
      iotide categorize --merge results --out results/all           after all tasks have ended
      iotide categorize /logs/2019 --out 2019-results --sample 512  how right are the labels?
      iotide categorize --print-settings > mine.toml                every threshold, to be changed
    "#);
}

#[test]
fn help_on_info_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["info", "--help"]).exits_with(0).stdout, @r#"
    Show what a trace holds, and what it lost

    Of a Darshan log: the job, the modules with their counters summed up, DXT and heatmap. Of any other
    trace: the job, its ranks, operations, bytes and files. A damaged trace is read as far as possible;
    what is missing is listed. With `--source` or `--layers`, a Darshan log's events are counted too, as
    other commands would see them.

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
    fastest; as a table (CSV, JSON Lines, Parquet); as a Chrome trace, which https://ui.perfetto.dev
    opens; or as TMIO writes it, for tools that read TMIO (FTIO). Memory does not grow with the trace,
    except for tmio-json. What is known to be missing is reported on stderr, and kept in the result.

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
              The form to write: native, csv, jsonl, chrome, parquet, tmio-json, tmio-jsonl or
              tmio-msgpack

      -o, --output <FILE>
              Write to FILE rather than to stdout

    Examples:
      iotide convert job.darshan --to csv | head
      iotide convert job.darshan --to chrome -o job.json    for https://ui.perfetto.dev
      iotide convert --source counters job.darshan --to parquet -o job.parquet
      iotide convert --one-run rank-*.csv --to native -o run.iot
    "#);
}
