use crate::util::{Dir, Outcome};

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
