//! Tools that a session may use: of some servers, some of the tools.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::index::Rarity;
use crate::nearest::{OF_TOOL, nearest};
use crate::server::ServerTools;
use crate::tool::{Tool, ToolId};
use crate::words::words;

/// Words of a query that are looked for. The next ones count nothing.
const MAX_QUERY_WORDS: usize = 32;

/// True if a session may use a tool.
type Permits = dyn Fn(ToolId<'_>) -> bool + Send + Sync;

/// The servers and tools of one session, as they are known now.
#[derive(Clone)]
pub struct Catalog {
    servers: Vec<Arc<ServerTools>>,
    permits: Arc<Permits>,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug)]
pub struct CatalogMatch<'a> {
    pub server: &'a ServerTools,
    pub tool: &'a Tool,
    /// Score of the match; higher is better. Comparable within one search only.
    pub score: f32,
}

impl CatalogMatch<'_> {
    pub fn id(&self) -> ToolId<'_> {
        ToolId {
            server: self.server.name(),
            tool: &self.tool.definition().name,
        }
    }
}

/// A name that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// No server of this name.
    Server {
        name: String,
        /// All of the servers, in order.
        servers: Vec<String>,
    },
    /// The server has no such tool.
    Tool {
        server: String,
        name: String,
        /// Tools whose names are like it, with their servers.
        nearest: Vec<String>,
    },
    /// It is not the name of a server and a tool with a dot between them.
    Form {
        name: String,
        /// Tools whose names are like it, with their servers.
        nearest: Vec<String>,
    },
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let like = |names: &[String]| match names {
            [] => String::new(),
            names => format!("; like it: {}", names.join(", ")),
        };
        match self {
            Self::Server { name, servers } if servers.is_empty() => {
                write!(f, "there is no server {name}: this session has none")
            }
            Self::Server { name, servers } => {
                write!(f, "there is no server {name}; there are: {}", servers.join(", "))
            }
            Self::Tool {
                server,
                name,
                nearest,
            } => write!(f, "{server} has no tool {name}{}", like(nearest)),
            Self::Form { name, nearest } => {
                write!(f, "{name} is not SERVER.TOOL{}", like(nearest))
            }
        }
    }
}

impl std::error::Error for UnknownName {}

impl Catalog {
    /// Catalog of the permitted tools of these servers, whose names differ.
    pub fn new(
        mut servers: Vec<Arc<ServerTools>>,
        permits: impl Fn(ToolId<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        servers.sort_by(|one, other| one.name().cmp(other.name()));
        Self {
            servers,
            permits: Arc::new(permits),
        }
    }

    /// The servers by name, each with the number of its tools that the session may use.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerTools, usize)> {
        self.servers
            .iter()
            .map(|server| (&**server, self.tools(server).count()))
    }

    /// The tools of a server that the session may use, in the order of the server.
    pub fn tools<'a>(&'a self, server: &'a ServerTools) -> impl Iterator<Item = &'a Tool> {
        server.tools().iter().filter(|tool| self.may(server, tool))
    }

    fn may(&self, server: &ServerTools, tool: &Tool) -> bool {
        (self.permits)(ToolId {
            server: server.name(),
            tool: &tool.definition().name,
        })
    }

    /// The server of this name.
    ///
    /// # Errors
    /// There is none; the error names those that there are.
    pub fn server(&self, name: &str) -> Result<&ServerTools, UnknownName> {
        let found = self.servers.iter().find(|server| server.name() == name);
        found.map(|found| &**found).ok_or_else(|| UnknownName::Server {
            name: clip(name),
            servers: self
                .servers
                .iter()
                .map(|server| server.name().to_owned())
                .collect(),
        })
    }

    /// The tool of this name, `server.tool`.
    ///
    /// # Errors
    /// There is none, or the session may not use it, which makes no difference here. The error names those that are like it.
    pub fn get(&self, name: &str) -> Result<CatalogMatch<'_>, UnknownName> {
        let Some(id) = ToolId::parse(name) else {
            return Err(UnknownName::Form {
                name: clip(name),
                nearest: self.nearest(&self.servers, name),
            });
        };
        let server = self.server(id.server)?;
        let tool = server.get(id.tool).filter(|tool| self.may(server, tool));
        match tool {
            Some(tool) => Ok(CatalogMatch {
                server,
                tool,
                score: 0.0,
            }),
            None => Err(UnknownName::Tool {
                server: server.name().to_owned(),
                name: clip(id.tool),
                nearest: {
                    let own = self.servers.iter().filter(|other| other.name() == server.name());
                    let own: Vec<_> = own.cloned().collect();
                    self.nearest(&own, id.tool)
                },
            }),
        }
    }

    fn nearest(&self, servers: &[Arc<ServerTools>], name: &str) -> Vec<String> {
        let mut found = Vec::new();
        for server in servers {
            let names = self.tools(server).map(|tool| tool.definition().name.as_str());
            found.extend(nearest(name, names, OF_TOOL).into_iter().map(|tool| {
                let id = ToolId {
                    server: server.name(),
                    tool,
                };
                id.to_string()
            }));
        }
        found.truncate(3);
        found
    }

    /// The tools that fit some words best, at most `limit`, of one server or of all. Without words: the first ones.
    ///
    /// # Errors
    /// There is no such server.
    pub fn search(
        &self,
        server: Option<&str>,
        query: &str,
        limit: usize,
    ) -> Result<Vec<CatalogMatch<'_>>, UnknownName> {
        let servers: Vec<&ServerTools> = match server {
            Some(name) => vec![self.server(name)?],
            None => self.servers.iter().map(|server| &**server).collect(),
        };
        let mut query = words(query);
        query.sort_unstable();
        query.dedup();
        query.truncate(MAX_QUERY_WORDS);
        if query.is_empty() {
            let all = servers.iter().flat_map(|server| {
                self.tools(server).map(|tool| CatalogMatch {
                    server,
                    tool,
                    score: 0.0,
                })
            });
            return Ok(all.take(limit).collect());
        }
        let mut rarity = Rarity::default();
        for server in &servers {
            server.index().count(&query, &mut rarity);
        }
        let mut found: Vec<CatalogMatch<'_>> = Vec::new();
        for server in servers {
            for (number, score) in server.index().scores(&query, &rarity) {
                let tool = server.at(number);
                found.extend(tool.map(|tool| CatalogMatch { server, tool, score }));
            }
        }
        found.sort_unstable_by(better);
        // The best ones alone are checked: a policy costs more than a comparison.
        let permitted = found
            .into_iter()
            .filter(|found| self.may(found.server, found.tool));
        Ok(permitted.take(limit).collect())
    }
}

/// The better one first; of equal ones that whose name is first.
fn better(one: &CatalogMatch<'_>, other: &CatalogMatch<'_>) -> Ordering {
    let by_score = other.score.total_cmp(&one.score);
    by_score
        .then_with(|| one.server.name().cmp(other.server.name()))
        .then_with(|| {
            let (one, other) = (one.tool.definition(), other.tool.definition());
            one.name.cmp(&other.name)
        })
}

/// A name of a caller, short enough for an error.
fn clip(name: &str) -> String {
    name.chars().take(128).collect()
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.servers).finish()
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
