//! Skills: each version of each name once.

use super::versions::{self, refused, versions};
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Record as _, Sql, changed, params, record};
use crate::{VersionAdded, VersionQuota};

/// One row of `skills`, with its content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillRecord {
    /// The columns that lists have.
    pub brief: SkillBrief,
    /// The manifest, JSON.
    pub manifest: String,
    /// The files, as the writer has packed them.
    pub files: Vec<u8>,
}

/// The columns of a row of `skills` that lists have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillBrief {
    /// A tenant, or the operator.
    pub owner: String,
    /// The name, which all versions share.
    pub name: String,
    /// The version, one of that name.
    pub version: String,
    /// The kind of skill, as the writer names it.
    pub kind: String,
    /// A text for people and models that look for a skill.
    pub description: String,
    /// The address of its content.
    pub digest: String,
    /// Bytes that count for the owner.
    pub bytes: i64,
    /// The principal that published it.
    pub published_by: String,
    /// The time of publication, in microseconds since the Unix epoch.
    pub published_micros: i64,
}

record!(SkillBrief in "skills" {
    owner, name, version, kind, description, digest, bytes, published_by, published_micros
});

record!(SkillRecord in "skills" { brief as .., manifest, files });

part! {
    /// Published skills.
    SkillStore {
        /// Adds a version of a skill, if its owner has less than the quota. A version that is there stays as it is.
        write fn add_skill(record: SkillRecord, quota: VersionQuota) -> VersionAdded;

        /// One version of a skill.
        read fn skill(owner: String, name: String, version: String) -> Option<SkillRecord> = one(ONE, owner, name, version);

        /// All versions of an owner's skills, or of the skill of one name, by name.
        read fn skills(owner: String, name: Option<String>) -> Vec<SkillBrief>;

        /// Forgets one version of a skill, or all; gives back how many.
        write fn delete_skill(owner: String, name: String, version: Option<String>) -> usize = count(DELETE, owner, name, version);
    }
}

/// Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = "
INSERT INTO himalia.skills
    (owner, name, version, kind, description, digest, bytes, published_by, published_micros, manifest, files)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
WHERE {member}
  AND (SELECT count(*) < $12 AND coalesce(sum(bytes), 0) + CAST($7 AS bigint) <= CAST($13 AS bigint) FROM himalia.skills WHERE owner = $1)
ON CONFLICT (owner, name, version) DO NOTHING";

const DIGEST: &str = "SELECT digest FROM himalia.skills WHERE owner = $1 AND name = $2 AND version = $3";

const ONE: &str = "SELECT * FROM himalia.skills WHERE owner = $1 AND name = $2 AND version = $3";

pub(crate) const LISTS: [&str; 2] = versions!(
    "skills",
    "owner, name, version, kind, description, digest, bytes, published_by, published_micros"
);

const DELETE: &str = "
DELETE FROM himalia.skills WHERE owner = $1 AND name = $2 AND (version = $3 OR $3 IS NULL) AND {member}";

async fn add_skill(
    sql: &impl Sql,
    record: SkillRecord,
    quota: VersionQuota,
) -> Result<VersionAdded, Failure> {
    let brief = &record.brief;
    let mut values = record.values();
    values.extend(params![quota.versions, quota.bytes]);
    if changed(sql, ADD, &values).await? {
        return Ok(VersionAdded::Added);
    }
    refused(sql, DIGEST, params![brief.owner, brief.name, brief.version]).await
}

async fn skills(sql: &impl Sql, owner: String, name: Option<String>) -> Result<Vec<SkillBrief>, Failure> {
    versions::list(sql, LISTS, owner, name).await
}
