use crate::util::Dir;

#[test]
fn help_on_serve_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["serve", "--help"]).exits_with(0).stdout, @r"
    Watch every job of this machine, live

    Programs that run under `iotide record --live` count what they read and write in memory; this daemon
    reads the counters ten times a second, sums them up by job, and keeps what each job did. Ask it with
    `iotide jobs`, `iotide job ID` and `iotide top`, over HTTP, or with Prometheus (/metrics).

    Run by root, it serves the machine: everyone sees their own jobs, root sees all. Run by anyone else,
    it serves that user. A job's counts survive the end of the program and of the daemon, by `kill -9`
    too.

    Daemons of many machines form a tree: each sends what it counts to one of its --parent, and whoever
    has --children receives it; both for one in between. The root shows the jobs of all. Connections are
    encrypted, and all daemons of a tree have the same --key. Settings are read from
    /etc/iotide/serve.toml (when run by root) or from the file of --config; options override them.
    SIGTERM ends it within 5 s, SIGHUP makes it read its settings again.

    Usage: iotide serve [OPTIONS]
           iotide serve <COMMAND>

    Commands:
      check   Check the settings and the store, and say what would be used
      bridge  Answer controllers of this machine by the daemon at --parent
      key     Make a key for a tree of daemons
      token   Make a token, by which programs are known over HTTP

    Options:
          --http <ADDR>
              Answer HTTP at this address; 'none' for the unix socket only; beyond loopback with
              --http-cert only [default: 127.0.0.1:1337]

          --socket <PATH>
              Answer HTTP at this unix socket [default: /run/iotide/serve.sock, or in
              $XDG_RUNTIME_DIR/iotide]

          --store <DIR>
              Keep jobs in this directory [default: /var/lib/iotide, or in ~/.local/state/iotide]

          --pages <DIR>
              Read counter pages in this directory [default: /run/iotide/pages, or in
              $XDG_RUNTIME_DIR/iotide]

          --node <NAME>
              Name of this machine [default: the host name]

          --parent <HOST:PORT,...>
              Send what is counted to one of these daemons; `slurm`: to those of this node's switch

          --children <ADDR>
              Take in what daemons of other machines count, at this address

          --key <FILE>
              Key of the tree, the same for all its daemons (see `iotide serve key`) [default:
              /etc/iotide/tree.key]

          --auth <HOW>
              How daemons of the tree know each other: by --key, by munge, as the nodes of a Slurm
              cluster do, or by certificates [default: key]

              Possible values:
              - key:          By the same key
              - munge:        By munge: peers are root, or this user
              - certificates: By certificates of the site: a node speaks for itself only

          --munge-socket <PATH>
              Socket of munged, if it is not the usual one

          --ca <FILE>
              Certificate of who signs those of the tree (--auth certificates; --key is then this
              daemon's private key)

          --cert <FILE>
              Certificate of this daemon, with its --node among the names

          --http-cert <FILE>
              Certificate for HTTPS at --http, in PEM form, with those in between; needed beyond
              loopback

          --http-key <FILE>
              Private key of --http-cert

          --proxy-user-header <NAME>
              Believe this header of a proxy: it holds the name of the user who asks

          --proxy-from <ADDR|USER>
              Who that proxy is: its address, or the user it runs as if it connects to the unix socket

          --series-job <SIZE>
              Fold the metrics over time of a job into half when they exceed SIZE [default: 8MiB]

          --series-all <SIZE>
              Remove the oldest metrics over time when all exceed SIZE [default: 1GiB]

          --series-age <TIME>
              Remove metrics over time after TIME without a new sample [default: 90d]

          --jobs-age <TIME>
              Remove jobs after TIME since their end [default: 400d]

          --jobs-all <SIZE>
              Remove the oldest jobs of the user with most when all exceed SIZE [default: 4GiB]

          --group <NAME>
              Let this group own the counter pages (root only) [default: iotide, if there is such a
              group]

          --scrape <URL>
              Ask this exporter of Prometheus metrics now and then, and show what it says at /metrics;
              may be given more than once

          --scrape-every <TIME>
              Ask exporters this often [default: 15s]

          --alertmanager <URL>
              Notify this Alertmanager of alarms (see `iotide alarms`); may be given more than once

          --webhook <URL>
              Post alarms as JSON to this address; may be given more than once

          --redis <ADDR>
              Publish models of applications in this Redis database: HOST:PORT, or the path of a socket

          --redis-password <FILE>
              File with the password of --redis, readable by its owner only

          --storage <LADDER>
              What the storage can do, as `iotide ladder` measures it or `iotide templates` writes it:
              for the next ten minutes on the page /load

          --config <FILE>
              Read settings from FILE

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide serve                                     watch this user's jobs (as root: the machine's)
      iotide record --live -- ./simulation             run a program that is watched
      iotide job 4711                                  what it has done so far
      iotide serve --http 127.0.0.1:9337 --store /data/iotide
      iotide serve check                               are the settings right?
      iotide web                                       a link to its pages
      iotide serve --http 0.0.0.0:8443 --http-cert cert.pem --http-key key.pem
      iotide serve key tree.key                        a key for a tree of daemons
      iotide serve --children 0.0.0.0:1338 --key tree.key      the root
      iotide serve --parent root:1338 --key tree.key           each node
      curl -s http://127.0.0.1:1337/metrics            what Prometheus sees
    ");
}

