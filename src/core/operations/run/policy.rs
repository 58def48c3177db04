//! When a run is started again and when not (manual 1.1, section 11.3.1): a pure machine. What
//! happens comes in as events, what is to be done comes out; no clock, no process, no file.
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
    /// Between two runs: nodes clean up, a person may say halt.
    pub pause: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit status.
    Exited(u8),
    /// It made no progress and was killed.
    Hung(u8),
}

impl End {
    /// Returns the exit status of the run.
    pub fn status(self) -> u8 {
        match self {
            End::Exited(status) | End::Hung(status) => status,
        }
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunNews {
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
    /// A person or the batch system has sent this signal, to the run, too.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
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
    state: WaitsFor,
    launched: u64,
    interrupted: Option<i32>,
}

impl Policy {
    /// Makes one before the first launch.
    pub fn new(limits: Limits) -> Policy {
        Policy { limits, state: WaitsFor::Idle, launched: 0, interrupted: None }
    }

    /// Tells how many runs were started.
    pub fn launched(&self) -> u64 {
        self.launched
    }

    /// Takes an event and says what is to be done. An event that nobody waits for changes nothing.
    pub fn on(&mut self, event: RunNews) -> Action {
        match (self.state, event) {
            (WaitsFor::Over, _) => Action::Wait,
            (WaitsFor::Run, RunNews::Interrupted(signal)) => {
                self.interrupted = Some(signal);
                Action::Wait
            }
            (_, RunNews::Interrupted(signal)) => self.stop(Stop::Interrupted(signal)),
            (WaitsFor::Idle, RunNews::Begin) => self.go(WaitsFor::Nodes, Action::LookAtNodes),
            (WaitsFor::Nodes, RunNews::Nodes { healthy, needed }) if healthy < needed.max(1) => {
                self.stop(Stop::TooFewNodes { healthy, needed })
            }
            (WaitsFor::Nodes, RunNews::Nodes { .. }) => {
                self.launched += 1;
                self.go(WaitsFor::Run, Action::Launch(self.launched))
            }
            (WaitsFor::Run, RunNews::Ended(end)) => self.ended(end),
            (WaitsFor::HaltBeforePause | WaitsFor::HaltAfterPause, RunNews::Halt(Some(reason))) => {
                self.stop(Stop::Halted(reason))
            }
            (WaitsFor::HaltBeforePause, RunNews::Halt(None)) => {
                self.go(WaitsFor::Pause, Action::Pause(self.limits.pause))
            }
            (WaitsFor::Pause, RunNews::Paused) => {
                self.go(WaitsFor::HaltAfterPause, Action::LookAtHalt)
            }
            (WaitsFor::HaltAfterPause, RunNews::Halt(None)) => {
                self.go(WaitsFor::Nodes, Action::LookAtNodes)
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
            _ => self.go(WaitsFor::HaltBeforePause, Action::LookAtHalt),
        }
    }

    fn go(&mut self, state: WaitsFor, action: Action) -> Action {
        self.state = state;
        action
    }

    fn stop(&mut self, why: Stop) -> Action {
        self.go(WaitsFor::Over, Action::Stop(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);
    /// Each story: its name, how many runs are allowed (0: no limit), and what happens after
    /// `Begin`, with what is done then.
    const STORIES: &[(&str, u64, &str)] = &[
        ("all is well", 1, "6/4:run1 well:done"),
        ("one run only", 1, "6/4:run1 lost:no-runs"),
        (
            "a node is lost, the second run ends well",
            2,
            "6/4:run1 lost:read go:pause paused:read go:look 5/4:run2 well:done",
        ),
        (
            "the second one fails, too",
            2,
            "6/4:run1 lost:read go:pause paused:read go:look 5/4:run2 lost:no-runs",
        ),
        (
            "without a limit, until the nodes are used up; a hang counts as a failure",
            0,
            "6/4:run1 lost:read go:pause paused:read go:look 5/4:run2 hung:read go:pause \
             paused:read go:look 4/4:run3 lost:read go:pause paused:read go:look 3/4:few",
        ),
        ("too few from the start", 0, "3/4:few"),
        ("no node at all", 0, "0/0:few"),
        ("halt before the pause", 0, "6/4:run1 lost:read halt:halted"),
        ("halt in the pause", 0, "6/4:run1 lost:read go:pause paused:read halt:halted"),
        ("halt after a hang", 0, "6/4:run1 hung:read halt:halted"),
        ("a signal ends the run: no other", 0, "6/4:run1 signal:wait lost:killed"),
        ("a run that ends well in spite of a signal", 0, "6/4:run1 signal:wait well:done"),
        ("a signal in the pause", 0, "6/4:run1 lost:read go:pause signal:killed paused:wait"),
        ("what nobody waits for", 0, "well:wait halt:wait"),
    ];

    fn event(word: &str) -> RunNews {
        match word {
            "well" => RunNews::Ended(End::Exited(0)),
            "lost" => RunNews::Ended(End::Exited(137)),
            "hung" => RunNews::Ended(End::Hung(143)),
            "halt" => RunNews::Halt(Some("X".into())),
            "go" => RunNews::Halt(None),
            "paused" => RunNews::Paused,
            "signal" => RunNews::Interrupted(15),
            nodes => {
                let (healthy, needed) = nodes.split_once('/').unwrap();
                let (healthy, needed) = (healthy.parse().unwrap(), needed.parse().unwrap());
                RunNews::Nodes { healthy, needed }
            }
        }
    }

    fn word(action: &Action) -> String {
        match action {
            Action::LookAtNodes => "look".into(),
            Action::Launch(number) => format!("run{number}"),
            Action::LookAtHalt => "read".into(),
            Action::Pause(length) => if *length == PAUSE { "pause" } else { "?" }.into(),
            Action::Wait => "wait".into(),
            Action::Stop(Stop::Done) => "done".into(),
            Action::Stop(Stop::NoRunsLeft) => "no-runs".into(),
            Action::Stop(Stop::TooFewNodes { .. }) => "few".into(),
            Action::Stop(Stop::Halted(reason)) => if reason == "X" { "halted" } else { "?" }.into(),
            Action::Stop(Stop::Interrupted(signal)) => {
                if *signal == 15 { "killed" } else { "?" }.into()
            }
        }
    }

    #[test]
    fn the_stories() {
        for (name, runs, story) in STORIES {
            let runs = (*runs > 0).then_some(*runs);
            let mut policy = Policy::new(Limits { runs, pause: PAUSE });
            assert_eq!(policy.on(RunNews::Begin), Action::LookAtNodes, "{name}");
            for step in story.split_whitespace() {
                let (happens, wanted) = step.split_once(':').unwrap();
                assert_eq!(word(&policy.on(event(happens))), wanted, "{name}: {step}");
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
                let words = ["4/4", "4/4", "lost", "lost", "hung", "go", "go", "paused", "well"];
                let next = match rng.usize(..=words.len()) {
                    0 => RunNews::Begin,
                    at => event(words[at - 1]),
                };
                launches += u64::from(matches!(policy.on(next), Action::Launch(_)));
            }
            assert!(launches <= runs && launches == policy.launched());
        }
    }
}
