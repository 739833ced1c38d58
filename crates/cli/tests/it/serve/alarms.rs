//! Alarms: sent once when they begin and once when they are over, by daemons that are killed meanwhile, to receivers that are not always there.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;

/// Takes what is posted, as an Alertmanager or a webhook does; the first is not taken.
struct Receiver {
    url: String,
    heard: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let told = Arc::clone(&heard);
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length, mut path) = (String::new(), 0, String::new());
                while reader.read_line(&mut line).unwrap() > 2 {
                    if let Some(said) = line.strip_prefix("POST ") {
                        path = said.split(' ').next().unwrap().to_owned();
                    }
                    if let Some(said) = line.strip_prefix("Content-Length: ") {
                        length = said.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let status = if n == 0 { "503 Later" } else { "200 OK" };
                if n > 0 {
                    told.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap()));
                }
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Self { url, heard }
    }

    /// Waits for `n` messages, and returns all that have arrived.
    fn heard(&self, n: usize) -> Vec<(String, Value)> {
        loop {
            let heard = self.heard.lock().unwrap().clone();
            if heard.len() >= n {
                return heard;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn list(dir: &FreshDir) -> Value {
    serde_json::from_slice(&ask(dir, &["alarms", "--format", "json"]).stdout).unwrap()
}

fn has_fired(dir: &FreshDir, n: usize) {
    while list(dir)["firing"].as_array().unwrap().len() != n {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_alarm_is_told_once_and_its_end_once_also_by_a_daemon_that_was_killed() {
    let dir = FreshDir::new("serve-alarms");
    let (alertmanager, webhook) = (Receiver::start(), Receiver::start());
    let hook = format!("{}hook?to=me", webhook.url);
    let options = ["--alertmanager", &alertmanager.url, "--webhook", &hook];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    let add = ["alarms", "add", "much", "write_bytes > 100kB", "--clear", "50kB", "--severity", "page"];
    assert!(ask(&dir, &add).status.success());
    assert!(ask(&dir, &["alarms", "add", "never", "write_bytes > 1PB"]).status.success());
    let mut job = record(&dir, "4711")
        .args(["sh", "-c", "head -c 300000 /dev/zero > out; read x; true"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    has_fired(&dir, 1);
    alertmanager.heard(1);
    webhook.heard(1);
    // What fires is known to the next daemon, and told by nobody again, once that it was told is on disk: before the next rule is.
    let n_sent = |text: &str| {
        let sent = |line: &&str| {
            line.starts_with("iotide_daemon_alarm_notifications_total{") && line.ends_with(" 1")
        };
        text.lines().filter(sent).count()
    };
    while n_sent(&daemon.get_tcp("/metrics", "").1) < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(ask(&dir, &["alarms", "add", "other", "write_bytes > 1PB"]).status.success());
    daemon.kill();
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    has_fired(&dir, 1);
    drop(job.stdin.take());
    assert!(job.wait().unwrap().success());
    daemon.job("4711", "ended");
    let (told, hooked) = (alertmanager.heard(2), webhook.heard(2));
    assert_eq!((told.len(), hooked.len()), (2, 2));
    let [begin, end] = [&told[0].1[0], &told[1].1[0]];
    assert!(told.iter().all(|(path, _)| path == "/api/v2/alerts"));
    assert_eq!((&begin["labels"]["alertname"], &begin["labels"]["job_id"]), (&"much".into(), &"4711".into()));
    assert_eq!(begin["labels"]["severity"], "page");
    assert_eq!(begin["labels"], end["labels"], "the same alarm");
    assert_eq!(begin["startsAt"], end["startsAt"]);
    assert!(end["endsAt"].as_str() < begin["endsAt"].as_str(), "{end}");
    let states: Vec<_> = hooked.iter().map(|(_, told)| &told["alarm"]["state"]).collect();
    assert_eq!(states, ["firing", "resolved"]);
    assert!(hooked.iter().all(|(path, _)| path == "/hook?to=me"));
    has_fired(&dir, 0);
    let list = list(&dir);
    let history: Vec<_> = list["history"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(history, ["resolved", "firing"]);
    assert_eq!(list["rules"].as_array().unwrap().len(), 3);
    let (_, metrics) = daemon.get_tcp("/metrics", "");
    assert!(metrics.contains("iotide_daemon_alarm_rules 3\n"), "{metrics}");
    assert!(!metrics.contains("to=me"), "addresses of webhooks may be secrets");
}

#[test]
fn receivers_of_the_site_hear_of_users_alarms_only_if_settings_say_so() {
    let Some(setpriv) = program("setpriv") else { return };
    if !iotide_testkit::is_root() {
        return;
    }
    for (setting, heard) in [("none", vec![Value::Null]), ("site", vec![65534.into(), Value::Null])] {
        let dir = FreshDir::new("serve-users-alarms");
        let (settings, iotide, webhook) = (dir.join("serve.toml"), dir.join("iotide"), Receiver::start());
        fs::write(&settings, format!("users_alarms = \"{setting}\"\n")).unwrap();
        fs::copy(IOTIDE, &iotide).unwrap();
        let options = ["--config", settings.to_str().unwrap(), "--webhook", &webhook.url];
        let _daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
        // Nothing is moved, so that both fire at once.
        let add = ["alarms", "add", "low", "write_bytes < 1", "--on", "sum", "--severity", "page"];
        let mut user = Command::new(&setpriv);
        user.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&iotide).args(add);
        let added = user.env("IOTIDE_DAEMON", dir.join("socket")).output().unwrap();
        assert!(added.status.success(), "{added:?}");
        has_fired(&dir, 1);
        if setting == "site" {
            webhook.heard(1);
        }
        assert!(ask(&dir, &add).status.success());
        let told = webhook.heard(heard.len());
        let owners: Vec<Value> = told.iter().map(|(_, told)| told["alarm"]["owner"].clone()).collect();
        assert_eq!(owners, heard, "{setting}");
    }
}

/// Asks at the unix socket by another method.
fn request(dir: &FreshDir, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(dir.join("socket")).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn rules_are_added_and_deleted_by_their_owners_and_bad_ones_refused() {
    let dir = FreshDir::new("serve-alarm-rules");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start(&dir);
    let mut events = UnixStream::connect(dir.join("socket")).unwrap();
    write!(events, "GET /api/1/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let rule = r#"{"name":"a","expr":"processes = 0","on":"node","for_s":0}"#;
    assert_eq!(request(&dir, "POST", "/api/1/alarms", rule).0, 200);
    assert_eq!(request(&dir, "POST", "/api/1/alarms", rule).0, 409, "there is one");
    for (body, why) in [
        ("{", "EOF"),
        (r#"{"name":"../x","expr":"x > 1"}"#, "'name'"),
        (r#"{"name":"b","expr":"x ? 1"}"#, "'expr'"),
        (r#"{"name":"b","expr":"x > 1","clear":2}"#, "'clear'"),
        (r#"{"name":"b","expr":"x > 1","level":2}"#, "unknown field"),
        (r#"{"name":"b","expr":"foo > 3"}"#, "no metric of a job called 'foo'; the nearest are "),
        (r#"{"name":"b","expr":"rate(writebytes) > 3"}"#, "the nearest are write_bytes, "),
        (&"x".repeat(20 << 10), "16 KiB"),
    ] {
        let (status, said) = request(&dir, "POST", "/api/1/alarms", body);
        assert!(status >= 400 && said["error"].as_str().unwrap().contains(why), "{status} {said}");
    }
    // Nothing runs: it fires, and whoever listens hears it.
    let mut lines = BufReader::new(events).lines().map(Result::unwrap);
    let heard = lines.by_ref().skip_while(|line| line != "event: alarm").nth(1).unwrap();
    assert!(heard.contains(r#""state":"firing""#), "{heard}");
    // As the metric proxy has it.
    let (status, said) = request(
        &dir,
        "POST",
        "/alarms/add",
        r#"{"name":"p","target":"4711","metric":"write_bytes","operation":">","value":5}"#,
    );
    assert_eq!((status, &said["success"]), (200, &true.into()), "{said}");
    let (_, listed) = request(&dir, "GET", "/alarms/list", "");
    assert_eq!(
        (&listed["main"][0]["active"], &listed["4711"][0]["operator"]["More"]),
        (&true.into(), &5.0.into())
    );
    assert_eq!(request(&dir, "GET", "/alarms", "").1["main"][0]["name"], "a");
    let (status, said) = request(&dir, "GET", "/alarms/del?targetjob=4711&name=p", "");
    assert_eq!((status, &said["operation"]), (200, &"Deleted p from 4711".into()));
    assert_eq!(request(&dir, "POST", "/alarms/del", r#"{"target":"4711","name":"p"}"#).0, 400, "it is gone");
    let (status, _) = daemon.get_tcp("/api/1/alarms", "");
    assert_eq!(status, 401, "over TCP nobody knows who asks");
    another_user_has_rules_of_its_own(&dir);
    let printed = |args: &[&str]| String::from_utf8(ask(&dir, args).stdout).unwrap();
    assert_eq!(
        printed(&["alarms", "add", "fast", "rate(write_bytes) > 10 MB/s", "--for", "30s"]),
        "added fast: rate(write_bytes) > 10 MB/s for 30 s, of each job; ends at 10 MB/s; severity warning\n"
    );
    assert!(printed(&["alarms"]).contains("rate(write_bytes) > 10 MB/s  10 MB/s"));
    assert_eq!(printed(&["alarms", "delete", "a"]), "deleted a\n");
    let gone = ask(&dir, &["alarms", "delete", "a"]);
    assert!(
        gone.status.code() == Some(2)
            && String::from_utf8_lossy(&gone.stderr).contains("no alarm of this name")
    );
    assert_eq!(list(&dir)["history"][0]["why"], "rule deleted");
}

#[test]
fn rules_come_and_go_by_the_page_and_other_sites_change_none() {
    let dir = FreshDir::new("serve-alarm-forms");
    let _daemon = Daemon::start(&dir);
    let browser = |method: &str, path: &str, site: &str, form: &str| {
        let mut stream = UnixStream::connect(dir.join("socket")).unwrap();
        // In one piece: who is refused by the head is hung up on before the rest is written.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nSec-Fetch-Site: {site}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let send = |form: &str| browser("POST", "/alarms", "same-origin", form);
    let add = "do=add&name=busy&expr=rate%28write_bytes%29+%3E+2GB&on=sum&for=30&severity=";
    let added = send(add);
    assert!(added.starts_with("HTTP/1.1 303") && added.contains("location: /alarms\r\n"), "{added}");
    let rules = list(&dir)["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 1);
    assert_eq!(
        (&rules[0]["name"], &rules[0]["on"], &rules[0]["for_s"]),
        (&"busy".into(), &"sum".into(), &30.0.into())
    );
    let page = browser("GET", "/alarms", "none", "");
    assert!(page.contains("name=\"name\" value=\"busy\"") && page.contains("Add a rule"), "{page}");
    for (form, status, why) in [
        (add, 409, "delete it first"),
        ("do=add&name=other&expr=", 400, "&#39;expr&#39;"),
        ("do=add&name=other&expr=x+%3E+1&for=soon", 400, "number of seconds"),
        ("do=add&expr=x+%3E+1", 400, "a rule has a name"),
        ("do=delete&name=other", 404, "no alarm of this name"),
        ("do=fly&name=busy", 400, "adds a rule or deletes one"),
    ] {
        let refused = send(form);
        assert!(refused.starts_with(&format!("HTTP/1.1 {status}")) && refused.contains(why), "{refused}");
    }
    for (method, path) in
        [("POST", "/alarms"), ("GET", "/alarms/del?name=busy"), ("DELETE", "/api/1/alarms/busy")]
    {
        for site in ["cross-site", "same-site"] {
            let refused = browser(method, path, site, "do=delete&name=busy");
            assert!(refused.starts_with("HTTP/1.1 403"), "{method} {path}: {refused}");
        }
    }
    assert_eq!(list(&dir)["rules"].as_array().unwrap().len(), 1, "nothing else was added or deleted");
    assert!(send("do=delete&name=busy").starts_with("HTTP/1.1 303"));
    assert!(list(&dir)["rules"].as_array().unwrap().is_empty());
}

fn another_user_has_rules_of_its_own(dir: &FreshDir) {
    let Some(setpriv) = program("setpriv") else { return };
    if !iotide_testkit::is_root() {
        return;
    }
    let iotide = dir.join("iotide");
    fs::copy(IOTIDE, &iotide).unwrap();
    let other = |args: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&iotide).args(args);
        command.env("IOTIDE_DAEMON", dir.join("socket")).output().unwrap()
    };
    let rules = |output: Output| -> Vec<Value> {
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        list["rules"].as_array().unwrap().clone()
    };
    assert!(rules(other(&["alarms", "--format", "json"])).is_empty(), "root's rules are root's");
    assert!(other(&["alarms", "add", "a", "write_bytes > 1"]).status.success(), "names are one's own");
    let own = rules(other(&["alarms", "--format", "json"]));
    assert_eq!((own.len(), &own[0]["owner"]), (1, &65534.into()));
    assert_eq!(rules(ask(dir, &["alarms", "--format", "json"])).len(), 2);
    let theirs = other(&["alarms", "delete", "a", "--owner", "0"]);
    assert!(String::from_utf8_lossy(&theirs.stderr).contains("your own rules only"));
    assert_eq!(rules(ask(dir, &["alarms", "--format", "json"])).len(), 2, "nothing was deleted");
    for n in 0..40 {
        let added = other(&["alarms", "add", &format!("r{n}"), "write_bytes > 1"]);
        if !added.status.success() {
            assert!(
                n >= 30 && String::from_utf8_lossy(&added.stderr).contains("as many alarms as are allowed"),
                "{n}"
            );
            return;
        }
    }
    panic!("a user has as many rules as it likes");
}
