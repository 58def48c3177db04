//! The cache: node-local storage, its room, and the files in it.

use super::message::{Id, Message, messages};

messages! {
    NO_ROOM = 2001 {
        title: "The cache has no room",
        cause: "The node-local storage is full, or its quota is.",
        done: "What does not fit goes straight to the parallel file system; the checkpoint is \
             complete and counts, but takes longer.",
        cure: "Keep fewer checkpoints (a smaller SCR_CACHE_SIZE), use a larger store \
             (SCR_CACHE_BASE), or delete what others have left there.",
    }
    NO_INODES = 2002 {
        title: "The cache can hold no more files",
        cause: "The storage has a limit of files (inodes), and the program writes many small \
             ones.",
        done: "What does not fit goes straight to the parallel file system.",
        cure: "Keep fewer checkpoints (SCR_CACHE_SIZE), or have the RAM disk mounted with a \
             larger nr_inodes=.",
    }
    STORE_FAILED = 2003 {
        title: "The cache has failed",
        cause: "The node-local storage gives errors: a defective disk, a store that is read-only \
             or was unmounted.",
        done: "What the cache cannot take goes straight to the parallel file system.",
        cure: "Have the node looked at (dmesg there), or leave it out of the next run.",
    }
    STORE_UNTRUSTED = 2004 {
        title: "A cached file is not what was written",
        cause: "Its checksum has changed although nobody wrote it: the storage or memory of the \
             node is at fault, or something outside the job has changed it.",
        done: "SCR_CRC_ON_DELETE=1 has had it compared before the copy was deleted. A restart \
             compares what it reads, too.",
        cure: "Do not trust this node's storage: have it looked at, and run scr verify on what is \
             left.",
    }
    CACHE_GIVEN_UP = 2005 {
        title: "The cache is given up for this run",
        cause: "The cache of a node has failed several times in a row, or SCR has met an error \
             after which it cannot be sure. The text has the cause.",
        done: "All ranks write straight to the parallel file system from now on. Nothing that was \
             complete is lost.",
        cure: "Mend the cause; a new launch uses the cache again.",
    }
    EVICTED_NAME = 2006 {
        title: "The program opens a file of a checkpoint that is no longer kept",
        cause: "SCR_FLUSH is set: older checkpoints leave the cache when newer ones are complete, \
             and this one was not due for a copy on the parallel file system.",
        done: "The open fails: no such file.",
        cure: "Leave SCR_FLUSH out, and all that the program does not delete itself is kept; or \
             keep more in the cache (SCR_CACHE_SIZE).",
    }
    SEVERAL_WRITERS = 2007 {
        title: "A file is written by ranks of several places",
        cause: "Each rank wrote into a cached copy of its own, so that no rank has all of the \
             file.",
        done: "The checkpoint does not count and is given up; the series goes straight to the \
             parallel file system from now on.",
        cure: "Nothing: the next checkpoints are right. To spare the first one, leave SCR_LEARN \
             on, or remove :own from the pattern.",
    }
    NOT_CACHED = 2008 {
        title: "The checkpoints of a pattern are not cached",
        cause: "In an earlier checkpoint SCR has seen something that makes the cache unsafe for \
             these files, such as several writers, or another node that reads them at once. The \
             text says what.",
        done: "They go straight to the parallel file system, in later runs too: right, but not \
             faster, and not protected by the cache.",
        cure: "What the text says; a narrower pattern or an SCR_IGNORE_PATTERN often leaves the \
             unsafe file out.",
    }
    NEVER_QUIET = 2009 {
        title: "A file that a pattern matches is never closed",
        cause: "It is a log or the like, open or appended to while checkpoints come and go; a \
             checkpoint that has it would never be complete.",
        done: "Such files go straight to the parallel file system and belong to no checkpoint.",
        cure: "Add the line that the text ends with to the settings, so that they are left out \
             from the start.",
    }
    STRAY = 2010 {
        title: "A cached file belongs to no checkpoint yet",
        cause: "It matches a pattern without {id}, whose series waits for its first file with an \
             {id}, while the checkpoints of other patterns are complete.",
        done: "It stays in the cache until then, and a crash loses it.",
        cure: "List the pattern beside the files that it belongs to (in the same \
             SCR_CHECKPOINT_PATTERN).",
    }
    CHANGE_LOST = 2011 {
        title: "A change of a cached file could not be kept",
        cause: "The cache or the parallel file system has refused to take what the program has \
             written. The text has the system's answer.",
        done: "The checkpoint that has the file does not count; an older one stays.",
        cure: "Mend the storage that is named; the program's next checkpoint is complete again.",
    }
    OPERATION_FAILED = 2012 {
        title: "A call for a cached file failed",
        cause: "The storage has refused what the call needs (open for a change, rename, link). \
             The text has file and answer.",
        done: "A call of the program that waits for the answer gets this error, as it would \
             without SCR.",
        cure: "Mend the storage that is named. If the program gives up for it, SCR_ENABLE=0 does \
             without the cache.",
    }
    NOT_MOVED = 2013 {
        title: "A file could not be moved out of the cache",
        cause: "The parallel file system refuses it: no room, no permission, an error.",
        done: "The file stays in the cache; SCR tries again where it can.",
        cure: "Mend what the text names before the job ends: what only the cache has is lost with \
             the node.",
    }
    WRITTEN_WHILE_MOVED = 2014 {
        title: "A file was written while it moved out of the cache",
        cause: "A call that SCR does not see (a child process, a library's own system call) wrote \
             at that moment.",
        done: "What it wrote then is lost; a checkpoint that has the file does not count.",
        cure: "Leave the file out with SCR_IGNORE_PATTERN.",
    }
    CHILD_WRITES = 2015 {
        title: "A child process still writes when its rank ends",
        cause: "The program has started a process that writes a cached file, and does not wait \
             for it.",
        done: "What it writes from now on does not reach the parallel file system.",
        cure: "Let the program wait for the child before it ends.",
    }
    DELETION_FAILED = 2016 {
        title: "A file could not be deleted",
        cause: "The program has deleted it, and the storage refuses the deletion at the time when \
             it becomes real.",
        done: "The program does not see the file; it takes room until somebody deletes it.",
        cure: "Delete it by hand after the run, if it is still there.",
    }
    REMOTE_NOT_COME = 2017 {
        title: "A file on another node did not come in time",
        cause: "A rank has opened a file that is in the cache of another node, and that node has \
             not written it to the parallel file system within the deadline.",
        done: "The open fails: no such file.",
        cure: "Let the program read such files after a collective call, or leave them out with \
             SCR_IGNORE_PATTERN.",
    }
    REQUEST_FAILED = 2018 {
        title: "A file that another node waits for could not be handed over",
        cause: "It goes through the parallel file system, and that or the cache has refused. The \
             text has the answer.",
        done: "It is tried again as long as the other rank waits.",
        cure: "Mend what the text names.",
    }
    TEMPORARY_PASSED = 2019 {
        title: "A temporary file could not be made in the cache",
        cause: "The cache has refused it.",
        done: "It goes straight to the parallel file system.",
        cure: "Mend the storage that is named, or make room there.",
    }
    RECORD_NOT_WRITTEN = 2020 {
        title: "A record of this node could not be written",
        cause: "The storage of the control directory (SCR_CNTL_BASE) is full or fails.",
        done: "The run goes on; after a failure less may be found in this node's cache.",
        cure: "Make room there, or choose another SCR_CNTL_BASE.",
    }
    LEARNED_NOT_KEPT = 2021 {
        title: "What was learned of the program could not be kept",
        cause: "The file learned.scr in the .scr directory of the prefix cannot be written.",
        done: "The next run learns again: its first checkpoint is not cached.",
        cure: "See that the prefix has room and can be written.",
    }
}
