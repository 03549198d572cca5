use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use himalia_link::BlockingSocket;
use himalia_shim_protocol::{
    ByteRange, Decoder, FileEntry, FileKind, FileTask, StreamDone, StreamFailed, StreamFailure, StreamFrame,
};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::connection::Connection;
use super::staging::PREFIX;
use super::{carry_out, tick};

/// A work directory with a neighbour that nothing may reach.
pub(super) struct TestDirs {
    _dir: TempDir,
    pub(super) work: std::path::PathBuf,
    outside: std::path::PathBuf,
}

pub(super) fn dirs() -> TestDirs {
    let dir = tempfile::tempdir().unwrap();
    let (work, outside) = (dir.path().join("work"), dir.path().join("work2"));
    fs::create_dir(&work).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "outside").unwrap();
    TestDirs {
        _dir: dir,
        work,
        outside,
    }
}

/// Everything that a stream said.
#[derive(Debug, Default)]
struct Said {
    bytes: Vec<u8>,
    end: Option<Result<StreamDone, StreamFailed>>,
}

impl Said {
    fn done(self) -> (StreamDone, Vec<u8>) {
        (self.end.unwrap().unwrap(), self.bytes)
    }

    fn code(self) -> StreamFailure {
        self.end.unwrap().unwrap_err().code
    }
}

/// Does a task as the thread of a stream does; the gateway sends these bytes and then, if told so, their end.
fn transfer(work: &Path, task: FileTask, bytes: &[u8], ends: bool) -> Said {
    transfer_at((work, false), task, bytes, ends)
}

fn transfer_at((work, absolute): (&Path, bool), task: FileTask, bytes: &[u8], ends: bool) -> Said {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let work = work.to_owned();
    let thread = std::thread::spawn(move || {
        let mut connection = Connection::over(BlockingSocket::new(theirs, Duration::from_mins(1)).unwrap());
        let last = match carry_out((&work, absolute), &task, &mut connection) {
            Ok(done) => StreamFrame::Done(done),
            Err(failure) => StreamFrame::Failed(failure.into_body()),
        };
        let _ = connection.send(&last);
    });
    let mut writer = ours.try_clone().unwrap();
    let bytes = bytes.to_vec();
    let sender = std::thread::spawn(move || {
        let chunks = bytes.chunks(1000).map(Bytes::copy_from_slice);
        for chunk in chunks.chain(ends.then(Bytes::new)) {
            let mut out = BytesMut::new();
            StreamFrame::Chunk(chunk).encode(&mut out).unwrap();
            if writer.write_all(&out).is_err() {
                break;
            }
        }
        if !ends {
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        }
    });
    let said = listen(ours);
    sender.join().unwrap();
    thread.join().unwrap();
    said
}

