//! Skills: each version of each name once.

/// One row of `skills`, with its content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillRecord {
    /// What is listed of it.
    pub brief: SkillBrief,
    /// Its manifest, JSON.
    pub manifest: String,
    /// Its files, as the writer has packed them.
    pub files: Vec<u8>,
}

/// What is listed of a row of `skills`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillBrief {
    /// A tenant, or the operator.
    pub owner: String,
    /// Its name.
    pub name: String,
    /// Its version, one of that name.
    pub version: String,
    /// What it is.
    pub kind: String,
    /// What it does.
    pub description: String,
    /// The address of its content.
    pub digest: String,
    /// Bytes that count for its owner.
    pub bytes: i64,
    /// The principal that published it.
    pub published_by: String,
    /// When, in microseconds since the Unix epoch.
    pub published_micros: i64,
}

/// How much an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VersionQuota {
    /// Versions of skills.
    pub versions: i64,
    /// [`SkillBrief::bytes`] of all.
    pub bytes: i64,
}

/// What came of adding a skill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VersionAdded {
    /// It is there.
    Added,
    /// This version was there already, with this digest.
    Present(String),
    /// Its owner has as much as it may.
    Full,
}
