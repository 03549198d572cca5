//! Files of a session over REST, with a scripted kernel at level `none`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use himalia_testkit::gateway::{Gateway, TOKEN};
use himalia_testkit::http::Response;
use himalia_testkit::{assert_eventually, binaries};
use serde_json::{Value, json};

use crate::common::{gateway, until_state};

/// A session with its own work directory, next to a directory with a secret.
struct FilesFixture {
    gateway: Gateway,
    dir: tempfile::TempDir,
    files: String,
    session: String,
}

impl FilesFixture {
    async fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "work2"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("work2/secret"), "outside").unwrap();
        let gateway = gateway(args).await;
        let body = json!({"template": "fake", "cwd": dir.path().join("work")});
        let session = gateway.http().post("/v1/sessions", Some(&body)).await.unwrap();
        let session = session.expect(201).unwrap().json().unwrap();
        let session = session["id"].as_str().unwrap().to_owned();
        Self {
            files: format!("/v1/sessions/{session}/files"),
            gateway,
            dir,
            session,
        }
    }

    async fn put(&self, path: &str, body: &[u8]) -> Response {
        let path = format!("{}/{path}", self.files);
        self.gateway
            .http()
            .request("PUT", &path, &[], Some(body))
            .await
            .unwrap()
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let path = format!("{}{path}", self.files);
        self.gateway
            .http()
            .request("GET", &path, headers, None)
            .await
            .unwrap()
    }

    async fn delete(&self, path: &str) -> Response {
        let path = format!("{}/{path}", self.files);
        self.gateway.http().delete(&path).await.unwrap()
    }

    async fn refused(&self, path: &str) -> (u16, Value) {
        let reply = self.get(path, &[]).await;
        (reply.status, reply.json().unwrap()["code"].clone())
    }
}

#[tokio::test]
async fn files_go_up_and_down() {
    let fixture = FilesFixture::new(&[]).await;
    let large: Vec<u8> = (0..=250).cycle().take(3_000_000).collect();
    let reply = fixture.put("a%20b/c.bin", &large).await.expect(201).unwrap();
    assert_eq!(
        reply.json().unwrap(),
        json!({"path": "a b/c.bin", "bytes": 3_000_000})
    );
    assert_eq!(
        fixture.get("/a%20b/c.bin", &[]).await.expect(200).unwrap().body,
        large
    );
    fixture.put("a%20b/c.bin", b"short").await.expect(200).unwrap();
    let whole = fixture.get("/a%20b/c.bin", &[]).await.expect(200).unwrap();
    assert_eq!(whole.body, b"short");
    let tag = whole.header("etag").unwrap().to_owned();
    fixture
        .get("/a%20b/c.bin", &[("if-none-match", &tag)])
        .await
        .expect(304)
        .unwrap();
    let part = fixture
        .get("/a%20b/c.bin", &[("range", "bytes=1-2")])
        .await
        .expect(206)
        .unwrap();
    assert_eq!(part.body, b"ho");
    assert_eq!(part.header("content-range"), Some("bytes 1-2/5"));
    fixture
        .get("/a%20b/c.bin", &[("range", "bytes=5-")])
        .await
        .expect(416)
        .unwrap();
    fixture.put("x.html", b"<script>").await.expect(201).unwrap();
    let page = fixture.get("/x.html", &[]).await.expect(200).unwrap();
    assert_eq!(page.header("content-type"), Some("text/html"));
    assert_eq!(page.header("content-disposition"), Some("attachment"));
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .starts_with("sandbox")
    );
    let listed = fixture
        .get("?depth=2", &[])
        .await
        .expect(200)
        .unwrap()
        .json()
        .unwrap();
    let paths: Vec<_> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["a b", "a b/c.bin", "x.html"]);
    assert_eq!(listed["total"], json!({"entries": 3, "bytes": 13}));
    assert_eq!(listed["truncated"], false);
    assert_eq!(fixture.delete("a%20b").await.status, 409);
    fixture.delete("a%20b?recursive=true").await.expect(204).unwrap();
    assert_eq!(
        fixture.refused("/a%20b/c.bin").await,
        (404, json!("file_not_found"))
    );
}

