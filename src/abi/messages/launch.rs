//! Settings, and the start of a run.

use super::message::{Id, Message, messages};

messages! {
    SETTING_WRONG = 1001 {
        title: "A setting cannot be used",
        cause: "A value in the environment, in the config file or in SCR_Config has a wrong name, \
             form or range. The text names the place, and often what was probably meant.",
        done: "The program runs without checkpoint caching: its files go straight to the parallel \
             file system, as without SCR.",
        cure: "Correct the setting at the place that is named. scr config --explain shows every \
             value and where it comes from.",
    }
    SETTING_IGNORED = 1002 {
        title: "A setting is ignored",
        cause: "A line names no parameter of SCR, is set twice, or the file of the system decides \
             this parameter for everybody.",
        done: "SCR goes on with the value that holds.",
        cure: "Correct or remove the line. scr config --explain shows which value holds, and what \
             it overrode.",
    }
    SETTING_INEFFECTIVE = 1003 {
        title: "A setting has no effect",
        cause: "It does something only together with another setting, or with a program that asks \
             SCR; neither is there. The text says what is missing.",
        done: "SCR goes on as without it.",
        cure: "Set what is named, or remove the setting.",
    }
    PATTERNS_OVERLAP = 1004 {
        title: "Two patterns match the same files",
        cause: "A file belongs to one series of checkpoints only, and the pattern that comes \
             first takes it.",
        done: "The files go to the earlier series; the later one may never be complete.",
        cure: "Give the narrower pattern the earlier place (SCR_CHECKPOINT_PATTERN before \
             SCR_CHECKPOINT_PATTERN_2), or make one of them narrower.",
    }
    NO_PATTERN = 1005 {
        title: "No pattern is set",
        cause: "Nobody has said which files of the program are checkpoints.",
        done: "Nothing is cached or protected; the program runs as without SCR.",
        cure: "Let scr learn --write -- mpirun ... find the patterns, or set \
             SCR_CHECKPOINT_PATTERN. SCR_ENABLE=0 says that no protection is wanted.",
    }
    NOTHING_MATCHED = 1006 {
        title: "No file that the program wrote matches a pattern",
        cause: "The pattern is below another directory, or its name differs in some part. The \
             text has the file that came nearest.",
        done: "Nothing was cached or protected; all files are where the program has written them.",
        cure: "Correct the pattern: it counts from SCR_PREFIX. scr doctor --prefix DIRECTORY \
             compares names and patterns part by part.",
    }
    PLACEHOLDER = 1007 {
        title: "A pattern has the placeholder of another tool",
        cause: "Something like %d or ${step} is taken as it is, not for a number.",
        done: "The pattern matches no file of the program.",
        cure: "Write {id} for the number of the checkpoint and {rank} for the number of the \
             writer.",
    }
    LINK_IN_PATH = 1008 {
        title: "Checkpoints go through a symbolic link that SCR cannot follow",
        cause: "The link has come during the run, differs between nodes, or stands where the \
             pattern has a wildcard.",
        done: "What the program writes there goes straight to the parallel file system and is not \
             protected.",
        cure: "Make the link before the run, the same on all nodes, and name it in the pattern \
             without a wildcard; or put the place it leads to in SCR_PREFIX and the patterns.",
    }
    UNNAMEABLE = 1009 {
        title: "A file's name is not UTF-8 text",
        cause: "The records of SCR are text, and this name cannot be written in them.",
        done: "Such files are not cached; they go straight to the parallel file system.",
        cure: "Give the files names of UTF-8 text (plain ASCII always is).",
    }
    ENVIRONMENT_DIFFERS = 1010 {
        title: "Ranks have different settings",
        cause: "The environment of a rank differs from that of rank 0: often a variable that the \
             launcher has not handed on, or a line in a shell's start file of one node.",
        done: "The settings of rank 0 hold on all ranks.",
        cure: "Set the variable for all ranks (mpirun -x NAME, srun --export=ALL), or in the \
             config file.",
    }
    SWITCHED_OFF_ON_SOME = 1011 {
        title: "SCR is switched off on some ranks only",
        cause: "SCR_ENABLE=0 is in the environment, or said to SCR_Config, on some ranks and not \
             on others.",
        done: "SCR is off on all ranks: their files go straight to the parallel file system.",
        cure: "Set SCR_ENABLE alike on all ranks.",
    }
    GROUP_INCOMPLETE = 1012 {
        title: "Nodes are missing in the GROUPS lines",
        cause: "No GROUPS line gives a value of this group for the nodes that are named.",
        done: "Each such node counts as a group of its own: the loss of two that really fail \
             together may be more than a checkpoint survives.",
        cure: "Add the nodes to the GROUPS lines of the config file.",
    }
    STORE_FLAT = 1013 {
        title: "A store cannot hold directories",
        cause: "The STORE line has MKDIR=0, and SCR keeps each checkpoint in a directory.",
        done: "Nothing is cached there; the files go straight to the parallel file system.",
        cure: "Remove MKDIR=0, or name another store.",
    }
    STORE_MISDECLARED = 1014 {
        title: "A store is shared otherwise than its line says",
        cause: "The STORE line says that each node (or group) has the storage for itself, and \
             several see the same files there; or the other way round.",
        done: "SCR uses the storage as it has found it.",
        cure: "Correct GROUP= of the STORE line: GROUP=NODE for storage of each node, GROUP=WORLD \
             for one that all reach.",
    }
    PROTECTION_LESS = 1015 {
        title: "The redundancy scheme cannot protect all ranks",
        cause: "PARTNER, XOR and RS keep a part of each checkpoint on other nodes. There is one \
             node only, or some groups have too few.",
        done: "Checkpoints are cached, but what the ranks that are named have written is lost \
             with their node, unless it is on the parallel file system.",
        cure: "Use more nodes, or smaller sets (SCR_SET_SIZE). On one machine \
             SCR_COPY_TYPE=SINGLE says that it is meant.",
    }
    NOTHING_CACHED = 1016 {
        title: "Files match a pattern, but no checkpoint was cached, or none of the last ones",
        cause: "The text has the reasons that were seen. Often the names of each checkpoint are \
             new to SCR, since a word of them changes that is neither {id} nor {rank} nor a \
             number; or child processes of the program write the files; or ranks of other nodes \
             read them at once.",
        done: "All files are where the program has written them, as without SCR.",
        cure: "Of names that are always new, \":own\" behind the pattern has files cached that one \
             rank writes each. Of a file that all ranks write, scr report says what helps. Else \
             let the ranks themselves write and close the files, or name other files.",
    }
    LAUNCH_INCOMPLETE = 1101 {
        title: "Not all ranks can take part",
        cause: "Some ranks were started without the shim or its engine, cannot read the settings \
             or reach the prefix, or have not come in time. The text names nodes and ranks.",
        done: "The whole run goes on without checkpoint caching, since every rank has to take \
             part.",
        cure: "See that the shim has the same path on all nodes, and that the launcher hands \
             LD_PRELOAD and the SCR_ variables on. scr doctor -- mpirun ... finds the fault.",
    }
    IN_USE = 1102 {
        title: "Another run or command uses this place",
        cause: "A live run has the lock of the prefix directory, or of its cache on this node; or \
             a command (scr scavenge, scr index) has it for a moment. The text names host and \
             process.",
        done: "A run goes on without checkpoint caching, a command does nothing; the other one is \
             left alone.",
        cure: "Wait until the other one has ended, or give this run another SCR_PREFIX: any \
             number of simulations share a job's nodes, each in a prefix of its own.",
    }
    CONTROL_SHARED = 1103 {
        title: "Two nodes share their control directory",
        cause: "SCR_CNTL_BASE is on a file system that several nodes see; each node needs a place \
             of its own for its records.",
        done: "The run goes on without checkpoint caching.",
        cure: "Set SCR_CNTL_BASE to storage of each node, such as /dev/shm or /tmp.",
    }
    CACHE_FOREIGN = 1104 {
        title: "The cache belongs to another run",
        cause: "The nodes' cache of this prefix has checkpoints of other patterns, or of another \
             number of ranks, that nobody has saved.",
        done: "The cache is left as it is, and this run goes on without checkpoint caching.",
        cure: "Start the other one again to go on from them (SCR_FLUSH_ON_RESTART=1 copies them \
             to the prefix first), run scr scavenge, or delete them with SCR_CACHE_PURGE=1.",
    }
    START_FAILED = 1105 {
        title: "SCR could not start",
        cause: "Something that SCR needs at the start cannot be had: a directory of its own, \
             memory, a record. The text says what and where.",
        done: "The program runs without checkpoint caching.",
        cure: "Mend what the text names; scr doctor and scr test-runtime look at directories, \
             permissions and room.",
    }
    RESTART_REQUIRED = 1106 {
        title: "The run ends, since what it is to go on from cannot be had",
        cause: "SCR_RESTART_REQUIRED=1, an earlier run has left checkpoints, and the newest \
             cannot be offered.",
        done: "The run ended before it computed. Nothing was deleted.",
        cure: "Find out why (the text says it); scr index list shows what there is. Without \
             SCR_RESTART_REQUIRED the program goes on from what is left.",
    }
    COMMUNICATION = 1107 {
        title: "The ranks could not talk to one another",
        cause: "A call of MPI that SCR makes for itself has failed, mostly since a rank or node \
             is gone.",
        done: "SCR calls MPI no more in this run; files go straight to the parallel file system.",
        cure: "Look for the first error of MPI or of a node in the job's output, and start the \
             run again.",
    }
    MPI_UNKNOWN = 1201 {
        title: "This MPI is not served",
        cause: "The program's MPI has no mark of Open MPI, of MPICH (or one that programs of MPICH \
             run with: Intel, Cray, MVAPICH, ParaStation) or of the standard ABI of MPI 5; or it \
             has, and then did something else than was asked of it at the start. The text says \
             which.",
        done: "The program runs without checkpoint caching.",
        cure: "Run the program with one of these MPIs. If yours is one of them, please report the \
             line.",
    }
    ENGINE_MISSING = 1202 {
        title: "The engine is missing",
        cause: "The shim (libscr_preload.so) looks for libscr.so beside itself, and there is none.",
        done: "The program runs without checkpoint caching.",
        cure: "Install the engine (make install, or the package scr), and keep it beside the shim.",
    }
    ENGINE_UNUSABLE = 1203 {
        title: "The engine cannot be used",
        cause: "The loader refuses it, or it is of another version than the shim.",
        done: "The program runs without checkpoint caching.",
        cure: "Install shim and engine from the same build.",
    }
    PROGRAM_STATIC = 1204 {
        title: "The program is statically linked",
        cause: "LD_PRELOAD, by which SCR comes into a program, has no effect on such a one.",
        done: "The program runs without checkpoint caching.",
        cure: "Link it dynamically, or have it call SCR itself.",
    }
    SHIM_FAULT = 1205 {
        title: "The shim has met a fault of its own",
        cause: "An internal error, or something that the system refuses (a thread, a file).",
        done: "The program goes on, with files straight to the parallel file system.",
        cure: "Please report it, with the line and the output of SCR_DEBUG=1. SCR_ENABLE=0 does \
             without SCR.",
    }
    MPI_FUNCTION_MISSING = 1206 {
        title: "The program called a function that its MPI does not have",
        cause: "The program was built for another version of MPI than the one that is loaded.",
        done: "The call cannot be carried out.",
        cure: "Run it with the MPI that it was built with.",
    }
    NOT_WATCHED = 1207 {
        title: "scr learn cannot watch this run",
        cause: "The place for what is seen cannot be written.",
        done: "The program runs as without SCR; no patterns are proposed.",
        cure: "Let scr learn work in a prefix directory that can be written: the ranks write \
             below its .scr directory.",
    }
    NO_THREAD = 1208 {
        title: "The system gives no thread",
        cause: "The limit of threads or processes (ulimit -u, pids of the cgroup), or memory, is \
             used up.",
        done: "What the thread would have done in the background waits for the next collective \
             call of the program; what is closed right before _exit may be lost.",
        cure: "Raise the limit, or start fewer processes on the node.",
    }
    SESSION_BEGUN = 1209 {
        title: "MPI was begun by MPI_Session_init",
        cause: "SCR begins when the program calls MPI_Init or MPI_Init_thread, where all ranks \
             meet. A session of MPI 4 has no such moment, and no MPI_COMM_WORLD.",
        done: "The program has run without checkpoint caching; this is told at its end, since \
             MPI_Init might still have come.",
        cure: "Have the program call MPI_Init or MPI_Init_thread, too, before it reads or writes \
             checkpoints: sessions are permitted beside it.",
    }
}
