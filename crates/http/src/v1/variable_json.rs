//! Descriptions of one variable by kernels, for the description of the API. The kernel makes these replies, and they are passed on as they
//! are: a kernel that is not `himalia_kernel` may leave out members or add some.

use himalia_engine::VariableInfo;
use schemars::JsonSchema;
use serde_json::Value;

/// A part of a variable.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "VariablePart")]
#[expect(dead_code, reason = "it is described, and made by kernels")]
pub(crate) struct VariableReply {
    /// As in the list.
    variable: VariableInfo,
    /// `table`, `array`, `items`, `text` or `object`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The rows; absent for an `object`.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<Page>,
    /// The kernel process that it is in.
    incarnation: u32,
}

/// Rows of a variable, or characters of a text.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "VariableRows")]
#[expect(dead_code, reason = "as above")]
struct Page {
    /// Rows before the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// Number of all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// Rows that fulfil the conditions, of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<u64>,
    /// The columns of a table, or of items.
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<Column>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns_total: Option<u64>,
    /// Labels of the rows of a table, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<Vec<Value>>,
    /// A list of cells for each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Vec<Value>>>,
    /// Rows of the page were left out, because the page would be too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<bool>,
    /// The part of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// A column of a table, or the name of one of items.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "VariableColumn")]
#[schemars(untagged)]
#[expect(dead_code, reason = "as above")]
enum Column {
    Table { name: String, dtype: Option<String> },
    Items(String),
}
