//! Metrics of others beside ours: exporters that are asked, and programs that push.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::remote_write::{asked, start_prometheus};
use super::*;

/// An exporter with a counter that stands still, a gauge that does not, and a histogram.
struct Exporter {
    address: String,
    n_asked: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Exporter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (n_asked, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (n, over) = (Arc::clone(&n_asked), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let n = n.fetch_add(1, Ordering::Relaxed);
                let body = format!(
                    "# HELP parcels_total Parcels so far.\n# TYPE parcels_total counter\nparcels_total{{to=\"a \\\"b\\\"\"}} 100\n\
                     # HELP queue How many wait.\n# TYPE queue gauge\nqueue {n}\n\
                     # HELP took_seconds How long each took.\n# TYPE took_seconds histogram\n\
                     took_seconds_bucket{{le=\"0.5\"}} 30\ntook_seconds_bucket{{le=\"1\"}} 80\ntook_seconds_bucket{{le=\"+Inf\"}} 100\n\
                     took_seconds_sum 61.5\ntook_seconds_count 100\n"
                );
                let _ = write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            }
        });
        Self { address, n_asked, is_over, thread: Some(thread) }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn an_exporter_behind_https_is_asked_if_its_certificate_is_trusted() {
    let Some(openssl) = program("openssl") else { return };
    let (encrypted, plain) = (FreshDir::new("serve-https"), FreshDir::new("serve-scrape-https"));
    let [cert, key] = super::web::certificate(&openssl, &encrypted);
    let options = ["--http-cert", cert.to_str().unwrap(), "--http-key", key.to_str().unwrap()];
    let exporter = Daemon::start_with(&encrypted, Command::new(IOTIDE), &options);
    let url = format!("https://{}/metrics", exporter.http);
    for (trusted, is_up) in [(cert.as_path(), 1), (std::path::Path::new("/etc/hostname"), 0)] {
        let mut command = Command::new(IOTIDE);
        command.env("SSL_CERT_FILE", trusted);
        let daemon = Daemon::start_with(&plain, command, &["--scrape", &url, "--scrape-every", "100ms"]);
        let line = format!("iotide_exporter_up{{node=\"n1\",exporter=\"{}\"}} {is_up}", exporter.http);
        let seconds = format!("iotide_exporter_seconds{{node=\"n1\",exporter=\"{}\"}} 0\n", exporter.http);
        let begun = Instant::now();
        // Before it was first asked, nothing is up either.
        while !unix_get(&plain, "/metrics").1.contains(&line)
            || unix_get(&plain, "/metrics").1.contains(&seconds)
        {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", unix_get(&plain, "/metrics").1);
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(daemon);
    }
}

#[test]
fn scraped_exporter_has_counters_gauges_and_histograms_that_are_right() {
    let (Some(prometheus), Some(curl), Some(promtool)) =
        (program("prometheus"), program("curl"), program("promtool"))
    else {
        return;
    };
    let dir = FreshDir::new("serve-scrape");
    let exporter = Exporter::start();
    let url = format!("http://{}/metrics", exporter.address);
    let options = ["--scrape", &url, "--scrape-every", "100ms"];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    // Whatever is added up by being asked again has grown by then.
    while exporter.n_asked.load(Ordering::Relaxed) < 6 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_, text) = unix_get(&dir, "/metrics");
    let labels = format!("node=\"n1\",exporter=\"{}\"", exporter.address);
    for line in [
        format!("parcels_total{{{labels},to=\"a \\\"b\\\"\"}} 100"),
        format!("took_seconds_bucket{{{labels},le=\"1\"}} 80"),
        format!("took_seconds_sum{{{labels}}} 61.5"),
        "# TYPE took_seconds histogram".to_owned(),
        "# TYPE queue gauge".to_owned(),
        format!("iotide_exporter_up{{{labels}}} 1"),
        format!("iotide_exporter_samples{{{labels}}} 7"),
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    assert_eq!(checked(&promtool, &text), "");
    // Over TCP, only who has the token sees it.
    let token = fs::read_to_string(dir.join("store/token")).unwrap();
    assert!(!daemon.get_tcp("/metrics", "").1.contains("parcels"));

    // Debian's Prometheus reads the same, and asks as it is used to.
    let port = iotide_testkit::port();
    let config = format!(
        "scrape_configs:\n- job_name: iotide\n  scrape_interval: 200ms\n  authorization: {{credentials: {}}}\n  static_configs:\n  \
         - targets: ['{}']\n    labels: {{instance: n1}}\n",
        token.trim(),
        daemon.http
    );
    let _prometheus = start_prometheus(&prometheus, &dir, &config, port, &[]);
    let value = |query: &str| asked(&curl, port, query).into_values().next();
    for (query, expected) in [
        ("sum by (instance, __name__) (parcels_total)", 100.0),
        ("sum by (instance, __name__) (took_seconds_count)", 100.0),
        ("histogram_quantile(0.8, took_seconds_bucket)", 1.0),
    ] {
        let query = format!("label_replace({query}, \"__name__\", \"x\", \"\", \"\")");
        let mut seen = None;
        for _ in 0..600 {
            seen = value(&query);
            if seen.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(seen, Some(expected), "{query}");
    }

    // It goes away, and so does what it showed; that it is away is shown.
    drop(exporter);
    loop {
        let (_, text) = unix_get(&dir, "/metrics");
        if text.contains(&format!("iotide_exporter_up{{{labels}}} 0")) {
            assert!(!text.contains("parcels"), "{text}");
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(unix_get(&dir, "/api/1/losses").1.contains("exporter 127.0.0.1:"));
}

#[test]
fn all_that_a_real_exporter_shows_is_shown_by_its_kind() {
    let Some(prometheus) = program("prometheus") else { return };
    let dir = FreshDir::new("serve-scrape-real");
    let port = iotide_testkit::port();
    let _prometheus = start_prometheus(&prometheus, &dir, "scrape_configs: []\n", port, &[]);
    let url = format!("http://127.0.0.1:{port}/metrics");
    let _daemon =
        Daemon::start_with(&dir, Command::new(IOTIDE), &["--scrape", &url, "--scrape-every", "200ms"]);
    let own = loop {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            // It shows more once it has begun in earnest.
            if answer.contains("prometheus_http_requests_total") {
                break answer.split_once("\r\n\r\n").unwrap().1.to_owned();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let kinds = |text: &str| -> Vec<String> {
        let mut kinds: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE ") && !line.contains(" iotide_"))
            .map(str::to_owned)
            .collect();
        kinds.sort();
        kinds
    };
    let expected = kinds(&own);
    assert!(
        ["counter", "gauge", "histogram", "summary"].iter().all(|kind| own.contains(&format!(" {kind}\n")))
    );
    for _ in 0..600 {
        if kinds(&unix_get(&dir, "/metrics").1) == expected {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(kinds(&unix_get(&dir, "/metrics").1), expected);
}

#[test]
fn a_program_pushes_metrics_and_only_who_may_sees_them() {
    let dir = FreshDir::new("serve-push");
    let daemon = Daemon::start(&dir);
    let post = |path: &str, body: &str| {
        let mut stream = UnixStream::connect(dir.join("socket")).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        // Who pushes too much is hung up on, after the answer.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        (answer[9..12].to_owned(), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    };
    let text = "# TYPE steps_total counter\nsteps_total{phase=\"main\"} 12\nenergy -1.5\nnot a sample\n";
    for _ in 0..3 {
        let said = post("/api/1/push?source=sim", text);
        assert_eq!(said, ("200".to_owned(), "2 samples, 1 lines refused\n".to_owned()));
    }
    let (_, metrics) = unix_get(&dir, "/metrics");
    let line = metrics.lines().find(|line| line.starts_with("steps_total{")).unwrap_or_default();
    assert!(line.contains("source=\"sim\",phase=\"main\"} 12"), "{metrics}");
    assert!(!daemon.get_tcp("/metrics", "").1.contains("steps_total"));
    assert_eq!(post("/api/1/push", text).0, "400");
    assert_eq!(post("/api/1/push?source=x", "<html>\n").0, "400");
    assert_eq!(post("/api/1/push?source=x", &"a 1\n".repeat(100_000)).0, "413");
    assert_eq!(post("/metrics", text).0, "405");
    let mut stream = TcpStream::connect(&daemon.http).unwrap();
    write!(stream, "POST /api/1/push?source=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\na 1\n")
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

/// Returns the report of Prometheus' own tool on an exposition.
pub(super) fn checked(promtool: &Path, text: &str) -> String {
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = check.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    if said.status.success() { words } else { format!("{words}\n{text}") }
}
