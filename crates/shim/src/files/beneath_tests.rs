//! Both ways to resolve a path: they agree, and never leave the work directory.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags, fstat, renameat_with};

use super::beneath::{Resolver, Root};
use super::get::READ;
use super::path::Relative;
use super::tests::dirs;

const BOTH: [Resolver; 2] = [Resolver::System, Resolver::Walk];

/// Those to try. An emulator of another processor may not have `openat2`, and is said to be one then.
fn resolvers() -> &'static [Resolver] {
    if std::env::var_os("HIMALIA_TEST_WITHOUT_OPENAT2").is_some() {
        &[Resolver::Walk]
    } else {
        &BOTH
    }
}

/// Reads a small file.
fn content(fd: OwnedFd) -> String {
    let mut text = String::new();
    fs::File::from(fd).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_directory_that_becomes_a_link_meanwhile_leads_nowhere() {
    for &resolver in resolvers() {
        let dirs = dirs();
        fs::create_dir(dirs.work.join("d")).unwrap();
        fs::write(dirs.work.join("d/secret"), "inside").unwrap();
        symlink("../work2", dirs.work.join("l")).unwrap();
        let root = Root::with_resolver(&dirs.work, resolver);
        let stop = AtomicBool::new(false);
        let (mut inside, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (d, l) = (dirs.work.join("d"), dirs.work.join("l"));
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &d, CWD, &l, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let path = Relative::parse("d/secret").unwrap();
            let mut rounds = 0;
            while rounds < 5_000 || ((inside == 0 || refused == 0) && rounds < 5_000_000) {
                rounds += 1;
                match root.get(&path, READ) {
                    Ok(fd) => {
                        assert_eq!(content(fd), "inside", "{resolver:?}");
                        inside += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(inside > 0 && refused > 0, "{resolver:?} was not put to the test");
    }
}

#[derive(Clone, Debug)]
enum Node {
    Dir,
    File,
    Link(String),
}

/// Few names, so that paths meet what there is.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn target() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "c", "..", "..", ".", "work", "work2", "secret", "",
    ]);
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"))
}

fn node() -> impl Strategy<Value = (Vec<String>, Node)> {
    let kind = prop_oneof![
        3 => Just(Node::Dir),
        2 => Just(Node::File),
        4 => target().prop_map(Node::Link),
    ];
    (prop::collection::vec(name(), 1..4), kind)
}

fn inodes(dir: &Path, found: &mut BTreeSet<u64>) {
    found.insert(fs::metadata(dir).unwrap().ino());
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stat = fs::symlink_metadata(&path).unwrap();
        found.insert(stat.ino());
        if stat.is_dir() {
            inodes(&path, found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn both_resolvers_agree_and_stay_inside(
        nodes in prop::collection::vec(node(), 1..14),
        asked in prop::collection::vec(prop::collection::vec(name(), 0..6), 1..12),
    ) {
        let dirs = dirs();
        for (path, node) in nodes {
            let at = path.iter().fold(dirs.work.clone(), |at, name| at.join(name));
            // Only where nothing leads out on the way, so that the tree is the one that is meant.
            let parent = at.parent().unwrap();
            if parent.canonicalize().is_ok_and(|parent| parent.starts_with(&dirs.work)) {
                let _ = match node {
                    Node::Dir => fs::create_dir(&at),
                    Node::File => fs::write(&at, "").map(drop),
                    Node::Link(target) if target.is_empty() => Ok(()),
                    Node::Link(target) => symlink(target, &at),
                };
            }
        }
        let mut inside = BTreeSet::new();
        inodes(&dirs.work, &mut inside);
        let with = |&resolver: &Resolver| Root::with_resolver(&dirs.work, resolver);
        let roots: Vec<Root> = resolvers().iter().map(with).collect();
        for names in asked {
            let path = Relative::parse(&names.join("/")).unwrap();
            let look = |root: &Root| {
                root.get(&path, READ)
                    .map(|fd| fstat(&fd).unwrap().st_ino)
                    .map_err(|failure| failure.code)
            };
            let found: Vec<_> = roots.iter().map(look).collect();
            for other in &found {
                prop_assert_eq!(&found[0], other, "{:?}", names);
            }
            if let Ok(inode) = found[0] {
                prop_assert!(inside.contains(&inode), "{names:?} is outside");
            }
        }
    }
}
