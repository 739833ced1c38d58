use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is gone when the test is over.
pub struct Dir {
    path: PathBuf,
}

impl Dir {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// One in another place than the usual one, on another file system for example.
    pub fn below(above: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("iotide-it-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = above.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path.join(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path.join(name)).unwrap()
    }

    /// The program, to be run here: nothing of the caller's environment, nothing to read.
    pub fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
        command.args(args).current_dir(&self.path).env_clear().stdin(Stdio::null());
        // Settings of whoever runs the tests are none of theirs.
        command.env("IOTIDE_CONFIG", "");
        command
    }

    pub fn iotide<const N: usize>(&self, args: [&str; N]) -> Outcome {
        Outcome::of(self.command(args).output().unwrap())
    }

    /// The same with something to read.
    pub fn iotide_reading<const N: usize>(&self, stdin: &str, args: [&str; N]) -> Outcome {
        let mut child = (self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        Outcome::of(child.wait_with_output().unwrap())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Result of a run of the program.
#[derive(Debug)]
pub struct Outcome {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        Self {
            status: output.status.code().expect("the program ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn exits_with(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// Returns the messages on stderr, with `(formats)` for the list of formats: it grows, and is not tested here.
    pub fn complaint(&self) -> String {
        assert_eq!(self.stdout, "", "a complaint is no result");
        let formats: Vec<&str> = iotide_formats::Format::ALL.iter().map(|format| format.name()).collect();
        self.stderr.replace(&formats.join(", "), "(formats)")
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Ten bursts of 1 s and 1 MB, one every 5 s.
pub fn bursts(op: &str) -> String {
    let mut table = String::from("rank,op,start,end,bytes\n");
    for i in 0..10 {
        writeln!(table, "0,{op},{},{},1000000", i * 5, i * 5 + 1).unwrap();
    }
    table
}

/// A burst that comes once.
pub fn once() -> &'static str {
    "rank,op,start,end,bytes\n0,write,0,1,500\n0,write,1.1,1.3,700\n"
}

/// Networks of their own, one for each machine, all on one switch. They go with this.
pub struct Networks {
    switch: String,
    pub machines: Vec<String>,
}

impl Networks {
    fn ip(args: &str) -> bool {
        Command::new("ip")
            .args(args.split(' '))
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// `None` if this machine cannot have them.
    pub fn new(n: usize) -> Option<Self> {
        static N_MADE: AtomicU32 = AtomicU32::new(0);
        let of = format!("{}x{}", std::process::id(), N_MADE.fetch_add(1, Ordering::Relaxed));
        let mut networks = Self { switch: format!("iotide{of}sw"), machines: Vec::new() };
        let switch = networks.switch.clone();
        let is_there = Self::ip(&format!("netns add {switch}"))
            && Self::ip(&format!("-n {switch} link add br0 type bridge"))
            && Self::ip(&format!("-n {switch} link set br0 up"));
        let is_there = is_there
            && (1..=n).all(|index| {
                let name = format!("iotide{of}m{index}");
                networks.machines.push(name.clone());
                Self::ip(&format!("netns add {name}"))
                    && Self::ip(&format!(
                        "-n {name} link add eth0 type veth peer name port{index} netns {switch}"
                    ))
                    && Self::ip(&format!("-n {name} addr add 10.77.0.{index}/24 dev eth0"))
                    && Self::ip(&format!("-n {name} link set eth0 up"))
                    && Self::ip(&format!("-n {name} link set lo up"))
                    && Self::ip(&format!("-n {switch} link set port{index} master br0"))
                    && Self::ip(&format!("-n {switch} link set port{index} up"))
            });
        is_there.then_some(networks)
    }

    /// Plugs or pulls the cable of a machine: `up`, `down`.
    pub fn set(&self, machine: usize, state: &str) {
        assert!(Self::ip(&format!("-n {} link set port{machine} {state}", self.switch)));
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for network in self.machines.iter().chain([&self.switch]) {
            Self::ip(&format!("netns delete {network}"));
        }
    }
}
