// Heat on a ring; checkpoints by C++ streams: state/<step>/part.<rank>. Rank 0 rewrites the pointer
// file state/latest after a barrier and removes all but the last two checkpoints. The restart
// believes the pointer.
#include <filesystem>
#include <fstream>
#include <string>

#include "heat.h"

namespace fs = std::filesystem;

static std::string part(int step, int rank) {
  return "state/" + std::to_string(step) + "/part." + std::to_string(rank);
}

static void write_checkpoint(heat_t &heat) {
  fs::create_directories("state/" + std::to_string(heat.step));
  {
    std::ofstream file(part(heat.step, heat.rank), std::ios::binary);
    auto half = reinterpret_cast<const char *>(heat.cells);
    file.write(half, sizeof heat.cells / 2);
    heat_pause(&heat, "write", heat.step);
    file.write(half + sizeof heat.cells / 2, sizeof heat.cells / 2);
    if (!file.flush()) heat_fail("cannot write", part(heat.step, heat.rank).c_str());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (heat.rank == 0) {
    {
      std::ofstream pointer("state/latest.new");
      pointer << heat.step << "\n";
      if (!pointer.flush()) heat_fail("cannot write", "state/latest.new");
    }
    fs::rename("state/latest.new", "state/latest");
    int old = heat.step - 2 * heat.every;
    if (old > 0) fs::remove_all("state/" + std::to_string(old));
  }
}

static void restart(heat_t &heat) {
  int step = heat.from;
  if (heat.rank == 0 && step < 0) {
    std::ifstream pointer("state/latest");
    if (!(pointer >> step)) step = 0;
  }
  MPI_Bcast(&step, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (step <= 0) return;
  std::ifstream file(part(step, heat.rank), std::ios::binary);
  if (!file.read(reinterpret_cast<char *>(heat.cells), sizeof heat.cells))
    heat_fail("cannot read", part(step, heat.rank).c_str());
  heat.step = step;
}

int main(int argc, char **argv) {
  static heat_t heat;
  MPI_Init(&argc, &argv);
  heat_start(&heat, argc, argv);
  restart(heat);
  heat_tell_restart(&heat);
  while (heat.step < heat.steps) {
    heat_step(&heat);
    if (heat.step % heat.every == 0) write_checkpoint(heat);
    heat_pause(&heat, "step", heat.step);
  }
  heat_finish(&heat);
  MPI_Finalize();
  return 0;
}
