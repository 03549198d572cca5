//! The whole product on the cluster of testkit: sessions in pods, the death of a gateway, and what the doctor says.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::path::PathBuf;
use std::process::Command;

use himalia_testkit::assert_eventually;
use himalia_testkit::cluster::{Cluster, Image, Refusals};
use himalia_testkit::gateway::Gateway;
use himalia_testkit::{binaries, gateway};
use serde_json::json;

/// A node has the agent, and an image with the scripted kernel.
fn images() -> Vec<Image> {
    let root: PathBuf = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into();
    vec![
        Image {
            name: "agent:1".to_owned(),
            files: vec![
                (binaries::path("himalia-shim").unwrap(), "/himalia-shim".into()),
                (root.join("kernelspecs/python3"), "/kernel".into()),
            ],
        },
        Image {
            name: "kernel:1".to_owned(),
            files: vec![(binaries::fake_kernel().unwrap(), "/opt/fake-kernel".into())],
        },
    ]
}

struct World {
    // It stops before the cluster, which it asks for the end of its pods.
    gateway: Gateway,
    cluster: Cluster,
}

impl World {
    async fn new(more: &str) -> Self {
        let cluster = Cluster::start(images(), 8 << 30).await.unwrap();
        let root = gateway::new_root().unwrap();
        let config = root.path().join("himalia.toml");
        let kubeconfig = cluster.kubeconfig().unwrap();
        let text = format!(
            "[kubernetes]\nnamespace = \"kernels\"\nkubeconfig = \"{}\"\nimage = \"kernel:1\"\nagent_image = \"agent:1\"\n\
             schedule_deadline = \"1s\"\n{more}",
            kubeconfig.display()
        );
        std::fs::write(&config, text).unwrap();
        let gateway = Gateway::builder()
            .root(root)
            .arg("--config")
            .arg(config.display().to_string())
            .kernelspec(
                "pod",
                json!({"argv": ["/opt/fake-kernel", "-f", "{connection_file}"], "display_name": "Pod",
                    "language": "script", "metadata": {"himalia": {"late_bind": true}}}),
            )
            .start()
            .await
            .unwrap();
        Self { gateway, cluster }
    }

    fn pods(&self) -> usize {
        self.cluster.objects("pods").len()
    }

