use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::ToolDefinition;

fn server(name: &str, tools: &[(&str, &str)]) -> Arc<ServerTools> {
    let definitions = tools.iter().map(|(name, description)| ToolDefinition {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        input_schema: json!({"type": "object"}),
        ..ToolDefinition::default()
    });
    Arc::new(ServerTools::new(name, format!("The server {name}."), definitions).0)
}

fn catalog() -> Catalog {
    let payments = server(
        "payments",
        &[
            ("list_charges", "Lists charges of a customer, the newest first."),
            ("create_charge", "Charges a card."),
            ("refund", "Gives money back for a charge."),
            ("list_customers", "Lists customers."),
        ],
    );
    let mail = server(
        "mail",
        &[
            ("send", "Sends a message to a customer."),
            ("search_messages", "Finds messages."),
        ],
    );
    Catalog::new(vec![payments, mail], |id| id.tool != "create_charge")
}

fn ids(found: &[CatalogMatch<'_>]) -> Vec<String> {
    found.iter().map(|found| found.id().to_string()).collect()
}

#[test]
fn the_best_tools_are_first() {
    let catalog = catalog();
    let find = |server, query| ids(&catalog.search(server, query, 3).unwrap());
    assert_eq!(find(None, "charges of customers")[0], "payments.list_charges");
    assert_eq!(find(None, "give a refund"), ["payments.refund"]);
    assert_eq!(find(None, "Message")[0], "mail.search_messages");
    assert_eq!(find(Some("mail"), "customer"), ["mail.send"]);
    assert_eq!(
        find(Some("payments"), ""),
        [
            "payments.list_charges",
            "payments.refund",
            "payments.list_customers"
        ]
    );
    assert_eq!(find(None, "nothing like it"), [""; 0]);
}

#[test]
fn what_a_session_may_not_use_is_not_there() {
    let catalog = catalog();
    assert!(
        !ids(&catalog.search(None, "create charge card", 9).unwrap())
            .contains(&"payments.create_charge".to_owned())
    );
    let counts: Vec<_> = catalog
        .servers()
        .map(|(server, tools)| (server.name(), tools))
        .collect();
    assert_eq!(counts, [("mail", 2), ("payments", 3)]);
    let unknown = catalog.get("payments.create_charge").unwrap_err();
    assert!(
        matches!(&unknown, UnknownName::Tool { nearest, .. } if !nearest.iter().any(|name| name.contains("create_charge"))),
        "{unknown}"
    );
}

#[test]
fn a_wrong_name_is_answered_with_those_that_are_like_it() {
    let catalog = catalog();
    assert_eq!(
        catalog.get("payments.refund").unwrap().id().to_string(),
        "payments.refund"
    );
    let text = |name| catalog.get(name).unwrap_err().to_string();
    assert_eq!(
        text("payments.list_charge"),
        "payments has no tool list_charge; like it: payments.list_charges"
    );
    assert_eq!(
        text("payment.refund"),
        "there is no server payment; there are: mail, payments"
    );
    assert_eq!(
        text("refund"),
        "refund is not SERVER.TOOL; like it: payments.refund"
    );
    let none = Catalog::new(Vec::new(), |_| true);
    assert_eq!(
        none.get("a.b").unwrap_err().to_string(),
        "there is no server a: this session has none"
    );
}

#[test]
fn a_rare_word_counts_more_than_a_usual_one() {
    let tools: Vec<(String, String)> = (0..50)
        .map(|number| (format!("get_{number}"), "Gets an invoice.".to_owned()))
        .collect();
    let mut tools: Vec<(&str, &str)> = tools
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    tools.push(("dunning", "Reminds of a payment."));
    let catalog = Catalog::new(vec![server("one", &tools)], |_| true);
    assert_eq!(
        ids(&catalog.search(None, "reminds of an invoice", 1).unwrap()),
        ["one.dunning"]
    );
}
