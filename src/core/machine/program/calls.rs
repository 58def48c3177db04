//! The states of a program that calls SCR, and what it may call in each (API manual, the diagram).

/// Where the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramState {
    /// Before SCR_Init, and after SCR_Finalize.
    #[default]
    Uninit,
    /// After SCR_Init, before the program has begun to read or write anything.
    Init,
    /// Between two of the following.
    Idle,
    /// It reads a checkpoint.
    Restart,
    /// It writes a checkpoint.
    Checkpoint,
    /// It writes output.
    Output,
}

/// What the program calls. SCR_Get_version and SCR_Config are valid in every state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is the SCR function of its name")]
pub enum Call {
    Init = 1,
    Finalize,
    ShouldExit,
    RouteFile,
    NeedCheckpoint,
    StartCheckpoint,
    CompleteCheckpoint,
    StartOutput,
    CompleteOutput,
    HaveRestart,
    StartRestart,
    CompleteRestart,
    Current,
    Drop,
    Delete,
}

impl Call {
    /// All of them.
    pub const ALL: [Call; 15] = [
        Call::Init,
        Call::Finalize,
        Call::ShouldExit,
        Call::RouteFile,
        Call::NeedCheckpoint,
        Call::StartCheckpoint,
        Call::CompleteCheckpoint,
        Call::StartOutput,
        Call::CompleteOutput,
        Call::HaveRestart,
        Call::StartRestart,
        Call::CompleteRestart,
        Call::Current,
        Call::Drop,
        Call::Delete,
    ];

    /// Returns the function's name in C.
    pub fn name(self) -> &'static str {
        match self {
            Call::Init => "SCR_Init",
            Call::Finalize => "SCR_Finalize",
            Call::ShouldExit => "SCR_Should_exit",
            Call::RouteFile => "SCR_Route_file",
            Call::NeedCheckpoint => "SCR_Need_checkpoint",
            Call::StartCheckpoint => "SCR_Start_checkpoint",
            Call::CompleteCheckpoint => "SCR_Complete_checkpoint",
            Call::StartOutput => "SCR_Start_output",
            Call::CompleteOutput => "SCR_Complete_output",
            Call::HaveRestart => "SCR_Have_restart",
            Call::StartRestart => "SCR_Start_restart",
            Call::CompleteRestart => "SCR_Complete_restart",
            Call::Current => "SCR_Current",
            Call::Drop => "SCR_Drop",
            Call::Delete => "SCR_Delete",
        }
    }
}

impl ProgramState {
    /// Returns the state after a call that went well; `None`: the call is not valid now.
    pub fn after(self, call: Call) -> Option<ProgramState> {
        use ProgramState::{Checkpoint, Idle, Init, Output, Restart, Uninit};
        match (self, call) {
            (Uninit, Call::Init) => Some(Init),
            (Uninit, _) | (_, Call::Init) => None,
            (state, Call::RouteFile | Call::ShouldExit) => Some(state),
            (Restart, Call::CompleteRestart)
            | (Checkpoint, Call::CompleteCheckpoint)
            | (Output, Call::CompleteOutput) => Some(Idle),
            (Restart | Checkpoint | Output, _)
            | (_, Call::CompleteRestart | Call::CompleteCheckpoint | Call::CompleteOutput) => None,
            (_, Call::StartRestart) => Some(Restart),
            (_, Call::StartCheckpoint) => Some(Checkpoint),
            (_, Call::StartOutput) => Some(Output),
            (_, Call::Finalize) => Some(Uninit),
            (
                state,
                Call::NeedCheckpoint
                | Call::HaveRestart
                | Call::Current
                | Call::Drop
                | Call::Delete,
            ) => Some(state),
        }
    }

    /// Returns the state after a call has failed. What was to be completed is over in any case.
    pub fn after_failure(self, call: Call) -> ProgramState {
        match (call, self.after(call)) {
            (
                Call::CompleteRestart
                | Call::CompleteCheckpoint
                | Call::CompleteOutput
                | Call::Finalize,
                Some(next),
            ) => next,
            _ => self,
        }
    }

