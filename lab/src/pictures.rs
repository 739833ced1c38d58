//! Pictures of the documents: `cargo xtask pictures` makes them again, with the product and a browser.
//!
//! A program that reads and writes with a known rhythm is recorded, its page is photographed, and so are the pages of a daemon of its own
//! while jobs run below it. Sessions in a terminal become SVG. Everything that is shown was made in that very run.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::product::{self, Bed, Server};

const HELP: &str = "\
usage: cargo xtask pictures [OPTIONS]

  --folder DIR      where the pictures go (docs/pictures)
  --browser FILE    the Chromium to take them with (chromium)
  --program FILE    the iotide to show (built in release mode unless given)
";

/// Size of a window at a desk, in pixels.
const DESK: [u32; 2] = [1200, 900];
/// The same as far down as the first chart of a report.
const REPORT: [u32; 2] = [1200, 1420];
/// The program that is recorded, as seen from the folder of the experiment.
const PROGRAM: &str = "./iotide";
/// Time that a daemon watches its jobs before its pages are photographed: long enough for a period to be found.
const WATCHED: Duration = Duration::from_secs(32);
/// Measurements of a metric that grows with the square root, and of one that does not grow.
const MEASURED: &str = "\
p,time,bytes
4,2.02,1.00e9
8,2.86,1.01e9
16,3.99,1.00e9
32,5.68,0.99e9
64,8.01,1.00e9
128,11.29,1.00e9
";

struct Settings {
    folder: PathBuf,
    browser: PathBuf,
    program: Option<PathBuf>,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Option<Self>, String> {
        let folder = crate::repository().join("docs/pictures");
        let mut settings = Self { folder, browser: "chromium".into(), program: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().map(PathBuf::from).ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--folder" => settings.folder = value()?,
                "--browser" => settings.browser = value()?,
                "--program" => settings.program = Some(value()?),
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("no option {other}\n{HELP}")),
            }
        }
        Ok(Some(settings))
    }
}

/// Makes all pictures.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let Some(settings) = Settings::parse(args)? else {
        print!("{HELP}");
        return Ok(Outcome::Good);
    };
    let program = settings.program.clone().map_or_else(product::build, Ok)?;
    let program = fs::canonicalize(&program).map_err(|error| format!("{}: {error}", program.display()))?;
    fs::create_dir_all(&settings.folder)
        .map_err(|error| format!("cannot make {}: {error}", settings.folder.display()))?;
    let bed = Bed::on_disk("pictures")?;
    // Its place shows in pictures.
    let here = bed.folder.join("iotide");
    fs::copy(&program, &here).map_err(|error| format!("{}: {error}", here.display()))?;
    let studio = Studio { settings, program: here, bed };
    studio.of_a_run()?;
    studio.of_models()?;
    studio.of_a_daemon()?;
    Ok(Outcome::Good)
}

/// Product, browser and folder that pictures are made with.
struct Studio {
    settings: Settings,
    program: PathBuf,
    bed: Bed,
}

