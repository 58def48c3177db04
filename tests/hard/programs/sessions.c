/* A program that begins MPI by a session: MPI 4. Writes a checkpoint. It never calls MPI_Init, or
 * does while a library has its session (usage: sessions library). */
#include "sim.h"

#if MPI_VERSION >= 4
static int library(int *argc, char ***argv, MPI_Session *session, MPI_Group *group) {
  static sim_t sim;
  int size = 0;
  MPI_Group_size(*group, &size);
  MPI_Group_free(group);
  MPI_Init(argc, argv);
  sim_init(&sim);
  for (int s = 0; s < 5; s++) sim_step(&sim, MPI_COMM_WORLD);
  sim_checkpoint(&sim);
  MPI_Barrier(MPI_COMM_WORLD);
  sim_finish(&sim, MPI_COMM_WORLD);
  MPI_Session_finalize(session); /* MPICH 4.0 fails in an MPI_Init that comes after it */
  MPI_Finalize();
  return size != sim.size;
}
#endif

int main(int argc, char **argv) {
#if MPI_VERSION >= 4
  static sim_t sim;
  MPI_Session session;
  MPI_Group group;
  MPI_Comm world;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return 1;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  if (argc > 1) return library(&argc, &argv, &session, &group);
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
#else
  (void)argc, (void)argv;
#endif
  return 0;
}
