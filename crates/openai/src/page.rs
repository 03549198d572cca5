//! Lists: `{object: "list", data, first_id, last_id, has_more}`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::limits::{LISTED, LISTED_MOST};

/// Query for a page of a list.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListQuery {
    after: Option<String>,
    limit: Option<usize>,
    order: Option<String>,
    pub(crate) name: Option<String>,
}

/// The page of elements that are in the order of their making.
pub(crate) fn page(mut all: Vec<Value>, asked: &ListQuery) -> Result<Value, Failure> {
    let limit = asked.limit.unwrap_or(LISTED);
    if !(1..=LISTED_MOST).contains(&limit) {
        return Err(Failure::field("limit", format!("must be 1 to {LISTED_MOST}")));
    }
    match asked.order.as_deref() {
        None | Some("desc") => all.reverse(),
        Some("asc") => {}
        Some(_) => return Err(Failure::field("order", "must be asc or desc")),
    }
    let begin = match &asked.after {
        None => 0,
        Some(after) => {
            let at = all.iter().position(|one| one["id"] == after.as_str());
            at.ok_or_else(|| Failure::field("after", "is not in this list"))? + 1
        }
    };
    let data: Vec<Value> = all.drain(begin..).collect();
    let has_more = data.len() > limit;
    let data: Vec<Value> = data.into_iter().take(limit).collect();
    let id = |one: Option<&Value>| one.map(|one| one["id"].clone());
    Ok(json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": has_more,
        "data": data,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let all = || {
            (1..=5)
                .map(|id| json!({ "id": id.to_string() }))
                .collect::<Vec<_>>()
        };
        let of = |after: Option<&str>, order: Option<&str>| {
            let asked = ListQuery {
                after: after.map(str::to_owned),
                limit: Some(2),
                order: order.map(str::to_owned),
                name: None,
            };
            page(all(), &asked)
        };
        let first = of(None, None).unwrap();
        assert_eq!(
            (&first["first_id"], &first["last_id"], &first["has_more"]),
            (&json!("5"), &json!("4"), &json!(true))
        );
        let last = of(Some("2"), None).unwrap();
        assert_eq!(
            (&last["data"], &last["has_more"]),
            (&json!([{ "id": "1" }]), &json!(false))
        );
        assert_eq!(of(Some("4"), Some("asc")).unwrap()["first_id"], "5");
        assert_eq!(of(Some("1"), None).unwrap()["first_id"], Value::Null);
        assert!(of(Some("9"), None).is_err() && of(None, Some("up")).is_err());
    }
}
