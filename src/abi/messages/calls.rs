//! Programs that call SCR.

use super::message::{Id, Message, messages};

messages! {
    CALL_NOT_NOW = 6001 {
        title: "A call of SCR comes at the wrong time",
        cause: "The calls have an order (SCR_Init, SCR_Start_output, SCR_Route_file, \
             SCR_Complete_output, SCR_Finalize), and this one does not fit where the program \
             stands.",
        done: "The call returns an error and does nothing.",
        cure: "Correct the order in the program; the text says what is expected.",
    }
    CALL_FAILED = 6002 {
        title: "A call of SCR has failed",
        cause: "What it asks for cannot be done: a wrong argument, a file that is not there, \
             storage that refuses. The text says which.",
        done: "The call returns an error on all ranks.",
        cure: "Mend the cause; SCR_Last_error has the same text.",
    }
    CALL_FAULT = 6003 {
        title: "A call of SCR has met an internal error",
        cause: "A fault of SCR; the lines above have more.",
        done: "The call returns an error, and files go straight to the parallel file system from \
             now on.",
        cure: "Please report it, with all lines that begin with SCR.",
    }
    CONFIG_TOO_LATE = 6004 {
        title: "SCR_Config comes too late",
        cause: "Under the shim the settings are read in MPI_Init, before the program calls \
             SCR_Config.",
        done: "The setting is ignored.",
        cure: "Put it in the config file or the environment, or run the program without the shim.",
    }
    REFUSED_BEFORE = 6005 {
        title: "A checkpoint that the program has refused is not offered again",
        cause: "In an earlier run the program has said, by SCR_Complete_restart, that it could not \
             restart from it.",
        done: "It stays in the cache until a newer one is complete, and is not offered.",
        cure: "Nothing, if it was of no use; SCR_CURRENT with its name begins with it again.",
    }
}
