//! Attempts with kills and errors at every step, driven by one seed, over a world that has the row of the run and its session.
//!
//! - `HIMALIA_ATTEMPT_SEED=n` runs one seed and prints what happened in it.

use std::time::Duration;

use himalia_model::EngineError;

use super::{Attempt, Next, Stage};

const SEEDS: u64 = 20_000;
/// More than any attempt takes.
const STEPS: u32 = 500;

/// `SplitMix64`.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The session of the attempt, as its host and its log have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Session {
    #[default]
    None,
    /// It lives; its execution if it was sent.
    Lives(Option<Execution>),
    /// It has ended, and its log is kept.
    Ended(Option<Execution>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Execution {
    Runs,
    Settled,
}

/// State that survives the end of a process.
#[derive(Debug, Default)]
struct World {
    session: Session,
    /// Number of times that code ran, in all sessions.
    ran: u32,
    /// The row: whether the code may have been sent, and sessions that were lost.
    sent: bool,
    restarts: u32,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Unknown,
}

impl World {
    fn execution(&self) -> Option<Execution> {
        match self.session {
            Session::Lives(execution) | Session::Ended(execution) => execution,
            Session::None => None,
        }
    }

    /// The next process looks at the row and at the log.
    fn found(&self) -> Attempt {
        Attempt::found(self.restarts, self.sent, self.execution().is_some())
    }

    /// One effect of a process. An error is one that the engine would return.
    fn act(&mut self, attempt: &mut Attempt, rng: &mut Rng) -> Result<(), EngineError> {
        if rng.one_in(6) {
            return Err(fault(rng));
        }
        match attempt.stage() {
            Stage::Start => match self.session {
                // The one that a killed process started is found by its id.
                Session::Lives(_) => attempt.reached(Stage::Session),
                Session::None | Session::Ended(_) => {
                    self.session = Session::Lives(None);
                    attempt.reached(Stage::Session);
                }
            },
            Stage::Session => {
                self.sent = true;
                attempt.reached(Stage::Sent);
            }
            Stage::Sent => match self.session {
                Session::Lives(None) => {
                    self.session = Session::Lives(Some(Execution::Runs));
                    self.ran += 1;
                    if rng.one_in(4) {
                        // The reply is lost.
                        return Err(EngineError::unavailable("the kernel did not answer"));
                    }
                    attempt.reached(Stage::Executing);
                }
                Session::Lives(Some(_)) | Session::Ended(Some(_)) => attempt.reached(Stage::Executing),
                Session::None | Session::Ended(None) => {
                    attempt.never_ran();
                    self.sent = false;
                    return Err(gone());
                }
            },
            Stage::Executing => match self.session {
                Session::Lives(Some(Execution::Runs)) => {
                    self.session = Session::Lives(Some(Execution::Settled));
                }
                Session::Lives(Some(Execution::Settled)) | Session::Ended(Some(_)) => {
                    self.finish(End::Done);
                }
                Session::None | Session::Lives(None) | Session::Ended(None) => return Err(gone()),
            },
        }
        Ok(())
    }

    fn finish(&mut self, end: End) {
        if let Session::Lives(execution) = self.session {
            self.session = Session::Ended(execution);
        }
        self.end = Some(end);
    }

    fn after(&mut self, attempt: &mut Attempt, error: &EngineError) {
        match attempt.failed(error, Duration::ZERO) {
            Next::Wait => {}
            Next::Restart => {
                if let Session::Lives(execution) = self.session {
                    self.session = Session::Ended(execution);
                }
                self.restarts = attempt.restarts();
            }
            Next::Fail { .. } => self.finish(End::Failed),
            Next::Unknown => self.finish(End::Unknown),
        }
    }
}

fn gone() -> EngineError {
    EngineError::NotFound {
        what: "Session",
        id: "x".to_owned(),
    }
}

fn fault(rng: &mut Rng) -> EngineError {
    match rng.below(5) {
        0 | 1 => EngineError::unavailable("later"),
        2 => EngineError::internal("reading", "a defect"),
        3 => gone(),
        _ => EngineError::KernelDead {
            cause: "signal(9)".to_owned(),
        },
    }
}

/// Runs an attempt to its end. Its process is killed before the step of this number, and at others by chance.
fn run(seed: u64, kill: u32, verbose: bool) -> World {
    let mut rng = Rng(seed);
    let mut world = World::default();
    let mut attempt = world.found();
    for step in 0..STEPS {
        if world.end.is_some() {
            return world;
        }
        if step == kill || rng.one_in(10) {
            // With its host, sometimes.
            if let (true, Session::Lives(execution)) = (rng.one_in(3), world.session) {
                world.session = Session::Ended(execution);
            }
            attempt = world.found();
        }
        let acted = world.act(&mut attempt, &mut rng);
        if verbose {
            println!("{step}: {acted:?} -> {attempt:?}, {world:?}");
        }
        if let Err(error) = acted {
            world.after(&mut attempt, &error);
        }
    }
    panic!("seed {seed}, killed before step {kill}: no end after {STEPS} steps: {world:?}");
}

#[test]
fn code_runs_at_most_once_whenever_a_process_is_killed() {
    let chosen: Option<u64> = std::env::var("HIMALIA_ATTEMPT_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(0..SEEDS, |seed| seed..seed + 1);
    let (mut done, mut restarted) = (0, 0);
    for seed in seeds {
        let kill = u32::try_from(seed % 12).unwrap_or(0);
        let world = run(seed, kill, chosen.is_some());
        assert!(
            world.ran <= 1,
            "seed {seed}: the code ran {} times: {world:?}",
            world.ran
        );
        assert!(
            !matches!(world.session, Session::Lives(_)),
            "seed {seed}: its session is left: {world:?}"
        );
        if world.end == Some(End::Done) {
            assert_eq!(world.ran, 1, "seed {seed}: {world:?}");
            done += 1;
        }
        restarted += u32::from(world.restarts > 0);
    }
    if chosen.is_none() {
        assert!(
            done > 0 && restarted > 0,
            "the schedules reach both: {done}, {restarted}"
        );
    }
}
