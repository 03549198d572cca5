//! Questions of a server to a person, within a call: forms with one field.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// A question of a server. Servers are not trusted: the text may say anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Text for the person.
    pub text: String,
    /// The possible answers. Without any, the answer is a text.
    pub options: Vec<String>,
}

/// A person who may answer questions of servers.
pub trait Person: fmt::Debug + Send + Sync {
    /// The answer, if one comes within this time.
    fn ask(&self, question: Question, time: Duration) -> BoxFuture<'_, Option<String>>;
}

/// A form that can be asked as one question.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) question: Question,
    field: String,
    /// The values of the options.
    values: Vec<Value>,
}

impl Form {
    /// The form of `elicitation/create`. `None`: it is no form, has another number of fields than one, or a field of another type than a text, a
    /// choice and yes or no.
    pub(crate) fn of(params: &Value) -> Option<Self> {
        if params.get("mode").is_some_and(|mode| mode != "form") {
            return None;
        }
        let mut fields = params["requestedSchema"]["properties"].as_object()?.iter();
        let (field, schema) = fields.next().filter(|_| fields.len() == 0)?;
        let options: Option<Vec<(String, Value)>> = match schema["type"].as_str()? {
            "boolean" => Some(vec![
                ("yes".to_owned(), true.into()),
                ("no".to_owned(), false.into()),
            ]),
            "string" => {
                let choices = schema.get("enum").or_else(|| schema.get("oneOf"));
                let choices = choices.and_then(Value::as_array).into_iter().flatten();
                choices.map(option).collect()
            }
            _ => None,
        };
        let (options, values) = options?.into_iter().unzip();
        let text = params["message"].as_str()?.to_owned();
        Some(Self {
            question: Question { text, options },
            field: field.clone(),
            values,
        })
    }

    /// The response to the server. Without an answer the form was closed.
    pub(crate) fn response(&self, answer: Option<String>) -> Value {
        let value = answer.and_then(|text| {
            if self.values.is_empty() {
                return Some(Value::String(text));
            }
            let chosen = self.question.options.iter().position(|option| *option == text);
            chosen.and_then(|index| self.values.get(index).cloned())
        });
        match value {
            Some(value) => json!({"action": "accept", "content": { self.field.as_str(): value }}),
            None => json!({"action": "cancel"}),
        }
    }
}

/// An option and its value: a text, or `{const, title}`.
fn option(choice: &Value) -> Option<(String, Value)> {
    let value = choice.get("const").unwrap_or(choice);
    let shown = choice.get("title").unwrap_or(value).as_str()?;
    Some((shown.to_owned(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(field: &Value) -> Option<Form> {
        Form::of(
            &json!({"message": "Which?", "requestedSchema": {"type": "object", "properties": {"x": field}}}),
        )
    }

    #[test]
    fn one_field_is_one_question() {
        let response = |field: Value, answer: &str| form(&field).unwrap().response(Some(answer.to_owned()));
        let accepted = |value: Value| json!({"action": "accept", "content": {"x": value}});
        let cancelled = json!({"action": "cancel"});
        let text = json!({"type": "string"});
        assert_eq!(response(text.clone(), "a b"), accepted(json!("a b")));
        assert_eq!(form(&text).unwrap().response(None), cancelled);
        let choice = json!({"type": "string", "enum": ["eu", "us"]});
        assert_eq!(form(&choice).unwrap().question.options, ["eu", "us"]);
        assert_eq!(response(choice.clone(), "us"), accepted(json!("us")));
        assert_eq!(response(choice, "elsewhere"), cancelled);
        let titled = json!({"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}]});
        assert_eq!(response(titled, "Europe"), accepted(json!("eu")));
        assert_eq!(response(json!({"type": "boolean"}), "no"), accepted(json!(false)));
    }

    #[test]
    fn other_forms_are_no_question() {
        for field in [
            json!({"type": "number"}),
            json!({"type": "array", "items": {"enum": ["a"]}}),
            json!({"type": "string", "enum": [1]}),
            json!({}),
        ] {
            assert!(form(&field).is_none(), "{field}");
        }
        let schema = json!({"properties": {"x": {"type": "string"}, "y": {"type": "string"}}});
        let url = json!({"mode": "url", "message": "m", "url": "https://x.test"});
        for params in [
            json!({"message": "m", "requestedSchema": schema}),
            url,
            json!({}),
            json!(5),
        ] {
            assert!(Form::of(&params).is_none(), "{params}");
        }
    }
}
