//! The daemon as a service: its notifications to systemd, and its requests.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::FreshDir;

use crate::serve::{IOTIDE, unix_get};
use crate::util::Dir;

/// The next message that is no sign of life.
fn told(service_manager: &UnixDatagram) -> String {
    loop {
        let mut message = [0; 256];
        let n = service_manager.recv(&mut message).expect("the daemon says nothing");
        let message = String::from_utf8(message[..n].to_vec()).unwrap();
        if message != "WATCHDOG=1" {
            return message;
        }
    }
}

#[test]
fn settings_are_read_again_without_an_end_and_a_mistyped_one_changes_nothing() {
    let dir = FreshDir::new("serve-service");
    let service_manager = UnixDatagram::bind(dir.join("notify")).unwrap();
    service_manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let settings = |text: &str| {
        let places = ["socket", "store", "pages"].map(|name| format!("{name} = {:?}\n", dir.join(name)));
        std::fs::write(dir.join("serve.toml"), format!("http = \"none\"\n{}{text}", places.concat()))
            .unwrap();
    };
    settings("node = \"first\"\n");
    let mut daemon = Command::new(IOTIDE)
        .args(["serve", "--config"])
        .arg(dir.join("serve.toml"))
        .env("NOTIFY_SOCKET", dir.join("notify"))
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(dir.join("log")).unwrap())
        .spawn()
        .unwrap();
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &daemon.id().to_string()]).status().unwrap();
        assert!(status.success());
    };
    // What the machine does is read beside everything else: it may not be there at once.
    let wait_for_node = |name: &str| {
        while !unix_get(&dir, "/metrics").1.contains(&format!("node=\"{name}\"")) {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(told(&service_manager), "READY=1");
    let mut sign_of_life = [0; 64];
    let n = service_manager.recv(&mut sign_of_life).unwrap();
    assert_eq!(&sign_of_life[..n], b"WATCHDOG=1");
    wait_for_node("first");

    settings("node = \"second\"\n");
    signal("-HUP");
    let reloading = told(&service_manager);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(told(&service_manager), "READY=1");
    wait_for_node("second");

    settings("nod = \"third\"\n");
    signal("-HUP");
    assert!(told(&service_manager).starts_with("RELOADING=1"));
    assert_eq!(told(&service_manager), "READY=1");
    wait_for_node("second");
    let log = std::fs::read_to_string(dir.join("log")).unwrap();
    assert!(log.contains("the settings stay as they were") && log.contains("nod"), "{log}");

    signal("-TERM");
    assert_eq!(told(&service_manager), "STOPPING=1");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn the_service_is_installed_with_what_it_needs_and_keeps_settings_that_are_there() {
    let dir = Dir::new();
    let plan = dir.iotide(["serve", "install", "--root", "image", "--dry-run", "--with-key"]).exits_with(0);
    assert!(plan.stdout.contains("## image/etc/systemd/system/iotide.service\n[Unit]"), "{}", plan.stdout);
    assert!(!dir.path().join("image").exists());
    let install = || dir.iotide(["serve", "install", "--root", "image", "--with-key"]).exits_with(0);
    let told = install().stdout;
    assert_eq!(told.lines().count(), 5, "{told}");
    let unit = dir.read("image/etc/systemd/system/iotide.service");
    assert!(unit.contains(&format!("ExecStart={IOTIDE} serve\n")), "{unit}");
    let key = dir.read("image/etc/iotide/tree.key");
    dir.write("image/etc/iotide/serve.toml", "http = \"none\"\n");
    dir.write("image/etc/systemd/system/iotide.service", "old");
    install();
    assert_eq!(dir.read("image/etc/iotide/serve.toml"), "http = \"none\"\n");
    assert_eq!(dir.read("image/etc/iotide/tree.key"), key);
    assert_eq!(dir.read("image/etc/systemd/system/iotide.service"), unit);
    // What is installed is settings that a daemon can read, and a unit that is closed as far as it can be.
    let example = format!("{}/../../dist/serve.toml", env!("CARGO_MANIFEST_DIR"));
    dir.iotide(["serve", "check", "--config", &example]).exits_with(0);
    if let Some(analyze) = iotide_testkit::program("systemd-analyze") {
        let unit = dir.path().join("image/etc/systemd/system/iotide.service");
        let judged = Command::new(analyze)
            .args(["security", "--offline=true", "--threshold=40", "--no-pager"])
            .arg(unit)
            .output()
            .unwrap();
        assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    }
}