    /// Deletes a kernel, and waits until nothing of it is left in the cluster.
    async fn delete(&self, kernel: &str) {
        let http = self.gateway.http();
        http.delete(&format!("/api/kernels/{kernel}")).await.unwrap();
        assert_eventually!(self.pods() == 0 && self.cluster.objects("secrets").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_in_a_pod_runs_and_outlives_the_gateway() {
    let mut world = World::new("").await;
    let kernel = world.gateway.start_kernel("pod").await.unwrap();
    let mut client = world.gateway.connect(&kernel).await.unwrap();
    client.execute("set x 7").await.unwrap();
    let image = client.execute("env IMAGE_SAYS").await.unwrap().stdout();
    assert!(image.contains("hello"), "the variables of the image: {image}");
    world.gateway.crash().await.unwrap();
    assert_eq!(world.pods(), 1);
    let mut client = world.gateway.connect(&kernel).await.unwrap();
    assert_eq!(client.execute("get x").await.unwrap().stdout(), "7\n");
    world.delete(&kernel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_cluster_refuses_is_said_to_the_caller() {
    let world = World::new("[templates.huge]\nkernelspec = \"pod\"\nmemory = \"1TiB\"\n").await;
    let http = world.gateway.http();
    let reply = http
        .post("/api/kernels", Some(&json!({"name": "huge"})))
        .await
        .unwrap();
    assert!(reply.status >= 400);
    assert!(reply.text().contains("unschedulable"), "{}", reply.text());
    world.cluster.refuse(Refusals {
        unavailable: usize::MAX,
        ..Refusals::default()
    });
    let reply = http
        .post("/api/kernels", Some(&json!({"name": "pod"})))
        .await
        .unwrap();
    assert_eq!(reply.status, 503, "{}", reply.text());
    world.cluster.refuse(Refusals::default());
    assert_eventually!(world.pods() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_keeps_pods_ready_and_a_claim_takes_one() {
    let world =
        World::new("[templates.warm]\nkernelspec = \"pod\"\n[templates.warm.pool]\nsize = 1\nmax = 1\n")
            .await;
    assert_eventually!(world.pods() == 1, "a pod is made in advance");
    let http = world.gateway.http();
    let mut paths = Vec::new();
    assert_eventually!(
        {
            let body = json!({"template": "warm"});
            let reply = http.post("/v1/sessions", Some(&body)).await.unwrap();
            let reply = reply.expect(201).unwrap().json().unwrap();
            let id = reply["id"].as_str().unwrap().to_owned();
            http.delete(&format!("/v1/sessions/{id}")).await.unwrap();
            paths.push(reply["started_by"].clone());
            paths.last().is_some_and(|path| path == "pool")
        },
        "{paths:?}"
    );
}

impl World {
    /// The pool of a template, as the gateway shows it.
    async fn pool(&self) -> serde_json::Value {
        let reply = self.gateway.http().get("/v1/pools").await.unwrap();
        reply.expect(200).unwrap().json().unwrap()["pools"][0].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_leaves_a_node_that_is_cordoned() {
    let world =
        World::new("[templates.warm]\nkernelspec = \"pod\"\n[templates.warm.pool]\nsize = 1\nmax = 1\n")
            .await;
    assert_eventually!(world.pool().await["ready"] == 1, "a pod waits");
    let waits = world.cluster.objects("pods")[0]["metadata"]["name"].clone();
    world.cluster.cordon(true);
    assert_eventually!(
        world
            .cluster
            .objects("pods")
            .iter()
            .all(|pod| pod["metadata"]["name"] != waits),
        "it is gone"
    );
    let pool = world.pool().await;
    assert_eq!(
        (&pool["ready"], &pool["failures"]),
        (&json!(0), &json!(0)),
        "{pool}"
    );
    world.cluster.cordon(false);
    assert_eventually!(world.pool().await["ready"] == 1, "another one waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_cannot_run_are_made_one_at_a_time_and_the_reason_is_said() {
    let world = World::new(
        "images = [\"none:1\"]\n[templates.bad]\nkernelspec = \"pod\"\nimage = \"none:1\"\n\
         [templates.bad.pool]\nsize = 4\nmax = 4\n",
    )
    .await;
    assert_eventually!(
        world.pool().await["failures"].as_u64() >= Some(3),
        "{}",
        world.pool().await
    );
    let before = world.cluster.requests("POST /api/v1/namespaces/kernels/pods");
    let pool = world.pool().await;
    let failures = pool["failures"].as_u64().unwrap();
    assert!(pool["problem"].as_str().unwrap().contains("image"), "{pool}");
    // Two at once before the first failure, then one after the other with growing pauses.
    assert!(before as u64 <= failures + 2, "{before} pods for {pool}");
    let metrics = world.gateway.http().get("/metrics").await.unwrap().text();
    assert!(
        metrics.contains("himalia_pool_failures_total{template=\"bad\"}"),
        "{metrics}"
    );
}

/// The doctor of a gateway's configuration.
fn doctor(world: &World) -> (bool, String) {
    let config = world.gateway.root().join("himalia.toml");
    let output = Command::new(binaries::path("himalia").unwrap())
        .args(["doctor", "--kubernetes", "--config"])
        .arg(config)
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_refuses_to_call_a_cluster_isolated_that_lets_a_probe_through() {
    let world = World::new("").await;
    // A policy that exists and is not enforced: all pods share the network of this host.
    world.cluster.put(
        "networkpolicies",
        json!({"metadata": {"name": "default-deny", "namespace": "kernels"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}),
    );
    let (is_well, text) = tokio::task::block_in_place(|| doctor(&world));
    assert!(!is_well && text.contains("NOT isolated"), "{text}");
    assert!(text.contains("default-deny denies by default"), "{text}");
    assert!(text.contains("no ResourceQuota"), "{text}");
    assert_eventually!(world.pods() == 0, "probes are deleted");
    world.cluster.refuse(Refusals {
        deny_reviews: true,
        ..Refusals::default()
    });
    let (_, text) = tokio::task::block_in_place(|| doctor(&world));
    assert!(text.contains("missing: create pods"), "{text}");
}
