//! `iotide mount` over GlusterFS: rights of users and their groups, checked by the kernel alone and by the servers as well.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use iotide_testkit::program;

use super::Gluster;
use crate::mount::Mount;

/// A user in a team, and one who is not.
const MEMBER: [&str; 3] = ["--reuid=54321", "--regid=54321", "--groups=54999"];
const STRANGER: [&str; 3] = ["--reuid=54322", "--regid=54322", "--clear-groups"];
const TEAM: u32 = 54999;

fn run(user: [&str; 3], at: &Path, script: &str) -> String {
    let output =
        Command::new("setpriv").args(user).args(["sh", "-c", script]).current_dir(at).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Everything that makes a name, or takes one away.
const WORK: &str = "umask 007; echo text >file && mkdir d && echo more >d/file && mv d/file d/moved && ln file link && \
                    ln -s file symlink && mkfifo pipe && chmod 640 file && cat link d/moved && echo y >>file && \
                    rm -r d link symlink pipe && ls";

fn users_have_their_rights(at: &Path) {
    let team = at.join("team");
    fs::create_dir(&team).unwrap();
    chown(&team, None, Some(TEAM)).unwrap();
    fs::set_permissions(&team, fs::Permissions::from_mode(0o2770)).unwrap();
    assert_eq!(run(MEMBER, &team, WORK), "text\nmore\nfile\n");
    let file = fs::metadata(team.join("file")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (54321, TEAM, 0o640));
    let refused = run(STRANGER, at, "ls team; cat team/file; echo no >team/other");
    assert_eq!(refused.matches("Permission denied").count(), 3, "{refused}");
    fs::set_permissions(&team, fs::Permissions::from_mode(0o2775)).unwrap();
    let refused = run(STRANGER, at, "ls team; cat team/file; echo no >team/other; rm -f team/file");
    assert!(refused.starts_with("file\n") && refused.matches("Permission denied").count() == 3, "{refused}");
    assert_eq!(fs::read(team.join("file")).unwrap(), b"text\ny\n", "root may read what is another's");
}

#[test]
fn users_and_their_groups_have_their_rights_through_a_mount_of_gluster() {
    let (Some(_), Some(gluster)) = (program("setpriv"), Gluster::start()) else { return };
    gluster.volume("plain", &[], 2);
    // Rights are checked by the kernel alone, or with `acl` by the servers alone.
    for (name, options) in [("kernel", ""), ("servers", ",acl")] {
        let at = gluster.mount("plain", name, options);
        for (place, within) in [("beside", at.join(format!("{name}-beside"))), ("through", at.join(name))] {
            fs::create_dir(&within).unwrap();
            fs::set_permissions(&within, fs::Permissions::from_mode(0o755)).unwrap();
            match place {
                "beside" => users_have_their_rights(&within),
                _ => users_have_their_rights(&Mount::over(&within).unwrap().shown()),
            }
        }
    }
}
