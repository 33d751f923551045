/*
 * Distances that are no tree: a byte between two cores costs what a matrix says of the rows that they belong to (each
 * core its own, or each node one), and within one row what the levels say. The quadratic assignment is annealed with
 * swaps whose change takes as many steps as the two vertices have neighbours.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

enum { STEPS = 64, SAMPLES = 256 };

struct st_distance {
	int32_t cores;
	int32_t levels;
	int32_t matrix_rows;
	int32_t *row_of;  /* core -> row of the matrix */
	double *matrix;   /* seconds a byte */
	int32_t *groups;  /* [level][core] */
	double per_byte[ST_MAX_LEVELS];
	double per_message[ST_MAX_LEVELS];
	bool counts_messages;
	st_rows rows;
};

typedef struct {
	const st_distance *distance;
	const uint8_t *fixed;
	st_random random;
	int32_t *core_of;   /* vertex -> core */
	int32_t *vertex_at; /* core -> vertex */
	int32_t *active;    /* vertices that may move and have neighbours */
	int32_t active_count;
} st_assignment;

st_distance *st_distance_new(int32_t cores, int32_t matrix_rows, const int32_t *row_of, const double *matrix,
			     int32_t levels, const int32_t *groups, const double *per_byte, const double *per_message,
			     int64_t pairs, const int32_t *source, const int32_t *target, const double *nbytes,
			     const double *messages)
{
	st_distance *distance = levels <= ST_MAX_LEVELS ? calloc(1, sizeof(*distance)) : NULL;
	size_t entries = (size_t)matrix_rows * (size_t)matrix_rows, all = (size_t)levels * (size_t)cores;

	if (!distance)
		return NULL;
	distance->cores = cores;
	distance->levels = levels;
	distance->matrix_rows = matrix_rows;
	distance->row_of = malloc((size_t)cores * sizeof(*row_of));
	distance->matrix = malloc(entries * sizeof(*matrix));
	distance->groups = malloc(all * sizeof(*groups));
	if (!distance->row_of || !distance->matrix || !distance->groups ||
	    st_rows_build(&distance->rows, cores, pairs, source, target, nbytes, messages)) {
		st_distance_free(distance);
		return NULL;
	}
	memcpy(distance->row_of, row_of, (size_t)cores * sizeof(*row_of));
	memcpy(distance->matrix, matrix, entries * sizeof(*matrix));
	memcpy(distance->groups, groups, all * sizeof(*groups));
	memcpy(distance->per_byte, per_byte, (size_t)levels * sizeof(*per_byte));
	memcpy(distance->per_message, per_message, (size_t)levels * sizeof(*per_message));
	for (int32_t l = 0; l < levels; l++)
		distance->counts_messages |= per_message[l] > 0;
	return distance;
}

void st_distance_free(st_distance *distance)
{
	if (!distance)
		return;
	free(distance->row_of);
	free(distance->matrix);
	free(distance->groups);
	st_rows_free(&distance->rows);
	free(distance);
}

double st_distance_degree(const st_distance *distance)
{
	return st_rows_degree(&distance->rows);
}

/* Cost of entry i of a row between two cores, both directions together. */
static inline double edge_cost(const st_distance *distance, int64_t i, int32_t a, int32_t b)
{
	const st_rows *rows = &distance->rows;
	int32_t one = distance->row_of[a], two = distance->row_of[b], l = 0;
	double nbytes = rows->out[i] + rows->in[i];

	if (one != two && !distance->counts_messages)
		return nbytes * distance->matrix[(size_t)one * (size_t)distance->matrix_rows + (size_t)two];
	while (l + 1 < distance->levels && distance->groups[(size_t)l * (size_t)distance->cores + (size_t)a] !=
						   distance->groups[(size_t)l * (size_t)distance->cores + (size_t)b])
		l++;
	double per_byte = one == two ? distance->per_byte[l]
				     : distance->matrix[(size_t)one * (size_t)distance->matrix_rows + (size_t)two];
	return nbytes * per_byte + rows->messages[i] * distance->per_message[l];
}

double st_distance_cost(const st_distance *distance, const int32_t *core_of)
{
	const st_rows *rows = &distance->rows;
	double cost = 0;

	for (int32_t v = 0; v < distance->cores; v++)
		for (int64_t i = rows->row[v]; i < rows->row[v + 1]; i++)
			cost += edge_cost(distance, i, core_of[v], core_of[rows->to[i]]);
	return cost / 2;
}

