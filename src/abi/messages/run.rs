//! Runs: halt, watchdog, nodes, and jobs that have failed.

use super::message::{Id, Message, messages};

messages! {
    HALT = 5001 {
        title: "A halt condition holds",
        cause: "scr halt, a setting (SCR_HALT_SECONDS, SCR_END_TIME) or a limit of checkpoints \
             has asked for it. The text names it.",
        done: "The newest checkpoint is on the parallel file system; the run ends there, or goes \
             on if SCR_HALT_EXIT=0.",
        cure: "scr halt --list shows what is asked for; scr halt --unset all takes it back, if \
             the next run is to go on.",
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
        title: "The newest checkpoint is only in the nodes' caches",
        cause: "The run has ended before a flush of it was due or done, or SCR_FLUSH=0 has it \
             that none is made.",
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
    NODE_OUT = 5104 {
        title: "A node is left out of the next launch",
        cause: "A test of the node has failed, the resource manager says that it is down, or a \
             launch has ended since it was lost. The text has the reason.",
        done: "scr run starts on the other nodes, spare ones if there are any.",
        cure: "Have the node looked at. scr check-node and scr down-nodes show what is tested.",
    }
    LAUNCH_FAILED = 5105 {
        title: "A launch of scr run has failed",
        cause: "The program, the launcher or a node has failed; what they said is above.",
        done: "scr run starts again from the newest checkpoint, as long as runs (SCR_RUNS) and \
             nodes are left.",
        cure: "Nothing, if a later launch succeeds; else look at the program's own messages.",
    }
    NODES_NOT_AVOIDED = 5106 {
        title: "The command does not say which nodes to avoid",
        cause: "scr run does not know this launcher, so it cannot place the ranks itself.",
        done: "The command is started as it is.",
        cure: "Write {nodes} in the command where the launcher expects the list of nodes.",
    }
    NO_RUNS_LEFT = 5107 {
        title: "scr run has no more launches",
        cause: "As many launches as SCR_RUNS (or --runs) allows have failed.",
        done: "What only the caches have is saved to the prefix, and scr run ends.",
        cure: "Find out why the launches fail; submit the job again to go on from what was saved.",
    }
    TOO_FEW_NODES = 5108 {
        title: "Too few healthy nodes are left",
        cause: "Nodes were lost or left out, and the job has no more spare ones.",
        done: "What only the caches have is saved to the prefix, and scr run ends.",
        cure: "Submit the job again; a spare node or two in the allocation let it go on by itself. \
             SCR_MIN_NODES says how many a run needs.",
    }
    NOT_RECOVERED = 5109 {
        title: "A dataset of the nodes' caches could not be saved",
        cause: "More of it is gone than its redundancy survives, a file is damaged, or what would \
             tell how its files belong together is not there. The text says which.",
        done: "An older one is saved in its place, if the caches have one that is whole.",
        cure: "If a node that did not answer can be reached again, scr scavenge once more; \
             scr verify tells what is damaged. Else go on from the newest one of the prefix.",
    }
    NOTHING_SAVED = 5110 {
        title: "There is nothing to save in the caches",
        cause: "No node that was asked has a cache of this run, or none of its checkpoints was \
             complete.",
        done: "Nothing was changed.",
        cure: "See that SCR_JOB_ID, SCR_USER_NAME and SCR_CNTL_BASE are those of the run \
             (scr status shows the job), that its nodes are still the job's, and that the prefix \
             has the path that it had in the run.",
    }
}
