use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn kept() -> (tempfile::TempDir, KeptFiles) {
    let dir = tempfile::tempdir().unwrap();
    let files = KeptFiles::open(dir.path()).unwrap();
    (dir, files)
}

#[test]
fn names_are_checked() {
    for good in ["a", "a_b-9", &"x".repeat(64)] {
        check_name(good).unwrap();
    }
    for bad in ["", ".", "..", "a/b", "A", "é", "a\0", "a b", &"x".repeat(65)] {
        assert!(check_name(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_hostile_tree_is_removed_and_nothing_outside_it() {
    let (dir, files) = kept();
    files.create("one", None).unwrap();
    let top = files.path("one");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    symlink(&outside, top.join("link")).unwrap();
    // Names that the removal itself would choose.
    fs::write(top.join("moved-1"), "x").unwrap();
    fs::create_dir_all(top.join("moved-2/full")).unwrap();
    fs::create_dir_all(top.join("closed/inner/innermost")).unwrap();
    fs::write(top.join("closed/inner/file"), "x").unwrap();
    fs::set_permissions(top.join("closed/inner"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(top.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    // Deeper than any path can be.
    let mut at = rustix::fs::open(&top, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    assert!(measure(&top).unwrap().truncated);
    assert_eq!(files.names().unwrap(), ["one"]);

    files.remove("one").unwrap();
    files.remove("one").unwrap();
    assert!(!top.exists());
    assert!(outside.join("precious").exists());
    assert!(files.owners().is_empty());
}

#[test]
fn space_is_measured_as_it_is_allocated() {
    let (_dir, files) = kept();
    files.create("one", None).unwrap();
    let top = files.path("one");
    assert!(files.owner("one").is_some() && files.owner("two").is_none());
    fs::create_dir(top.join("sub")).unwrap();
    fs::write(top.join("sub/file"), vec![1; 100_000]).unwrap();
    fs::File::create(top.join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let disk = measure(&top).unwrap();
    assert_eq!((disk.entries, disk.truncated), (3, false));
    assert!((100_000..1 << 20).contains(&disk.bytes), "{disk:?}");
}
