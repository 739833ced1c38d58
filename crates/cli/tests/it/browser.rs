use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use iotide_testkit::program;
use serde_json::{Value, json};

/// A browser, driven through two pipes.
pub struct Browser {
    child: Child,
    ask: File,
    answers: BufReader<File>,
    n_asked: u64,
    session: Value,
    /// Errors on pages, and in `asked` the requests of the pages and their addresses.
    pub faults: Vec<String>,
    pub asked: Vec<String>,
}

impl Browser {
    /// `None`, said loudly, where there is none.
    pub fn start(dir: &Path) -> Option<Self> {
        let chromium = program("chromium")?;
        for pipe in ["ask", "answers"] {
            assert!(Command::new("mkfifo").arg(dir.join(pipe)).status().unwrap().success());
        }
        let script = format!(
            "exec '{}' --headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --disable-background-networking \
             --disable-component-update --disable-sync --user-data-dir=profile about:blank 3<ask 4>answers",
            chromium.display()
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ask = OpenOptions::new().write(true).open(dir.join("ask")).unwrap();
        let answers = BufReader::new(File::open(dir.join("answers")).unwrap());
        let mut browser = Self {
            child,
            ask,
            answers,
            n_asked: 0,
            session: Value::Null,
            faults: Vec::new(),
            asked: Vec::new(),
        };
        let target = browser.tell("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            browser.tell("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.tell(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    pub fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).unwrap();
        message.pop();
        let message: Value = serde_json::from_slice(&message).expect("the browser speaks JSON");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => self.faults.push(params.to_string()),
            Some("Runtime.consoleAPICalled") if params["type"] != "log" => {
                self.faults.push(params.to_string())
            }
            Some("Network.requestWillBeSent") => {
                self.asked.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
        message
    }

    pub fn tell(&mut self, method: &str, params: Value) -> Value {
        self.n_asked += 1;
        let mut message = json!({"id": self.n_asked, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.ask.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == self.n_asked {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    pub fn go(&mut self, url: &str) {
        self.tell("Page.navigate", json!({"url": url}));
        while self.read()["method"] != "Page.loadEventFired" {}
    }

    /// In a window so wide, by day (`light`) or by night (`dark`).
    pub fn shows_as(&mut self, scheme: &str, width: u32) {
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}),
        );
        self.tell(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        let told = self.tell(
            "Runtime.evaluate",
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true}),
        );
        assert!(told["exceptionDetails"].is_null(), "{expression}: {told}");
        told["result"]["value"].clone()
    }

    /// Waits until something is true on the page.
    pub fn until(&mut self, expression: &str) {
        let wait = format!(
            "new Promise((done) => {{ const look = () => ({expression}) ? done(true) : setTimeout(look, 50); look(); }})"
        );
        assert_eq!(self.evaluate(&wait), true, "{expression}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks at pages as people see them who cannot see well, or have no mouse: with axe-core, a checker that others make.
pub struct Axe {
    script: String,
}

/// Levels at which axe-core reports a fault that keeps some people from using a page, or makes it hard for them.
const MOST: [&str; 3] = ["critical", "serious", "moderate"];

impl Axe {
    /// `None`, said loudly, where it is not installed.
    pub fn found() -> Option<Self> {
        let path = std::env::var_os("IOTIDE_TEST_AXE").filter(|path| Path::new(path).is_file());
        let Some(path) = path else {
            iotide_testkit::skip(
                iotide_testkit::Missing::Program,
                "axe-core (its axe.min.js, in IOTIDE_TEST_AXE)",
            );
            return None;
        };
        Some(Self { script: std::fs::read_to_string(path).unwrap() })
    }

    /// Returns the faults of the page that is shown, a line each, by day and by night, in a wide and in a narrow window.
    ///
    /// All that can be opened on it is open, all its pictures are drawn, and what stands behind tabs lies open. Of long tables only the
    /// first rows are left: the others are like them, and take most of the time.
    pub fn faults(&self, browser: &mut Browser) -> Vec<String> {
        // The page has a policy against foreign scripts; this one comes from outside of the page.
        browser.evaluate(&self.script);
        let mut faults = Vec::new();
        for (scheme, width) in [("light", 1400), ("dark", 390)] {
            browser.shows_as(scheme, width);
            browser.evaluate(
                "for (const details of document.querySelectorAll('details')) details.open = true; \
                 for (const rows of document.querySelectorAll('tbody')) while (rows.rows.length > 12) rows.lastElementChild.remove(); \
                 for (const panel of document.querySelectorAll('.tabs > .panel')) panel.style.display = 'block'; \
                 for (const figure of document.querySelectorAll('figure')) figure.dispatchEvent(new PointerEvent('pointerenter')); true",
            );
            let found = browser.evaluate(
                "axe.run(document, { resultTypes: ['violations'] }).then(({ violations, passes }) => ({ passes: passes.length, violations: \
                 violations.map(({ impact, id, nodes }) => ({ impact, id, nodes: nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)}: ${failureSummary}`) })) }))",
            );
            assert!(found["passes"].as_u64().unwrap() > 10, "hardly anything was looked at: {found}");
            let violations = found["violations"].as_array().unwrap();
            faults.extend(
                violations
                    .iter()
                    .filter(|fault| MOST.iter().any(|impact| fault["impact"] == *impact))
                    .map(|fault| format!("{scheme}, {width} pixels: {fault:#}")),
            );
        }
        faults
    }
}