fn listen(mut socket: UnixStream) -> Said {
    let (mut decoder, mut said) = (Decoder::new(), Said::default());
    let mut buffer = vec![0; 65536];
    loop {
        while let Some(frame) = decoder.next().unwrap() {
            match StreamFrame::parse(frame).unwrap() {
                StreamFrame::Chunk(bytes) => said.bytes.extend_from_slice(&bytes),
                StreamFrame::Head(_) => {}
                StreamFrame::Done(done) => said.end = Some(Ok(done)),
                StreamFrame::Failed(failed) => said.end = Some(Err(failed)),
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return said,
            Ok(read) => decoder.buffer().extend_from_slice(&buffer[..read]),
        }
    }
}

fn put(work: &Path, path: &str, bytes: &[u8]) -> Said {
    let task = FileTask::Put {
        path: path.into(),
        max_bytes: 100_000,
        metadata: BTreeMap::new(),
    };
    transfer(work, task, bytes, true)
}

fn get(work: &Path, path: &str, range: Option<ByteRange>) -> Said {
    let path = path.into();
    transfer(work, FileTask::Get { path, range }, b"", true)
}

#[test]
fn absolute_paths_are_those_of_the_sandbox_and_none_of_a_process() {
    let dirs = dirs();
    let at = |task: FileTask, bytes: &[u8]| transfer_at((&dirs.work, true), task, bytes, true);
    let read = |path: &str| {
        let path = path.to_owned();
        at(FileTask::Get { path, range: None }, b"")
    };
    let outside = dirs.outside.to_str().unwrap();
    let path = format!("{outside}/new/file");
    let written = at(
        FileTask::Put {
            path: path.clone(),
            max_bytes: 100,
            metadata: BTreeMap::new(),
        },
        b"1",
    );
    assert!(written.done().0.created);
    assert_eq!(read(&path).done().1, b"1");
    let (_, listed) = at(
        FileTask::List {
            path: outside.to_owned(),
            depth: 2,
            limit: 10,
            after: None,
        },
        b"",
    )
    .done();
    let listed: Vec<FileEntry> = serde_json::from_slice(&listed).unwrap();
    assert!(listed.iter().any(|entry| entry.path == path), "{listed:?}");
    // An absolute link leads where it says, within the work directory too.
    std::os::unix::fs::symlink(&path, dirs.outside.join("link")).unwrap();
    assert_eq!(read(&format!("{outside}/link")).done().1, b"1");
    let boot = read("/proc/sys/kernel/random/boot_id").done().1;
    assert_eq!(boot, fs::read("/proc/sys/kernel/random/boot_id").unwrap());
    std::os::unix::fs::symlink("/proc/self", dirs.outside.join("self")).unwrap();
    let own = std::process::id();
    for process in [
        "/proc/self/environ".to_owned(),
        "/proc/thread-self/environ".to_owned(),
        format!("/proc/{own}/environ"),
        format!("{outside}/self/environ"),
    ] {
        assert_eq!(read(&process).code(), StreamFailure::Permission, "{process}");
    }
    // Neither does a list enter them.
    let (done, below) = at(
        FileTask::List {
            path: "/proc".to_owned(),
            depth: 2,
            limit: 10_000,
            after: None,
        },
        b"",
    )
    .done();
    let below: Vec<FileEntry> = serde_json::from_slice(&below).unwrap();
    assert!(done.skipped > 0 && below.iter().any(|entry| entry.path == "/proc/sys/kernel"));
    let of_a_process = |entry: &FileEntry| entry.path.starts_with(&format!("/proc/{own}/"));
    assert!(!below.iter().any(of_a_process));
    // Without leave they are refused, and archives are of the work directory in any case.
    assert_eq!(get(&dirs.work, &path, None).code(), StreamFailure::BadPath);
    let (path, max_bytes) = ("/proc".to_owned(), 1 << 20);
    assert_eq!(
        at(FileTask::Pack { path, max_bytes }, b"").code(),
        StreamFailure::BadPath
    );
}

#[test]
fn metadata_comes_back_and_goes_with_the_next_upload() {
    let dirs = dirs();
    let write = |metadata: &[(&str, &str)]| {
        let task = FileTask::Put {
            path: "dir/f".into(),
            max_bytes: 100,
            metadata: metadata
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        };
        transfer(&dirs.work, task, b"1", true)
    };
    let read = || {
        let entries = |task| {
            let (_, body) = transfer(&dirs.work, task, b"", true).done();
            serde_json::from_slice::<Vec<FileEntry>>(&body).unwrap()
        };
        let listed = entries(FileTask::List {
            path: "dir".into(),
            depth: 1,
            limit: 10,
            after: None,
        });
        let found = entries(FileTask::Stat { path: "dir/f".into() });
        assert_eq!(listed, found);
        found[0].metadata.clone()
    };
    let pairs = [("author", "mish"), ("purpose", "")];
    write(&pairs).done();
    // Others' attributes are none.
    rustix::fs::setxattr(
        dirs.work.join("dir/f"),
        "user.other",
        b"1",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(read(), BTreeMap::from(expected));
    write(&[]).done();
    assert_eq!(read(), BTreeMap::new());
}

fn unpack(work: &Path, archive: &[u8]) -> Said {
    let task = FileTask::Unpack {
        path: "in".into(),
        max_bytes: 100_000,
    };
    transfer(work, task, archive, true)
}

fn list(work: &Path, depth: u32, limit: u32) -> (StreamDone, Vec<FileEntry>) {
    list_after(work, "", depth, limit, None)
}

fn list_after(
    work: &Path,
    path: &str,
    depth: u32,
    limit: u32,
    after: Option<&str>,
) -> (StreamDone, Vec<FileEntry>) {
    let task = FileTask::List {
        path: path.to_owned(),
        depth,
        limit,
        after: after.map(str::to_owned),
    };
    let (done, body) = transfer(work, task, b"", true).done();
    (done, serde_json::from_slice(&body).unwrap())
}

#[test]
fn pages_of_a_list_have_every_entry_once() {
    let dirs = dirs();
    for path in ["a.txt", "a/b", "a/c/d", "a/c.txt", "b", "x/y/z", "x/y.txt"] {
        put(&dirs.work, path, b"1").done();
    }
    for (dir, depth) in [("", 100), ("", 1), ("", 2), ("a", 100), ("x/y", 1)] {
        let all = list_after(&dirs.work, dir, depth, 100, None).1;
        for limit in 1..4 {
            let (mut paged, mut after) = (Vec::new(), None);
            loop {
                let (done, page) = list_after(&dirs.work, dir, depth, limit, after.as_deref());
                after = page.last().map(|entry| entry.path.clone());
                paged.extend(page);
                if !done.truncated {
                    break;
                }
            }
            let paths = |entries: &[FileEntry]| -> Vec<String> {
                entries.iter().map(|entry| entry.path.clone()).collect()
            };
            assert_eq!(paths(&paged), paths(&all), "{dir:?} {depth} {limit}");
        }
    }
    // What has gone meanwhile is no place to be found again.
    let rest = list_after(&dirs.work, "", 100, 100, Some("a/c/none")).1;
    assert_eq!(rest[0].path, "a/c.txt");
}

fn paths(work: &Path) -> Vec<String> {
    list(work, 100, 10_000)
        .1
        .into_iter()
        .map(|entry| entry.path)
        .collect()
}

#[test]
fn a_file_is_written_and_read() {
    let dirs = dirs();
    let content: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let (done, _) = put(&dirs.work, "a/b/c.bin", &content).done();
    assert_eq!((done.bytes, done.created), (70_000, true));
    let file = fs::metadata(dirs.work.join("a/b/c.bin")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o644);
    assert_eq!(get(&dirs.work, "a/b/c.bin", None).done().1, content);
    let range = Some(ByteRange::From {
        first: 10,
        last: Some(19),
    });
    assert_eq!(get(&dirs.work, "a/b/c.bin", range).done().1, content[10..20]);
    let range = Some(ByteRange::From {
        first: 70_000,
        last: None,
    });
    assert_eq!(get(&dirs.work, "a/b/c.bin", range).code(), StreamFailure::Range);
    assert!(!put(&dirs.work, "a/b/c.bin", b"x").done().0.created);
    assert_eq!(get(&dirs.work, "a/b/c.bin", None).done().1, b"x");
}

/// So that no execution that begins afterwards takes them for its own.
#[test]
fn files_are_older_than_what_comes_after_they_were_sent() {
    let dirs = dirs();
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, "unpacked", EntryType::Regular, "", b"1");
    let archive = archive.into_inner().unwrap();
    for _ in 0..20 {
        for (sent, name) in [
            (put(&dirs.work, "put", b"1"), "put"),
            (unpack(&dirs.work, &archive), "in/unpacked"),
        ] {
            sent.done();
            let stamps = fs::metadata(dirs.work.join(name)).unwrap();
            let now = tick::now();
            assert!(
                (stamps.ctime(), stamps.ctime_nsec()) < (now.tv_sec, now.tv_nsec),
                "{name}"
            );
        }
    }
}

#[test]
fn an_upload_that_breaks_off_or_is_too_large_leaves_the_file_as_it_was() {
    let dirs = dirs();
    put(&dirs.work, "f", b"before").done();
    let task = FileTask::Put {
        path: "f".into(),
        max_bytes: 100_000,
        metadata: BTreeMap::new(),
    };
    let broken = transfer(&dirs.work, task, b"half of what", false);
    assert_eq!(broken.code(), StreamFailure::Failed);
    assert_eq!(
        put(&dirs.work, "f", &vec![7; 100_001]).code(),
        StreamFailure::TooLarge
    );
    assert_eq!(fs::read(dirs.work.join("f")).unwrap(), b"before");
    assert_eq!(
        fs::read_dir(&dirs.work).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn links_out_are_not_followed_and_are_replaced_themselves() {
    let dirs = dirs();
    symlink("../work2", dirs.work.join("relative")).unwrap();
    symlink(&dirs.outside, dirs.work.join("absolute")).unwrap();
    symlink("../work2/secret", dirs.work.join("file")).unwrap();
    symlink("/proc/self/root", dirs.work.join("magic")).unwrap();
    for path in ["relative/secret", "absolute/secret", "file", "magic/etc/passwd"] {
        assert_eq!(
            get(&dirs.work, path, None).code(),
            StreamFailure::Outside,
            "{path}"
        );
    }
    for path in ["relative/new", "absolute/secret", "relative/new/deep"] {
        assert_eq!(
            put(&dirs.work, path, b"x").code(),
            StreamFailure::Outside,
            "{path}"
        );
        let path = path.into();
        let delete = FileTask::Delete {
            path,
            recursive: true,
        };
        let said = transfer(&dirs.work, delete, b"", true);
        assert_eq!(said.code(), StreamFailure::Outside);
    }
    put(&dirs.work, "file", b"mine").done();
    let recursive = true;
    for path in ["relative", "absolute"] {
        let path = path.into();
        transfer(&dirs.work, FileTask::Delete { path, recursive }, b"", true).done();
    }
    assert_eq!(paths(&dirs.work), ["file", "magic"]);
    assert_eq!(fs::read(dirs.outside.join("secret")).unwrap(), b"outside");
    assert_eq!(fs::read_dir(&dirs.outside).unwrap().count(), 1);
}

#[test]
fn what_is_no_file_is_said() {
    let dirs = dirs();
    fs::create_dir_all(dirs.work.join("d/e")).unwrap();
    fs::write(dirs.work.join("f"), "x").unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(dirs.work.join("pipe"))
        .status();
    assert!(fifo.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(dirs.work.join("socket")).unwrap();
    for (path, code) in [
        ("pipe", StreamFailure::NotAFile),
        ("socket", StreamFailure::NotAFile),
        ("d", StreamFailure::IsADirectory),
        ("f/x", StreamFailure::NotADirectory),
        ("none", StreamFailure::NotFound),
        ("../work2/secret", StreamFailure::BadPath),
        ("", StreamFailure::BadPath),
    ] {
        assert_eq!(get(&dirs.work, path, None).code(), code, "{path}");
    }
    assert_eq!(put(&dirs.work, "d", b"").code(), StreamFailure::IsADirectory);
    assert_eq!(put(&dirs.work, "f/x", b"").code(), StreamFailure::NotADirectory);
    let delete = |path: &str, recursive| {
        let path = path.into();
        transfer(&dirs.work, FileTask::Delete { path, recursive }, b"", true)
    };
    assert_eq!(delete("d", false).code(), StreamFailure::NotEmpty);
    assert_eq!(delete("", true).code(), StreamFailure::BadPath);
    assert_eq!(delete("d", true).done().0.entries, 2);
    assert_eq!(delete("d", true).code(), StreamFailure::NotFound);
}

#[test]
fn a_listing_is_bounded_and_counts_the_rest() {
    let dirs = dirs();
    fs::create_dir_all(dirs.work.join("a/b")).unwrap();
    fs::create_dir_all(dirs.work.join(".branches/2")).unwrap();
    for (name, bytes) in [("a/b/x", 3), ("a/y", 4), ("z", 5)] {
        fs::write(dirs.work.join(name), vec![0; bytes]).unwrap();
    }
    fs::write(dirs.work.join(format!("{PREFIX}1")), "x").unwrap();
    symlink("z", dirs.work.join("l")).unwrap();
    assert_eq!(paths(&dirs.work), ["a", "a/b", "a/b/x", "a/y", "l", "z"]);
    let (done, entries) = list(&dirs.work, 1, 2);
    assert_eq!((done.entries, done.bytes, done.truncated), (3, 5, true));
    assert_eq!(
        (entries.len(), entries[0].kind, entries[1].kind),
        (2, FileKind::Directory, FileKind::Symlink)
    );
    let (done, _) = list(&dirs.work, 100, 100);
    assert_eq!((done.entries, done.bytes, done.truncated), (6, 12, false));
}

#[test]
fn archives_go_up_and_down() {
    let dirs = dirs();
    fs::create_dir_all(dirs.work.join("a/empty")).unwrap();
    fs::write(dirs.work.join("a/run.sh"), "#!").unwrap();
    fs::set_permissions(dirs.work.join("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dirs.work.join(format!("a/{}", "n".repeat(200))), vec![1; 5000]).unwrap();
    symlink("run.sh", dirs.work.join("a/link")).unwrap();
    symlink("/etc", dirs.work.join("a/out")).unwrap();
    let pack = |max_bytes| {
        let path = "a".into();
        transfer(&dirs.work, FileTask::Pack { path, max_bytes }, b"", true)
    };
    let (done, archive) = pack(10_000).done();
    assert_eq!((done.entries, done.bytes, done.skipped), (4, 5002, 1));
    let refused = pack(5000);
    assert!(refused.bytes.is_empty());
    assert_eq!(refused.code(), StreamFailure::TooLarge);
    fs::create_dir(dirs.work.join("in")).unwrap();
    fs::write(dirs.work.join("in/run.sh"), "old").unwrap();
    fs::write(dirs.work.join("in/other"), "stays").unwrap();
    unpack(&dirs.work, &archive).done();
    let name = "n".repeat(200);
    let mut names: Vec<_> = fs::read_dir(dirs.work.join("in"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["empty", "link", &name[..], "other", "run.sh"]);
    assert_eq!(fs::read(dirs.work.join("in/link")).unwrap(), b"#!");
    assert_eq!(
        fs::metadata(dirs.work.join("in/run.sh")).unwrap().mode() & 0o777,
        0o755
    );
}

/// An entry whose name is what it says, whatever that is.
fn entry(archive: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, link: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    let fields = header.as_gnu_mut().unwrap();
    fields.name[..name.len()].copy_from_slice(name.as_bytes());
    fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

#[test]
fn hostile_archives_are_refused_and_nothing_is_written() {
    use EntryType as Kind;
    type Entries = &'static [(&'static str, Kind, &'static str)];
    let cases: [(&str, Entries); 10] = [
        ("above", &[("../x", Kind::Regular, "")]),
        ("absolute", &[("/tmp/x", Kind::Regular, "")]),
        ("inside above", &[("a/../../x", Kind::Regular, "")]),
        ("link out", &[("l", Kind::Symlink, "../../work2")]),
        ("absolute link", &[("l", Kind::Symlink, "/etc")]),
        (
            "through a link",
            &[
                ("d", Kind::Directory, ""),
                ("l", Kind::Symlink, "d"),
                ("l/x", Kind::Regular, ""),
            ],
        ),
        ("hard link", &[("f", Kind::Regular, ""), ("l", Kind::Link, "f")]),
        ("device", &[("d", Kind::Char, "")]),
        ("pipe", &[("p", Kind::Fifo, "")]),
        ("twice", &[("f", Kind::Regular, ""), ("f", Kind::Regular, "")]),
    ];
    for (what, entries) in cases {
        let dirs = dirs();
        let mut archive = Builder::new(Vec::new());
        entry(&mut archive, "good", Kind::Regular, "", b"x");
        for (name, kind, link) in entries {
            entry(&mut archive, name, *kind, link, b"");
        }
        let said = unpack(&dirs.work, &archive.into_inner().unwrap());
        assert_eq!(said.code(), StreamFailure::BadArchive, "{what}");
        assert_eq!(paths(&dirs.work), ["in"], "{what}");
        assert_eq!(fs::read_dir(dirs.work.join("in")).unwrap().count(), 0, "{what}");
        assert_eq!(fs::read_dir(&dirs.outside).unwrap().count(), 1, "{what}");
    }
}

#[test]
fn archives_are_bounded() {
    let dirs = dirs();
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, "a", EntryType::Regular, "", &vec![1; 60_000]);
    entry(&mut archive, "b", EntryType::Regular, "", &vec![1; 60_000]);
    let large = archive.into_inner().unwrap();
    assert_eq!(unpack(&dirs.work, &large).code(), StreamFailure::TooLarge);
    // A name of 2 MiB, which a reader would keep in memory.
    let mut archive = Builder::new(Vec::new());
    entry(
        &mut archive,
        "././@LongLink",
        EntryType::GNULongName,
        "",
        &vec![b'n'; 2 << 20],
    );
    entry(&mut archive, "a", EntryType::Regular, "", b"");
    let said = unpack(&dirs.work, &archive.into_inner().unwrap());
    assert_eq!(said.code(), StreamFailure::BadArchive);
    for garbage in [&b""[..], b"no archive", &[0x1f; 2000]] {
        assert_eq!(unpack(&dirs.work, garbage).code(), StreamFailure::BadArchive);
    }
    // A file where the archive has a directory: found before anything is moved.
    fs::create_dir_all(dirs.work.join("in")).unwrap();
    fs::write(dirs.work.join("in/z"), "file").unwrap();
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, "a", EntryType::Regular, "", b"");
    entry(&mut archive, "z", EntryType::Directory, "", b"");
    let said = unpack(&dirs.work, &archive.into_inner().unwrap());
    assert_eq!(said.code(), StreamFailure::NotADirectory);
    assert_eq!(paths(&dirs.work), ["in", "in/z"]);
}
