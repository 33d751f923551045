/* Ping-pong between chosen cores, for `slurm-topo machine calibrate`: pingpong PLAN, under MPI.
 *
 * The plan names hosts and CPUs; every rank finds its place by its host and its number there. Several pairs of one
 * test play at the same time. Rank 0 prints `result TEST PAIR SIZE seconds...`, one way, one number a repeat. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

enum { MOST_SIZES = 32, MOST_REPEATS = 64, NAME = 256, SMALL = 1024, BATCH = 10 };

struct pair { int a, b; };
struct test { int pairs; struct pair *pair; };

struct plan {
  int sizes, repeats, tests, places;
  double seconds; /* aim of one repeat */
  long size[MOST_SIZES];
  struct test *test;
};

struct world { int rank, ranks; char *names; int *local; };

static const char *host_of(const struct world *w, int rank) { return w->names + (size_t)rank * NAME; }

static int rank_at(const struct world *w, const char *host, int local)
{
  for (int r = 0; r < w->ranks; r++)
    if (w->local[r] == local && strcmp(host_of(w, r), host) == 0) return r;
  return -1;
}

/* Names are compared up to the first dot: Slurm's node names are short. */
static int join_world(struct world *w)
{
  char name[MPI_MAX_PROCESSOR_NAME + 1] = "", own[NAME] = "";
  int length = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &w->ranks);
  MPI_Get_processor_name(name, &length);
  name[strcspn(name, ".")] = '\0';
  snprintf(own, sizeof own, "%.*s", NAME - 1, name);
  w->names = calloc((size_t)w->ranks, NAME);
  w->local = calloc((size_t)w->ranks, sizeof *w->local);
  if (!w->names || !w->local) return -1;
  MPI_Allgather(own, NAME, MPI_CHAR, w->names, NAME, MPI_CHAR, MPI_COMM_WORLD);
  for (int r = 0; r < w->ranks; r++)
    for (int s = 0; s < r; s++) w->local[r] += strcmp(host_of(w, r), host_of(w, s)) == 0;
  return 0;
}

static int parse_end(FILE *in, const struct world *w, int *rank)
{
  char word[NAME + 32], *colon;
  if (fscanf(in, "%287s", word) != 1 || !(colon = strrchr(word, ':'))) return -1;
  *colon = '\0';
  *rank = rank_at(w, word, atoi(colon + 1));
  if (*rank < 0 && w->rank == 0) fprintf(stderr, "no rank %s on %s\n", colon + 1, word);
  return *rank < 0 ? -1 : 0;
}

static int parse_test(FILE *in, const struct world *w, struct plan *plan)
{
  int pairs = 0;
  struct test *grown = realloc(plan->test, (size_t)(plan->tests + 1) * sizeof *grown), *test;
  if (!grown) return -1;
  plan->test = grown;
  test = &grown[plan->tests];
  memset(test, 0, sizeof *test);
  if (fscanf(in, "%d", &pairs) != 1 || pairs < 1 || pairs > w->ranks) return -1;
  test->pair = calloc((size_t)pairs, sizeof *test->pair);
  if (!test->pair) return -1;
  test->pairs = pairs;
  plan->tests++;
  for (int i = 0; i < pairs; i++)
    if (parse_end(in, w, &test->pair[i].a) || parse_end(in, w, &test->pair[i].b)) return -1;
  return 0;
}

static int parse_sizes(FILE *in, struct plan *plan)
{
  if (fscanf(in, "%d", &plan->sizes) != 1 || plan->sizes < 1 || plan->sizes > MOST_SIZES) return -1;
  for (int i = 0; i < plan->sizes; i++)
    if (fscanf(in, "%ld", &plan->size[i]) != 1 || plan->size[i] < 1) return -1;
  return 0;
}

/* A place that does not exist (a container that hides CPUs) leaves the rank unbound; rank 0 is told. */
static int parse_place(FILE *in, const struct world *w, struct plan *plan, int *unbound)
{
  char host[NAME];
  int local = 0, cpu = 0;
  if (fscanf(in, "%255s %d %d", host, &local, &cpu) != 3) return -1;
  plan->places++;
  if (cpu >= 0 && rank_at(w, host, local) == w->rank) {
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    if (!set) return -1;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    *unbound = sched_setaffinity(0, bytes, set) != 0;
    CPU_FREE(set);
  }
  return 0;
}

static int read_plan(const char *path, const struct world *w, struct plan *plan, int *unbound)
{
  int rv = -1, ended = 0;
  char word[64];
  FILE *in = fopen(path, "r");
  if (!in) return -1;
  if (fscanf(in, "%63s", word) != 1 || strcmp(word, "slurm-topo-pingpong-1")) goto out;
  while (!ended && fscanf(in, "%63s", word) == 1) {
    int bad = 0;
    if (!strcmp(word, "sizes")) bad = parse_sizes(in, plan);
    else if (!strcmp(word, "repeats")) bad = fscanf(in, "%d", &plan->repeats) != 1;
    else if (!strcmp(word, "seconds")) bad = fscanf(in, "%lf", &plan->seconds) != 1;
    else if (!strcmp(word, "place")) bad = parse_place(in, w, plan, unbound);
    else if (!strcmp(word, "test")) bad = parse_test(in, w, plan);
    else if (!strcmp(word, "end")) ended = 1;
    else bad = 1;
    if (bad) goto out;
  }
  if (ended && plan->repeats > 0 && plan->repeats <= MOST_REPEATS) rv = 0;
out:
  fclose(in);
  return rv;
}

