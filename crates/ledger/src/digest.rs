//! Ids that tell one application from another.

use iotide_wire::sha256;

/// Number of hexadecimal digits of an application's id.
const APP_DIGITS: usize = 16;

/// Returns the id of the application with this command line: 16 hexadecimal digits.
///
/// The program counts by its file name alone, so that it is the same application from every directory. Arguments that begin with one of
/// `ignored` do not count (a seed, the name of an output file).
pub fn app_id<'a>(argv: impl IntoIterator<Item = &'a [u8]>, ignored: &[&[u8]]) -> String {
    let mut text = Vec::new();
    for (index, argument) in argv.into_iter().enumerate() {
        let argument = match index {
            0 => argument.rsplit(|&byte| byte == b'/').next().unwrap_or(argument),
            _ if ignored.iter().any(|start| argument.starts_with(start)) => continue,
            _ => argument,
        };
        text.extend_from_slice(argument);
        text.push(0);
    }
    hex(&sha256(&text)[..APP_DIGITS / 2])
}

/// Bytes as digits, two each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_its_command_line_without_the_directory() {
        let id = |argv: &[&str]| app_id(argv.iter().map(|arg| arg.as_bytes()), &[b"--seed="]);
        let lammps = id(&["/usr/bin/lmp", "-in", "in.lj"]);
        assert_eq!(lammps.len(), APP_DIGITS);
        assert_eq!(lammps, id(&["lmp", "-in", "in.lj", "--seed=7"]));
        assert_ne!(lammps, id(&["lmp", "-in", "in.eam"]));
        assert_ne!(id(&["a", "bc"]), id(&["a", "b", "c"]));
    }
}
