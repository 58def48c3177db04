/* Heat on a ring; checkpoints by calls of SCR: a file a rank, called by SCR's own path while it is
 * written and read. Restart: whatever SCR has, the newest first, until one can be read. */
#include "heat.h"
#include <scr.h>

static void write_checkpoint(heat_t *heat) {
  char name[64], path[256], file[SCR_MAX_FILENAME];
  int valid = 0;
  snprintf(name, sizeof name, "step_%d", heat->step);
  SCR_Start_output(name, SCR_FLAG_CHECKPOINT);
  snprintf(path, sizeof path, "ckpt/step_%d/rank_%d.dat", heat->step, heat->rank);
  if (SCR_Route_file(path, file) == SCR_SUCCESS) {
    FILE *out = fopen(file, "w");
    if (out) {
      valid = fwrite(&heat->step, sizeof heat->step, 1, out) == 1
           && fwrite(heat->cells, sizeof heat->cells, 1, out) == 1;
      heat_pause(heat, "write", heat->step);
      valid = fclose(out) == 0 && valid;
    }
  }
  SCR_Complete_output(valid);
}

static int read_part(heat_t *heat, int step) {
  static double cells[HEAT_CELLS];
  char path[256], file[SCR_MAX_FILENAME];
  int found = 0;
  snprintf(path, sizeof path, "rank_%d.dat", heat->rank);
  if (SCR_Route_file(path, file) != SCR_SUCCESS) return 0;
  FILE *in = fopen(file, "r");
  if (!in) return 0;
  int ok = fread(&found, sizeof found, 1, in) == 1 && found == step
      && fread(cells, sizeof cells, 1, in) == 1;
  fclose(in);
  if (ok) { memcpy(heat->cells, cells, sizeof cells); heat->step = step; }
  return ok;
}

static void restart(heat_t *heat) {
  char name[SCR_MAX_FILENAME];
  int have = 0, step = 0;
  while (SCR_Have_restart(&have, name) == SCR_SUCCESS && have) {
    heat_t *before = malloc(sizeof *before);
    *before = *heat;
    SCR_Start_restart(name);
    int valid = sscanf(name, "step_%d", &step) == 1 && read_part(heat, step);
    int all = SCR_Complete_restart(valid) == SCR_SUCCESS;
    if (!all) *heat = *before; /* some rank could not read it: the next older one */
    free(before);
    if (all) return;
  }
}

int main(int argc, char **argv) {
  static heat_t heat;
  int stop = 0;
  MPI_Init(&argc, &argv);
  heat_start(&heat, argc, argv);
  SCR_Init();
  restart(&heat);
  heat_tell_restart(&heat);
  while (heat.step < heat.steps && !stop) {
    heat_step(&heat);
    if (heat.step % heat.every == 0) {
      write_checkpoint(&heat);
      SCR_Should_exit(&stop);
    }
    heat_pause(&heat, "step", heat.step);
  }
  SCR_Finalize();
  heat_finish(&heat);
  MPI_Finalize();
  return 0;
}