#[test]
fn help_on_serve_check_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["serve", "check", "--help"]).exits_with(0).stdout, @r"
    Check the settings and the store, and say what would be used

    Usage: iotide serve check [OPTIONS]

    Options:
          --http <ADDR>
              Answer HTTP at this address; 'none' for the unix socket only; beyond loopback with
              --http-cert only [default: 127.0.0.1:1337]

          --socket <PATH>
              Answer HTTP at this unix socket [default: /run/iotide/serve.sock, or in
              $XDG_RUNTIME_DIR/iotide]

          --store <DIR>
              Keep jobs in this directory [default: /var/lib/iotide, or in ~/.local/state/iotide]

          --pages <DIR>
              Read counter pages in this directory [default: /run/iotide/pages, or in
              $XDG_RUNTIME_DIR/iotide]

          --node <NAME>
              Name of this machine [default: the host name]

          --parent <HOST:PORT,...>
              Send what is counted to one of these daemons; `slurm`: to those of this node's switch

          --children <ADDR>
              Take in what daemons of other machines count, at this address

          --key <FILE>
              Key of the tree, the same for all its daemons (see `iotide serve key`) [default:
              /etc/iotide/tree.key]

          --auth <HOW>
              How daemons of the tree know each other: by --key, by munge, as the nodes of a Slurm
              cluster do, or by certificates [default: key]

              Possible values:
              - key:          By the same key
              - munge:        By munge: peers are root, or this user
              - certificates: By certificates of the site: a node speaks for itself only

          --munge-socket <PATH>
              Socket of munged, if it is not the usual one

          --ca <FILE>
              Certificate of who signs those of the tree (--auth certificates; --key is then this
              daemon's private key)

          --cert <FILE>
              Certificate of this daemon, with its --node among the names

          --http-cert <FILE>
              Certificate for HTTPS at --http, in PEM form, with those in between; needed beyond
              loopback

          --http-key <FILE>
              Private key of --http-cert

          --proxy-user-header <NAME>
              Believe this header of a proxy: it holds the name of the user who asks

          --proxy-from <ADDR|USER>
              Who that proxy is: its address, or the user it runs as if it connects to the unix socket

          --series-job <SIZE>
              Fold the metrics over time of a job into half when they exceed SIZE [default: 8MiB]

          --series-all <SIZE>
              Remove the oldest metrics over time when all exceed SIZE [default: 1GiB]

          --series-age <TIME>
              Remove metrics over time after TIME without a new sample [default: 90d]

          --jobs-age <TIME>
              Remove jobs after TIME since their end [default: 400d]

          --jobs-all <SIZE>
              Remove the oldest jobs of the user with most when all exceed SIZE [default: 4GiB]

          --group <NAME>
              Let this group own the counter pages (root only) [default: iotide, if there is such a
              group]

          --scrape <URL>
              Ask this exporter of Prometheus metrics now and then, and show what it says at /metrics;
              may be given more than once

          --scrape-every <TIME>
              Ask exporters this often [default: 15s]

          --alertmanager <URL>
              Notify this Alertmanager of alarms (see `iotide alarms`); may be given more than once

          --webhook <URL>
              Post alarms as JSON to this address; may be given more than once

          --redis <ADDR>
              Publish models of applications in this Redis database: HOST:PORT, or the path of a socket

          --redis-password <FILE>
              File with the password of --redis, readable by its owner only

          --storage <LADDER>
              What the storage can do, as `iotide ladder` measures it or `iotide templates` writes it:
              for the next ten minutes on the page /load

          --config <FILE>
              Read settings from FILE

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide serve check
      iotide serve check --config serve.toml
    ");
}

