//! Merged lists.

use axum::body::to_bytes;

use super::*;

fn plain() -> Uri {
    Uri::from_static("/")
}

fn part(bytes: &[u8]) -> Part {
    Part {
        headers: HeaderMap::new(),
        bytes: bytes.to_vec().into(),
    }
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn lists_are_one_and_have_each_thing_once() {
    let parts = [
        br#"[{"id":"a","x":1},{"id":"b"}]"#.as_slice(),
        br#"[{"id":"b"},{"id":"c"}]"#,
    ];
    let parts = parts.map(part);
    let response = merge(MergedList::Jupyter, (&HeaderMap::new(), &plain()), &parts, &[]).unwrap();
    assert_eq!(
        text(response).await,
        r#"[{"id":"a","x":1},{"id":"b"},{"id":"c"}]"#
    );
}

#[tokio::test]
async fn sessions_are_in_order_of_their_start() {
    let parts = [
        br#"{"sessions":[{"id":"a","created":"2026-01-03"}]}"#.as_slice(),
        br#"{"sessions":[{"id":"b","created":"2026-01-01"},{"id":"c","created":"2026-01-05"}]}"#,
    ];
    let parts = parts.map(part);
    let response = merge(
        MergedList::Sessions,
        (&HeaderMap::new(), &plain()),
        &parts,
        &["r2".into()],
    )
    .unwrap();
    let all: Value = serde_json::from_str(&text(response).await).unwrap();
    let ids: Vec<_> = all["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(
        (json!(ids), &all["unanswered"]),
        (json!(["b", "a", "c"]), &json!(["r2"]))
    );
    assert_eq!(all["next"], Value::Null);
    // A page of all is no longer than one of them, and what is cut off is on the next one.
    let response = merge(
        MergedList::Sessions,
        (&HeaderMap::new(), &Uri::from_static("/?limit=2")),
        &parts,
        &[],
    )
    .unwrap();
    let page: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(page["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(page["next"], next_of("2026-01-03 a"));
    let ended = [
        br#"{"sessions":[{"id":"a","created":"1","ended":"2"}]}"#,
        br#"{"sessions":[{"id":"b","created":"1","ended":"3"}]}"#,
    ];
    let ended = ended.map(|bytes| part(bytes));
    let response = merge(MergedList::Sessions, (&HeaderMap::new(), &plain()), &ended, &[]).unwrap();
    let all = text(response).await;
    assert!(
        all.find("\"b\"") < all.find("\"a\"") && !all.contains("unanswered"),
        "{all}"
    );
}

#[tokio::test]
async fn prompts_are_in_order_and_those_of_steps_are_there_once() {
    let parts = [
        br#"{"prompts":[{"id":"prm_b","created":"2026-01-02"},{"id":"prs_c","created":"2026-01-03"}]}"#
            .as_slice(),
        br#"{"prompts":[{"id":"prm_a","created":"2026-01-01"},{"id":"prs_c","created":"2026-01-03"}]}"#,
    ];
    let parts = parts.map(part);
    let asked = (&HeaderMap::new(), &plain());
    let response = merge(MergedList::Prompts, asked, &parts, &["r3".into()]).unwrap();
    let all: Value = serde_json::from_str(&text(response).await).unwrap();
    let ids: Vec<_> = all["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(json!(ids), json!(["prm_a", "prm_b", "prs_c"]));
    assert_eq!((&all["unanswered"], &all["next"]), (&json!(["r3"]), &Value::Null));
}

/// The page of the parts: ids, and the key of `next`.
async fn page_of(parts: &[Value], query: &'static str) -> (Vec<String>, Option<String>) {
    let parts: Vec<_> = parts.iter().map(|one| part(one.to_string().as_bytes())).collect();
    let asked = (&HeaderMap::new(), &Uri::from_static(query));
    let response = merge(MergedList::Prompts, asked, &parts, &[]).unwrap();
    let all: Value = serde_json::from_str(&text(response).await).unwrap();
    let ids = all["prompts"].as_array().unwrap().iter();
    let ids = ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    (ids, all["next"].as_str().and_then(prompts::key_of))
}

#[tokio::test]
async fn a_page_of_prompts_ends_where_one_of_its_parts_does() {
    let one = |id: &str, day: u8| json!({ "id": id, "created": format!("2026-01-0{day}") });
    let next = prompts::next_of("0000000000 2026-01-02 prm_c");
    let full = json!({ "prompts": [one("prm_a", 1), one("prm_c", 2)], "next": next });
    let other = json!({ "prompts": [one("prm_b", 1), one("prm_d", 3)] });
    // The first part has more, which may be before what the second one has.
    let wanted = ["prm_a", "prm_b", "prm_c"].map(str::to_owned).to_vec();
    let end = |key: &str| Some(format!("0000000000 2026-01-0{key}"));
    let parts = [full.clone(), other.clone()];
    assert_eq!(
        page_of(&parts, "/?limit=9").await,
        (wanted.clone(), end("2 prm_c"))
    );
    assert_eq!(
        page_of(&parts, "/?limit=2").await,
        (wanted[..2].to_vec(), end("1 prm_b"))
    );
    // All of its page have ended meanwhile.
    let ended = json!({ "prompts": [], "next": prompts::next_of("0000000000 2026-01-01 prm_a") });
    assert_eq!(
        page_of(&[ended, other.clone()], "/?limit=9").await,
        (vec![], end("1 prm_a"))
    );
    let ids = ["prm_b", "prm_d"].map(str::to_owned).to_vec();
    assert_eq!(page_of(&[other], "/?limit=9").await, (ids, None));
}

#[tokio::test]
async fn a_page_of_prompts_has_low_turns_first_and_is_in_order_of_time() {
    let parts = [
        br#"{"prompts":[{"id":"prm_b","created":"2026-01-02","turn":1},{"id":"prm_c","created":"2026-01-04"}]}"#
            .as_slice(),
        br#"{"prompts":[{"id":"prm_a","created":"2026-01-01","turn":2},{"id":"prm_d","created":"2026-01-05"}]}"#,
    ];
    let parts = parts.map(part);
    let asked = (&HeaderMap::new(), &Uri::from_static("/?limit=3"));
    let response = merge(MergedList::Prompts, asked, &parts, &[]).unwrap();
    let all: Value = serde_json::from_str(&text(response).await).unwrap();
    let ids: Vec<_> = all["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(json!(ids), json!(["prm_b", "prm_c", "prm_d"]));
    assert_eq!(all["next"], prompts::next_of("0000000001 2026-01-02 prm_b"));
}

#[tokio::test]
async fn runs_are_merged_up_to_the_end_of_the_shortest_part() {
    let run = |at: u32, id: &str| json!({"id": id, "created": format!("2026-01-01T00:00:00.{at:06}Z")});
    let place =
        |at: u32, id: &str| run_place(&serde_json::value::to_raw_value(&run(at, id)).unwrap()).unwrap();
    let cursor = |at, id| runs::next_of(&place(at, id));
    let merged = async |parts: &[Value], query: &'static str| {
        let parts: Vec<Part> = parts.iter().map(|one| part(one.to_string().as_bytes())).collect();
        let asked = (&HeaderMap::new(), &Uri::from_static(query));
        let response = merge(MergedList::Runs, asked, &parts, &["r3".into()]).unwrap();
        let all: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(all["unanswered"], json!(["r3"]));
        let ids = all["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].clone());
        (ids.collect::<Value>(), all["next"].clone())
    };
    let whole = json!({"runs": [run(9, "c"), run(5, "row"), run(1, "a")], "next": null});
    let other = json!({"runs": [run(7, "b"), run(5, "row")], "next": null});
    let found = merged(&[whole.clone(), other.clone()], "/v1/runs").await;
    assert_eq!(found, (json!(["c", "b", "row", "a"]), Value::Null));
    let found = merged(&[whole.clone(), other], "/v1/runs?limit=2").await;
    assert_eq!(found, (json!(["c", "b"]), json!(cursor(7, "b"))));
    // Between 5 and 1 the second one may have more.
    let more = json!({"runs": [run(7, "b"), run(5, "row")], "next": cursor(5, "row")});
    let found = merged(&[whole.clone(), more], "/v1/runs").await;
    assert_eq!(found, (json!(["c", "b", "row"]), json!(cursor(5, "row"))));
    // A page that the filters have left empty has a next one all the same.
    let empty = json!({"runs": [], "next": cursor(8, "x")});
    let found = merged(&[whole, empty], "/v1/runs?status=failed").await;
    assert_eq!(found, (json!(["c"]), json!(cursor(8, "x"))));
}

#[test]
fn statuses_are_summed() {
    let status = |connections, last: &str, started: &str| Status {
        connections,
        kernels: 2,
        last_activity: last.into(),
        started: started.into(),
    };
    assert_eq!(
        sum(&[status(1, "b", "d"), status(2, "c", "a")]),
        json!({"connections": 3, "kernels": 4, "last_activity": "c", "started": "a"})
    );
}
