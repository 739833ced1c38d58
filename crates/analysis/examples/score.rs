#[path = "../../../xtask/src/accuracy/issues.rs"]
mod issues;
mod peer {
    pub fn on_path(_: &str) -> Option<std::path::PathBuf> {
        None
    }
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    issues::run(&args).unwrap();
}
