//! Pages of the daemon: who sees what through which door, names that would harm, logins, and all of it in a browser.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use iotide_testkit::{FreshDir, program};
use serde_json::{Value, json};

use super::{Daemon, IOTIDE, ask, kill_all, record, unix_get};
use crate::browser::{Axe, Browser};

const PERSON: &str = "Accept: text/html,*/*\r\n";

/// Makes a token for a role; the daemon knows it once it is started again.
fn token(dir: &FreshDir, role: &str) -> String {
    let output = Command::new(IOTIDE)
        .args(["serve", "token", "--role", role, "--store"])
        .arg(dir.join("store"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let token = String::from_utf8(output.stdout).unwrap();
    format!("Authorization: Bearer {}\r\n", token.trim())
}

/// A job that writes until it is killed.
fn writer(dir: &FreshDir, id: &str) -> Child {
    let script = "while :; do dd if=/dev/zero of=out bs=100000 count=20 status=none; sleep 0.2; done";
    record(dir, id).env("IOTIDE_APP", "zebra-app").args(["sh", "-c", script]).spawn().unwrap()
}

fn until_running(dir: &FreshDir, id: &str) {
    while !unix_get(dir, &format!("/api/1/jobs/{id}")).1.contains("\"running\"") {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_listed_is_answered_and_nothing_else_is() {
    let dir = FreshDir::new("web-table");
    let daemon = Daemon::start(&dir);
    assert!(
        record(&dir, "4711").args(["dd", "if=/dev/zero", "of=out", "count=3"]).status().unwrap().success()
    );
    daemon.job("4711", "ended");
    let document: Value = serde_json::from_str(&unix_get(&dir, "/api/1/openapi.json").1).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 40, "{document:#}");
    for (path, methods) in
        paths.iter().filter(|(path, _)| !["/api/1/events", "/page/{name}"].contains(&path.as_str()))
    {
        let asked = path.replace("{job}", "4711").replace("{node}", "n1");
        let (status, body) = unix_get(&dir, &asked);
        // Something may be missing in the query, but it is known what is asked.
        let expected: &[u16] = match methods.get("get") {
            Some(_) if path == "/login" => &[403],
            Some(_) => &[200, 400],
            None => &[405],
        };
        assert!(expected.contains(&status), "{path}: {status} {body}");
    }
    for other in [
        "/api/1",
        "/api/1/nothing",
        "/jobs/4711/series",
        "/trace",
        "/model",
        "/favicon.ico",
        "/page/x.js",
        "//",
    ] {
        assert_eq!(unix_get(&dir, other).0, 404, "{other}");
    }
    // Programs get a list where a person gets a page, and aliases answer programs as before.
    assert!(unix_get(&dir, "/").1.starts_with("iotide "));
    assert!(unix_get(&dir, "/profiles").1.starts_with('['));
}

/// Every door behind which jobs are.
const DOORS: [&str; 28] = [
    "/",
    "/jobs",
    "/jobs?q=zebra",
    "/jobs/zebra-77",
    "/load",
    "/nodes",
    "/models",
    "/models?app=zebra-app",
    "/models?job=zebra-77",
    "/traces",
    "/traces?job=zebra-77",
    "/profiles",
    "/profiles?a=zebra-76&b=zebra-76",
    "/profiles?a=app:zebra-app&b=app:zebra-app",
    "/search?q=ebra",
    "/api",
    "/alarms",
    "/api/1/alarms",
    "/api/1/forecast",
    "/metrics",
    "/metrics?job=zebra-77",
    "/api/1/jobs",
    "/api/1/jobs/zebra-77",
    "/api/1/jobs/zebra-77/series?metric=write_bytes",
    "/api/1/jobs?q=ebra&state=ended",
    "/job/list?past=1",
    "/profiles/get?jobid=zebra-76",
    "/trace/read?job=zebra-77",
];

#[test]
fn a_user_sees_nothing_of_anothers_job_through_any_door() {
    let dir = FreshDir::new("web-doors");
    let daemon = Daemon::start(&dir);
    let mut ended = record(&dir, "zebra-76");
    ended.env("IOTIDE_APP", "zebra-app").args([
        "dd",
        "if=/dev/zero",
        "of=zebra-out",
        "count=3",
        "status=none",
    ]);
    assert!(ended.status().unwrap().success());
    daemon.job("zebra-76", "ended");
    let (other, controller) = (token(&dir, "user:54321"), token(&dir, "controller"));
    daemon.kill();
    let daemon = Daemon::start(&dir);
    let listen = |who: &str| {
        let mut stream = TcpStream::connect(&daemon.http).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET /api/1/events?rates=1 HTTP/1.1\r\nHost: x\r\n{who}\r\n").unwrap();
        BufReader::new(stream)
    };
    let owner = std::fs::read_to_string(dir.join("store/token")).unwrap();
    let owner = format!("Authorization: Bearer {}\r\n", owner.trim());
    let (mut of_owner, mut of_other, mut of_controller) =
        (listen(&owner), listen(&other), listen(&controller));
    assert!(ask(&dir, &["alarms", "add", "busy", "rate(write_bytes) > 1"]).status.success());
    let mut child = writer(&dir, "zebra-77");
    until_running(&dir, "zebra-77");
    for late in ["/api/1/alarms", "/api/1/forecast"] {
        while !unix_get(&dir, late).1.contains("zebra-77") {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    for door in DOORS {
        let (status, body) = daemon.get_tcp(door, &format!("{PERSON}{owner}"));
        let is_shown = body.contains("zebra-7") || body.contains("zebra-app");
        // Some doors have numbers of a job behind them rather than its name: others must not open them at all.
        let has_numbers = door.contains("/series") || door.contains("/trace/");
        assert!(
            status == 200 && (is_shown || has_numbers || door == "/nodes"),
            "the owner at {door}: {status}\n{body}"
        );
        if has_numbers {
            assert_eq!(
                [&other, &controller, &String::new()].map(|who| daemon.get_tcp(door, who).0),
                [404, 403, 401],
                "{door}"
            );
        }
        // What was asked for is repeated in a field or a refusal, with nothing beside it.
        let told = |body: &str| {
            let body = body.replace("value=\"ebra\"", "").replace("value=\"zebra\"", "");
            let body = body.replace("no job zebra-77 is known", "").replace("no job zebra-76 is known", "");
            body.contains("zebra")
        };
        for (who, role) in [(&other, "another user"), (&String::new(), "nobody")] {
            let (status, body) = daemon.get_tcp(door, &format!("{PERSON}{who}"));
            assert!(!told(&body), "{role} at {door}: {status}\n{body}");
        }
        // A controller sees applications, and no job.
        let (status, body) = daemon.get_tcp(door, &format!("{PERSON}{controller}"));
        assert!(
            !body.replace("job=zebra-77", "").contains("zebra-7") || body.contains("is known"),
            "a controller at {door}: {status}\n{body}"
        );
    }
    assert!(
        daemon.get_tcp("/models?app=zebra-app", &format!("{PERSON}{controller}")).1.contains("zebra-app")
    );
    assert_eq!(daemon.get_tcp("/api/1/jobs", &controller).0, 403);
    // Events: the owner hears of the job and its rates, the others hear that there is something, and nothing of it.
    super::events_until(&mut of_owner, |heard| heard.contains("event: rates") && heard.contains("zebra-77"));
    let heard = super::events_until(&mut of_other, |heard| heard.matches("event: rates").count() >= 2);
    assert!(!heard.contains("zebra"), "{heard}");
    kill_all(&mut child);
    daemon.job("zebra-77", "ended");
    let heard = super::events_until(&mut of_controller, |heard| heard.contains("event: model"));
    assert!(!heard.contains("zebra-7"), "{heard}");
}

#[test]
fn a_link_logs_in_once_and_who_logs_out_is_out() {
    let dir = FreshDir::new("web-login");
    let daemon = Daemon::start(&dir);
    let said = ask(&dir, &["web"]);
    assert!(said.status.success(), "{said:?}");
    let link = String::from_utf8(said.stdout).unwrap();
    let (address, path) = link.trim().split_at(link.find("/login").unwrap());
    assert_eq!(address, format!("http://{}", daemon.http));
    let answer = |method: &str, path: &str, headers: &str| {
        let mut stream = TcpStream::connect(&daemon.http).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let first = answer("GET", path, PERSON);
    let cookie = first.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "on loopback without TLS it would not come back: {cookie}");
    assert!(answer("GET", path, PERSON).starts_with("HTTP/1.1 403"), "used twice");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert!(answer("GET", "/jobs", &format!("{PERSON}{cookie}")).contains("Log out"));
    assert!(answer("POST", "/logout", &cookie).starts_with("HTTP/1.1 200"));
    let out = answer("GET", "/jobs", &format!("{PERSON}{cookie}"));
    assert!(out.starts_with("HTTP/1.1 401") && out.contains("iotide web"), "{out}");
    // Only whom the system names gets a link.
    assert!(answer("POST", "/api/1/login", "").starts_with("HTTP/1.1 403"));
    let later = String::from_utf8(ask(&dir, &["web"]).stdout).unwrap();
    // Who asks too often is asked to wait, and nobody else is; nor is one who has a right link, from the same address.
    let n_refused = (0..130).filter(|_| answer("GET", "/icon.svg", "").starts_with("HTTP/1.1 429")).count();
    assert!(n_refused > 0, "{n_refused}");
    let late = answer("GET", later.trim().split_at(later.find("/login").unwrap()).1, PERSON);
    assert!(late.starts_with("HTTP/1.1 200"), "{late}");
    assert_eq!(unix_get(&dir, "/api/1/jobs").0, 200);
}

#[test]
fn a_user_who_takes_all_connections_is_refused_and_counted_and_others_are_answered() {
    // The system's: one of root's own is for nobody else.
    let (Some(setpriv), Some(python)) = (program("setpriv"), program("/usr/bin/python3")) else { return };
    if !iotide_testkit::is_root() {
        return;
    }
    let dir = FreshDir::new("web-connections");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let _daemon = Daemon::start(&dir);
    // More than a quarter of the places, opened again as they are closed.
    const FLOOD: &str = "import socket, sys\nheld = []\nwhile True:\n    s = socket.socket(socket.AF_UNIX)\n    s.connect(sys.argv[1])\n    held = held[-400:] + [s]";
    let mut flood = Command::new(&setpriv);
    flood.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&python).args(["-c", FLOOD]);
    let mut flood = flood.arg(dir.join("socket")).spawn().unwrap();
    let refused = "iotide_daemon_refused_total{resource=\"http\",uid=\"65534\"} ";
    loop {
        let (status, metrics) = unix_get(&dir, "/metrics");
        assert_eq!(status, 200);
        assert!(flood.try_wait().unwrap().is_none(), "it goes on");
        if metrics.contains(refused) {
            break;
        }
    }
    flood.kill().unwrap();
    flood.wait().unwrap();
}

/// A certificate of loopback that speaks for itself, and its key.
pub(super) fn certificate(openssl: &Path, dir: &FreshDir) -> [PathBuf; 2] {
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.join(name));
    let mut make = Command::new(openssl);
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    make.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    make.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
    assert!(make.arg(&key).arg("-out").arg(&cert).output().unwrap().status.success());
    [cert, key]
}

#[test]
fn beyond_loopback_there_is_tls_or_nothing() {
    let (Some(openssl), Some(curl)) = (program("openssl"), program("curl")) else { return };
    let dir = FreshDir::new("web-tls");
    let refused = Command::new(IOTIDE)
        .args(["serve", "--http", "0.0.0.0:0", "--socket"])
        .arg(dir.join("s"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("--http-cert"), "{said}");
    let [cert, key] = certificate(&openssl, &dir);
    let options = ["--http-cert", cert.to_str().unwrap(), "--http-key", key.to_str().unwrap()];
    let mut command = Command::new(IOTIDE);
    command.args(["serve", "--http", "127.0.0.1:0", "--node", "n1"]).args(options);
    for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
        command.arg(option).arg(dir.join(name));
    }
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("serving at") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let link = String::from_utf8(ask(&dir, &["web"]).stdout).unwrap();
    assert!(link.starts_with("https://127.0.0.1:"), "{link}");
    let output = Command::new(curl)
        .args(["-si", "--max-time", "20", "--cacert"])
        .arg(&cert)
        .arg(link.trim())
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&output.stdout).to_lowercase();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.contains("200 ok") && answer.contains("; secure"), "{answer}");
    // What is no certificate is said so.
    std::fs::write(&cert, "nothing").unwrap();
    let mut refused = Command::new(IOTIDE);
    refused.args(["serve", "--http", "127.0.0.1:0", "--node", "n1"]).args(options);
    for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
        refused.arg(option).arg(dir.join(name));
    }
    let refused = refused.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("cert.pem"), "{said}");
}

