//! When a run is started again and when not (000 section 11.3.1): a pure machine. What happens
//! comes in as events, what is to be done comes out; no clock, no process, no file.
//!
//! ```text
//! Begin -> nodes? -> launch -> ended well ----------------------------------> stop
//!            ^                   | failed
//!            |                   v
//!            |                 one more allowed? -> halt? -> pause -> halt? --> stop
//!            +-----------------------------------------------------------+
//! ```

use std::time::Duration;

/// What the user allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Launches in this allocation; `None`: as many as it takes.
    pub runs: Option<u64>,
    /// Between the end of a run and the next: nodes clean up, a person may say halt.
    pub pause: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit status.
    Exited(u8),
    /// It made no progress and was killed; with this exit status.
    Hung(u8),
}

impl End {
    /// The exit status.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            End::Exited(status) | End::Hung(status) => status,
        }
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `scr run` was called.
    Begin,
    /// The nodes were looked at: so many are healthy, so many are needed.
    Nodes {
        /// Those that a launch could use.
        healthy: usize,
        /// The least that a launch needs.
        needed: usize,
    },
    /// The run is over.
    Ended(End),
    /// The halt file was read: the reason to halt, if there is one.
    Halt(Option<String>),
    /// The pause is over.
    Paused,
    /// A person or the batch system wants the end, by this signal; the run, if there is one, has
    /// got it, too.
    Interrupted(i32),
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Look which nodes are healthy.
    LookAtNodes,
    /// Start the run with this number, from 1.
    Launch(u64),
    /// Read the halt file.
    LookAtHalt,
    /// Wait so long.
    Pause(Duration),
    /// Go on waiting for what is under way.
    Wait,
    /// No more launches.
    Stop(Stop),
}

/// Why there are no more launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The run ended well.
    Done,
    /// It failed, and no further one is allowed.
    NoRunsLeft,
    /// Too few nodes are left.
    TooFewNodes {
        /// Those that a launch could use.
        healthy: usize,
        /// The least that a launch needs.
        needed: usize,
    },
    /// A halt condition holds.
    Halted(String),
    /// By this signal.
    Interrupted(i32),
}

/// What the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Nodes,
    Run,
    HaltBeforePause,
    Pause,
    HaltAfterPause,
    Over,
}

/// The machine.
#[derive(Debug)]
pub struct Policy {
    limits: Limits,
    state: State,
    launched: u64,
    interrupted: Option<i32>,
}

impl Policy {
    /// Before the first launch.
    #[must_use]
    pub fn new(limits: Limits) -> Policy {
        Policy { limits, state: State::Idle, launched: 0, interrupted: None }
    }

    /// How many runs were started.
    #[must_use]
    pub fn launched(&self) -> u64 {
        self.launched
    }

    /// Takes an event; says what is to be done. An event that nobody waits for changes nothing.
    pub fn on(&mut self, event: Event) -> Action {
        match (self.state, event) {
            (State::Over, _) => Action::Wait,
            (State::Run, Event::Interrupted(signal)) => {
                self.interrupted = Some(signal);
                Action::Wait
            }
            (_, Event::Interrupted(signal)) => self.stop(Stop::Interrupted(signal)),
            (State::Idle, Event::Begin) => self.go(State::Nodes, Action::LookAtNodes),
            (State::Nodes, Event::Nodes { healthy, needed }) if healthy < needed.max(1) => {
                self.stop(Stop::TooFewNodes { healthy, needed })
            }
            (State::Nodes, Event::Nodes { .. }) => {
                self.launched += 1;
                self.go(State::Run, Action::Launch(self.launched))
            }
            (State::Run, Event::Ended(end)) => self.ended(end),
            (State::HaltBeforePause | State::HaltAfterPause, Event::Halt(Some(reason))) => {
                self.stop(Stop::Halted(reason))
            }
            (State::HaltBeforePause, Event::Halt(None)) => {
                self.go(State::Pause, Action::Pause(self.limits.pause))
            }
            (State::Pause, Event::Paused) => self.go(State::HaltAfterPause, Action::LookAtHalt),
            (State::HaltAfterPause, Event::Halt(None)) => {
                self.go(State::Nodes, Action::LookAtNodes)
            }
            _ => Action::Wait,
        }
    }

    fn ended(&mut self, end: End) -> Action {
        if end == End::Exited(0) {
            return self.stop(Stop::Done);
        }
        if let Some(signal) = self.interrupted {
            return self.stop(Stop::Interrupted(signal));
        }
        match self.limits.runs {
            Some(runs) if self.launched >= runs => self.stop(Stop::NoRunsLeft),
            _ => self.go(State::HaltBeforePause, Action::LookAtHalt),
        }
    }

    fn go(&mut self, state: State, action: Action) -> Action {
        self.state = state;
        action
    }

