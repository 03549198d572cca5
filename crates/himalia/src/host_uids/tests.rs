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
        reserve(&plain_system(), &self.notes(), said, owner(&data), sandboxes)
    }

    /// On a system with these lines of /etc/subuid.
    fn start_beside(&self, name: &str, subuid: &str) -> anyhow::Result<HostUids> {
        let data = self.data(name);
        reserve(&with_subuid(subuid), &self.notes(), None, owner(&data), 100)
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

fn plain_system() -> System {
    System::of(&[], &[])
}

fn with_subuid(text: &str) -> System {
    System::of(&[], &[("/etc/subuid", text.to_owned())])
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
        error.contains("2100000000-2100065535") && error.contains("/g15"),
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
    // No other gateway gets parts that overlap a configured range.
    let whole = host.start("c", Some(&DEFAULT_HOST_UIDS), 100).unwrap();
    assert!(host.start("d", None, 100).is_err());
    drop(whole);
}

/// What `useradd` of Debian writes for the first four users.
const DEBIAN: &str = "a:100000:65536\nb:165536:65536\nc:231072:65536\nd:296608:65536\n";

#[test]
fn no_user_has_the_default_range() {
    assert_eq!(
        with_subuid(DEBIAN).free_parts(),
        host_uid_parts(&DEFAULT_HOST_UIDS)
    );
    // The last range that useradd gives, systemd's containers, the last that directory services give, and what systemd
    // keeps.
    let others = "a:600034564:65537\nb:524288:1878523904\nc:2000000000:200000\nd:2147352576:65536\n";
    assert_eq!(with_subuid(others).free_parts().len(), 16);
}

#[test]
fn parts_that_a_user_has_for_containers_are_not_taken() {
    let parts = host_uid_parts(&DEFAULT_HOST_UIDS);
    let (last, first) = (parts[2].end(), parts[4].start());
    // One id of a part is enough; comments and broken lines say nothing.
    let text = format!(
        "# none\nroot:1\nx:y:z\ne:{first}:0\nbig:{}:{}\na:{last}:1\nb:{first}:1\n",
        u64::MAX,
        u64::MAX
    );
    let free = with_subuid(&text).free_parts();
    assert_eq!(free.len(), 14);
    assert!(!free.contains(&parts[2]) && !free.contains(&parts[4]));

    let host = Host::new();
    let running: Vec<_> = (0..14)
        .map(|n| host.start_beside(&format!("g{n}"), &text).unwrap())
        .collect();
    assert!(
        running.iter().all(|uids| free.contains(&only(uids))),
        "{running:?}"
    );
    assert!(host.start_beside("more", &text).is_err());
    drop(running);

    let all = format!("a:{}:65536", DEFAULT_HOST_UIDS.start());
    let error = host.start_beside("none", &all).unwrap_err().to_string();
    assert!(error.contains(&format!("{all} in /etc/subuid")), "{error}");
}

#[test]
fn groups_count_as_users_do() {
    let text = format!("a:{}:1", DEFAULT_HOST_UIDS.start());
    assert_eq!(System::of(&[], &[("/etc/subgid", text)]).free_parts().len(), 15);
}

#[test]
fn a_user_namespace_without_high_ids_has_low_ones() {
    let whole = "         0          0 4294967295\n".to_owned();
    let some = "0 1000000 1000\n1000 2000000 1000000\n".to_owned();
    let range = |maps: [&String; 2]| System::of(&maps.map(Clone::clone), &[]).range;
    assert_eq!(range([&whole, &whole]), DEFAULT_HOST_UIDS);
    assert_eq!(range([&whole, &some]), LOW_HOST_UIDS);
    assert_eq!(range([&some, &whole]), LOW_HOST_UIDS);
    // Users of such a host have ranges as well.
    let free = System::of(&[some], &[("/etc/subuid", DEBIAN.to_owned())]).free_parts();
    assert!(free.is_empty(), "{free:?}");
}

#[test]
fn kept_files_of_earlier_versions_stay_usable_and_give_no_more_ids() {
    let host = Host::new();
    let low = host_uid_parts(&LOW_HOST_UIDS)[3].clone();
    let high = host_uid_parts(&DEFAULT_HOST_UIDS)[3].clone();
    if !host.keep("a", low.start() + 7) || !host.keep("b", high.start() + 7) {
        return;
    }
    // A user got the part since: what is there stays, nothing new comes. It starts first, since the other one could get the part.
    let text = format!("u:{}:1", high.end());
    let b = host.start_beside("b", &text).unwrap();
    assert_eq!((b.of_files.len(), &b.of_files[0]), (1, &high));
    assert_ne!(only(&b), high);
    let a = host.start("a", None, 100).unwrap();
    assert_eq!((a.of_files.len(), &a.of_files[0]), (1, &low));
    assert!(only(&a).start() >= DEFAULT_HOST_UIDS.start());
    // The notes of both parts go and stay as those of others do.
    host.end("a", a);
    assert_eq!(
        fs::read_dir(host.notes()).unwrap().count(),
        3,
        "that of the files of a, and both of b"
    );
    assert!(host.notes().join(shown(&low)).exists());
    fs::remove_dir_all(host.data("b").join("files")).unwrap();
    host.end("b", b);
    assert!(!host.notes().join(shown(&high)).exists());
}

#[test]
fn a_range_that_was_said_and_that_a_user_has_is_warned_of() {
    let system = with_subuid(DEBIAN);
    for said in [200_000..=265_535, 296_607..=296_607, 361_000..=400_000] {
        let warning = system.warning(&said).unwrap();
        assert!(
            warning.contains(&shown(&said)) && warning.contains(" in /etc/subuid"),
            "{warning}"
        );
    }
    assert_eq!(system.warning(&(362_144..=400_000)), None);
    assert_eq!(system.warning(&(90_000..=99_999)), None);
}
