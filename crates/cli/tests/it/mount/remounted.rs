//! A backing file system whose client dies while it is shown.

use std::fs;

use crate::stage::pair;
use crate::stage_faults::{among_mounts, said};
use crate::stage_storage::{SSHFS, has_sshfs};

#[test]
fn a_client_that_died_and_was_mounted_again_is_shown_again_and_a_bare_mount_point_never() {
    if !has_sshfs() {
        return;
    }
    let dir = pair();
    for name in ["back", "shown"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::create_dir(dir.path().join("back/sub")).unwrap();
    // What lies beneath the mount point is not what was shown.
    dir.write("dst/beneath", "");
    dir.write("back/sub/file", "contents");
    let port = iotide_testkit::port();
    let script = format!(
        r#"{SSHFS}
        serve {port}; connect {port}
        "$0" mount dst shown >&2 & mount=$!
        trap 'kill $mount; wait $mount; kill -9 $client $server 2>/dev/null; umount -l dst 2>/dev/null' EXIT
        for i in {{1..500}}; do mountpoint -q shown && break; kill -0 $mount || exit 99; sleep 0.01; done
        cat shown/sub/file && echo; ls shown
        kill -9 $client; wait $client 2>/dev/null
        while cat shown/sub/file >/dev/null 2>&1; do sleep 0.05; done; echo dead
        umount -l dst
        for i in 1 2 3; do sleep 0.5; ls shown 2>/dev/null | grep beneath; cat shown/sub/file 2>/dev/null; done; echo bare
        connect {port}
        for i in {{1..200}}; do cat shown/sub/file 2>/dev/null && break; sleep 0.05; done; echo
        echo new > shown/sub/new && cat back/sub/new; ls shown"#
    );
    let Some(output) = among_mounts(dir.path(), &script) else { return };
    let wanted = "contents\nsub\ndead\nbare\ncontents\nnew\nsub\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{}", said(&output));
}
