use crate::util::{Dir, Outcome};

#[test]
fn every_command_has_an_example() {
    let dir = Dir::new();
    let help = dir.iotide(["--help"]).exits_with(0).stdout;
    let commands = help.split("Options:\n").next().unwrap();
    let names: Vec<&str> =
        (commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .collect();
    assert!(names.len() >= 27, "{names:?}");
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

    Usage: iotide [OPTIONS] <COMMAND>

    For more information, try '--help'.
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect", "--no-such-flag", "a"])), @r#"
    iotide: unexpected argument '--no-such-flag' found

      tip: to pass '--no-such-flag' as a value, use '-- --no-such-flag'

    Usage: iotide detect [OPTIONS] [TRACE]...

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

#[test]
fn a_reader_of_stderr_that_goes_away_is_no_panic() {
    let dir = crate::util::Dir::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = dir.command(["info", "nowhere"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn an_error_says_its_cause_once() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("here")).unwrap();
    for outcome in [
        dir.iotide(["detect", "missing.csv"]),
        dir.iotide(["detect", "--listen", "unix:missing/socket"]),
        dir.iotide(["arbiter", "unix:missing/socket"]),
        dir.iotide(["mount", "missing", "here"]),
        dir.iotide(["model", "missing.csv"]),
    ] {
        let complaint = outcome.exits_with(2).complaint();
        assert_eq!(complaint.matches("No such file").count(), 1, "{complaint}");
    }
}

#[test]
fn help_on_a_command_is_that_of_the_command() {
    let dir = Dir::new();
    assert_eq!(
        dir.iotide(["help", "sets", "plan"]).exits_with(0).stdout,
        dir.iotide(["sets", "plan", "--help"]).exits_with(0).stdout
    );
    assert_eq!(dir.iotide(["help"]).exits_with(0).stdout, dir.iotide(["--help"]).exits_with(0).stdout);
    let detect = dir.iotide(["help", "detect"]).exits_with(0).stdout;
    assert_eq!(detect, dir.iotide(["detect", "--help"]).exits_with(0).stdout);
    // Some pages have the name of a command.
    let why = dir.iotide(["help", "why"]).exits_with(0).stdout;
    assert!(why.starts_with(&dir.iotide(["why", "--help"]).exits_with(0).stdout), "{why}");
    assert!(why.ends_with("`iotide help why.md` is the page \"Why was this run slow?\".\n"), "{why}");
}

#[test]
fn help_on_a_topic_is_a_page_in_the_terminal() {
    let dir = Dir::new();
    let listed = dir.iotide(["help", "topics"]).exits_with(0).stdout;
    for page in ["methods", "troubleshooting", "why.md"] {
        assert!(listed.lines().any(|line| line.trim_start().starts_with(page)), "{page}: {listed}");
    }
    let mut narrow = dir.command(["help", "why.md"]);
    let page = String::from_utf8(narrow.env("COLUMNS", "60").output().unwrap().stdout).unwrap();
    assert!(page.starts_with("Why was this run slow?\n======================\n"), "{page}");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("`usual`  ")).collect();
    assert!(rows.len() == 1 && rows[0].chars().count() <= 60, "{page}");
    assert!(page.contains("    $ iotide why run.csv --history earlier/ --storage servers.csv\n"), "{page}");
    let wrong = dir.iotide(["help", "metods"]).exits_with(2).complaint();
    assert_eq!(
        wrong,
        "iotide: there is no topic metods\nhint: `iotide help methods`; `iotide help topics` lists all pages\n"
    );
    let strange = dir.iotide(["help", "xyzzyxyzzy"]).exits_with(2).complaint();
    assert!(
        strange.contains("`iotide help topics` lists all pages, `iotide help` all commands"),
        "{strange}"
    );
    assert!(
        dir.iotide(["help", "sets", "paln"]).exits_with(2).complaint().contains("unrecognized subcommand")
    );
}

#[test]
fn shells_complete_commands_and_man_has_a_page_for_each() {
    let dir = Dir::new();
    dir.write("complete", dir.iotide(["completions", "bash"]).exits_with(0).stdout);
    let script = "source ./complete; COMP_WORDS=(iotide det); COMP_CWORD=1; _iotide iotide det iotide; echo ${COMPREPLY[@]}";
    if let Some(bash) = iotide_testkit::program("bash") {
        let output = std::process::Command::new(bash).args(["-c", script]).current_dir(dir.path()).output();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), "detect\n");
    }
    assert!(dir.read("complete").contains("troubleshooting"), "topics are completed, too");
    for shell in ["zsh", "fish"] {
        assert!(dir.iotide(["completions", shell]).exits_with(0).stdout.contains("categorize"));
    }
    dir.iotide(["man", "pages"]).exits_with(0);
    let page = std::fs::read_to_string(dir.path().join("pages/iotide-detect.1")).unwrap();
    assert!(page.contains(".TH iotide-detect 1") && page.contains("Find the period"), "{page}");
    assert!(dir.path().join("pages/iotide-sets-plan.1").exists());
}

#[test]
fn the_analysis_side_alone_depends_on_nothing_that_acts_on_a_machine() {
    let args =
        ["tree", "--locked", "--offline", "--no-default-features", "--edges", "normal", "--prefix", "none"];
    let listed = std::process::Command::new(env!("CARGO"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("iotide-report v"), "{listed}");
    for name in ["daemon", "gate", "mount", "preload", "source", "stage"].map(|name| format!("iotide-{name}"))
    {
        assert!(!listed.contains(&format!("{name} v")), "{name}");
    }
    for name in ["fuser", "rusqlite", "tokio", "hyper", "nix"] {
        assert!(!listed.lines().any(|line| line.starts_with(&format!("{name} v"))), "{name}");
    }
}
