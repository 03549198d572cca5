use std::os::unix::fs::chown;

use super::*;

/// Notes, and data directories of gateways.
struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn notes(&self) -> PathBuf {
        self.dir.path().join("himalia/uids")
    }

    fn data(&self, name: &str) -> PathBuf {
        let data = self.dir.path().join(name);
        fs::create_dir_all(data.join("files")).unwrap();
        data
    }

    fn start(&self, name: &str, said: Option<&Range>, sandboxes: u32) -> anyhow::Result<HostUids> {
        let data = self.data(name);
        reserve(&self.notes(), said, owner(&data), sandboxes)
    }

    /// Gives a gateway something of this user to keep.
    fn keep(&self, name: &str, uid: u32) -> bool {
        let file = self.data(name).join("files/kept");
        fs::create_dir_all(&file).unwrap();
        chown(&file, Some(uid), Some(uid)).is_ok()
    }

    fn end(&self, name: &str, uids: HostUids) {
        let data = self.data(name);
        uids.give_back(owner(&data));
    }
}

fn owner(data_dir: &Path) -> Owner<'_> {
    Owner {
        data_dir,
        run_dir: Path::new("/nowhere"),
    }
}

fn only(uids: &HostUids) -> Range {
    assert_eq!(uids.ranges.len(), 1);
    uids.ranges[0].clone()
}

#[test]
fn gateways_that_run_share_nothing_until_all_is_taken() {
    let host = Host::new();
    let mut running: Vec<_> = (0..16)
        .map(|n| host.start(&format!("g{n}"), None, 100).unwrap())
        .collect();
    let starts: BTreeSet<u32> = running.iter().map(|uids| *only(uids).start()).collect();
    assert_eq!(starts.len(), 16);
    let error = host.start("more", None, 100).unwrap_err().to_string();
    assert!(
        error.contains("200000-265535") && error.contains("/g15"),
        "{error}"
    );
    // One that was killed and left nothing makes room.
    let freed = only(&running.remove(3));
    assert_eq!(only(&host.start("more", None, 100).unwrap()), freed);
}

#[test]
fn a_gateway_gets_the_same_again() {
    let host = Host::new();
    let first = host.start("a", None, 100).unwrap();
    let range = only(&first);
    drop(first);
    assert_eq!(only(&host.start("a", None, 100).unwrap()), range);
}

#[test]
fn a_clean_end_leaves_nothing() {
    let host = Host::new();
    let (one, two) = (
        host.start("a", None, 100).unwrap(),
        host.start("b", None, 100).unwrap(),
    );
    host.end("a", one);
    assert_eq!(fs::read_dir(host.notes()).unwrap().count(), 1);
    host.end("b", two);
    assert!(!host.notes().exists());
}

#[test]
fn ids_of_kept_files_are_not_given_to_another_gateway() {
    let host = Host::new();
    let part = host_uid_parts(&DEFAULT_HOST_UIDS)[5].clone();
    if !host.keep("a", part.start() + 7) {
        // An ordinary user has no files of others.
        return;
    }
    let a = host.start("a", None, 100).unwrap();
    assert_eq!(only(&a), part);
    assert!(a.in_use.contains(&(part.start() + 7)));
    host.end("a", a);
    assert!(
        host.notes().join(shown(&part)).exists(),
        "the note stays for the files"
    );
    let rest: Vec<_> = (0..15)
        .map(|n| host.start(&format!("g{n}"), None, 100).unwrap())
        .collect();
    assert!(rest.iter().all(|uids| only(uids) != part));
    assert!(host.start("more", None, 100).is_err());
    assert_eq!(only(&host.start("a", None, 100).unwrap()), part);
    // With the data directory goes what the note is for.
    fs::remove_dir_all(host.dir.path().join("a")).unwrap();
    assert_eq!(only(&host.start("more", None, 100).unwrap()), part);
}

#[test]
fn files_whose_ids_a_running_gateway_has_are_an_error() {
    let host = Host::new();
    let other = host.start("b", None, 100).unwrap();
    if !host.keep("a", *only(&other).start()) {
        return;
    }
    let error = host.start("a", None, 100).unwrap_err().to_string();
    assert!(
        error.contains("start it before the other") && error.contains("/b"),
        "{error}"
    );
}

#[test]
fn many_sandboxes_get_more_than_one_part() {
    let host = Host::new();
    assert_eq!(host.start("a", None, 2048).unwrap().ranges.len(), 1);
    assert_eq!(host.start("b", None, 10_000).unwrap().ranges.len(), 5);
}

#[test]
fn a_range_that_was_said_is_taken_whole_unless_a_running_gateway_has_some_of_it() {
    let host = Host::new();
    let said = 300_000..=300_999;
    let a = host.start("a", Some(&said), 100).unwrap();
    assert_eq!(only(&a), said);
    let error = host
        .start("b", Some(&(300_999..=301_000)), 100)
        .unwrap_err()
        .to_string();
    assert!(error.contains("300000-300999") && error.contains("/a"), "{error}");
    drop(host.start("b", Some(&(301_000..=301_999)), 100).unwrap());
    drop(a);
    drop(host.start("b", Some(&(300_999..=301_000)), 100).unwrap());
    // Parts that a said range overlaps are nobody else's.
    let whole = host.start("c", Some(&DEFAULT_HOST_UIDS), 100).unwrap();
    assert!(host.start("d", None, 100).is_err());
    drop(whole);
}
