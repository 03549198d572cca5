//! Schemas of outputs for the description of the API. The values themselves are JSON that kernels made.
#![expect(dead_code, reason = "these types are described, and made by kernels")]

use schemars::JsonSchema;
use serde_json::{Map, Value as Json};

/// A representation of an output: text or JSON as the kernel made it, or where the content is.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "OutputContent")]
pub(crate) enum Content {
    Text(String),
    Artifact(Reference),
    Object(Map<String, Json>),
    List(Vec<Json>),
    Number(f64),
    Truth(bool),
    Null,
}

/// An image or another large value: `GET /v1/artifacts/{artifact}`.
#[derive(JsonSchema)]
#[schemars(rename = "ArtifactReference")]
pub(crate) struct Reference {
    /// `sha256:` and 64 hexadecimal digits.
    artifact: String,
    /// Length in bytes.
    bytes: u64,
    /// Width of an image, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u64>,
    /// Height of an image, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
    /// The content of an image, within `image_bytes` and `image_pixels`.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// The head of a frame or series, or where it is.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(crate) enum TableOrArtifact {
    Artifact(Reference),
    Table(Table),
}

/// The head of a frame or series.
#[derive(JsonSchema)]
#[schemars(rename = "TableHead")]
pub(crate) struct Table {
    /// Rows and columns of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<Column>>,
    /// Columns of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    columns_total: Option<u64>,
    /// Labels of the rows, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<Vec<Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Vec<Json>>>,
}

/// A column.
#[derive(JsonSchema)]
#[schemars(rename = "TableColumn")]
struct Column {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
}

/// The data of a figure, or where it is.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(crate) enum PlotOrArtifact {
    Artifact(Reference),
    Plot(Plot),
}

/// The data of a figure.
#[derive(JsonSchema)]
pub(crate) struct Plot {
    #[serde(skip_serializing_if = "Option::is_none")]
    axes: Option<Vec<Axes>>,
}

/// One coordinate system of a figure.
#[derive(JsonSchema)]
#[schemars(rename = "PlotAxes")]
struct Axes {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Label of the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    /// Label of the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<Series>>,
}

/// One line, scatter or bar series of a plot.
#[derive(JsonSchema)]
#[schemars(rename = "PlotSeries")]
struct Series {
    /// `line`, `scatter` or `bar`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Points of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<Vec<Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<Vec<Json>>,
}
