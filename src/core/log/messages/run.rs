//! Runs: halt, watchdog, nodes, and jobs that have failed.

use super::{Id, Message};

messages! {
    HALT = 5001 {
        title: "A halt condition holds",
        cause: "scr halt, a setting (SCR_HALT_SECONDS, SCR_END_TIME) or a limit of checkpoints \
             has asked for it. The text names it.",
        done: "The newest checkpoint is on the parallel file system; the run ends there, or goes \
             on if SCR_HALT_EXIT=0.",
        cure: "scr halt --unset-reason (or scr halt --list) before the next run, if it is to go \
             on.",
    }
    HALT_FILE = 5002 {
        title: "The halt file cannot be used",
        cause: "The file halt.scr in the .scr directory of the prefix cannot be read or written.",
        done: "Halt conditions in it are not tested, or not noted as carried out.",
        cure: "Mend the permission, or delete the file and use scr halt again.",
    }
    WATCHDOG = 5003 {
        title: "The run is killed, since it does not get on",
        cause: "No checkpoint was completed within SCR_WATCHDOG_TIMEOUT.",
        done: "All processes end; scr run starts again from the newest checkpoint.",
        cure: "If the run was slow and not hung, raise the limit; SCR_WATCHDOG_TIMEOUT_PFS is the \
             one during flushes.",
    }
    ONLY_IN_CACHES = 5101 {
        title: "A launch has failed, and the newest checkpoint is only in the nodes' caches",
        cause: "The run has ended before a flush of it was due or done.",
        done: "It is left there, as long as the job has its nodes.",
        cure: "Start the program again in the same allocation, or type the scr scavenge line. \
             SCR_SCAVENGE_ON_EXIT=1 does it by itself.",
    }
    SCAVENGED = 5102 {
        title: "The caches of a failed launch were scavenged",
        cause: "SCR_SCAVENGE_ON_EXIT=1, and a launch has failed.",
        done: "What the text says is on the parallel file system now.",
        cure: "Nothing, unless the text names something that could not be saved.",
    }
    NOT_SCAVENGED = 5103 {
        title: "The caches of a failed launch could not be scavenged",
        cause: "Nodes do not answer, another run uses them, or the prefix cannot be written. The \
             text says which.",
        done: "The caches are left as they are.",
        cure: "Mend the cause and run scr scavenge while the job has its nodes.",
    }
}
