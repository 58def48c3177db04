//! The prefix directory on the parallel file system, and flushes to it.

use super::message::{Id, Message, messages};

messages! {
    NOT_FLUSHED = 4001 {
        title: "A checkpoint could not be written to the parallel file system",
        cause: "It has no room (or its quota is full), no permission, or gives errors. The text \
             has file and answer.",
        done: "What could not be written stays in the cache, where the next run, or scr scavenge, \
             finds it.",
        cure: "Make room or mend the permission while the job still has its nodes; then start \
             again, or run scr scavenge.",
    }
    FLUSH_DELAYED = 4002 {
        title: "A background flush has failed and is tried again",
        cause: "The parallel file system has refused a file, or a thread could not be had. The \
             text has the answer.",
        done: "The checkpoint is still in the cache; it is written again at a later checkpoint, \
             or at the end of the run.",
        cure: "Nothing, if it happens once. If it goes on, look at room and permissions of the \
             prefix.",
    }
    FILE_NOT_WRITTEN = 4003 {
        title: "A file could not be written to the parallel file system",
        cause: "It has no room, no permission, or gives errors. The text has the answer.",
        done: "The file is still in the cache, in the directory that is named.",
        cure: "Mend the cause and start again, or copy the file by hand while the node is there.",
    }
    NOT_SAVED = 4004 {
        title: "A checkpoint could not be saved when the process ended",
        cause: "The process has ended without MPI_Finalize, and the parallel file system has \
             refused its files.",
        done: "It is in the cache, where the next run in the same allocation finds it.",
        cure: "Start again in the same allocation, or run scr scavenge.",
    }
    POINTER_HELD_BACK = 4005 {
        title: "A file that names the newest checkpoint was not written",
        cause: "Not all ranks have come to their end, so that the checkpoint that it may name is \
             perhaps not whole.",
        done: "The parallel file system has the former one.",
        cure: "Look why ranks have ended early. scr index list shows which checkpoints are whole.",
    }
    INDEX_NOT_UPDATED = 4006 {
        title: "The index of the prefix could not be changed",
        cause: "The file .scr/index.scr cannot be written, or a command holds its lock.",
        done: "Files are where they should be, but the index does not tell of them.",
        cure: "See that the prefix can be written; scr index add DIRECTORY, or scr index build, \
             enters what is there.",
    }
    RECORD_UNREADABLE = 4007 {
        title: "A record of the prefix cannot be read",
        cause: "The file that is named is not readable, or the file system gives errors.",
        done: "SCR goes on with what it can read; a checkpoint may not be offered, or its loss \
             not be told.",
        cure: "Mend the permission. scr index build makes a lost index anew.",
    }
    RECORD_DAMAGED = 4008 {
        title: "A record of the prefix is damaged",
        cause: "The file has been changed by something else than SCR, or its storage has lost a \
             part.",
        done: "It is set aside with the ending .damaged, and made anew from what is there.",
        cure: "Nothing, if the run goes on as it should; scr index list shows what was found.",
    }
    RECORD_IN_THE_WAY = 4009 {
        title: "A damaged record could not be set aside",
        cause: "The directory .scr of the prefix cannot be written.",
        done: "It stays; SCR goes on without it.",
        cure: "Mend the permission, or move the file away.",
    }
    RETURN_UNFINISHED = 4010 {
        title: "An older checkpoint is only partly back in place",
        cause: "A start that brought it back has ended in the middle, and going on with it has \
             failed.",
        done: "It is not offered; the next start tries again.",
        cure: "Mend what the text names.",
    }
    FLUSH_DAMAGED = 4011 {
        title: "An interrupted flush cannot be completed",
        cause: "The notes of the flush, which a crash has interrupted, are damaged.",
        done: "The cache's copy is used, or an older checkpoint.",
        cure: "Nothing, if the run goes on.",
    }
    WINDOW_EXCEEDED = 4012 {
        title: "An older checkpoint could not be deleted",
        cause: "SCR_PREFIX_SIZE says how many to keep, and the file system refuses to delete one.",
        done: "There are more than that.",
        cure: "Mend the permission, or delete it by hand: scr index drop NAME takes it out of the \
             index.",
    }
    PURGED = 4013 {
        title: "Checkpoints were deleted from the prefix",
        cause: "SCR_PREFIX_PURGE=1.",
        done: "All datasets of the index were deleted before the run began.",
        cure: "Take the setting back for the next run, or it deletes them again.",
    }
    NO_LOCKS = 4014 {
        title: "The file system has no locks",
        cause: "It is mounted without them (Lustre: without flock).",
        done: "A lock that is made of a file is used instead, which is slower and may stay behind \
             after a crash for a while.",
        cure: "Ask for the mount option (flock), if commands have to wait too long.",
    }
    DIRECTORY_NOT_MADE = 4015 {
        title: "A directory on the parallel file system could not be made",
        cause: "No permission, no room, or an error. The text has the answer.",
        done: "The checkpoint is in the cache and is offered; opening a new file in that \
             directory may fail.",
        cure: "Mend what the text names.",
    }
    FLUSH_BEHIND = 4016 {
        title: "Checkpoints come faster than the background flush",
        cause: "The program keeps all its checkpoints, or more of them than the cache has room \
             for, and the parallel file system takes one more slowly than the next comes.",
        done: "What finds no place goes straight to the parallel file system, as it would without \
             SCR; it is complete and counts.",
        cure: "Nothing, if the program needs all of them. If not: SCR_FLUSH=n flushes every nth \
             only, and the others leave the cache; or keep more there (SCR_CACHE_SIZE).",
    }
    CACHE_OF_OTHERS = 4017 {
        title: "The C implementation has left a checkpoint in its cache",
        cause: "Its last run has ended before it has flushed the checkpoint that is named, and \
             SCR does not read caches of the C implementation.",
        done: "The cache is left alone. The run goes on from the newest checkpoint of the prefix.",
        cure: "If the job still has its nodes: end this run, and have the C implementation's \
             scr_postrun save it. Once a flush of this run is complete, nothing tells of it any \
             more.",
    }
}