#[test]
fn help_on_jobs_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["jobs", "--help"]).exits_with(0).stdout, @r"
    List the jobs that the daemon has seen

    Shows your own jobs; root and the user of the daemon see all. The daemon is the one at IOTIDE_DAEMON
    (a unix socket), your own, or the machine's (`iotide serve`).

    Usage: iotide jobs [OPTIONS]

    Options:
          --user <USER>
              Show jobs of this user only

          --app <APP>
              Show runs of this application only, by id or by program name

          --since <TIME>
              Show jobs started within this time before now, as in 30m, 12h, 7d

          --state <STATE>
              Show jobs in this state only
              
              [possible values: running, ended, partial]

          --search <TEXT>
              Show jobs with this text in their id, program name or command

          --sort <ORDER>
              Order of the list

              Possible values:
              - start: The latest first
              - read:  The most bytes per second read first
              - write: The most bytes per second written first
              - size:  The most processes first
              - user:  By user name
              
              [default: start]

          --limit <N>
              Show at most N jobs
              
              [default: 100]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide jobs
      iotide jobs --state running --sort write
      iotide jobs --app lmp --since 7d --format json
    ");
}

#[test]
fn help_on_job_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["job", "--help"]).exits_with(0).stdout, @r"
    Show what a job has done

    Bytes, calls and time of its I/O by operation, layer and file system; its time in MPI; earlier runs
    of the same application, and how what they measured grows with their size; what is missing. Of
    several jobs with this id, the latest is shown.

    Usage: iotide job [OPTIONS] <ID>

    Arguments:
      <ID>
              The job, as `iotide jobs` lists it

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide job 4711
      iotide job 4711 --format json | jq .io.bytes_written
    ");
}

#[test]
fn help_on_top_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["top", "--help"]).exits_with(0).stdout, @r"
    Show which jobs load the storage now

    Running jobs, the busiest first, with the period of their I/O and when the next phase begins. On a
    terminal it is repeated until Ctrl-C.

    Usage: iotide top [OPTIONS]

    Options:
          --every <TIME>
              Show it anew after this time; once by default where the output is no terminal

      -c, --count <N>
              Show it N times

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide top
      iotide top --every 10s
      iotide top --count 1 --format json
    ");
}

#[test]
fn help_on_serve_key_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["serve", "key", "--help"]).exits_with(0).stdout, @r"
    Make a key for a tree of daemons

    Usage: iotide serve key [FILE]

    Arguments:
      [FILE]  File to make; only its owner can read it [default: /etc/iotide/tree.key]

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      iotide serve key                                 /etc/iotide/tree.key; copy it to all machines
      iotide serve key tree.key
    ");
}

#[test]
fn help_on_nodes_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["nodes", "--help"]).exits_with(0).stdout, @r"
    Show the machines that the daemon hears of, as a tree

    Each with its version, what runs on it, how far its clock is ahead of its parent's, when it was last
    heard of and what it had to refuse.

    Usage: iotide nodes [OPTIONS]

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide nodes
      iotide nodes --format json | jq '.nodes[] | select(.silent_s > 10) .node'
    ");
}

