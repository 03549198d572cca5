//! The public interface: each command or query on skills, workflows, their runs and what starts them, one entry of the list below.
//!
//! The implementation is private to this crate, so that no command can be reached but through a method that the macro makes of its entry
//! ([`himalia_engine::commands!`]), and that method notes the call in the audit log. What these commands do with kernels and sessions are
//! commands of the [`Engine`](himalia_engine::Engine), which authorises and notes them as those of any caller.

use std::time::Duration;

use himalia_engine::Subject;
use himalia_model::KernelId;
use himalia_skills::{Draft, Skill};
use himalia_workflows::{Definition, Workflow};

use crate::run::{RunFeed, RunFilter, RunPage, RunView};
use crate::runs::Runs;
use crate::skills::{BegunRun, RunSkill, SkillInfo};
use crate::triggers::{
    AskedRun, DeliveriesOf, DeliveryInfo, NewSecrets, NewTrigger, TriggerChange, TriggerInfo, TriggerKind,
};
use crate::workflows::{RunUntil, StartRun, StartedRun, StepView, WorkflowInfo};

himalia_engine::commands! {
    /// Every command and query on runs, with its effect and its cost.
    impl Runs;
    asynchronous {
        /// Adds a version of a skill to those of the principal's tenant; whether it is new. The same version with the same content is there
        /// once. [`EngineError::Conflict`] for one that is there with another content, or when there are too many.
        Change(Turn, Disk) publish_skill(skill: &Skill) -> (SkillInfo, bool), Subject::Named("skill", &skill.manifest().name);
        /// Deletes a version of a skill, or all of them; how many. Runs that began continue, and their outputs are not checked any more.
        Change(Rows) delete_skill(name: &str, version: Option<&str>) -> usize, Subject::Named("skill", name);
        /// Runs a code skill as an execution in a new session, which ends with it. Inputs that do not fit its schema:
        /// [`EngineError::BadRequest`] on `inputs`. It has no more rights than both the principal's session of that template and what the
        /// skill says that it needs.
        Change(Turn, Start, Disk) run_skill(name: &str, wanted: RunSkill) -> BegunRun, Subject::Named("skill", name), |made| Some(made.session.kernel.id);
        /// Runs of the tenant's skills and workflows, the latest first.
        Look(Rows, Log, Turn) runs(filter: RunFilter) -> RunPage, Subject::Gateway;
        /// A run of a skill or a workflow, when that has happened which is waited for, or after this time. The outputs of a skill are checked
        /// against its schema.
        Look(Rows, Log, Turn) run(id: &str, wait: Duration, until: RunUntil) -> RunView, Subject::Named("run", id);
        /// The states that a run goes through, from the present one on.
        Look(Stream) follow_run(id: &str) -> RunFeed, Subject::Named("run", id);
        /// Ends a run, and what of it runs. It may continue for a moment after this. Nothing changes if it has ended.
        /// [`EngineError::Conflict`] for a run that has not begun.
        Change(Rows, Turn) cancel_run(id: &str) -> RunView, Subject::Named("run", id);
        /// A skill, not published, made of code in the history of a session, by the numbers that entries of the history have.
        Content(Log, Turn) draft_skill(kernel: KernelId, cells: &[u64], wanted: Draft) -> Skill, Subject::Kernel(kernel);
        /// A version of a skill, or its latest one, with its files.
        Content(Rows, Turn) skill(name: &str, version: Option<&str>) -> (SkillInfo, Skill), Subject::Named("skill", name);
        /// All versions of the tenant's skills, or of one, by name, the latest version first.
        Look(Rows) skills(name: Option<&str>) -> Vec<SkillInfo>, Subject::Gateway;
        /// Adds a version of a workflow to those of the principal's tenant, with the versions of its skills as they are now; whether it is
        /// new. What is wrong with it: [`EngineError::BadRequest`]. [`EngineError::Conflict`] for a version that is there with another
        /// content, or when there are too many.
        Change(Turn, Disk) publish_workflow(definition: Definition) -> (WorkflowInfo, Workflow, bool), Subject::Gateway;
        /// A version of a workflow, or its latest one.
        Content(Rows, Turn) workflow(name: &str, version: Option<&str>) -> (WorkflowInfo, Workflow), Subject::Named("workflow", name);
        /// All versions of the tenant's workflows, by name, the latest version first.
        Look(Rows) workflows() -> Vec<WorkflowInfo>, Subject::Gateway;
        /// Deletes a version of a workflow, or all of them; how many. Runs that began continue.
        Change(Rows) delete_workflow(name: &str, version: Option<&str>) -> usize, Subject::Named("workflow", name);
        /// Starts a run of a workflow, or finds the one that has its key ([`EngineError::KeyReused`] if that was another start). Once this
        /// returns, the run continues across ends of gateways, with the rights of the principal. Inputs that do not fit:
        /// [`EngineError::BadRequest`] on `inputs`. [`EngineError::OverBudget`] when as many runs are in progress as may be.
        Change(Turn, Disk) run_workflow(name: &str, wanted: StartRun) -> StartedRun, Subject::Named("workflow", name);
        /// A step of a run with all its attempts; of a step with a list also what this item got and returned.
        Look(Rows, Turn) workflow_step(id: &str, step: &str, item: u32) -> StepView, Subject::Named("run", id);
        /// Answers a step that waits for a person, once: [`EngineError::Conflict`] if it does not wait. Needs the scope `admin`: a caller who
        /// runs code may not approve what that code does.
        Change(Rows, Turn) answer_workflow_step(id: &str, step: &str, value: String) -> RunView, Subject::Named("run", id);
        /// Adds a trigger, which starts runs as its maker. [`EngineError::Conflict`] if there is one of this name, or too many.
        Change(Turn, Disk) create_trigger(kind: TriggerKind, new: NewTrigger) -> (TriggerInfo, NewSecrets), Subject::Gateway;
        /// Changes a trigger, by its id or name. Unless it is only switched off, it runs as who changes it from now on.
        Change(Turn, Disk) change_trigger(kind: TriggerKind, trigger: &str, change: TriggerChange) -> TriggerInfo, Subject::Named("trigger", trigger);
        /// Deletes a trigger with the records of its runs. What runs continues.
        Change(Rows) delete_trigger(kind: TriggerKind, trigger: &str) -> (), Subject::Named("trigger", trigger);
        /// Starts a run of a trigger, whenever it is due.
        Change(Rows, Disk) run_trigger(kind: TriggerKind, trigger: &str, asked: AskedRun) -> StartedRun, Subject::Named("trigger", trigger);
        /// Tries a delivery again that has ended, or at once one that waits.
        Change(Rows) redeliver(delivery: &str) -> DeliveryInfo, Subject::Named("trigger", delivery);
        /// The latest deliveries of results of runs of a trigger, or of one run, the latest first.
        Look(Rows) deliveries(of: DeliveriesOf, trigger: &str) -> Vec<DeliveryInfo>, Subject::Named("trigger", trigger);
        /// The triggers of this kind that the principal sees, by owner and name, each with its latest run.
        Look(Rows) triggers(kind: TriggerKind) -> Vec<TriggerInfo>, Subject::Gateway;
        /// One trigger, with its latest run.
        Look(Rows) trigger(kind: TriggerKind, trigger: &str) -> TriggerInfo, Subject::Named("trigger", trigger);
    }
    immediate {}
}
