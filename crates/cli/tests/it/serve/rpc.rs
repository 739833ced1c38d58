//! Requests of controllers in frames, by clients in C, in Python and here.

use iotide_wire::{RPC_MAGIC, RpcFields, RpcHeader, RpcKind, put_rpc_text};

use super::*;

/// Runs of an application that write the more the larger they are, and the models of them.
pub(super) fn run_sizes(dir: &FreshDir, daemon: &Daemon<'_>, sizes: &[u32]) {
    for n in sizes {
        let id = format!("run-{n}");
        let mut command = record(dir, &id);
        command.env("IOTIDE_APP", "writer").env("PMI_RANK", "0").env("PMI_SIZE", n.to_string());
        let status = command.args(["sh", "-c", &format!("head -c {} /dev/zero > out", n * 100_000)]).status();
        assert!(status.unwrap().success());
        daemon.job(&id, "ended");
    }
    let n_all = ask(dir, &["jobs", "--app", "writer", "--format", "json"]);
    let n_all = serde_json::from_slice::<Value>(&n_all.stdout).unwrap()["jobs"].as_array().unwrap().len();
    loop {
        let (_, body) = unix_get(dir, "/api/1/models?app=writer");
        let models: Value = serde_json::from_str(&body).unwrap_or_default();
        if models["runs"].as_u64() == Some(n_all as u64) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client of frames.
struct Client(UnixStream, u32);

impl Client {
    fn connect(dir: &FreshDir) -> Self {
        Self::connect_to(&dir.join("socket.rpc"))
    }

    fn connect_to(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(&RPC_MAGIC).unwrap();
        Self(stream, 0)
    }

    fn frame(&mut self) -> Option<(RpcHeader, Vec<u8>)> {
        let mut head = [0; RpcHeader::SIZE];
        self.0.read_exact(&mut head).ok()?;
        let header = RpcHeader::decode(&head, RpcHeader::MAX_FRAME).unwrap();
        let mut payload = vec![0; header.payload];
        self.0.read_exact(&mut payload).unwrap();
        Some((header, payload))
    }

    fn send(&mut self, kind: u8, payload: &[u8]) {
        self.1 += 1;
        let head = RpcHeader { payload: payload.len(), kind, flags: 0, id: self.1 };
        self.0.write_all(&head.encode()).unwrap();
        self.0.write_all(payload).unwrap();
    }

    /// Asks; what is refused is its code and reason.
    fn ask(&mut self, kind: RpcKind, payload: &[u8]) -> Result<Vec<u8>, (u16, String)> {
        self.send(kind as u8, payload);
        let (header, answer) = self.frame().unwrap();
        assert_eq!(header.id, self.1);
        if header.kind == RpcKind::Refused as u8 {
            let mut fields = RpcFields(&answer);
            return Err((fields.u16().unwrap(), fields.text().unwrap().to_owned()));
        }
        Ok(answer)
    }

    fn resolve(
        &mut self,
        app: &str,
        callpath: &str,
        metric: &str,
        parameters: &[&str],
    ) -> Result<u32, (u16, String)> {
        let mut payload = vec![0];
        [app, callpath, metric].iter().for_each(|text| put_rpc_text(&mut payload, text));
        payload.push(parameters.len() as u8);
        parameters.iter().for_each(|text| put_rpc_text(&mut payload, text));
        let answer = self.ask(RpcKind::Resolve, &payload)?;
        Ok(RpcFields(&answer).u32().unwrap())
    }

    /// The generation, and the values.
    fn evaluate(&mut self, handle: u32, at: &[f64]) -> Result<(u64, Vec<f64>), (u16, String)> {
        let mut payload = handle.to_le_bytes().to_vec();
        payload.extend((at.len() as u32).to_le_bytes());
        at.iter().for_each(|x| payload.extend(x.to_le_bytes()));
        let answer = self.ask(RpcKind::Evaluate, &payload)?;
        let mut fields = RpcFields(&answer);
        let (generation, n) = (fields.u64().unwrap(), fields.u32().unwrap());
        Ok((generation, (0..n).map(|_| fields.f64().unwrap()).collect()))
    }
}

#[test]
fn models_are_evaluated_in_frames_as_over_http_by_c_and_python_and_by_nobody_else() {
    let dir = FreshDir::new("serve-rpc");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start(&dir);
    run_sizes(&dir, &daemon, &[1, 2, 3, 5, 8]);
    let path = "/api/1/evaluate?app=writer&callpath=stdio-%3Ewrite&metric=size&at=size=64";
    let over_http: Value = serde_json::from_str(&unix_get(&dir, path).1).unwrap();
    let value = over_http["value"].as_f64().unwrap();
    assert!((value - 6.4e6).abs() < 1e4, "{over_http}");
    let mut client = Client::connect(&dir);
    let handle = client.resolve("writer", "stdio->write", "size", &["size"]).unwrap();
    let (first, values) = client.evaluate(handle, &[64.0, 1.0, f64::NAN, 64.0]).unwrap();
    assert!(values[0] == value && values[3] == value && values[2].is_nan(), "{values:?}");
    refusals(&mut client, handle);
    // The same model after it was fitted anew, and whoever listens hears of it.
    let mut listener = Client::connect(&dir);
    assert!(listener.ask(RpcKind::Subscribe, &[]).unwrap().is_empty());
    run_sizes(&dir, &daemon, &[13]);
    loop {
        let (header, payload) = listener.frame().unwrap();
        assert_eq!(header.kind, RpcKind::Event as u8);
        let mut fields = RpcFields(&payload);
        if fields.text() == Some("model") {
            let event: Value = serde_json::from_slice(fields.0).unwrap();
            assert_eq!((&event["app"], &event["runs"]), (&"writer".into(), &6.into()));
            break;
        }
    }
    let (second, _) = client.evaluate(handle, &[64.0]).unwrap();
    assert!(second > first, "{second} after {first}");
    let jobs: Value = {
        let mut query = Vec::new();
        put_rpc_text(&mut query, "app=writer&limit=2");
        serde_json::from_slice(&client.ask(RpcKind::Jobs, &query).unwrap()).unwrap()
    };
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(client.ask(RpcKind::Load, &[]).unwrap().len(), 28);
    let over_http: Value = serde_json::from_str(&unix_get(&dir, path).1).unwrap();
    clients_of_others(&dir, &over_http);
}

fn refusals(client: &mut Client, handle: u32) {
    let refused = |answer: Result<(u64, Vec<f64>), (u16, String)>| answer.unwrap_err().0;
    assert_eq!(refused(client.evaluate(handle + 1, &[1.0])), 404);
    assert_eq!(client.resolve("writer", "stdio->write", "colour", &[]).unwrap_err().0, 404);
    assert_eq!(client.resolve("nobody", "", "size", &[]).unwrap_err().0, 404);
    assert_eq!(client.resolve("writer", "stdio->write", "size", &["nx"]).unwrap_err().0, 409);
    assert_eq!(client.resolve("writer", "", "size", &[]).unwrap_err().0, 400, "several call paths");
    let mut twice = handle.to_le_bytes().to_vec();
    twice.extend(1u32.to_le_bytes());
    twice.extend([0; 16]);
    assert_eq!(client.ask(RpcKind::Evaluate, &twice).unwrap_err().0, 400, "two coordinates");
    assert_eq!(client.ask(RpcKind::Values, &[]).unwrap_err().0, 400, "an answer is no question");
    assert_eq!(client.ask(RpcKind::Jobs, &[7]).unwrap_err().0, 400, "a text that is cut");
}

/// Programs in C and Python say the same; another user's say nothing.
fn clients_of_others(dir: &FreshDir, expected: &Value) {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/rpc");
    let mut commands = Vec::new();
    if let Some(cc) = program("cc") {
        let built = Command::new(cc)
            .args(["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-o"])
            .arg(dir.join("evaluate"))
            .arg(dist.join("evaluate.c"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        commands.push(vec![dir.join("evaluate")]);
    }
    if let Some(python) = program("python3") {
        fs::copy(dist.join("iotide_rpc.py"), dir.join("iotide_rpc.py")).unwrap();
        commands.push(vec![python, dir.join("iotide_rpc.py")]);
    }
    for command in commands {
        let args = ["app", "writer", "stdio->write", "size", "64", "1024"];
        let output = Command::new(&command[0])
            .args(&command[1..])
            .args(args)
            .env("IOTIDE_DAEMON", dir.join("socket"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let line = |n: usize| -> Vec<f64> {
            let line = text.lines().nth(n).unwrap_or_else(|| panic!("{command:?}: {text}"));
            line.split(' ').map(|word| word.parse().unwrap()).collect()
        };
        let there = |value: &Value| value.as_f64().unwrap();
        let interval = &expected["interval"];
        assert_eq!(line(0), [64.0, there(&expected["value"]), there(&interval[0]), there(&interval[1])]);
        assert_eq!(line(2), [64.0, there(&expected["value"])]);
        assert!(line(3)[0] == 1024.0 && line(3)[1] > 1e8, "{text}");
        // Another user may not reach an interpreter that is installed for one.
        let is_root = rustix::process::geteuid().is_root() && command.len() == 1;
        let Some(setpriv) = program("setpriv").filter(|_| is_root) else { continue };
        let mut other = Command::new(setpriv);
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(&command);
        let output = other
            .args(["job", "run-8", "stdio->write", "size", "64"])
            .env("IOTIDE_DAEMON", dir.join("socket"));
        let output = output.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains("no job run-8 is known to you"), "{stderr}");
    }
}

#[test]
fn what_is_no_frame_ends_its_connection_and_nothing_else() {
    let dir = FreshDir::new("serve-rpc-junk");
    let _daemon = Daemon::start(&dir);
    let mut honest = Client::connect(&dir);
    for junk in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 64],
        b"iotrpc01\xff\xff\xff\xff\x01\0\0\0\0\0\0\0",
        b"iotrpc01\x03\0\0\0\x01\0\0\0\0\0\0\0",
    ] {
        let mut stream = UnixStream::connect(dir.join("socket.rpc")).unwrap();
        let _ = stream.write_all(junk);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        assert_eq!(honest.ask(RpcKind::Load, &[]).unwrap().len(), 28);
    }
    // Many questions in one piece are answered one by one, in order.
    for _ in 0..100 {
        honest.send(RpcKind::Load as u8, &[]);
    }
    for n in 0..100 {
        assert_eq!(honest.frame().unwrap().0.id, honest.1 - 99 + n);
    }
}

/// A bridge to the root of a tree; ended when dropped.
struct Bridge(Child, PathBuf);

impl Bridge {
    fn start(dir: &FreshDir, name: &str, root: &str, key: &Path) -> Self {
        let socket = dir.join(name);
        let mut command = Command::new(IOTIDE);
        command.args(["serve", "bridge", "--parent", root, "--key"]).arg(key).arg("--socket").arg(&socket);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains("controllers are answered at"), "{said}");
        Self(child, socket.with_extension("rpc"))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn at_the_port_of_the_tree_who_has_the_key_is_answered_and_nobody_else() {
    let dir = FreshDir::new("serve-rpc-tree");
    let (key, other_key) = (dir.join("tree.key"), dir.join("other.key"));
    for key in [&key, &other_key] {
        assert!(Command::new(IOTIDE).args(["serve", "key"]).arg(key).output().unwrap().status.success());
    }
    let root = format!("127.0.0.1:{}", iotide_testkit::port());
    let options = ["--children", &root, "--key", key.to_str().unwrap()];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    assert!(
        record(&dir, "4711").args(["sh", "-c", "head -c 300000 /dev/zero > out"]).status().unwrap().success()
    );
    daemon.job("4711", "ended");
    let bridge = Bridge::start(&dir, "bridge", &root, &key);
    let mode = fs::metadata(&bridge.1).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "who may use it sees all jobs");
    let mut client = Client::connect_to(&bridge.1);
    assert_eq!(client.ask(RpcKind::Load, &[]).unwrap().len(), 28);
    let mut query = Vec::new();
    put_rpc_text(&mut query, "limit=5");
    let jobs: Value = serde_json::from_slice(&client.ask(RpcKind::Jobs, &query).unwrap()).unwrap();
    assert_eq!(jobs["jobs"][0]["job"], "4711");
    // Another key, and what is no daemon at all.
    let stranger = Bridge::start(&dir, "stranger", &root, &other_key);
    let mut client = Client::connect_to(&stranger.1);
    client.send(RpcKind::Load as u8, &[]);
    assert!(client.frame().is_none(), "it is hung up on");
    let mut plain = TcpStream::connect(&root).unwrap();
    plain.write_all(&RPC_MAGIC).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|four| four == b"4711"));
}