#[tokio::test]
async fn nothing_outside_is_reached() {
    let fixture = FilesFixture::new(&[]).await;
    let work = fixture.dir.path().join("work");
    symlink("../work2", work.join("out")).unwrap();
    symlink("/proc/self/root", work.join("magic")).unwrap();
    for path in ["/out/secret", "/magic/etc/passwd"] {
        assert_eq!(
            fixture.refused(path).await,
            (400, json!("path_outside")),
            "{path}"
        );
    }
    for path in [
        "/%2e%2e/work2/secret",
        "/a/..%2f../work2/secret",
        "//etc/passwd",
        "/%00",
    ] {
        assert_eq!(fixture.refused(path).await, (400, json!("bad_path")), "{path}");
    }
    for path in ["/..%5cwork2%5csecret", "/%252e%252e/work2/secret"] {
        assert_eq!(
            fixture.refused(path).await,
            (404, json!("file_not_found")),
            "{path}"
        );
    }
    assert_eq!(fixture.get("/%ff", &[]).await.status, 400);
    assert_eq!(fixture.put("out/new", b"x").await.status, 400);
    assert_eq!(fixture.put("%2e%2e/new", b"x").await.status, 400);
    assert_eq!(fixture.delete("out/secret?recursive=true").await.status, 400);
    assert_eq!(fs::read_dir(fixture.dir.path().join("work2")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(fixture.dir.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn a_directory_goes_down_and_up_as_an_archive() {
    let fixture = FilesFixture::new(&[]).await;
    fixture.put("data/one.txt", b"1").await.expect(201).unwrap();
    fixture.put("data/deep/two.txt", b"22").await.expect(201).unwrap();
    let (http, session) = (fixture.gateway.http(), &fixture.session);
    let archive = http
        .get(&format!("/v1/sessions/{session}/archive?path=data"))
        .await
        .unwrap();
    let archive = archive.expect(200).unwrap();
    assert_eq!(archive.header("content-type"), Some("application/x-tar"));
    let upload = format!("/v1/sessions/{session}/upload?path=copy");
    let reply = http
        .request("POST", &upload, &[], Some(&archive.body))
        .await
        .unwrap();
    assert_eq!(reply.expect(200).unwrap().json().unwrap()["bytes"], 3);
    assert_eq!(fixture.get("/copy/deep/two.txt", &[]).await.body, b"22");
    let reply = http
        .request("POST", &upload, &[], Some(b"no archive"))
        .await
        .unwrap();
    assert_eq!(
        (reply.status, reply.json().unwrap()["code"].clone()),
        (422, json!("bad_archive"))
    );
}

#[tokio::test]
async fn files_are_there_while_code_runs_after_a_restart_and_over_a_kill_of_the_gateway() {
    let mut fixture = FilesFixture::new(&[]).await;
    let gate = fixture.gateway.file("gate");
    let mut socket = fixture.gateway.connect(&fixture.session).await.unwrap();
    socket
        .start(&format!("wait-file {}", gate.display()))
        .await
        .unwrap();
    until_state(&fixture.gateway, &fixture.session, "busy").await;
    fixture.put("f", b"while it runs").await.expect(201).unwrap();
    fs::write(&gate, "").unwrap();
    until_state(&fixture.gateway, &fixture.session, "idle").await;
    let restart = format!("/v1/sessions/{}/restart", fixture.session);
    fixture
        .gateway
        .http()
        .post(&restart, None)
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert_eq!(fixture.get("/f", &[]).await.body, b"while it runs");
    fixture.gateway.crash().await.unwrap();
    assert_eq!(
        fixture.get("/f", &[]).await.expect(200).unwrap().body,
        b"while it runs"
    );
    // An upload that the gateway's end breaks off leaves nothing.
    assert_eq!(fs::read_dir(fixture.dir.path().join("work")).unwrap().count(), 1);
}

#[tokio::test]
async fn exec_uploads_files_first() {
    let fixture = FilesFixture::new(&[]).await;
    let file = fixture.dir.path().join("my data.csv");
    fs::write(&file, "a,b\n").unwrap();
    let done = Command::new(binaries::path("himalia").unwrap())
        .args(["exec", &fixture.session, "print on", "--upload"])
        .arg(&file)
        .args(["--url", &format!("http://{}", fixture.gateway.address())])
        .env("HIMALIA_TOKEN", TOKEN)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "on\n");
    assert_eq!(
        fs::read(fixture.dir.path().join("work/my data.csv")).unwrap(),
        b"a,b\n"
    );
    let end = format!("/v1/sessions/{}", fixture.session);
    fixture
        .gateway
        .http()
        .delete(&end)
        .await
        .unwrap()
        .expect(204)
        .unwrap();
    assert_eventually!(fixture.gateway.processes().is_empty());
}