    fn stop(&mut self, why: Stop) -> Action {
        self.go(State::Over, Action::Stop(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);
    const LOST: Event = Event::Ended(End::Exited(137));
    const HUNG: Event = Event::Ended(End::Hung(143));
    const WELL: Event = Event::Ended(End::Exited(0));

    fn nodes(healthy: usize, needed: usize) -> Event {
        Event::Nodes { healthy, needed }
    }

    fn halt(reason: &str) -> Event {
        Event::Halt((!reason.is_empty()).then(|| reason.to_owned()))
    }

    /// Each story: how many runs are allowed; what happens after `Begin`, with what is done then.
    #[test]
    fn the_stories() {
        let run = Action::Launch;
        let (look, read) = (Action::LookAtNodes, Action::LookAtHalt);
        let (pause, wait) = (Action::Pause(PAUSE), Action::Wait);
        let stop = Action::Stop;
        let few = |healthy, needed| stop(Stop::TooFewNodes { healthy, needed });
        let halted = |reason: &str| stop(Stop::Halted(reason.into()));
        let killed = |signal| stop(Stop::Interrupted(signal));
        let again = |number| {
            vec![
                (halt(""), pause.clone()),
                (Event::Paused, read.clone()),
                (halt(""), look.clone()),
                (nodes(5, 4), run(number)),
            ]
        };
        let first = vec![(nodes(6, 4), run(1))];
        let lost_once = [first.clone(), vec![(LOST, read.clone())]].concat();
        let stories: Vec<(&str, Option<u64>, Vec<(Event, Action)>)> = vec![
            ("all is well", Some(1), [first.clone(), vec![(WELL, stop(Stop::Done))]].concat()),
            (
                "one run only",
                Some(1),
                [first.clone(), vec![(LOST, stop(Stop::NoRunsLeft))]].concat(),
            ),
            (
                "a node is lost, the second run ends well",
                Some(2),
                [lost_once.clone(), again(2), vec![(WELL, stop(Stop::Done))]].concat(),
            ),
            (
                "the second one fails, too",
                Some(2),
                [lost_once.clone(), again(2), vec![(LOST, stop(Stop::NoRunsLeft))]].concat(),
            ),
            (
                "without a limit, until the nodes are used up",
                None,
                [
                    lost_once.clone(),
                    again(2),
                    vec![(HUNG, read.clone())],
                    again(3),
                    vec![(LOST, read.clone()), (halt(""), pause.clone())],
                    vec![(Event::Paused, read.clone()), (halt(""), look.clone())],
                    vec![(nodes(3, 4), few(3, 4))],
                ]
                .concat(),
            ),
            ("too few from the start", None, vec![(nodes(3, 4), few(3, 4))]),
            ("no node at all", None, vec![(nodes(0, 0), few(0, 0))]),
            (
                "halt before the pause",
                None,
                [lost_once.clone(), vec![(halt("X"), halted("X"))]].concat(),
            ),
            (
                "halt in the pause",
                None,
                [
                    lost_once.clone(),
                    vec![(halt(""), pause.clone()), (Event::Paused, read.clone())],
                    vec![(halt("X"), halted("X"))],
                ]
                .concat(),
            ),
            (
                "a signal ends the run: no other",
                None,
                [first.clone(), vec![(Event::Interrupted(15), wait.clone()), (LOST, killed(15))]]
                    .concat(),
            ),
            (
                "a run that ends well in spite of a signal",
                None,
                [
                    first.clone(),
                    vec![(Event::Interrupted(15), wait.clone()), (WELL, stop(Stop::Done))],
                ]
                .concat(),
            ),
            (
                "a signal in the pause",
                None,
                [
                    lost_once,
                    vec![(halt(""), pause), (Event::Interrupted(2), killed(2))],
                    vec![(Event::Paused, wait.clone())],
                ]
                .concat(),
            ),
            ("what nobody waits for", None, vec![(WELL, wait.clone()), (halt("X"), wait)]),
        ];
        for (name, runs, steps) in stories {
            let mut policy = Policy::new(Limits { runs, pause: PAUSE });
            assert_eq!(policy.on(Event::Begin), look, "{name}");
            for (number, (event, action)) in steps.into_iter().enumerate() {
                assert_eq!(policy.on(event.clone()), action, "{name}: step {number}, {event:?}");
            }
        }
    }

    #[test]
    fn no_order_of_events_launches_more_often_than_allowed() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let runs = rng.u64(1..4);
            let mut policy = Policy::new(Limits { runs: Some(runs), pause: PAUSE });
            let mut launches = 0;
            for _ in 0..60 {
                let event = match rng.u8(..12) {
                    0 => Event::Begin,
                    1..4 => nodes(4, 4),
                    4..6 => LOST,
                    6 => HUNG,
                    7..9 => halt(""),
                    9..11 => Event::Paused,
                    _ => WELL,
                };
                launches += u64::from(matches!(policy.on(event), Action::Launch(_)));
            }
            assert!(launches <= runs && launches == policy.launched());
        }
    }
}
