//! The token with whose rights something is started later.

use himalia_model::{OPERATOR, Principal};
use serde::{Deserialize, Serialize};

/// As whom runs are started: the holder of a token, as long as it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The name of the principal.
    pub(super) name: String,
    /// By which its token is found again; it says nothing of the token.
    pub(super) mark: Option<String>,
}

impl Holder {
    pub(crate) fn of(principal: &Principal) -> Self {
        Self {
            name: principal.name().to_owned(),
            mark: principal.via().and_then(|via| via.mark.clone()),
        }
    }

    /// Returns true if the caller showed a token.
    pub(crate) fn is_bound(&self) -> bool {
        self.mark.is_some()
    }

    /// Returns true if the runs of this holder end with the token of this mark.
    pub(crate) fn ends_with(&self, mark: &str) -> bool {
        self.name != OPERATOR && self.mark.as_deref() == Some(mark)
    }

    /// The principal, if its token counts. The operator's own one is replaced at will, and counts always.
    pub(super) fn principal(&self, marked: &dyn Fn(&str) -> Option<Principal>) -> Option<Principal> {
        if self.name == OPERATOR {
            return Some(Principal::operator());
        }
        let found = marked(self.mark.as_deref()?)?;
        (found.name() == self.name && !found.is_read_only()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use himalia_model::CallOrigin;

    use super::*;

    #[test]
    fn runs_are_started_as_who_holds_the_same_token() {
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        let via = CallOrigin {
            mark: Some("m".into()),
            ..CallOrigin::default()
        };
        let holder = Holder::of(&ada.clone().came(via));
        let of = |found: Option<Principal>| {
            let marked = move |mark: &str| found.clone().filter(|_| mark == "m");
            holder.principal(&marked)
        };
        assert_eq!(of(Some(ada.clone())), Some(ada.clone()));
        assert_eq!(of(None), None, "revoked");
        assert_eq!(
            of(Some(ada.clone().read_only())),
            None,
            "it runs nothing any more"
        );
        assert_eq!(of(Some(Principal::of_tenant("acme", "bob").unwrap())), None);
        let unknown = Holder::of(&ada.clone());
        assert_eq!(
            unknown.principal(&|_: &str| Some(ada.clone())),
            None,
            "it showed no token"
        );
        let operator = Holder::of(&Principal::operator());
        assert_eq!(operator.principal(&|_: &str| None), Some(Principal::operator()));
    }
}