    /// Says why a call is not valid now, and what is to come first.
    pub fn why_not(self, call: Call) -> String {
        let wanted = match (self, call) {
            (ProgramState::Uninit, _) => "SCR_Init comes first",
            (_, Call::Init) => "it is to be called once",
            (_, Call::CompleteRestart) => "SCR_Start_restart comes before it",
            (_, Call::CompleteCheckpoint) => "SCR_Start_checkpoint comes before it",
            (_, Call::CompleteOutput) => "SCR_Start_output comes before it",
            (ProgramState::Restart, _) => "SCR_Complete_restart comes first",
            (ProgramState::Checkpoint, _) => "SCR_Complete_checkpoint comes first",
            (ProgramState::Output, _) => "SCR_Complete_output comes first",
            _ => "it is not valid here",
        };
        format!("is not valid {}: {wanted}", self.in_words())
    }

    fn in_words(self) -> &'static str {
        match self {
            ProgramState::Uninit => "before SCR_Init or after SCR_Finalize (state Uninit)",
            ProgramState::Init => "right after SCR_Init (state Init)",
            ProgramState::Idle => "outside of a restart, checkpoint or output (state Idle)",
            ProgramState::Restart => "during a restart (state Restart)",
            ProgramState::Checkpoint => "during a checkpoint (state Checkpoint)",
            ProgramState::Output => "during an output (state Output)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [ProgramState; 6] = [
        ProgramState::Uninit,
        ProgramState::Init,
        ProgramState::Idle,
        ProgramState::Restart,
        ProgramState::Checkpoint,
        ProgramState::Output,
    ];

    /// By state, in their order: where the call leads, `-` where it is not valid.
    const TABLE: [(Call, [&str; 6]); 15] = [
        (Call::Init, ["Init", "-", "-", "-", "-", "-"]),
        (Call::Finalize, ["-", "Uninit", "Uninit", "-", "-", "-"]),
        (Call::ShouldExit, ["-", "Init", "Idle", "Restart", "Checkpoint", "Output"]),
        (Call::RouteFile, ["-", "Init", "Idle", "Restart", "Checkpoint", "Output"]),
        (Call::NeedCheckpoint, ["-", "Init", "Idle", "-", "-", "-"]),
        (Call::StartCheckpoint, ["-", "Checkpoint", "Checkpoint", "-", "-", "-"]),
        (Call::CompleteCheckpoint, ["-", "-", "-", "-", "Idle", "-"]),
        (Call::StartOutput, ["-", "Output", "Output", "-", "-", "-"]),
        (Call::CompleteOutput, ["-", "-", "-", "-", "-", "Idle"]),
        (Call::HaveRestart, ["-", "Init", "Idle", "-", "-", "-"]),
        (Call::StartRestart, ["-", "Restart", "Restart", "-", "-", "-"]),
        (Call::CompleteRestart, ["-", "-", "-", "Idle", "-", "-"]),
        (Call::Current, ["-", "Init", "Idle", "-", "-", "-"]),
        (Call::Drop, ["-", "Init", "Idle", "-", "-", "-"]),
        (Call::Delete, ["-", "Init", "Idle", "-", "-", "-"]),
    ];

    #[test]
    fn every_call_in_every_state() {
        assert_eq!(TABLE.map(|(call, _)| call), Call::ALL);
        for (call, row) in TABLE {
            for (state, expected) in STATES.into_iter().zip(row) {
                let found = state.after(call).map_or("-".to_string(), |next| format!("{next:?}"));
                assert_eq!(found, expected, "{call:?} in {state:?}");
                let why = state.why_not(call);
                assert!(why.contains(&format!("state {state:?}")), "{why}");
            }
        }
    }

    #[test]
    fn a_failure_ends_what_was_to_be_completed_and_begins_nothing() {
        for (call, _) in TABLE {
            for state in STATES {
                let ends = call.name().contains("Complete") || call == Call::Finalize;
                let expected = state.after(call).filter(|_| ends).unwrap_or(state);
                assert_eq!(state.after_failure(call), expected, "{call:?} in {state:?}");
            }
        }
    }
}
