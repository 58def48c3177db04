//! Checkpoints: when they are complete, and what a restart finds.

use super::message::{Id, Message, messages};

messages! {
    CHECKPOINT_INVALID = 3001 {
        title: "A checkpoint does not count",
        cause: "A write, close or sync of one of its files failed, or a file is missing or too \
             short. The text names rank and cause.",
        done: "The checkpoint is given up on all ranks; older complete ones stay.",
        cure: "Look at the cause. If the storage is at fault, mend it; the program's next \
             checkpoint is independent of this one.",
    }
    NOT_SEALED = 3002 {
        title: "A checkpoint could not be completed in the cache",
        cause: "Checksums, redundancy or records could not be written on some node. The text \
             names it.",
        done: "Its files are written to the parallel file system, which alone protects it.",
        cure: "Mend the cause; if it happens again and again SCR gives the cache up for this run \
             by itself.",
    }
    NOT_MARKED = 3003 {
        title: "A node could not note that a checkpoint is complete",
        cause: "The storage of the node's records refuses to be written.",
        done: "The checkpoint counts, and is written to the parallel file system as well.",
        cure: "Make room in SCR_CNTL_BASE, or have the node looked at.",
    }
    AGREEMENTS_ENDED = 3004 {
        title: "The ranks cannot agree any more",
        cause: "An MPI call that SCR makes for itself has failed, or ranks count their collective \
             calls differently.",
        done: "No further checkpoint is cached; files go straight to the parallel file system, \
             and what is cached is written there.",
        cure: "If a node is gone, start the run again. If not, please report it, with the \
             program's name and MPI.",
    }
    NO_COLLECTIVE = 3005 {
        title: "The program passes no collective call of all ranks",
        cause: "SCR completes a checkpoint at the program's own blocking collectives \
             of all ranks (MPI_Barrier, MPI_Allreduce and such), and there has been none for a \
             while, or for two checkpoints. Those of other threads than the one that initialised \
             MPI count from MPI_THREAD_SERIALIZED on.",
        done: "The files are written to the parallel file system as they are.",
        cure: "Nothing, if the phase is just long (raise SCR_UNSEALED_SECONDS). Programs without \
             such calls have no use of the cache.",
    }
    NOT_ASIDE = 3006 {
        title: "Checkpoints cannot be encoded beside the program",
        cause: "The threads of two ranks cannot reach each other by sockets: a firewall between \
             the nodes, no network but that of MPI, or a container for each rank.",
        done: "The program waits while redundancy data is computed. After two such failures in a \
             row that is no longer tried in this run.",
        cure: "Set SCR_SEAL=BLOCKING, or let the nodes of a job connect to each other's TCP ports.",
    }
    RESTARTED = 3101 {
        title: "The run finds a checkpoint of an earlier launch",
        cause: "It has left it in the cache, or written it to the parallel file system by itself; \
             the text says which. If it says rebuilt, a node was lost and its part was made anew \
             from the others.",
        done: "The program sees the files under their own names.",
        cure: "Nothing: this is what SCR is for.",
    }
    LOST = 3102 {
        title: "A checkpoint cannot be had again",
        cause: "More nodes are gone than its redundancy survives, or its files are damaged, and \
             the parallel file system does not have it.",
        done: "It is hidden from the program, which goes on from an older one.",
        cure: "Write to the parallel file system more often (SCR_FLUSH), or survive more losses \
             (SCR_COPY_TYPE=RS, SCR_SET_FAILURES=2).",
    }
    FILEMAP_DAMAGED = 3103 {
        title: "A node's list of cached files is damaged",
        cause: "Its storage has lost or changed a part of it, mostly by a crash.",
        done: "The files that it names count as lost, and are rebuilt from other nodes where that \
             is possible. They stay there.",
        cure: "Nothing, if the run goes on. scr rebuild DIRECTORY finds datasets without such a \
             list.",
    }
    FORMER_GROUP = 3104 {
        title: "Checkpoints are protected across a group that is no longer described",
        cause: "The GROUPS lines of the run that wrote them are not in the settings any more.",
        done: "They are protected across nodes from now on.",
        cure: "Put the GROUPS lines back if they were left out by mistake.",
    }
    OTHER_SIZE = 3105 {
        title: "The cache is of a run with another number of ranks",
        cause: "The program was started again with more or fewer ranks.",
        done: "What was worth it has been copied to the parallel file system, where this run \
             reads it.",
        cure: "Nothing.",
    }
    OTHER_SIZE_FAILED = 3106 {
        title: "The cache of a run with another number of ranks could not be saved",
        cause: "It could not be read, rebuilt or written to the parallel file system, or too much \
             of it is on nodes that this launch does not have. The text says which.",
        done: "The cache is left as it is; the program goes on from what the parallel file system \
             has.",
        cure: "Mend the cause and run scr scavenge on all nodes that have a part of it, or start \
             with the former number of ranks.",
    }
    NO_ROOM_TO_MOVE = 3107 {
        title: "The nodes have no room for the checkpoint of a lost node",
        cause: "Files have to move to other nodes than those that wrote them, and they do not fit \
             there.",
        done: "The checkpoint is written to the parallel file system before the program runs, \
             which costs time.",
        cure: "Keep spare room on each node, or fewer checkpoints (SCR_CACHE_SIZE).",
    }
    NEWER_HIDDEN = 3108 {
        title: "Newer checkpoints are hidden from the program",
        cause: "SCR_CURRENT, scr index current, or an earlier start says that the run begins with \
             an older one.",
        done: "The program sees the older one as its newest. Nothing is deleted before a newer \
             one is complete.",
        cure: "Nothing, if that is meant; else name the newer one in SCR_CURRENT or with scr \
             index current.",
    }
    CURRENT_UNKNOWN = 3109 {
        title: "SCR_CURRENT names no checkpoint",
        cause: "There is none of that name, neither in the cache nor in the index of the prefix.",
        done: "SCR_CURRENT is ignored: the run begins with the newest.",
        cure: "scr index list shows the names.",
    }
    REWRITTEN = 3110 {
        title: "A file was written to after its checkpoint was complete",
        cause: "The program, or somebody else, has changed it where the parallel file system has \
             it.",
        done: "The checkpoint is offered all the same, since the change may be meant.",
        cure: "If the program reports inconsistent files, begin with an older one (scr index \
             current NAME).",
    }
    PREFIX_DAMAGED = 3111 {
        title: "A checkpoint on the parallel file system is not whole",
        cause: "A file is missing, has another size, or its checksum differs.",
        done: "It is not offered to the program, which goes on from another one.",
        cure: "scr index verify says what is wrong; restore the file from a backup, or let it be.",
    }
    NOT_CHECKED = 3112 {
        title: "A checkpoint could not be compared with its checksums",
        cause: "Files of it have no checksum, or the summary tells something that does not fit.",
        done: "It is offered as it is.",
        cure: "scr index verify compares what can be compared; SCR_CRC_ON_FLUSH=1 gives the next \
             ones checksums.",
    }
    PUT_BACK = 3113 {
        title: "Files were put back as they were",
        cause: "A checkpoint that the run goes on from has files whose names a newer one has \
             used.",
        done: "The files of the older one are in place again; those of the newer one are kept \
             where the text says.",
        cure: "Nothing.",
    }
    PUT_BACK_FAILED = 3114 {
        title: "Files could not be put back as they were",
        cause: "The parallel file system has refused it, or the copy that was kept is gone.",
        done: "The checkpoint is not offered, or offered without that file, as the text says; the \
             next start tries again.",
        cure: "Mend what the text names, and start again.",
    }
    LINK_TURNED = 3115 {
        title: "A link to the newest checkpoint was turned",
        cause: "The program keeps a symbolic link to its newest checkpoint, and that one is not \
             the one the run goes on from.",
        done: "The link leads to the one that the run goes on from.",
        cure: "Nothing.",
    }
    RENAME_NOT_UNDONE = 3116 {
        title: "A checkpoint's directory may lack files",
        cause: "The run before ended while the directory got its final name, and the former name \
             cannot be given back.",
        done: "It stays as it is.",
        cure: "Do not start from it unless scr index verify finds it right; take an older one.",
    }
    RESTART_DAMAGED = 3117 {
        title: "A file that the run may have begun from is damaged",
        cause: "The start takes files that nobody has touched since their seal as they are, and \
             compares them while the program runs: the storage of the node has changed this one.",
        done: "The program runs on. The next start compares all files of the checkpoint first, and \
             rebuilds this one or takes an older checkpoint.",
        cure: "If the run has begun from it, do not trust its results: end it and start it again. \
             Have the node's storage or memory looked at.",
    }
    PREFIX_ANEW = 3118 {
        title: "The cache is of a prefix that was there before",
        cause: "The prefix, or .scr in it, was deleted and made anew after the run that left the \
                cache: whoever does that begins afresh.",
        done: "Nothing of that cache is offered, flushed or scavenged. It goes when this run has \
               completed a checkpoint of its own.",
        cure: "Nothing, if that is meant. SCR_CACHE_ADOPT=1 for one start, or for scr scavenge, \
               takes the cache after all, while it is there; SCR_CACHE_PURGE=1 deletes it at once.",
    }
    REMOVED = 3119 {
        title: "A checkpoint in the cache is newer than what somebody has deleted",
        cause: "The newest checkpoint on the parallel file system, or the directory of the newest \
                one in the cache, was deleted after the run had ended: whoever does that begins \
                afresh, or goes back to an older one.",
        done: "Nothing that is newer is offered from the cache. It goes when this run has \
               completed a checkpoint of its own.",
        cure: "Nothing, if that is meant; else name the checkpoint in SCR_CURRENT for the next \
               start.",
    }
    PREFIX_MOVED = 3120 {
        title: "The cache is of the prefix under a former name",
        cause: "The prefix was renamed or moved, .scr and all, after the run that left the cache: \
                caches are found by the prefix's path.",
        done: "Nothing of that cache is offered, flushed or scavenged; it stays as it is.",
        cure: "Move the directory back to the path that the text names, and start again or run scr \
               scavenge.",
    }
    WRITTEN_WITHOUT_US = 3121 {
        title: "The prefix has newer files than the cache, under the same names",
        cause: "After the run that left the cache the program has run without SCR, or somebody has \
                copied files there: each file of the checkpoint was written since, and that run \
                had begun no other one.",
        done: "Nothing of these names is offered from the cache: the program reads what is on the \
               parallel file system. The cache's goes when this run has completed a checkpoint.",
        cure: "Nothing, if that is meant; else name the checkpoint in SCR_CURRENT for the next \
               start.",
    }
}