#[test]
fn help_on_alarms_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["alarms", "--help"]).exits_with(0).stdout, @r"
    Show and change alarms on what jobs and the machine do

    Shows what fires now, the rules, and what has been. The daemon evaluates rules each second; it
    notifies the receivers of `iotide serve --alertmanager` and `--webhook` once when an alarm begins,
    and once when it is over. Your rules are about your own jobs; those of root and of the daemon's user
    are about all.

    Usage: iotide alarms [OPTIONS]
           iotide alarms <COMMAND>

    Commands:
      list    Show rules, what fires and what has been
      add     Add a rule
      delete  Delete a rule

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide alarms
      iotide alarms add busy 'rate(write_bytes) > 2GB' --for 30s --clear 1GB
      iotide alarms delete busy
    ");
    insta::assert_snapshot!(Dir::new().iotide(["alarms", "add", "--help"]).exits_with(0).stdout, @r"
    Add a rule

    The condition compares (>, <, =) a metric of a job as `/api/1/jobs/ID/metrics` lists it
    (write_bytes), its growth per second over the last ten (rate(write_bytes)), the bytes per second
    expected in the next minute (predicted_load), or says what a job has: label(write_periodic), as
    `iotide categorize` names labels, issue(small_writes), as `iotide report` names issues.

    Usage: iotide alarms add [OPTIONS] <NAME> <CONDITION>

    Arguments:
      <NAME>
              Name of the rule

      <CONDITION>
              The condition, as in 'rate(write_bytes) > 2GB'

    Options:
          --for <TIME>
              Fire once the condition has held for TIME [default: at once]

          --clear <LEVEL>
              End the alarm when the value reaches LEVEL [default: when the condition does not hold]

          --on <WHAT>
              Of what the value is taken

              Possible values:
              - job:  Of each job by itself
              - sum:  Of all jobs together
              - node: Of the machine
              
              [default: job]

          --user <USER>
              Watch jobs of this user only

          --app <APP>
              Watch runs of this application only, by id or by program name

          --job <ID>
              Watch the job of this id only

          --severity <WORD>
              How grave it is, for those who route alarms
              
              [default: warning]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide alarms add busy 'rate(write_bytes) > 2GB' --for 30s --clear 1GB
      iotide alarms add soon 'predicted_load > 5GB' --on sum
      iotide alarms add full 'free_bytes./scratch < 1TB' --on node --severity critical
      iotide alarms add small 'issue(small_writes)' --app lmp
    ");
    insta::assert_snapshot!(Dir::new().iotide(["alarms", "list", "--help"]).exits_with(0).stdout, @r"
    Show rules, what fires and what has been

    Usage: iotide alarms list [OPTIONS]

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Output:
          --format <FORM>  Form of the answer: for people or for scripts [default: text] [possible
                           values: text, json]
      -o, --output <FILE>  Write the answer to FILE rather than to stdout

    Examples:
      iotide alarms list
      iotide alarms list --format json | jq '.firing[] | {name, job}'
    ");
    insta::assert_snapshot!(Dir::new().iotide(["alarms", "delete", "--help"]).exits_with(0).stdout, @r"
    Delete a rule

    What fires by it is over.

    Usage: iotide alarms delete [OPTIONS] <NAME>

    Arguments:
      <NAME>
              Name of the rule

    Options:
          --owner <UID>
              Delete the rule of this user (root and the daemon's user only)

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide alarms delete busy
    ");
}

#[test]
fn help_on_serve_token_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["serve", "token", "--help"]).exits_with(0).stdout, @r#"
    Make a token, by which programs are known over HTTP

    It is printed once; the store keeps its hash. A daemon that runs knows it after SIGHUP. To take a
    token back, remove its line from the file 'tokens' of the store.

    Usage: iotide serve token [OPTIONS] --role <ROLE>

    Options:
          --role <ROLE>
              What it is for: operator (all jobs), controller (models of all, no jobs) or user:NAME (the
              jobs of one user)

          --store <DIR>
              Directory of the store [default: /var/lib/iotide, or in ~/.local/state/iotide]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide serve token --role controller > controller.token
      iotide serve token --role user:ada --store /data/iotide
      curl -H "Authorization: Bearer $(cat controller.token)"
      'http://127.0.0.1:1337/api/1/models?app=lmp'
    "#);
}

#[test]
fn help_on_web_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["web", "--help"]).exits_with(0).stdout, @r#"
    Print a link to the pages of the daemon, which logs you in

    The link works once and for a minute. Your login lasts for 12 hours: you see your own jobs, root and
    the user of the daemon see all. The daemon is the one at IOTIDE_DAEMON (a unix socket), your own, or
    the machine's (`iotide serve`). For a daemon on another machine, forward its port with `ssh -L` and
    name the near end with --url.

    Usage: iotide web [OPTIONS]

    Options:
          --url <URL>
              Address under which your browser reaches the daemon [default: as the daemon says]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide web
      xdg-open "$(iotide web)"
      ssh -L 1337:127.0.0.1:1337 login1 iotide web     open what it prints, while ssh runs
      iotide web --url https://iotide.example.org
    "#);
}

