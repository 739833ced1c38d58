use crate::util::Dir;

const JOBS: &str = "job,period_s\n4711,19.2\n4712.batch,384\n4713,\n";

#[test]
fn jobs_are_shown_with_their_sets() {
    let dir = Dir::new();
    dir.write("jobs.csv", JOBS);
    insta::assert_snapshot!(dir.iotide(["sets", "plan", "jobs.csv"]).exits_with(0).stdout, @r"
    job                      period      set   priority    share
    4711                     19.2 s        1        0.1     83 %
    4712.batch                384 s        3      0.001    < 1 %
    4713                          –  unknown       0.02     17 %
    ");
}

#[test]
fn by_the_reports_rules_each_unknown_job_has_a_set_and_the_lowest_id_goes_first() {
    let dir = Dir::new();
    dir.write("jobs.csv", "20,384\n9,380\nx,\ny,\n");
    let plan = ["sets", "plan", "jobs.csv", "--rules", "report"];
    insta::assert_snapshot!(dir.iotide(plan).exits_with(0).stdout, @r"
    job                      period      set   priority    share
    20                        384 s        3      0.001      2 %
    9                         380 s        3      0.001      2 %
    x                             –      own     0.0208     49 %
    y                             –      own     0.0208     49 %
    ");
    let [a, b, c, d, e] = plan;
    let told = dir.iotide([a, b, c, d, e, "--apply", "lustre-tbf", "--dry-run"]).exits_with(0).stdout;
    let rate = |job: &str| {
        let rule = told.split_once(&format!("jobid={{{job}}} rate=")).unwrap().1;
        rule.split_once('\'').unwrap().0.parse::<u32>().unwrap()
    };
    assert_eq!(rate("20"), 10, "{told}");
    assert!(rate("9") > 10 && rate("x") == rate("y"), "{told}");
}

#[test]
fn a_table_needs_no_head() {
    let dir = Dir::new();
    dir.write("with.csv", JOBS);
    dir.write("without.csv", JOBS.split_once('\n').unwrap().1);
    let plan = |file| dir.iotide(["sets", "plan", file]).exits_with(0).stdout;
    assert_eq!(plan("with.csv"), plan("without.csv"));
}

#[test]
fn a_dry_run_prints_what_would_be_done() {
    let dir = Dir::new();
    dir.write("jobs.csv", JOBS);
    let plan = |system| {
        let told =
            dir.iotide(["sets", "plan", "jobs.csv", "--apply", system, "--dry-run"]).exits_with(0).stdout;
        told.split_once("would be done:\n").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(plan("configfs"), @r"
      mkdir /sys/kernel/config/iosets/4711
      echo 100000 > /sys/kernel/config/iosets/4711/priority
      mkdir /sys/kernel/config/iosets/4712.batch
      echo 1000 > /sys/kernel/config/iosets/4712.batch/priority
      mkdir /sys/kernel/config/iosets/4713
      echo 20000 > /sys/kernel/config/iosets/4713/priority
    ");
    insta::assert_snapshot!(plan("lustre-tbf"), @r"
      lctl set_param 'ost.OSS.ost_io.nrs_policies=tbf jobid'
      lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide1 jobid={4711} rate=8250'
      lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide2 jobid={4712.batch} rate=92'
      lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide3 jobid={4713} rate=1658'
    ");
}

#[test]
fn priorities_are_written_where_they_belong_and_may_be_written_again() {
    let dir = Dir::new();
    dir.write("jobs.csv", JOBS);
    std::fs::create_dir(dir.path().join("iosets")).unwrap();
    for _ in 0..2 {
        let told =
            dir.iotide(["sets", "plan", "jobs.csv", "--apply", "configfs", "--root", "iosets"]).exits_with(0);
        assert!(told.stdout.contains("\ndone:\n"), "{}", told.stdout);
        assert_eq!(dir.read("iosets/4711/priority"), "100000\n");
        assert_eq!(dir.read("iosets/4712.batch/priority"), "1000\n");
        assert_eq!(dir.read("iosets/4713/priority"), "20000\n");
    }
}

#[test]
fn what_cannot_be_read_or_done_is_said() {
    let dir = Dir::new();
    dir.write("head.csv", "id,period\n");
    dir.write("time.csv", "job,period_s\n1,-5\n");
    dir.write("twice.csv", "job,period_s\n1,5\n1,6\n");
    dir.write("odd.csv", "job,period_s\n../x,5\n");
    let says = |file| dir.iotide(["sets", "plan", file]).exits_with(2).stderr;
    assert_eq!(says("head.csv"), "iotide: head.csv: line 1: \"period\" is no positive time\n");
    assert_eq!(says("time.csv"), "iotide: time.csv: line 2: \"-5\" is no positive time\n");
    assert_eq!(says("twice.csv"), "iotide: twice.csv: line 3: job \"1\" is there twice\n");
    let odd = dir.iotide(["sets", "plan", "odd.csv", "--apply", "configfs", "--dry-run"]).exits_with(0);
    assert_eq!(odd.stderr, "job \"../x\" is left alone: its id could be misunderstood\n");
    assert!(!odd.stdout.contains("mkdir"), "{}", odd.stdout);
    dir.write("one.csv", "job,period_s\n1,5\n");
    let failed =
        dir.iotide(["sets", "plan", "one.csv", "--apply", "configfs", "--root", "nowhere"]).exits_with(2);
    assert!(
        failed.stderr.starts_with("iotide: 0 of 2 steps are done, 2 are not: mkdir nowhere/1: "),
        "{}",
        failed.stderr
    );
    dir.write("nameless.csv", "\u{feff}job,period_s\r\n1,5\r\n,6\r\n");
    assert_eq!(says("nameless.csv"), "iotide: nameless.csv: line 3: the job has no name\n");
}

#[test]
fn what_was_done_before_a_step_failed_is_said() {
    let dir = Dir::new();
    dir.write("jobs.csv", JOBS);
    std::fs::create_dir_all(dir.path().join("iosets/4712.batch/priority")).unwrap();
    let failed =
        dir.iotide(["sets", "plan", "jobs.csv", "--apply", "configfs", "--root", "iosets"]).exits_with(2);
    assert!(
        failed.stderr.starts_with(
            "done: mkdir iosets/4711\ndone: echo 100000 > iosets/4711/priority\ndone: mkdir iosets/4712.batch\n\
             iotide: 3 of 6 steps are done, 3 are not: echo 1000 > iosets/4712.batch/priority: "
        ),
        "{}",
        failed.stderr
    );
    assert_eq!(failed.stdout, "", "what is half done is no plan");
}