/* All ranks meet; those that do not play sleep meanwhile, so that they take no core from those that do. */
static void meet(int playing)
{
  const struct timespec pause = {0, 200000};
  MPI_Request request;
  int done = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  if (playing) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return;
  }
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) nanosleep(&pause, NULL);
}

/* Seconds that `rounds` there-and-backs take. */
static double play(int peer, int first, long size, long rounds, char *buffer)
{
  double start = MPI_Wtime();
  for (long i = 0; i < rounds; i++) {
    if (first) {
      MPI_Send(buffer, (int)size, MPI_CHAR, peer, 7, MPI_COMM_WORLD);
      MPI_Recv(buffer, (int)size, MPI_CHAR, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(buffer, (int)size, MPI_CHAR, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(buffer, (int)size, MPI_CHAR, peer, 7, MPI_COMM_WORLD);
    }
  }
  return MPI_Wtime() - start;
}

/* One way, seconds: the mean of all rounds; of small messages the best of short runs, because a rank that the kernel
 * takes its core from for a moment would hide the latency. */
static double one_way(int peer, int first, long size, long rounds, char *buffer)
{
  double best = 0;
  if (size > SMALL) return play(peer, first, size, rounds, buffer) / (2.0 * (double)rounds);
  for (long done = 0; done < rounds; done += BATCH) {
    double seconds = play(peer, first, size, BATCH, buffer) / (2.0 * BATCH);
    if (done == 0 || seconds < best) best = seconds;
  }
  return best;
}

/* The pairs of a test play together for one size; `own` gets the repeats of the pair that this rank begins. */
static void measure(const struct world *w, const struct plan *plan, const struct test *test, long size,
                    char *buffer, double *own)
{
  int peer = -1, first = 0;
  for (int i = 0; i < test->pairs; i++) {
    if (test->pair[i].a == w->rank) { peer = test->pair[i].b; first = 1; }
    if (test->pair[i].b == w->rank) peer = test->pair[i].a;
  }
  double once = 0, slowest = 0;
  meet(peer >= 0);
  if (peer >= 0) { play(peer, first, size, 2, buffer); once = play(peer, first, size, 2, buffer) / 2; }
  meet(peer >= 0);
  MPI_Allreduce(&once, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  long rounds = slowest > 0 ? (long)(plan->seconds / slowest) : 1;
  if (rounds < (size > SMALL ? 1 : 300)) rounds = size > SMALL ? 1 : 300;
  if (rounds > 2000) rounds = 2000;
  for (int k = 0; k < plan->repeats; k++) {
    meet(peer >= 0);
    if (peer >= 0) own[k] = one_way(peer, first, size, rounds, buffer);
  }
  meet(peer >= 0);
}

static void print_test(const struct plan *plan, int number, long size, const double *all)
{
  const struct test *test = &plan->test[number];
  for (int i = 0; i < test->pairs; i++) {
    printf("result %d %d %ld", number, i, size);
    for (int k = 0; k < plan->repeats; k++) printf(" %.9e", all[(size_t)test->pair[i].a * MOST_REPEATS + (size_t)k]);
    printf("\n");
  }
  fflush(stdout);
}

int main(int argc, char **argv)
{
  struct world w = {0};
  struct plan plan = {.repeats = 5, .seconds = 0.02};
  int bad, any_bad = 0, unbound = 0, all_unbound = 0;
  long largest = 1;
  double own[MOST_REPEATS] = {0}, *all = NULL;
  char *buffer = NULL;

  MPI_Init(&argc, &argv);
  bad = argc != 2 || join_world(&w) || read_plan(argv[1], &w, &plan, &unbound);
  for (int i = 0; i < plan.sizes; i++) largest = plan.size[i] > largest ? plan.size[i] : largest;
  buffer = calloc(1, (size_t)largest);
  all = calloc((size_t)(w.ranks > 0 ? w.ranks : 1) * MOST_REPEATS, sizeof *all);
  bad = bad || !buffer || !all;
  MPI_Allreduce(&bad, &any_bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Reduce(&unbound, &all_unbound, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (!any_bad) {
    if (w.rank == 0) printf("unbound %d\n", all_unbound);
    for (int t = 0; t < plan.tests; t++)
      for (int s = 0; s < plan.sizes; s++) {
        memset(own, 0, sizeof own);
        measure(&w, &plan, &plan.test[t], plan.size[s], buffer, own);
        MPI_Gather(own, MOST_REPEATS, MPI_DOUBLE, all, MOST_REPEATS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (w.rank == 0) print_test(&plan, t, plan.size[s], all);
      }
    if (w.rank == 0) printf("end %d\n", plan.tests);
  } else if (w.rank == 0) {
    fprintf(stderr, "the plan cannot be read, or its hosts are not those of the ranks\n");
  }
  for (int t = 0; t < plan.tests; t++) free(plan.test[t].pair);
  free(plan.test);
  free(w.names);
  free(w.local);
  free(buffer);
  free(all);
  MPI_Finalize();
  return any_bad ? 2 : 0;
}
