// The same as fixed.f in C++.
#include <cstring>
#include <fstream>
#include <iostream>
#include <mpi.h>
#include <scr.h>
#include <sstream>
#include <string>

static int rank;

template <class Answer> static void say(const std::string &what, Answer answer) {
  std::ostringstream line; // written at once: lines of ranks stay apart
  line << rank << " " << what << " " << answer << "\n";
  std::cout << line.str() << std::flush;
}

static void write_dataset(const std::string &name, int flags, bool valid) {
  char file[SCR_MAX_FILENAME];
  SCR_Start_output(name.c_str(), flags);
  SCR_Route_file(("data/" + name + "/rank_" + std::to_string(rank)).c_str(), file);
  std::ofstream(file) << name << " of " << rank << "\n";
  say(name, SCR_Complete_output(valid));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  say("init", SCR_Init());
  int flag = 0;
  char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
  SCR_Have_restart(&flag, name);
  if (flag) {
    say("have", name);
    SCR_Start_restart(name);
    say("reads", name);
    SCR_Route_file(("rank_" + std::to_string(rank)).c_str(), file);
    std::string line;
    std::getline(std::ifstream(file), line);
    say("found", line);
    say("restart", SCR_Complete_restart(1));
  } else {
    say("have", "none");
    write_dataset("one", SCR_FLAG_CHECKPOINT, true);
    write_dataset("plot", SCR_FLAG_OUTPUT, true);
    write_dataset("two", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT, rank != 1);
  }
  say("end", SCR_Finalize());
  MPI_Finalize();
}
