//! The two processes that make a sandbox.
//!
//! The *guide* stays in the caller's namespaces: it maps ids, which only a process outside may do for root, and gives the
//! answer. The *maker* is its child, which goes into the namespaces and builds the root.

use himalia_jail::{Failure, HostIds, NamespaceKind, Plan, SANDBOX_ID, Step};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, WaitOptions, getegid, geteuid, waitpid};
use rustix::system::{setdomainname, sethostname};
use rustix::thread::UnshareFlags;

use crate::failure::AtStep;
use crate::link::{Link, Note};
use crate::{root, sys};

const ALL: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);

/// Handle of a maker process in a finished sandbox.
#[derive(Debug)]
pub(crate) struct Maker {
    pid: Pid,
    /// To the maker and to what it starts.
    pub(crate) link: Link,
}

impl Maker {
    /// Starts a maker and waits until the sandbox stands; then the maker runs `then` in it and ends.
    pub(crate) fn start(
        plan: &Plan,
        then: impl FnOnce(&Link) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let (near, far) = Link::pair()?;
        let (pid, near) = sys::spawn(UnshareFlags::empty(), near, |near| {
            // Else the maker would not see that the guide has gone.
            drop(near);
            let made = make(plan, &far).and_then(|()| {
                far.send(&Note::Ready)?;
                then(&far)
            });
            if let Err(failure) = made {
                let _ = far.send(&Note::Failed(failure));
            }
        })
        .at(Step::Process, "fork")?;
        drop(far);
        let maker = Self { pid, link: near };
        match maker.guide(plan) {
            Ok(()) => Ok(maker),
            Err(failure) => {
                maker.wait();
                Err(failure)
            }
        }
    }

    fn guide(&self, plan: &Plan) -> Result<(), Failure> {
        loop {
            match self.link.receive()? {
                Some(Note::MapIds) => {
                    self.map_ids(plan.host_ids)?;
                    self.link.send(&Note::Go)?;
                }
                Some(Note::Ready) => return Ok(()),
                Some(Note::Failed(failure)) => return Err(failure),
                other => {
                    return Err(Failure::new(
                        Step::Process,
                        format_args!("the sandbox's maker ended early ({other:?})"),
                    ));
                }
            }
        }
    }

    /// One user and one group exist in a sandbox.
    fn map_ids(&self, host_ids: Option<HostIds>) -> Result<(), Failure> {
        let ids = host_ids.unwrap_or_else(|| HostIds {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        });
        let write = |file: &str, text: String| {
            let path = format!("/proc/{}/{file}", self.pid.as_raw_nonzero());
            std::fs::write(&path, text).at(Step::IdMap, file)
        };
        if host_ids.is_none() {
            // The kernel's condition for an ordinary user: who left a group could get at what the group is denied.
            write("setgroups", "deny".to_owned())?;
        }
        write("gid_map", format!("{SANDBOX_ID} {} 1\n", ids.gid))?;
        write("uid_map", format!("{SANDBOX_ID} {} 1\n", ids.uid))
    }

    /// Opens a namespace of the maker, which must still be there.
    pub(crate) fn namespace(&self, kind: NamespaceKind) -> std::io::Result<std::fs::File> {
        std::fs::File::open(format!("/proc/{}/ns/{}", self.pid.as_raw_nonzero(), kind.name()))
    }

    /// Lets the maker end, and takes it away: no other code is to find a child that it did not start.
    pub(crate) fn wait(self) {
        drop(self.link);
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }
}

/// In the maker: makes the namespaces and builds the place.
fn make(plan: &Plan, link: &Link) -> Result<(), Failure> {
    let go_in = || {
        sys::unshare(ALL).at(Step::Namespaces, "unshare")?;
        link.send(&Note::MapIds)?;
        link.wait_for_go()
    };
    if let Some(owner) = plan.host_ids {
        // Root builds before it goes in: inside it could not pass the directories of others. The new user namespace
        // then gets a copy of the mounts that no process in it can change.
        sys::unshare(UnshareFlags::NEWNS).at(Step::Namespaces, "unshare")?;
        root::build(&plan.mounts, owner)?;
        go_in()?;
    } else {
        go_in()?;
        let owner = HostIds {
            uid: SANDBOX_ID,
            gid: SANDBOX_ID,
        };
        root::build(&plan.mounts, owner)?;
    }
    sethostname(plan.hostname.as_bytes()).at(Step::Hostname, &plan.hostname)?;
    setdomainname(b"(none)").at(Step::Hostname, "domain name")?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .at(Step::Loopback, "socket")?;
    sys::start_loopback(socket).at(Step::Loopback, "lo")
}
