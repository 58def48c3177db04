//! Commands, and errors that any part may meet.

use super::message::{Id, Message, messages};

messages! {
    SYSTEM_REFUSED = 7001 {
        title: "The system refuses a file or directory",
        cause: "The path that is named is not there, not permitted, full, or its file system \
             gives errors. The text ends with the system's answer.",
        done: "What was asked for has not been done.",
        cure: "Mend what the answer says (No such file: the path; Permission denied: the owner; \
             No space: room), and try again.",
    }
    FILE_DAMAGED = 7002 {
        title: "A file of SCR is damaged",
        cause: "Its checksum or form is not what it should be: a crash of the storage, or \
             something else has written to it.",
        done: "It is not used.",
        cure: "scr print FILE shows what can be read of it; scr index verify and scr verify look \
             at everything.",
    }
    NOT_ENOUGH_ROOM = 7003 {
        title: "There is not enough room",
        cause: "The storage has fewer bytes free than are needed.",
        done: "What was asked for has not been done.",
        cure: "Make room there, and try again.",
    }
    CANNOT_BE_REBUILT = 7004 {
        title: "More is lost than the redundancy survives",
        cause: "The files of more members of a set are gone or damaged than its scheme can bring \
             back.",
        done: "Nothing was changed.",
        cure: "Bring more of the nodes' caches (scr scavenge, scr rebuild DIRECTORY ...), or take \
             an older checkpoint.",
    }
    REPORTED_BY_OTHER = 7005 {
        title: "Another rank or node reports an error",
        cause: "The text has its words.",
        done: "What was asked for has not been done.",
        cure: "Mend what it names on that node.",
    }
    UNREADABLE = 7006 {
        title: "Something cannot be understood",
        cause: "An answer, an argument or a file has not the form that is expected.",
        done: "It is not used.",
        cure: "Compare with what scr COMMAND --help says; mixed versions of SCR on several nodes \
             are a frequent cause.",
    }
    NOT_THERE = 7007 {
        title: "What is asked for is not there",
        cause: "There is no such run, dataset or file.",
        done: "Nothing was changed.",
        cure: "scr status, scr index list and scr ls show what there is; see that --prefix names \
             the directory of the run.",
    }
    REFUSED = 7008 {
        title: "What is asked for is not possible",
        cause: "A name, an argument or the state of things does not allow it. The text says \
             which.",
        done: "Nothing was changed.",
        cure: "Do as the text says; scr COMMAND --help has examples.",
    }
    STOPPED = 7009 {
        title: "It was asked to end",
        cause: "A signal, or scr transfer --command stop.",
        done: "It has ended in order; what was not done can be done again.",
        cure: "Start it again, if it was not meant.",
    }
    PROCESS_FAILED = 7010 {
        title: "A process or thread could not be had",
        cause: "The system gives none, or one has ended badly: limits of processes, memory, a \
             remote shell that fails.",
        done: "What was asked for has not been done.",
        cure: "Look at ulimit -u, and try the remote shell by hand (ssh NODE true).",
    }
    DEFECT = 7011 {
        title: "A fault of SCR",
        cause: "Something that cannot be has happened.",
        done: "What was asked for has not been done.",
        cure: "Please report it, with the line and the version (scr --version).",
    }
    NODE_SILENT = 7012 {
        title: "A node does not answer",
        cause: "It is down, the remote shell does not reach it, or SCR is not installed there \
             under the same path.",
        done: "The answer is without what that node has.",
        cure: "Try ssh NODE scr --version by hand; SCR_REMOTE_SHELL names another way.",
    }
    NO_VIEW = 7013 {
        title: "The system lays no files over a directory",
        cause: "scr exec needs a mount namespace with an overlay, and the kernel refuses it: it is \
             older than 5.12, user.max_user_namespaces is 0, or this is a container.",
        done: "The command runs; the cached files are in the directory that SCR_VIEW names.",
        cure: "Have the command read from $SCR_VIEW, or copy the files with scr cp.",
    }
    LEFT_OUT = 7014 {
        title: "A dataset is left out of a list",
        cause: "Its files cannot be listed: a record of it, on a node or on the prefix, is damaged \
             or gone.",
        done: "The other datasets are listed.",
        cure: "scr verify says what is wrong with it, and whether it can be brought back.",
    }
    NOT_TRANSFERRED = 7015 {
        title: "A flush could not be brought to its end",
        cause: "scr transfer could not read the node's records or write to the prefix, or a live \
             run uses the node. The text says which.",
        done: "What is in the cache stays there.",
        cure: "Mend the cause and call scr transfer again, or scr scavenge.",
    }
    NODES_OF_THEIR_OWN = 7016 {
        title: "A directory is another one on each virtual node",
        cause: "A node of scr sim has a /tmp and a /dev/shm of its own, as a real one has, and the \
             command was started in a directory there.",
        done: "The command runs; ranks do not find what this directory has.",
        cure: "Start the cluster in this directory, or with --share DIRECTORY, or work elsewhere.",
    }
}
