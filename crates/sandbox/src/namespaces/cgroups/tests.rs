//! Version 1 is tried for real by the crate's integration tests where the host has it. Version 2 is tried on a plain
//! directory here: the names and values of the files, not what the kernel makes of them.

use super::detect::{CgroupMount, delegate, parse};
use super::*;

const LIMITS: GroupLimits = GroupLimits {
    memory_bytes: Some(1 << 30),
    pids: Some(100),
    cpu_millis: Some(1500),
};

fn root(version: Version, dir: &Path) -> CgroupRoot {
    let group = |name: &str| {
        Some(ControllerDir {
            version,
            dir: match version {
                Version::V1 => dir.join(name).join("himalia"),
                Version::V2 => dir.join("himalia"),
            },
        })
    };
    CgroupRoot {
        memory: group("memory"),
        pids: group("pids"),
        cpu: group("cpu"),
    }
}

#[test]
fn version_2_has_one_group_with_every_limit() {
    let dir = tempfile::tempdir().unwrap();
    let groups = root(Version::V2, dir.path()).plan("one", LIMITS);
    groups.create(LIMITS).unwrap();
    let group = dir.path().join("himalia/one");
    let text = |file: &str| fs::read_to_string(group.join(file)).unwrap();
    assert_eq!(text("memory.max"), "1073741824");
    assert_eq!(text("memory.swap.max"), "0");
    assert_eq!(text("pids.max"), "100");
    assert_eq!(text("cpu.max"), "150000 100000");
    assert_eq!(groups.procs(), [group.join("cgroup.procs")]);

    assert_eq!(groups.oom_kills(), None);
    fs::write(
        group.join("memory.events"),
        "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n",
    )
    .unwrap();
    fs::write(group.join("memory.current"), "4096\n").unwrap();
    assert_eq!(groups.oom_kills(), Some(2));
    assert_eq!(groups.memory_bytes(), Some(4096));
}

#[test]
fn version_1_has_a_group_for_each_controller() {
    let dir = tempfile::tempdir().unwrap();
    for controller in ["memory", "pids", "cpu"] {
        fs::create_dir(dir.path().join(controller)).unwrap();
    }
    let groups = root(Version::V1, dir.path()).plan("one", LIMITS);
    groups.create(LIMITS).unwrap();
    let text = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(text("memory/himalia/one/memory.limit_in_bytes"), "1073741824");
    assert_eq!(
        text("memory/himalia/one/memory.memsw.limit_in_bytes"),
        "1073741824"
    );
    assert_eq!(text("pids/himalia/one/pids.max"), "100");
    assert_eq!(text("cpu/himalia/one/cpu.cfs_quota_us"), "150000");
    assert_eq!(text("cpu/himalia/one/cpu.cfs_period_us"), "100000");
    assert_eq!(groups.procs().len(), 3);
    fs::write(
        dir.path().join("memory/himalia/one/memory.oom_control"),
        "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
    )
    .unwrap();
    assert_eq!(groups.oom_kills(), Some(4));
}

#[test]
fn only_limits_that_are_set_have_groups_and_empty_ones_go_with_their_parent() {
    let dir = tempfile::tempdir().unwrap();
    let root = root(Version::V2, dir.path());
    assert_eq!(root.plan("none", GroupLimits::default()), Groups::default());
    assert!(Groups::default().procs().is_empty());
    let wanted = GroupLimits::default();
    let groups = root.plan(
        "one",
        GroupLimits {
            pids: Some(1),
            ..wanted
        },
    );
    // No limit is written, so that the directories stay empty as those of a real file system look.
    groups.create(wanted).unwrap();
    assert_eq!(root.names(), ["one"]);
    groups.remove().unwrap();
    groups.remove().unwrap();
    assert!(!dir.path().join("himalia").exists());
    assert!(root.names().is_empty());
}

#[test]
fn a_root_that_cannot_be_written_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let missing = root(Version::V2, &dir.path().join("missing"));
    assert_eq!(missing.tried(), CgroupRoot::default());
}

#[test]
fn controllers_are_handed_down_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    delegate(dir.path()).unwrap();
    fs::write(file("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
    fs::write(file("cgroup.subtree_control"), "cpu\n").unwrap();
    delegate(dir.path()).unwrap();
    assert_eq!(
        fs::read_to_string(file("cgroup.subtree_control")).unwrap(),
        "+memory +pids"
    );
    fs::write(file("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
    delegate(dir.path()).unwrap();
    assert_eq!(
        fs::read_to_string(file("cgroup.subtree_control")).unwrap(),
        "cpu memory pids\n"
    );
}

#[test]
fn a_gateway_that_is_started_in_its_own_group_hands_down_the_controllers_of_the_group_above() {
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("himalia.service");
    let gateway = unit.join("himalia-gateway");
    fs::create_dir_all(&gateway).unwrap();
    // As systemd leaves a unit with `Delegate=yes` and `DelegateSubgroup=himalia-gateway`.
    fs::write(unit.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
    fs::write(unit.join("cgroup.subtree_control"), "\n").unwrap();
    let mounted = CgroupMount {
        version: Version::V2,
        controllers: Vec::new(),
        mount: dir.path().to_owned(),
        own: gateway,
    };
    assert_eq!(mounted.parent(), Some(unit.clone()));
    assert_eq!(
        fs::read_to_string(unit.join("cgroup.subtree_control")).unwrap(),
        "+cpu +memory +pids"
    );
}

#[test]
fn own_groups_are_found() {
    let mountinfo = "\
24 1 0:22 / /proc rw - proc proc rw
40 30 0:34 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpu,cpuacct
41 30 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
42 30 0:36 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
43 30 0:37 /../.. /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
44 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    let cgroup = "9:freezer:/\n8:pids:/docker/1/a\n4:cpu,cpuacct:/\n3:memory:/user/7\n0::/user.slice/x.scope";
    let found = parse(mountinfo, cgroup);
    let own: Vec<_> = found
        .iter()
        .map(|mounted| mounted.own.to_str().unwrap())
        .collect();
    assert_eq!(
        own,
        [
            "/sys/fs/cgroup/cpu,cpuacct/",
            "/sys/fs/cgroup/memory/user/7",
            "/sys/fs/cgroup/pids/a",
            "/sys/fs/cgroup/unified/user.slice/x.scope",
        ]
    );
    assert_eq!(found[0].controllers, ["cpu", "cpuacct"]);
    let CgroupMount {
        version, controllers, ..
    } = &found[3];
    assert_eq!((*version, controllers.len()), (Version::V2, 0));
}
