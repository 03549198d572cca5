//! Questions of a server to a person, within a call: forms with one field, and forms with defaults, which are accepted as a whole.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

/// A question of a server. Servers are not trusted: the text may say anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Text for the person.
    pub text: String,
    /// The possible answers. Without any, the answer is a text.
    pub options: Vec<String>,
    /// The values that the server gets if the person accepts, by field.
    pub values: Option<Map<String, Value>>,
}

const ACCEPT: &str = "accept";
const DECLINE: &str = "decline";

/// A person who may answer questions of servers.
pub trait Person: fmt::Debug + Send + Sync {
    /// The answer, if one comes within this time.
    fn ask(&self, question: Question, time: Duration) -> BoxFuture<'_, Option<String>>;
}

/// A form that can be asked as one question.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) question: Question,
    /// The only field, and the values of the options. Empty: the question has values of its own.
    field: String,
    values: Vec<Value>,
}

impl Form {
    /// The form of `elicitation/create`. `None`: it is no form, or neither has one field that is a text, a choice or yes and no, nor defaults for
    /// what it requires.
    pub(crate) fn of(params: &Value) -> Option<Self> {
        if params.get("mode").is_some_and(|mode| mode != "form") {
            return None;
        }
        let schema = &params["requestedSchema"];
        let text = params["message"].as_str()?;
        Self::of_field(schema, text).or_else(|| Self::of_defaults(schema, text))
    }

    fn of_field(schema: &Value, text: &str) -> Option<Self> {
        let mut fields = schema["properties"].as_object()?.iter();
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
        let text = text.to_owned();
        Some(Self {
            question: Question {
                text,
                options,
                values: None,
            },
            field: field.clone(),
            values,
        })
    }

    /// A form that can be accepted as it is. One without fields is a confirmation.
    fn of_defaults(schema: &Value, text: &str) -> Option<Self> {
        let fields = schema["properties"].as_object()?;
        let default = |(name, field): (&String, &Value)| Some((name.clone(), field.get("default")?.clone()));
        let values: Map<_, _> = fields.iter().filter_map(default).collect();
        let mut required = schema["required"].as_array().into_iter().flatten();
        let has_all = required.all(|name| name.as_str().is_some_and(|name| values.contains_key(name)));
        if !has_all || values.is_empty() != fields.is_empty() {
            return None;
        }
        Some(Self {
            question: Question {
                text: text.to_owned(),
                options: vec![ACCEPT.to_owned(), DECLINE.to_owned()],
                values: Some(values),
            },
            field: String::new(),
            values: Vec::new(),
        })
    }

    /// The response to the server. Without an answer the form was closed.
    pub(crate) fn response(&self, answer: Option<String>) -> Value {
        if let Some(values) = &self.question.values {
            return match answer.as_deref() {
                Some(ACCEPT) => json!({"action": "accept", "content": values}),
                Some(DECLINE) => json!({"action": "decline"}),
                _ => json!({"action": "cancel"}),
            };
        }
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
    fn a_form_with_defaults_is_accepted_as_a_whole() {
        let of = |properties: Value, required: Value| {
            let schema = json!({"type": "object", "properties": properties, "required": required});
            Form::of(&json!({"message": "Right?", "requestedSchema": schema}))
        };
        let fields =
            json!({"name": {"type": "string", "default": "Ann"}, "age": {"type": "integer", "default": 30}});
        let form = of(fields.clone(), json!(["age"])).unwrap();
        let values = json!({"name": "Ann", "age": 30});
        assert_eq!(json!(form.question.values), values);
        assert_eq!(form.question.options, ["accept", "decline"]);
        let response = |form: &Form, answer: &str| form.response(Some(answer.to_owned()));
        assert_eq!(
            response(&form, "accept"),
            json!({"action": "accept", "content": values})
        );
        assert_eq!(response(&form, "decline"), json!({"action": "decline"}));
        assert_eq!(response(&form, "yes"), json!({"action": "cancel"}));
        assert_eq!(form.response(None), json!({"action": "cancel"}));
        let confirmation = of(json!({}), json!([])).unwrap();
        assert_eq!(
            response(&confirmation, "accept"),
            json!({"action": "accept", "content": {}})
        );
        assert!(
            of(fields, json!(["email"])).is_none(),
            "it needs a value that no one has"
        );
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
