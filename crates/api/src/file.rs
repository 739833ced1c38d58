//! Files beside the traces, read whole: measurements, workloads, tables of periods.

use std::io::{self, Read};
use std::path::Path;

use crate::Error;

/// Returns what is in a file; `-` is standard input.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let is_stdin = path == Path::new("-");
    let mut bytes = Vec::new();
    let read = match is_stdin {
        true => io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        false => std::fs::read(path),
    };
    read.map_err(|source| Error::File { name: name(path), source })
}

/// Returns the text in a file; `-` is standard input.
pub fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read_bytes(path)?).map_err(|_| Error::File {
        name: name(path),
        source: io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"),
    })
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_says_why_and_where() {
        let folder = iotide_testkit::FreshDir::new("api-file");
        let path = folder.write("x", b"\xff");
        assert_eq!(read_bytes(&path).unwrap(), b"\xff");
        let told = |error: Error| format!("{error}: {}", std::error::Error::source(&error).unwrap());
        let error = told(read_text(&path).unwrap_err());
        assert!(error.starts_with("cannot read ") && error.ends_with("it is not text in UTF-8"), "{error}");
        let error = told(read_text(&folder.join("y")).unwrap_err());
        assert!(error.contains("No such file"), "{error}");
    }
}
