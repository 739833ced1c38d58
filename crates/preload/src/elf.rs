//! The build id of the main program, found in its own memory.

use crate::sys;

/// Returns the build id that the linker has put into the main program (`NT_GNU_BUILD_ID`). If there is none, eight bytes stand for it, put into
/// `room`: a digest of the program's size, the time it was last changed and where its parts are loaded. Empty if even these are not known.
pub fn build_id(room: &mut [u8; 8]) -> &[u8] {
    match find() {
        Some(id) => id,
        None => match stand_in() {
            Some(digest) => {
                *room = digest.to_be_bytes();
                room
            }
            None => &[],
        },
    }
}

fn stand_in() -> Option<u64> {
    // No permission to read the program is needed for this.
    let fd = sys::open(c"/proc/self/exe", libc::O_PATH | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return None;
    }
    let stat = sys::stat(fd as i32);
    sys::close(fd as i32);
    let stat = stat?;
    let of_file = [stat.st_size as u64, stat.st_mtime as u64, stat.st_mtime_nsec as u64];
    let of_headers = headers().unwrap_or(&[]).iter().flat_map(|header| {
        [u64::from(header.p_type), header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz]
    });
    // FNV-1a, eight bytes at a time.
    Some(of_file.into_iter().chain(of_headers).fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
    }))
}

fn headers() -> Option<&'static [libc::Elf64_Phdr]> {
    // SAFETY: what the kernel left for the loader: the program's own headers, mapped for good.
    unsafe {
        let (at, n) = (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM));
        if at == 0 || libc::getauxval(libc::AT_PHENT) as usize != size_of::<libc::Elf64_Phdr>() {
            return None;
        }
        Some(core::slice::from_raw_parts(at as *const libc::Elf64_Phdr, n as usize))
    }
}

fn find() -> Option<&'static [u8]> {
    let headers = headers()?;
    let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR)?;
    let bias = (headers.as_ptr() as usize).wrapping_sub(own.p_vaddr as usize);
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    notes
        .map(|header| {
            let at = bias.wrapping_add(header.p_vaddr as usize);
            // SAFETY: a segment of notes is part of what is loaded and stays so.
            unsafe { core::slice::from_raw_parts(at as *const u8, header.p_filesz as usize) }
        })
        .find_map(build_id_among)
}

/// Finds the build id among notes: each has the lengths of its name and its content, its kind, and both padded to four bytes.
fn build_id_among(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let padded = |n: u32| (n as usize).checked_next_multiple_of(4);
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name, rest) = rest.split_at_checked(padded(word(0))?)?;
        let content = rest.get(..word(4) as usize)?;
        if word(8) == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(content);
        }
        notes = rest.get(padded(word(4))?..).unwrap_or(&[]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_behind_other_notes_and_damage_ends_the_search() {
        let note = |kind: u8, content: &[u8]| {
            let mut note = vec![4, 0, 0, 0, content.len() as u8, 0, 0, 0, kind, 0, 0, 0];
            note.extend_from_slice(b"GNU\0");
            note.extend_from_slice(content);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let both = [note(1, b"sixteen bytes..."), note(3, b"abcde")].concat();
        assert_eq!(build_id_among(&both), Some(&b"abcde"[..]));
        for n in 0..both.len() - 3 {
            assert_eq!(build_id_among(&both[..n]), None, "{n}");
        }
        assert_eq!(build_id_among(&[0xff; 64]), None);
    }
}
