//! The log of events.

use super::message::{Id, Message, messages};

messages! {
    LOG_INCOMPLETE = 8001 {
        title: "The log of events is not complete",
        cause: "More happened than could be written in time, mostly since its file system is \
             slow.",
        done: "The run is not held up; some events are not in the log.",
        cure: "Put the database elsewhere (SCR_LOG_DB_NAME), or switch the log off \
             (SCR_LOG_ENABLE=0).",
    }
    LOG_FAILED = 8002 {
        title: "The log of events cannot be written",
        cause: "The file or database that is named refuses.",
        done: "Nothing more is logged there; the run goes on.",
        cure: "Mend the permission or make room.",
    }
    DATABASE_DEBUG = 8003 {
        title: "What the database of events does",
        cause: "SCR_LOG_DB_DEBUG=1 asks for it.",
        done: "Nothing else.",
        cure: "Take the setting back if the lines are in the way.",
    }
    LOG_OFF = 8004 {
        title: "The log of events is off",
        cause: "SCR_LOG_ENABLE=0, or each kind of log is switched off.",
        done: "The event is not written.",
        cure: "Switch the log on: SCR_LOG_ENABLE=1, and SCR_LOG_DB_ENABLE=1 for the database.",
    }
}
