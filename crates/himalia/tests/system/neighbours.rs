//! Gateways of root side by side: no process of one's sandboxes has a user id on the host that another's has.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use himalia_testkit::gateway::{Gateway, new_root};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::common::until_state;
use crate::namespaces::boxed_builder;

/// Directories of gateways that begin their search for ids at the same place, so that only what they reserve keeps them apart.
fn alike(count: usize) -> Vec<TempDir> {
    let start = |root: &TempDir| Sha256::digest(root.path().join("data").as_os_str().as_bytes())[0];
    let mut roots = vec![new_root().unwrap()];
    while roots.len() < count {
        let root = new_root().unwrap();
        if start(&root) == start(&roots[0]) {
            roots.push(root);
        }
    }
    roots
}

/// A gateway at the level `namespaces`, and a kernel of it.
async fn start(root: TempDir) -> (Gateway, String) {
    let gateway = boxed_builder().root(root).start().await.unwrap();
    let kernel = gateway.start_kernel("boxed").await.unwrap();
    until_state(&gateway, &kernel, "idle").await;
    (gateway, kernel)
}

/// The users of the host that processes of its sandboxes are, as the host sees them.
fn users(gateway: &Gateway) -> BTreeSet<u32> {
    let status = |pid: u32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = |status: String| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let ids = line.unwrap_or_default().split_whitespace();
        ids.map(|id| id.parse().unwrap()).collect()
    };
    let all = gateway.processes().into_iter().map(status).flat_map(ids);
    // What holds a sandbox from outside is root's.
    all.filter(|uid| *uid != 0).collect()
}

async fn answers(gateway: &Gateway, kernel: &str) {
    let mut socket = gateway.connect(kernel).await.unwrap();
    assert_eq!(socket.execute("print here").await.unwrap().stdout(), "here\n");
}

#[tokio::test]
async fn no_sandbox_has_a_user_of_another_gateways() {
    if !rustix::process::geteuid().is_root() {
        // Sandboxes of an ordinary user are that user's.
        return;
    }
    let [first, second, third] = <[TempDir; 3]>::try_from(alike(3)).unwrap();
    let (mut first, of_first) = start(first).await;
    let (second, of_second) = start(second).await;
    until_state(&first, &first.start_kernel("boxed").await.unwrap(), "idle").await;
    let (users_of_first, users_of_second) = (users(&first), users(&second));
    assert_eq!((users_of_first.len(), users_of_second.len()), (2, 1));
    assert!(
        users_of_first.is_disjoint(&users_of_second),
        "{users_of_first:?} {users_of_second:?}"
    );

    // Its sandboxes live on, so what it has is not free.
    first.kill().await.unwrap();
    assert_eq!(users(&first), users_of_first);
    let (third, of_third) = start(third).await;
    let users_of_third = users(&third);
    assert_eq!(users_of_third.len(), 1);
    let others = &users_of_first | &users_of_second;
    assert!(
        users_of_third.is_disjoint(&others),
        "{users_of_third:?} {others:?}"
    );

    // The end of one, with its sandboxes, is nothing to the others.
    answers(&second, &of_second).await;
    drop(second);
    answers(&third, &of_third).await;
    first.start().await.unwrap();
    until_state(&first, &of_first, "idle").await;
    answers(&first, &of_first).await;
    assert_eq!(users(&first), users_of_first);
    until_state(&first, &first.start_kernel("boxed").await.unwrap(), "idle").await;
    let (users_of_first, users_of_third) = (users(&first), users(&third));
    assert_eq!(users_of_first.len(), 3);
    assert!(
        users_of_first.is_disjoint(&users_of_third),
        "{users_of_first:?} {users_of_third:?}"
    );
}
