//! The tests of the interface. Each implementation is a [`Fixture`]; `contract_tests!` runs all of them on it.

use std::sync::Arc;

use uuid::Uuid;

use crate::*;

pub(crate) mod contract;

/// Where a store is, which replicas open.
pub(crate) trait Fixture {
    /// A new one, empty.
    async fn new() -> Self;

    /// Opens it for the replica of this name, which opens it for the first time or after it closed it.
    async fn open(&self, replica: &str) -> Arc<dyn Store>;

    /// Makes the lease of a replica end, which does not notice.
    async fn expire(&self, replica: &str);

    /// Closes it for all replicas that have opened it.
    async fn close(&self);
}

pub(crate) fn kernel(n: u128) -> KernelRecord {
    KernelRecord {
        id: Uuid::from_u128(n),
        owner: "operator".into(),
        name: Some(format!("session-{n}")),
        created_micros: i64::try_from(n).unwrap(),
        session: serde_json::json!({
            "template": "analysis",
            "start_reason": "another image",
            "sandbox": { "limits": { "memory_bytes": 5 } },
            "labels": { "team": "a" },
            "expires_micros": 7,
            "place": "here",
        }),
        paths: RuntimePaths {
            session_dir: format!("sessions/{n}"),
            sandbox_id: format!("{n:032x}"),
            sandbox_key_hash: [7; 32],
            socket: "k2.sock".into(),
        },
        incarnation: 0,
        life: KernelLife::Starting,
        dead_cause: None,
    }
}

/// All kernels of [`kernel`].
pub(crate) fn everything() -> TakeOver {
    TakeOver {
        places: vec!["here".into()],
        given_up: Vec::new(),
        most: 1000,
    }
}

pub(crate) fn kernels_of(taken: TakeOverResult) -> Vec<KernelRecord> {
    taken.kernels.into_iter().map(|(kernel, _)| kernel).collect()
}

/// Members of a session.
pub(crate) fn changes(members: &serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    members.as_object().unwrap().clone()
}

pub(crate) fn ended(n: u128) -> EndedRecord {
    EndedRecord {
        id: Uuid::from_u128(n),
        owner: "operator".into(),
        name: Some(format!("session-{n}")),
        session_dir: format!("kernels/{n}"),
        created_micros: 1,
        ended_micros: i64::try_from(n).unwrap(),
        cause: "ttl".into(),
        removed_micros: None,
        facts: serde_json::json!({ "template": "small", "labels": { "a": "b" } }),
    }
}

/// Gives the names of all tests of the interface to a macro, after what it was given.
macro_rules! with_contract {
    ($macro:path, $place:ty) => {
        $macro!($place:
            each_opening_is_an_epoch
            a_kernel_is_kept_and_changed_and_forgotten
            a_check_commits_until_the_store_is_closed
            a_name_is_one_kernels_and_what_its_owner_may_change_is_kept
            a_kernel_moves_and_keeps_its_log_and_its_terms
            a_session_is_kept_and_changed_and_forgotten
            many_callers_at_once_are_all_served
            a_kernel_that_has_ended_leaves_a_trace_until_it_is_forgotten
            a_kernel_is_its_makers_until_another_replica_takes_it
            a_replica_that_lost_a_kernel_writes_nothing_more_to_it
            who_never_took_a_kernel_writes_nothing_to_it
            an_id_that_is_used_again_is_not_the_earlier_kernel
            a_token_is_kept_until_it_is_revoked_or_expires
            a_credential_is_its_owners_and_all_replicas_have_the_latest
            a_tool_is_approved_for_its_sessions_alone_and_once
            a_version_of_a_skill_is_there_once_and_within_its_owners_quota
            a_workflow_is_there_once_and_within_its_owners_quota
            a_run_of_a_workflow_is_its_process_and_an_answer_counts_once
            steps_that_wait_are_listed_in_pages_fairly_by_owner
            bytes_of_rows_are_counted_by_owner
            the_runs_that_ended_first_are_forgotten_for_the_bytes_of_others
            a_due_time_makes_one_run_by_any_replica
            owners_take_turns_in_what_is_due
            a_run_is_in_one_hand_until_that_process_is_gone
            a_callback_is_added_with_its_run_and_goes_with_it
            a_message_that_has_answered_a_prompt_is_known_to_its_webhook_alone
            what_was_used_adds_up_over_replicas_and_is_forgotten
            each_thing_is_found_with_the_replica_that_has_it
        );
    };
}
pub(crate) use with_contract;

/// Makes a test of each test of the interface.
macro_rules! contract_tests {
    ($place:ty: $($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                crate::tests::contract::$name::<$place>().await;
            }
        )*
    };
}
pub(crate) use contract_tests;

/// Runs every test of the interface, one after the other.
macro_rules! run_contract {
    ($place:ty: $($name:ident)*) => {
        $(
            eprintln!("{}", stringify!($name));
            crate::tests::contract::$name::<$place>().await;
        )*
    };
}
pub(crate) use run_contract;
