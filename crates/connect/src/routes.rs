//! Remembers which client sent a request, to route its reply.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

/// Requests without a reply that are remembered; the oldest is forgotten first.
const OPEN: usize = 16_384;
/// Bytes of a `msg_id` that is remembered.
const ID_BYTES: usize = 256;

/// The routing identities of clients by the ids of their requests.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    open: HashMap<String, Vec<Bytes>>,
    order: VecDeque<String>,
}

impl Routes {
    /// A request went to the gateway. Of two with one id the later one counts.
    pub(crate) fn add(&mut self, msg_id: &str, identities: Vec<Bytes>) {
        if msg_id.len() > ID_BYTES {
            return;
        }
        if self.open.insert(msg_id.to_owned(), identities).is_none() {
            self.order.push_back(msg_id.to_owned());
        }
        while self.order.len() > OPEN {
            if let Some(oldest) = self.order.pop_front() {
                self.open.remove(&oldest);
            }
        }
    }

    /// Finds the sender of a request that has no reply yet.
    pub(crate) fn find(&self, msg_id: &str) -> Option<&[Bytes]> {
        self.open.get(msg_id).map(Vec::as_slice)
    }

    /// The same; the reply is here.
    pub(crate) fn take(&mut self, msg_id: &str) -> Option<Vec<Bytes>> {
        let found = self.open.remove(msg_id);
        if found.is_some() {
            // Replies come about in the order of the requests.
            if let Some(at) = self.order.iter().position(|id| id == msg_id) {
                self.order.remove(at);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_and_the_oldest_are_forgotten() {
        let mut routes = Routes::default();
        let who = |name: &'static str| vec![Bytes::from_static(name.as_bytes())];
        routes.add("1", who("a"));
        routes.add("2", who("b"));
        assert_eq!(routes.find("1"), Some(&who("a")[..]));
        assert_eq!(routes.take("2"), Some(who("b")));
        assert_eq!(routes.take("2"), None);
        for id in 0..OPEN {
            routes.add(&format!("x{id}"), who("c"));
        }
        assert_eq!(routes.find("1"), None);
        assert_eq!((routes.open.len(), routes.order.len()), (OPEN, OPEN));
        routes.add(&"l".repeat(ID_BYTES + 1), who("d"));
        assert_eq!(routes.open.len(), OPEN);
    }
}