#[test]
fn help_on_serve_bridge_is_that_of_serve_with_an_example() {
    let help = Dir::new().iotide(["serve", "bridge", "--help"]).exits_with(0).stdout;
    assert!(help.contains("Answer controllers of this machine by the daemon at --parent"), "{help}");
    assert!(help.contains("iotide serve bridge --parent root:1338 --key tree.key"), "{help}");
    // Who gathers for one's own switch does not know of all jobs.
    let dir = Dir::new();
    dir.iotide(["serve", "key", "tree.key"]).exits_with(0);
    let said = dir.iotide(["serve", "bridge", "--key", "tree.key", "--parent", "slurm"]).exits_with(2).stderr;
    assert!(said.contains("--parent HOST:PORT says which daemon answers"), "{said}");
}

#[test]
fn help_on_decisions_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["decisions", "--help"]).exits_with(0).stdout, @r"
    Show what the daemon decided by itself, and what came of it

    A daemon with `[act]` in its settings acts within the rules there. Each decision is shown with what
    it rests on, what the simulator expected of it, and what was measured. What does harm is taken back
    by itself, and a rule whose decisions do not pay is used no more. For root and the user of the
    daemon.

    Usage: iotide decisions [OPTIONS]
           iotide decisions <COMMAND>

    Commands:
      undo    Take back a decision that is in force
      stop    Use a rule no more, and take back what it did
      resume  Use a rule again that was stopped

    Options:
          --limit <N>
              Show at most N decisions
              
              [default: 20]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Output:
          --format <FORM>
              Form of the answer: for people or for scripts
              
              [default: text]
              [possible values: text, json]

      -o, --output <FILE>
              Write the answer to FILE rather than to stdout

    Examples:
      iotide decisions
      iotide decisions --format json | jq '.decisions[] | {change, expected, measured, state}'
      iotide decisions undo 7
      iotide decisions stop scratch
    ");
}

#[test]
fn help_on_demo_explains_every_flag() {
    insta::assert_snapshot!(Dir::new().iotide(["demo", "--help"]).exits_with(0).stdout, @r"
    Show the whole chain on this machine in under a minute

    Runs a small program with a known rhythm under the tracer in a temporary folder, watched by a daemon
    of its own (`iotide serve`), reads the trace, finds its period, and writes a page with pictures.
    Needs no network and installs nothing; all but the page is removed at the end.

    Usage: iotide demo [OPTIONS]

    Options:
      -o, --output <FILE>
              Where to write the page
              
              [default: iotide-demo.html]

          --period <TIME>
              Time from one burst to the next
              
              [default: 1s]

          --bursts <N>
              How many bursts
              
              [default: 15]

          --loop [<TIME>]
              Show the closed loop instead: three jobs on one storage, without and then with a daemon
              that acts; each for TIME [default: 70s]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      iotide demo
      iotide demo --period 500ms -o /tmp/demo.html
      iotide demo --loop -o loop.html                 in about two minutes
    ");
}