impl Studio {
    /// Returns iotide with these arguments, in the folder of the experiment.
    fn iotide(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.bed.folder).env("IOTIDE_DAEMON", self.bed.folder.join("socket"));
        command.env("IOTIDE_CONFIG", "").stdin(Stdio::null());
        command
    }

    /// Runs iotide to its end, and returns what it printed.
    fn printed(&self, args: &[&str]) -> Result<String, String> {
        let out = self.iotide(args).output().map_err(|error| error.to_string())?;
        // An answer that finds nothing ends with 1, and is an answer.
        if !matches!(out.status.code(), Some(0 | 1)) {
            let said = String::from_utf8_lossy(&out.stderr);
            return Err(format!("iotide {}: {}", args.join(" "), said.trim()));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// A recorded program: its answer in a terminal, and the first screen of its page by day, by night and on a phone.
    fn of_a_run(&self) -> Result<(), String> {
        let made =
            ["record", "-q", "-o", "run", "--", PROGRAM, "ioskel", "-q", "--period", "1", "--size", "48M"];
        let made =
            [&made[..], &["--iterations", "14", "--processes", "4", "--transfer-size", "256K", "--sync"]];
        self.printed(&made.concat())?;
        self.terminal("detect", &["detect", "run"])?;
        self.printed(&["report", "run", "-o", "run.html"])?;
        let page = format!("file://{}", self.bed.folder.join("run.html").display());
        self.shoot(&page, "report", REPORT, false)?;
        self.shoot(&page, "report-dark", REPORT, true)?;
        self.shoot(&page, "report-phone", [500, 900], false)
    }

    fn of_models(&self) -> Result<(), String> {
        let table = self.bed.folder.join("scaling.csv");
        fs::write(&table, MEASURED).map_err(|error| format!("{}: {error}", table.display()))?;
        self.terminal("model", &["model", "scaling.csv", "--at", "p=1024"])?;
        self.printed(&["model", "scaling.csv", "--at", "p=1024", "-o", "model.html"])?;
        self.shoot(&format!("file://{}", self.bed.folder.join("model.html").display()), "model", DESK, false)
    }

    /// Three jobs below a daemon: the list, the page of one, and the load of the storage.
    fn of_a_daemon(&self) -> Result<(), String> {
        let mut daemon = self.iotide(&["serve", "--http", "127.0.0.1:0", "--node", "n1"]);
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            daemon.arg(option).arg(self.bed.folder.join(name));
        }
        let (_daemon, _says) = Server::start(daemon, None, "serving at")?;
        let mut jobs = Vec::new();
        for (job, period, size, processes) in
            [("climate", "4", "96M", "4"), ("turbulence", "7", "64M", "2"), ("training", "3", "16M", "1")]
        {
            let mut command = self.iotide(&["record", "-q", "--live", "--", PROGRAM, "ioskel", "-q"]);
            command.args([
                "--period",
                period,
                "--size",
                size,
                "--processes",
                processes,
                "--iterations",
                "100",
            ]);
            command
                .env("IOTIDE_JOB_ID", job)
                .env("IOTIDE_APP", job)
                .env("IOTIDE_LIVE", self.bed.folder.join("pages"));
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            jobs.push(Server::of(child.map_err(|error| error.to_string())?));
        }
        std::thread::sleep(WATCHED);
        let link = self.printed(&["web"])?;
        let link = link.trim();
        let (address, _) = link.split_once("/login").ok_or(format!("no link: {link}"))?;
        self.fetched(link)?;
        self.shoot_of_daemon(address, &format!("{address}/jobs"), "daemon-jobs")?;
        self.shoot_of_daemon(address, &format!("{address}/jobs/climate"), "daemon-job")?;
        self.shoot_of_daemon(address, &format!("{address}/load"), "daemon-load")
    }

    /// Takes the picture of a page of the daemon as it is at first: a browser would wait for the end of the connection that keeps it up to date.
    fn shoot_of_daemon(&self, address: &str, url: &str, name: &str) -> Result<(), String> {
        let mut page = self.fetched(url)?;
        if let Some((before, link)) = page.split_once("<link rel=\"stylesheet\" href=\"")
            && let Some((style, after)) = link.split_once("\">")
        {
            let style = self.fetched(&format!("{address}{style}"))?;
            page = format!("{before}<style>{style}</style>{after}");
        }
        // The script is what keeps it up to date; pictures are drawn without it.
        page = page
            .replace("<script src=", "<script data-left-out=")
            .replace("src=\"/", &format!("src=\"{address}/"));
        let file = self.bed.folder.join(format!("{name}.html"));
        fs::write(&file, page).map_err(|error| format!("{}: {error}", file.display()))?;
        self.shoot(&format!("file://{}", file.display()), name, DESK, false)
    }

    /// Returns what is at an address of the daemon; the first one logs in.
    fn fetched(&self, url: &str) -> Result<String, String> {
        let jar = self.bed.folder.join("cookies");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--location"])
            .arg("--cookie")
            .arg(&jar)
            .arg("--cookie-jar")
            .arg(&jar);
        let out = curl.arg(url).output().map_err(|error| format!("cannot start curl: {error}"))?;
        match out.status.success() {
            true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
            false => Err(format!("{url}: {}", String::from_utf8_lossy(&out.stderr).trim())),
        }
    }

    /// Takes the picture of a page in a window of this width and height, by day or by night.
    fn shoot(&self, url: &str, name: &str, [width, height]: [u32; 2], is_dark: bool) -> Result<(), String> {
        let file = self.settings.folder.join(format!("{name}.png"));
        let mut browser = Command::new(&self.settings.browser);
        browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        browser.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        browser.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
        browser.arg(format!("--user-data-dir={}", self.bed.folder.join("profile").display()));
        browser.arg(format!("--window-size={width},{height}")).arg("--virtual-time-budget=4000");
        browser.arg(format!("--screenshot={}", file.display())).arg(url);
        let out = browser.output();
        let out =
            out.map_err(|error| format!("cannot start {}: {error}", self.settings.browser.display()))?;
        if !out.status.success() || !file.is_file() {
            return Err(format!("no picture of {name}: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        println!("{}", file.display());
        Ok(())
    }

    /// Writes what a command prints as a picture of a terminal.
    fn terminal(&self, name: &str, args: &[&str]) -> Result<(), String> {
        let printed = self.printed(args)?;
        let file = self.settings.folder.join(format!("{name}.svg"));
        let text = format!("$ iotide {}\n{printed}", args.join(" "));
        fs::write(&file, session(&text)).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{}", file.display());
        Ok(())
    }
}

/// Returns text as a picture of a terminal: light on dark, each line in its place.
fn session(text: &str) -> String {
    const LINE: usize = 18;
    const COLUMN: f64 = 7.83;
    const MARGIN: usize = 14;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let n_columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (n_columns as f64 * COLUMN).ceil() as usize + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\" fill=\"#d8dee9\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1d2430\"/>\n"
    );
    for (nth, line) in lines.iter().enumerate() {
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let bold = if line.starts_with("$ ") { " font-weight=\"bold\" fill=\"#fff\"" } else { "" };
        let y = MARGIN + 13 + nth * LINE;
        svg += &format!("<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\"{bold}>{line}</text>\n");
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_lines_and_its_signs() {
        let svg = session("$ iotide detect a\nconfidence > 99 %\n\n  a & b\n");
        assert_eq!(svg.matches("<text ").count(), 4);
        assert!(svg.contains(">confidence &gt; 99 %</text>") && svg.contains(">  a &amp; b</text>"), "{svg}");
    }
}