/* What it changes when u moves from its core to another one; the edge to `other`, which changes its end too, stays. */
static double move_change(const st_assignment *assignment, int32_t u, int32_t to, int32_t other)
{
	const st_distance *distance = assignment->distance;
	const st_rows *rows = &distance->rows;
	int32_t from = assignment->core_of[u];
	double change = 0;

	for (int64_t i = rows->row[u]; i < rows->row[u + 1]; i++) {
		if (rows->to[i] == other)
			continue;
		int32_t there = assignment->core_of[rows->to[i]];
		change += edge_cost(distance, i, to, there) - edge_cost(distance, i, from, there);
	}
	return change;
}

static double swap_change(const st_assignment *assignment, int32_t u, int32_t w)
{
	return move_change(assignment, u, assignment->core_of[w], w) +
	       move_change(assignment, w, assignment->core_of[u], u);
}

static void swap(st_assignment *assignment, int32_t u, int32_t w)
{
	int32_t a = assignment->core_of[u], b = assignment->core_of[w];

	assignment->core_of[u] = b;
	assignment->core_of[w] = a;
	assignment->vertex_at[b] = u;
	assignment->vertex_at[a] = w;
}

static bool propose(st_assignment *assignment, int32_t *u, int32_t *w)
{
	*u = assignment->active[st_below(&assignment->random, (uint32_t)assignment->active_count)];
	*w = assignment->vertex_at[st_below(&assignment->random, (uint32_t)assignment->distance->cores)];
	return *u != *w && !(assignment->fixed && assignment->fixed[*w]);
}

static double typical(st_assignment *assignment)
{
	double sum = 0;
	int32_t u, w, count = 0;

	for (int k = 0; k < SAMPLES; k++)
		if (propose(assignment, &u, &w)) {
			sum += fabs(swap_change(assignment, u, w));
			count++;
		}
	return count ? sum / count : 0;
}

/* Every pair of vertices, again and again, until no swap helps or the moves are spent. */
static void descend(st_assignment *assignment, int64_t moves, double least, const st_control *control)
{
	bool better = true;

	while (better && moves > 0) {
		better = false;
		for (int32_t k = 0; k < assignment->active_count && moves > 0; k++) {
			int32_t u = assignment->active[k];
			if (st_expired(control))
				return;
			for (int32_t w = 0; w < assignment->distance->cores; w++, moves--) {
				if (u == w || (assignment->fixed && assignment->fixed[w]) ||
				    !(swap_change(assignment, u, w) < -least))
					continue;
				swap(assignment, u, w);
				better = true;
			}
		}
	}
}

int64_t st_distance_anneal(const st_distance *distance, const uint8_t *fixed, const st_schedule *schedule,
			   const st_control *control, int32_t *core_of)
{
	size_t n = (size_t)distance->cores;
	st_assignment assignment = {.distance = distance, .fixed = fixed, .random = {schedule->seed}};
	int64_t swaps = -1;
	double first = st_distance_cost(distance, core_of);
	int32_t u, w;

	assignment.core_of = malloc(n * sizeof(int32_t));
	assignment.vertex_at = malloc(n * sizeof(int32_t));
	assignment.active = malloc(n * sizeof(int32_t));
	if (!assignment.core_of || !assignment.vertex_at || !assignment.active)
		goto out;
	for (int32_t v = 0; v < distance->cores; v++) {
		assignment.core_of[v] = core_of[v];
		assignment.vertex_at[core_of[v]] = v;
		if (distance->rows.row[v] < distance->rows.row[v + 1] && !(fixed && fixed[v]))
			assignment.active[assignment.active_count++] = v;
	}
	swaps = 0;
	if (!assignment.active_count)
		goto out;
	double heat = schedule->hot * typical(&assignment);
	for (int step = 0; step < STEPS && heat > 0 && !st_expired(control); step++) {
		double limit = heat * pow(schedule->fall, -(double)step / STEPS);
		for (int64_t k = 0; k < schedule->moves / STEPS; k++) {
			if ((k & 1023) == 1023 && st_expired(control))
				break;
			double draw = (double)(st_next(&assignment.random) >> 11) * 0x1p-53;
			if (!propose(&assignment, &u, &w) ||
			    !(swap_change(&assignment, u, w) < -limit * log(draw + 1e-300)))
				continue;
			swap(&assignment, u, w);
			swaps++;
		}
	}
	descend(&assignment, schedule->moves + (int64_t)n * (int64_t)n, 1e-12 * first, control);
	if (st_distance_cost(distance, assignment.core_of) < first)
		memcpy(core_of, assignment.core_of, n * sizeof(int32_t));
out:
	free(assignment.core_of);
	free(assignment.vertex_at);
	free(assignment.active);
	return swaps;
}
