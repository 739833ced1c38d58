//! Models in a real Redis database, for those who look there and for those who subscribe.

use super::rpc::run_sizes;
use super::*;

struct Redis {
    socket: PathBuf,
    child: Child,
}

impl Redis {
    fn start(dir: &FreshDir) -> Option<Self> {
        let (server, _) = (program("redis-server")?, program("redis-cli")?);
        let socket = dir.join("redis.sock");
        let mut command = Command::new(server);
        command
            .args(["--port", "0", "--save", "", "--requirepass", "open sesame", "--unixsocket"])
            .arg(&socket);
        let child =
            command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let redis = Self { socket, child };
        while redis.ask(&["PING"]) != "PONG\n" {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("redis-cli");
        command
            .arg("-s")
            .arg(&self.socket)
            .args(["-a", "open sesame", "--no-auth-warning", "--raw"])
            .args(args);
        command
    }

    fn ask(&self, args: &[&str]) -> String {
        String::from_utf8(self.command(args).stderr(Stdio::null()).output().unwrap().stdout).unwrap()
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn models_are_in_redis_and_subscribers_hear_of_a_fit() {
    let dir = FreshDir::new("serve-redis");
    let Some(mut redis) = Redis::start(&dir) else { return };
    let password = dir.write("password", "open sesame\n");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o400)).unwrap();
    let options = ["--redis", redis.socket.to_str().unwrap(), "--redis-password", password.to_str().unwrap()];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    let mut subscriber =
        redis.command(&["SUBSCRIBE", "iotide:models"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut heard = BufReader::new(subscriber.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(heard.by_ref().take(3).last().as_deref(), Some("1"), "it is subscribed");
    run_sizes(&dir, &daemon, &[1, 2, 3, 5, 8]);
    let published: Vec<String> = heard.by_ref().take(3).collect();
    assert_eq!(published, ["message", "iotide:models", "writer"]);
    subscriber.kill().unwrap();
    subscriber.wait().unwrap();
    let runs = |redis: &Redis| redis.ask(&["HGET", "iotide:model:writer", "runs"]);
    while runs(&redis) != "5\n" {
        std::thread::sleep(Duration::from_millis(20));
    }
    check_hash(&dir, &redis);
    // A server that was away and has forgotten everything has it all again.
    redis.stop();
    drop(redis);
    let redis = Redis::start(&dir).unwrap();
    while runs(&redis) != "5\n" {
        std::thread::sleep(Duration::from_millis(50));
    }
    check_hash(&dir, &redis);
    let (_, metrics) = daemon.get_tcp("/metrics", "");
    assert!(metrics.contains("iotide_daemon_redis_failing 0\n"), "{metrics}");
}

fn check_hash(dir: &FreshDir, redis: &Redis) {
    let field = |key: &str, field: &str| redis.ask(&["HGET", key, field]);
    let all = redis.ask(&["HGETALL", "iotide:model:writer"]);
    for name in ["callpath", "metric", "model", "json", "user"] {
        assert!(all.lines().any(|line| line == name), "{all}");
    }
    // As the script of the ADMIRE project writes them: names with line ends, functions with ` --- ` behind them, all in one order.
    let key = "iotide:model:writer";
    let (callpaths, metrics, models) = (field(key, "callpath"), field(key, "metric"), field(key, "model"));
    let at = |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (callpaths, metrics) = (at(&callpaths), at(&metrics));
    let models: Vec<&str> = models.trim_end().split(" --- ").map(|it| it.trim_end_matches(" ---")).collect();
    let index = callpaths
        .iter()
        .zip(&metrics)
        .position(|(callpath, metric)| callpath == "stdio->write" && metric == "size");
    assert_eq!(models[index.unwrap()], "100000.0 * size^(1)");
    assert_eq!(callpaths.len(), metrics.len());
    let json: Value = serde_json::from_str(&field(key, "json")).unwrap();
    let (_, over_http) = unix_get(dir, "/api/1/models?app=writer");
    assert_eq!(json, serde_json::from_str::<Value>(&over_http).unwrap());
    let user = field(key, "user");
    assert_eq!(field(&format!("iotide:model:{}:writer", user.trim()), "runs"), "5\n");
}
