//! A Slurm of some nodes on this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::util::Dir;

/// A Slurm, gone when the test is over, however it ends.
pub(crate) struct Slurm {
    dir: Dir,
    /// In the order they must go.
    daemons: Vec<Child>,
    nodes: Vec<u32>,
}

impl Slurm {
    /// Starts one of nodes `n1`, `n2`, …, with more lines for its settings. `None`, said loudly, where it is not installed or may not be started.
    pub(crate) fn start(n_nodes: usize, settings: &str) -> Option<Self> {
        Self::start_with(n_nodes, settings, "")
    }

    /// The same with a topology, which the settings may name.
    pub(crate) fn start_with(n_nodes: usize, settings: &str, topology: &str) -> Option<Self> {
        let [munged, controller, node] = ["munged", "slurmctld", "slurmd"]
            .map(|name| find(name).or_else(|| iotide_testkit::program(name)));
        let (munged, controller, node) = (munged?, controller?, node?);
        iotide_testkit::program("sbatch")?;
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        if !is_root {
            iotide_testkit::skip(iotide_testkit::Missing::Program, "slurmd as root");
            return None;
        }
        let dir = Dir::new();
        let path = dir.path().to_owned();
        for folder in ["run", "spool", "state"] {
            std::fs::create_dir(path.join(folder)).unwrap();
        }
        let key: Vec<u8> = (0..1024_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        dir.write("munge.key", key);
        set_mode(&path.join("munge.key"), 0o400);
        let host = Command::new("hostname").arg("-s").output().unwrap();
        let host = String::from_utf8(host.stdout).unwrap().trim().to_owned();
        let ports = free_ports(n_nodes + 1);
        let here = path.display();
        let mut conf = format!(
            "ClusterName=iotide\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n\
             AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={here}/run/munge.sock\n\
             SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool/%n\n\
             SlurmctldPidFile={here}/run/slurmctld.pid\nSlurmdPidFile={here}/run/slurmd-%n.pid\n\
             SlurmctldLogFile={here}/slurmctld.log\nSlurmdLogFile={here}/slurmd-%n.log\n\
             CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSlurmdParameters=config_overrides\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nReturnToService=2\nMpiDefault=none\nMessageTimeout=60\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
             PartitionName=main Nodes=n[1-{n_nodes}] Default=YES State=UP MaxTime=10\n{settings}",
            ports[0]
        );
        for (i, port) in ports.iter().enumerate().skip(1) {
            conf += &format!(
                "NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=500\n"
            );
        }
        dir.write("slurm.conf", conf);
        dir.write("topology.conf", topology);
        let mut slurm = Self { dir, daemons: Vec::new(), nodes: Vec::new() };
        let conf = path.join("slurm.conf");
        let at = |name: &str| format!("={}/{name}", path.display());
        let mut munge = Command::new(munged);
        munge.arg("--foreground").arg(format!("--key-file{}", at("munge.key")));
        munge
            .arg(format!("--socket{}", at("run/munge.sock")))
            .arg(format!("--pid-file{}", at("run/munged.pid")));
        munge.arg(format!("--log-file{}", at("munged.log"))).arg(format!("--seed-file{}", at("munged.seed")));
        slurm.spawn(munge);
        wait_until(|| path.join("run/munge.sock").exists());
        let mut control = Command::new(controller);
        slurm.spawn({
            control.arg("-D").arg("-f").arg(&conf);
            control
        });
        for i in 1..=n_nodes {
            let mut daemon = Command::new(&node);
            daemon.arg("-D").arg("-f").arg(&conf).arg("-N").arg(format!("n{i}"));
            let pid = slurm.spawn(daemon);
            slurm.nodes.push(pid);
        }
        wait_until(|| {
            let states = slurm.command("sinfo", &["-h", "-N", "-o", "%T"]).output().unwrap();
            let states = String::from_utf8(states.stdout).unwrap();
            states.lines().filter(|state| *state == "idle").count() == n_nodes
        });
        Some(slurm)
    }

    fn spawn(&mut self, mut daemon: Command) -> u32 {
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = daemon.spawn().unwrap();
        let pid = daemon.id();
        self.daemons.insert(0, daemon);
        pid
    }

    /// Stops the controller, or lets it go on: whoever asks it waits meanwhile.
    pub(crate) fn signal_controller(&self, signal: &str) {
        // After those of its nodes, and before munge.
        let controller = self.daemons[self.nodes.len()].id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &controller]).status().unwrap().success());
    }

    /// Kills the daemon of a node; what it has started goes on.
    pub(crate) fn kill_node(&mut self, name: &str) {
        let i: usize = name.strip_prefix('n').unwrap().parse().unwrap();
        let daemon = self.daemons.iter_mut().find(|daemon| daemon.id() == self.nodes[i - 1]).unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Its settings.
    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.path().join("slurm.conf")
    }

    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", self.conf());
        command
    }

    /// Runs one of its commands, to its end.
    #[track_caller]
    pub(crate) fn run(&self, mut command: Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}\n{}", self.logs());
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn sbatch(&self, dir: &Dir, args: &[&str]) {
        let mut command = self.command("sbatch", args);
        command.current_dir(dir.path());
        self.run(command);
    }

    pub(crate) fn logs(&self) -> String {
        let nodes = (1..=self.nodes.len()).map(|i| format!("slurmd-n{i}.log"));
        let names = std::iter::once("slurmctld.log".to_owned()).chain(nodes);
        names.map(|name| self.dir.read(&name)).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Asked first, so that the node ends its jobs' processes, too.
        for daemon in &mut self.daemons {
            // One that was killed is waited for already, and its number may be another's.
            if !matches!(daemon.try_wait(), Ok(None)) {
                continue;
            }
            let _ = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", daemon.id())).status();
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until && matches!(daemon.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // A step that could not say its end to anybody would try for ever.
        for step in steps_of(self.dir.path()) {
            let _ = Command::new("kill").args(["-KILL", &step]).status();
        }
    }
}

/// The processes that look after steps of the Slurm in this directory: each listens on a socket there, which is all that tells whose it is.
fn steps_of(dir: &Path) -> Vec<String> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let own: Vec<String> = sockets
        .lines()
        .filter_map(|line| {
            let mut columns = line.split_ascii_whitespace().skip(6);
            let (inode, path) = (columns.next()?, columns.next()?);
            Path::new(path).starts_with(dir).then(|| format!("socket:[{inode}]"))
        })
        .collect();
    let holds_one = |process: &Path| {
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| own.iter().any(|socket| link.as_os_str() == socket.as_str()))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| {
            std::fs::read_to_string(process.path().join("comm")).is_ok_and(|name| name == "slurmstepd\n")
                && holds_one(&process.path())
        })
        .filter_map(|process| process.file_name().into_string().ok())
        .collect()
}

/// Daemons lie where only root looks.
fn find(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/local/sbin"]
        .map(|folder| Path::new(folder).join(name))
        .into_iter()
        .find(|path| path.exists())
}

/// Ports that nobody listens on just now.
fn free_ports(n: usize) -> Vec<u16> {
    let sockets: Vec<_> = (0..n).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect()
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Waits for another process to come that far.
#[track_caller]
pub(crate) fn wait_until(mut there: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !there() {
        assert!(Instant::now() < until, "it does not come that far");
        std::thread::sleep(Duration::from_millis(1));
    }
}
