//! Small versions of images, and the headers that they come with.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use crate::common;
use crate::tenants::place;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use common::{Gateway, Reply};
use image::{DynamicImage, GenericImageView as _, ImageFormat};
use place::{EVE, Request, call, gateway, made, stop};
use serde_json::json;

/// The directory of this name somewhere below.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let mut dirs = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    dirs.find_map(|path| {
        if path.file_name()? == name {
            Some(path)
        } else {
            find(&path, name)
        }
    })
}

async fn get(gateway: &Gateway, sha256: &str, query: &str) -> Reply {
    gateway.get(&format!("/v1/artifacts/{sha256}?{query}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_comes_small_on_request() {
    let (gateway, engine) = gateway().await;
    made(&gateway, common::TOKEN, "PUT", "/v1/sessions/plots", json!({})).await;
    let code = json!({"code": "display image/svg+xml 4000"});
    let ran = made(
        &gateway,
        common::TOKEN,
        "POST",
        "/v1/sessions/plots/executions",
        code,
    )
    .await;
    let drawing = ran["outputs"][0]["data"]["image/svg+xml"]["artifact"].as_str();
    let drawing = drawing.unwrap().trim_start_matches("sha256:").to_owned();
    // The kernel of tests draws nothing that can be decoded: an image beside what it made.
    let dir = find(&gateway.data(), "artifacts").unwrap();
    let plot = "a".repeat(64);
    let mut image = Cursor::new(Vec::new());
    DynamicImage::new_rgba8(400, 100)
        .write_to(&mut image, ImageFormat::Png)
        .unwrap();
    std::fs::write(dir.join(format!("{plot}.image%png")), image.get_ref()).unwrap();

    let whole = get(&gateway, &plot, "").await;
    assert_eq!((whole.status, &whole.body), (200, image.get_ref()));
    let small = get(&gateway, &plot, "thumbnail=100").await;
    assert_eq!(small.status, 200, "{small:?}");
    let decoded = image::load_from_memory(&small.body).unwrap();
    assert_eq!(decoded.dimensions(), (100, 25));
    for name in [
        "content-type",
        "content-security-policy",
        "x-content-type-options",
        "cache-control",
        "cross-origin-resource-policy",
    ] {
        assert!(small.header(name).is_some(), "{name}");
        assert_eq!(small.header(name), whole.header(name), "{name}");
    }
    let tag = format!("\"{plot}-100\"");
    assert_eq!(small.header("etag"), Some(tag.as_str()));
    for (query, wanted) in [("thumbnail=100", 304), ("thumbnail=101", 200), ("", 200)] {
        let path = format!("/v1/artifacts/{plot}?{query}");
        let known = format!("If-None-Match: {tag}");
        let reply = gateway.call("GET", &path, &[&known], "").await;
        assert_eq!(reply.status, wanted, "{query}");
    }

    for edge in ["15", "1025", "-1", "x", ""] {
        let refused = get(&gateway, &plot, &format!("thumbnail={edge}")).await;
        let problem = refused.json();
        assert_eq!(
            (refused.status, &problem["field"]),
            (400, &json!("thumbnail")),
            "{edge}"
        );
    }
    let refused = get(&gateway, &drawing, "thumbnail=100").await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (422, &json!("no_thumbnail"))
    );
    let request = Request {
        method: "GET".into(),
        path: format!("/v1/artifacts/{plot}?thumbnail=100"),
        body: String::new(),
        upgrade: false,
    };
    assert_eq!(call(&gateway, EVE, &request).await.status, 404);
    stop(engine).await;
}
