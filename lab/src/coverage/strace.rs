//! Records of `strace -f -yy`: calls that returned bytes of a file, by its path.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::{Seen, is_left_out};

/// Adds the calls of all processes up.
pub(super) fn seen(text: &Path) -> Result<Seen, String> {
    let text = fs::read(text).map_err(|error| format!("cannot read {}: {error}", text.display()))?;
    let text = String::from_utf8_lossy(&text);
    let (mut seen, mut unfinished) = (Seen::new(), HashMap::new());
    for line in text.lines() {
        // `PID TIME call(…) = result <seconds>`
        let Some((pid, rest)) = line.trim_start().split_once(' ') else { continue };
        let Some((_, call)) = rest.trim_start().split_once(' ') else { continue };
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            unfinished.insert(pid.to_owned(), begun.trim_end().to_owned());
        } else if let Some((_, end)) =
            call.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            if let Some(begun) = unfinished.remove(pid) {
                add(&(begun + end), &mut seen);
            }
        } else {
            add(call, &mut seen);
        }
    }
    Ok(seen)
}

fn add(call: &str, seen: &mut Seen) {
    let Some((name, arguments)) = call.split_once('(') else { return };
    let Some((arguments, result)) = arguments.rsplit_once(" = ") else { return };
    let Some(result) = result.split(' ').next().and_then(|word| word.parse::<u64>().ok()) else { return };
    // Which of the descriptors it reads from, and which it writes to.
    let (from, to) = match name {
        "read" | "pread64" | "readv" | "preadv" | "preadv2" => (Some(0), None),
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => (None, Some(0)),
        "sendfile" => (Some(1), Some(0)),
        "copy_file_range" | "splice" => (Some(0), Some(1)),
        "io_submit" => return submitted(arguments, result, seen),
        _ => return,
    };
    if result == 0 {
        return;
    }
    let files: Vec<&str> = notes(arguments).collect();
    for (index, is_read) in [(from, true), (to, false)] {
        if let Some(path) = index.and_then(|index: usize| files.get(index)).filter(|path| !is_left_out(path))
        {
            seen.entry((*path).to_owned()).or_default().add(is_read, result);
        }
    }
}

/// Requests of libaio, as they were handed over: what became of them does not name the file.
fn submitted(arguments: &str, n_taken: u64, seen: &mut Seen) {
    for request in arguments.split("aio_lio_opcode=").skip(1).take(n_taken as usize) {
        let is_read = match request {
            request if request.starts_with("IOCB_CMD_PREAD") => true,
            request if request.starts_with("IOCB_CMD_PWRITE") => false,
            _ => continue,
        };
        let bytes = request.split("aio_nbytes=").nth(1).and_then(|rest| {
            let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
            digits.parse::<u64>().ok()
        });
        if let (Some(path), Some(bytes)) = (notes(request).next(), bytes)
            && !is_left_out(path)
        {
            seen.entry(path.to_owned()).or_default().add(is_read, bytes);
        }
    }
}

/// Returns the notes on descriptors in angle brackets: a path, or `pipe:[1]` and the like. The mark of a file without a name is cut off.
fn notes(arguments: &str) -> impl Iterator<Item = &str> {
    arguments.split('<').skip(1).filter_map(|rest| {
        let path = rest.split('>').next()?;
        Some(path.strip_suffix(" (deleted)").unwrap_or(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Moved;

    #[test]
    fn calls_are_added_up_by_file_whole_or_in_two_lines() {
        let dir = iotide_testkit::FreshDir::new("coverage-strace");
        let text = dir.write(
            "strace.txt",
            "7 1.0 read(3</a/x>, \"\"..., 10) = 4 <0.1>\n\
             8 1.1 write(4</a/y> (deleted), \"\"..., 9 <unfinished ...>\n\
             7 1.2 read(3</a/x>, \"\", 10) = 0 <0.1>\n\
             7 1.3 write(1<pipe:[5]>, \"\"..., 3) = 3 <0.1>\n\
             8 1.4 <... write resumed>) = 9 <0.1>\n\
             7 1.5 sendfile(4</a/y>, 3</a/x>, NULL, 5) = 5 <0.1>\n\
             7 1.6 pread64(3</usr/lib/l>, \"\"..., 10, 0) = 10 <0.1>\n\
             7 1.7 read(3</a/x>, 0x1, 10) = -1 EIO (Input/output error) <0.1>\n\
             7 1.8 io_submit(0x7, 2, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=6</a/z>, aio_buf=\"\"..., \
             aio_nbytes=64, aio_offset=0}, {aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=6</a/z>, aio_nbytes=32, aio_offset=0}]) = 2 <0.1>\n",
        );
        let seen = seen(&text).unwrap();
        let of = |path: &str| seen.get(path).copied();
        assert_eq!(of("/a/x"), Some(Moved { calls: 2, read: 9, written: 0 }));
        assert_eq!(of("/a/y"), Some(Moved { calls: 2, read: 0, written: 14 }));
        assert_eq!(of("/a/z"), Some(Moved { calls: 2, read: 32, written: 64 }));
        assert_eq!(seen.len(), 3);
    }
}