/// A daemon of a tree whose address and that for those below are known.
struct Above {
    child: Child,
    http: String,
    children: String,
}

impl Above {
    fn start(dir: &FreshDir) -> Self {
        let mut command = Command::new(IOTIDE);
        command.args([
            "serve",
            "--http",
            "127.0.0.1:0",
            "--children",
            "127.0.0.1:0",
            "--node",
            "top",
            "--key",
        ]);
        command.arg(dir.join("tree.key"));
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(dir.join(name));
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("connect to") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let http = said.split("http://").nth(1).unwrap().split(';').next().unwrap().to_owned();
        let children = said.trim_end().rsplit_once("connect to ").unwrap().1.to_owned();
        Self { child, http, children }
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that ends with the test, also where that fails.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // With all that it has started, if it leads a group.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A name that would be markup, end an attribute, turn the direction of writing and begin a line.
const HOSTILE: &str = "<img src=x onerror=document.title='pwned'>\"'\n\u{202e}evil";

#[test]
fn a_browser_tours_every_page_of_a_tree_with_jobs_in_it() {
    let dir = FreshDir::new("web-tour");
    let key = Command::new(IOTIDE).args(["serve", "key"]).arg(dir.join("tree.key")).output().unwrap();
    assert!(key.status.success());
    let top = Above::start(&dir);
    let below = ["one", "two"].map(|name| {
        let own = FreshDir::new(&format!("web-tour-{name}"));
        let mut command = Command::new(IOTIDE);
        command.args(["serve", "--http", "none", "--node", name, "--parent", &top.children, "--key"]);
        command.arg(dir.join("tree.key"));
        for (option, file) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(own.join(file));
        }
        let child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        while std::os::unix::net::UnixStream::connect(own.join("socket")).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        (own, Ending(child))
    });
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    // Runs of two sizes of an application, so that there are models; and one of a harmful name with a very long command.
    let one = &below[0].0;
    for (id, n) in [("s1", 1), ("s2", 2), ("s3", 4)] {
        let script = format!(
            "for i in $(seq {n}); do dd if=/dev/zero of=out$i bs=1000 count={n} status=none & done; wait"
        );
        assert!(
            record(one, id)
                .env("IOTIDE_APP", "solver")
                .args(["sh", "-c", &script])
                .status()
                .unwrap()
                .success()
        );
    }
    let long = "x".repeat(100_000);
    let mut hostile = record(one, "hostile");
    hostile.env("IOTIDE_APP", HOSTILE).env("IOTIDE_PARAMS", "<b>=3");
    assert!(
        hostile.args(["awk", "BEGIN { print \"x\" > \"out\" }", HOSTILE, &long]).status().unwrap().success()
    );
    let writers = [writer(one, "live"), writer(&below[1].0, "live")].map(Ending);
    while !unix_get(&dir, "/api/1/jobs/hostile").1.contains("\"ended\"") {
        std::thread::sleep(Duration::from_millis(20));
    }
    while !unix_get(&dir, "/api/1/jobs/live").1.contains("\"one\",\"two\"") {
        std::thread::sleep(Duration::from_millis(20));
    }
    // A run ended when its last process did, here as on its node.
    let end = |dir| {
        serde_json::from_str::<Value>(&unix_get(dir, "/api/1/jobs/s1").1).unwrap()["end_unix_s"].clone()
    };
    assert!(end(&dir).is_number());
    assert_eq!(end(&dir), end(one));
    assert!(ask(&dir, &["alarms", "add", "busy", "rate(write_bytes) > 1"]).status.success());
    let link = String::from_utf8(ask(&dir, &["web"]).stdout).unwrap();
    browser.go(link.trim());
    // It leads on by itself.
    while browser.read()["method"] != "Page.loadEventFired" {}
    browser.until("document.querySelector(\"nav\")");

    let pages = [
        ("/", "Running"),
        ("/jobs", "live"),
        ("/jobs/live", "Nodes side by side"),
        ("/jobs/hostile", "img src=x"),
        ("/load", "expected to move"),
        ("/nodes", "two"),
        ("/models", "img src=x"),
        ("/models?app=solver", "Functions by growth"),
        ("/traces", "the whole machine"),
        ("/traces?job=live", "write_bytes"),
        ("/traces?job=Node:+top", "node top"),
        ("/profiles?a=s1&b=s3", "Side by side"),
        ("/profiles?a=app:solver&b=hostile", "mean of 3 runs"),
        ("/search?q=img", "hostile"),
        ("/search?q=%3Cimg+src%3Dx+onerror%3Ddocument.title%3D%27pwned%27%3E", "<img src=x"),
        ("/alarms", "busy"),
        ("/decisions", "Decisions"),
        ("/api", "openapi.json"),
    ];
    for scripts in [true, false] {
        browser.tell("Emulation.setScriptExecutionDisabled", json!({"value": !scripts}));
        for (width, path, fact) in
            [1400, 390].into_iter().flat_map(|width| pages.map(|(path, fact)| (width, path, fact)))
        {
            // Without a script the width changes nothing.
            if !scripts && width == 390 {
                continue;
            }
            browser.shows_as("light", width);
            browser.go(&format!("http://{}{path}", top.http));
            let said = browser.evaluate(
                "({ text: document.body.innerText + [...document.querySelectorAll('input')].map((field) => field.value).join(' '), \
                   images: [...document.images].map((image) => image.getAttribute('src')), title: document.title, \
                   wide: document.documentElement.scrollWidth > innerWidth, charts: document.querySelectorAll('figure.chart svg').length })",
            );
            assert!(said["text"].as_str().unwrap().contains(fact), "{path} without '{fact}': {said:#}");
            assert_eq!(
                (&said["images"], &said["wide"]),
                (&json!(["/icon.svg"]), &json!(false)),
                "{path} {width}"
            );
            assert!(!said["title"].as_str().unwrap().contains("pwned"), "{path}");
        }
    }
    browser.tell("Emulation.setScriptExecutionDisabled", json!({"value": false}));
    if let Some(axe) = Axe::found() {
        let faults = pages.map(|(path, _)| {
            browser.go(&format!("http://{}{path}", top.http));
            (path, axe.faults(&mut browser))
        });
        let found: Vec<_> = faults.iter().filter(|(_, faults)| !faults.is_empty()).collect();
        assert!(found.is_empty(), "{found:#?}");
    }
    browser.shows_as("light", 1400);

    // The page of a running job changes by itself.
    browser.go(&format!("http://{}/jobs/live", top.http));
    browser.evaluate("window.before = document.querySelector('#head').innerText");
    browser.until("document.querySelector('#head').innerText !== window.before && document.getElementById('signal').dataset.state === 'on'");
    // The rates in the list, too, and what was chosen there stays.
    browser.go(&format!("http://{}/jobs", top.http));
    browser.evaluate("document.querySelector('#ended th button').click(); window.first = document.querySelector('#running')");
    browser.until("document.querySelector('#running') !== window.first && document.querySelector('#ended th[aria-sort=ascending]')");
    // The slider changes the projection.
    browser.go(&format!("http://{}/models?app=solver", top.http));
    browser.evaluate(
        "window.before = document.querySelector('#projection').innerText; { const slider = document.querySelector('input[type=range]'); \
         slider.value = slider.max; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
    );
    browser.until("document.querySelector('#projection').innerText !== window.before && location.search.includes('step=')");

    assert!(browser.faults.is_empty(), "{:#?}", browser.faults);
    let own = format!("http://{}/", top.http);
    let foreign: Vec<&String> =
        browser.asked.iter().filter(|url| !url.starts_with(&own) && *url != "about:blank").collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    drop(writers);
}
