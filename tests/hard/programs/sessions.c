/* A program that begins MPI by a session, and never calls MPI_Init: MPI 4. Writes a checkpoint. */
#include "sim.h"

int main(void) {
#if MPI_VERSION >= 4
  static sim_t sim;
  MPI_Session session;
  MPI_Group group;
  MPI_Comm world;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return 1;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_RETURN, &world);
  MPI_Comm_rank(world, &sim.rank);
  MPI_Comm_size(world, &sim.size);
  for (int s = 0; s < 5; s++) sim_step(&sim, world);
  sim_checkpoint(&sim);
  MPI_Barrier(world);
  sim_finish(&sim, world);
  MPI_Group_free(&group);
  MPI_Comm_free(&world);
  MPI_Session_finalize(&session);
#endif
  return 0;
}
