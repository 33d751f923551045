/*
 * Loads of links. Every group of cores below the root hangs on a full-duplex link to the level above it; a message
 * goes up all links from its source to the level where the two cores meet, and down to its target. The sum alone does
 * not see that one link carries it all: here swaps are annealed on
 *
 *     share_of_sum * cost + share_of_most * (seconds of the most loaded direction of a link).
 *
 * The maximum is smoothed for the acceptance of swaps (the 8-norm of all seconds), so that relief of a link counts
 * before it is the last one; what is kept is judged with the maximum itself.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

enum { STEPS = 64, SAMPLES = 256, POWER_ROOTS = 3 };

/* Apart by so much less than the digits of a double that what is left after a large load has gone is exact. */
static const double FAR_BELOW = 1e-4, FAR_ABOVE = 1e4;
static const double ALL_BUT_NOTHING = 1e-30;

struct st_load {
	int32_t slots;
	int32_t levels;
	int32_t links;
	int32_t *link_of;       /* [level][slot], levels - 1 of them: the link above the group of that slot */
	int32_t *first;         /* link -> first slot below it, and one more than the last */
	int32_t *last;
	double *seconds;        /* link -> seconds a byte */
	double per_byte[ST_MAX_LEVELS];
	double per_message[ST_MAX_LEVELS];
	st_rows rows;
};

typedef struct {
	const st_load *load;
	const uint8_t *fixed;
	st_random random;
	int32_t *slot_of;   /* vertex -> slot */
	int32_t *vertex_at; /* slot -> vertex */
	double *up;         /* link -> bytes */
	double *down;
	double *up_change;
	double *down_change;
	int32_t *touched;
	uint8_t *is_touched;
	int32_t touches;
	int32_t *active; /* vertices that may move and have neighbours */
	int32_t active_count;
	int32_t worst; /* the most loaded link when the loads were last measured */
	double cost;
	double norm; /* sum over links and directions of (seconds / scale)^8 */
	double scale;
	double unloaded; /* the scale where no link carries anything */
	double share_of_sum;
	double share_of_most;
	double drift; /* the largest error of cost and maximum before they were measured again, as a share */
} st_relief;

static inline const int32_t *links_at(const st_load *load, int32_t level)
{
	return load->link_of + (size_t)level * (size_t)load->slots;
}

static int find_slots(st_load *load)
{
	load->first = malloc(((size_t)load->links + 1) * sizeof(*load->first));
	load->last = calloc((size_t)load->links + 1, sizeof(*load->last));
	if (!load->first || !load->last)
		return -1;
	memset(load->first, 0xff, ((size_t)load->links + 1) * sizeof(*load->first));
	for (int32_t l = 0; l + 1 < load->levels; l++)
		for (int32_t s = 0; s < load->slots; s++) {
			int32_t link = links_at(load, l)[s];
			if (load->first[link] < 0)
				load->first[link] = s;
			load->last[link] = s + 1;
		}
	return 0;
}

st_load *st_load_new(int32_t slots, int32_t levels, int32_t links, const int32_t *link_of, const double *seconds,
		     const double *per_byte, const double *per_message, int64_t pairs, const int32_t *source,
		     const int32_t *target, const double *nbytes, const double *messages)
{
	st_load *load = levels <= ST_MAX_LEVELS ? calloc(1, sizeof(*load)) : NULL;
	size_t ups = (size_t)(levels - 1) * (size_t)slots;

	if (!load)
		return NULL;
	load->slots = slots;
	load->levels = levels;
	load->links = links;
	load->link_of = malloc((ups + 1) * sizeof(*load->link_of));
	load->seconds = malloc(((size_t)links + 1) * sizeof(*load->seconds));
	if (!load->link_of || !load->seconds)
		goto failed;
	memcpy(load->link_of, link_of, ups * sizeof(*link_of));
	memcpy(load->seconds, seconds, (size_t)links * sizeof(*seconds));
	memcpy(load->per_byte, per_byte, (size_t)levels * sizeof(*per_byte));
	memcpy(load->per_message, per_message, (size_t)levels * sizeof(*per_message));
	if (find_slots(load) || st_rows_build(&load->rows, slots, pairs, source, target, nbytes, messages))
		goto failed;
	return load;
failed:
	st_load_free(load);
	return NULL;
}

void st_load_free(st_load *load)
{
	if (!load)
		return;
	free(load->link_of);
	free(load->first);
	free(load->last);
	free(load->seconds);
	st_rows_free(&load->rows);
	free(load);
}

double st_load_degree(const st_load *load)
{
	return st_rows_degree(&load->rows);
}

/* First level at which two slots are in one group. */
static inline int32_t meeting(const st_load *load, int32_t s, int32_t t)
{
	int32_t l = 0;

	while (l + 1 < load->levels && links_at(load, l)[s] != links_at(load, l)[t])
		l++;
	return l;
}

static inline double eighth(double x)
{
	double square = x * x, fourth = square * square;

	return fourth * fourth;
}

static inline double norm_of(const st_relief *relief, int32_t link, double up, double down)
{
	double seconds = relief->load->seconds[link] / relief->scale;

	/* Sums that were 0 may have become a little less. */
	up = up > 0 ? up * seconds : 0;
	down = down > 0 ? down * seconds : 0;
	return eighth(up) + eighth(down);
}

static double most(const st_relief *relief, int32_t *where)
{
	double found = 0;

	*where = 0;
	for (int32_t link = 0; link < relief->load->links; link++) {
		double bytes = fmax(relief->up[link], relief->down[link]), seconds = bytes * relief->load->seconds[link];
		if (seconds > found) {
			found = seconds;
			*where = link;
		}
	}
	return found;
}

/* Loads, cost and norm from scratch. */
static void measure(st_relief *relief)
{
	const st_load *load = relief->load;

	memset(relief->up, 0, (size_t)load->links * sizeof(double));
	memset(relief->down, 0, (size_t)load->links * sizeof(double));
	relief->cost = 0;
	for (int32_t v = 0; v < load->slots; v++) {
		int32_t s = relief->slot_of[v];
		for (int64_t i = load->rows.row[v]; i < load->rows.row[v + 1]; i++) {
			int32_t t = relief->slot_of[load->rows.to[i]], level = meeting(load, s, t);
			/* Each pair stands in two rows: what goes out here comes in there. */
			for (int32_t l = 0; l < level; l++) {
				relief->up[links_at(load, l)[s]] += load->rows.out[i];
				relief->down[links_at(load, l)[t]] += load->rows.out[i];
			}
			relief->cost += load->rows.out[i] * load->per_byte[level] +
					0.5 * load->rows.messages[i] * load->per_message[level];
		}
	}
	double found = most(relief, &relief->worst);
	/* Not below what could ever matter beside the heaviest load: its inverse has to be a number. */
	found = fmax(found, ALL_BUT_NOTHING * relief->unloaded);
	relief->scale = found > 0 ? found : 1;
	relief->norm = 0;
	for (int32_t link = 0; link < load->links; link++)
		relief->norm += norm_of(relief, link, relief->up[link], relief->down[link]);
}

/* The smoothed maximum, seconds. */
static inline double smooth(const st_relief *relief, double norm)
{
	for (int root = 0; root < POWER_ROOTS; root++)
		norm = sqrt(norm > 0 ? norm : 0);
	return relief->scale * norm;
}

static inline double value_of(const st_relief *relief, double cost, double norm)
{
	return relief->share_of_sum * cost + relief->share_of_most * smooth(relief, norm);
}

static inline void touch(st_relief *relief, int32_t link, double up, double down)
{
	if (!relief->is_touched[link]) {
		relief->is_touched[link] = 1;
		relief->touched[relief->touches++] = link;
	}
	relief->up_change[link] += up;
	relief->down_change[link] += down;
}

/* u goes from slot s to t; the edge to `other`, which goes the other way, is left to the caller. */
static double shift(st_relief *relief, int32_t u, int32_t s, int32_t t, int32_t other, int64_t *edge)
{
	const st_load *load = relief->load;
	int32_t apart = meeting(load, s, t);
	double change = 0;

	for (int64_t i = load->rows.row[u]; i < load->rows.row[u + 1]; i++) {
		if (load->rows.to[i] == other) {
			*edge = i;
			continue;
		}
		int32_t p = relief->slot_of[load->rows.to[i]], before = apart, after = apart;
		double out = load->rows.out[i], in = load->rows.in[i];
		for (int32_t l = apart - 1; l >= 0; l--) {
			const int32_t *links = links_at(load, l);
			int32_t here = links[s], there = links[t], far = links[p];
			if (here == far)
				before = l;
			else
				touch(relief, here, -out, -in);
			if (there == far)
				after = l;
			else
				touch(relief, there, out, in);
			/* The other end's own link is crossed before but not after, or the other way round. */
			if (here == far)
				touch(relief, far, in, out);
			else if (there == far)
				touch(relief, far, -in, -out);
		}
		/* At `apart` and above the two places are one: nothing changes unless one of them meets below it. */
		if (before != after) {
			change += (out + in) * (load->per_byte[after] - load->per_byte[before]) +
				  load->rows.messages[i] * (load->per_message[after] - load->per_message[before]);
		}
	}
	return change;
}

/* The edge between two vertices that change places: its ends do. */
static void turn(st_relief *relief, int64_t edge, int32_t s, int32_t t)
{
	const st_load *load = relief->load;
	int32_t apart = meeting(load, s, t);
	double more = load->rows.in[edge] - load->rows.out[edge];

	for (int32_t l = 0; l < apart; l++) {
		touch(relief, links_at(load, l)[s], more, -more);
		touch(relief, links_at(load, l)[t], -more, more);
	}
}

/* What a swap changes in the value; the changes of the loads stay noted until accept() or forget(). */
static double try_swap(st_relief *relief, int32_t u, int32_t w, double *cost, double *norm)
{
	int32_t s = relief->slot_of[u], t = relief->slot_of[w];
	int64_t edge = -1;

	*cost = relief->cost + shift(relief, u, s, t, w, &edge);
	*cost += shift(relief, w, t, s, u, &edge);
	if (edge >= 0) {
		/* The row that was read last is that of w: seen from there it is at t. */
		turn(relief, edge, t, s);
	}
	*norm = relief->norm;
	for (int32_t k = 0; k < relief->touches; k++) {
		int32_t link = relief->touched[k];
		*norm += norm_of(relief, link, relief->up[link] + relief->up_change[link],
				 relief->down[link] + relief->down_change[link]) -
			 norm_of(relief, link, relief->up[link], relief->down[link]);
	}
	return value_of(relief, *cost, *norm) - value_of(relief, relief->cost, relief->norm);
}

static void forget(st_relief *relief)
{
	for (int32_t k = 0; k < relief->touches; k++) {
		int32_t link = relief->touched[k];
		relief->up_change[link] = relief->down_change[link] = 0;
		relief->is_touched[link] = 0;
	}
	relief->touches = 0;
}

static void accept(st_relief *relief, int32_t u, int32_t w, double cost, double norm)
{
	int32_t s = relief->slot_of[u], t = relief->slot_of[w];

	for (int32_t k = 0; k < relief->touches; k++) {
		int32_t link = relief->touched[k];
		relief->up[link] += relief->up_change[link];
		relief->down[link] += relief->down_change[link];
	}
	forget(relief);
	relief->cost = cost;
	relief->norm = norm;
	relief->slot_of[u] = t;
	relief->slot_of[w] = s;
	relief->vertex_at[t] = u;
	relief->vertex_at[s] = w;
}

/* Two vertices to change places: one below the most loaded link with one beyond it, near a neighbour, or any. */
static bool propose(st_relief *relief, int32_t *u, int32_t *w)
{
	const st_load *load = relief->load;
	st_random *random = &relief->random;
	uint32_t kind = st_below(random, 8);

	if (kind < 3 && load->links) {
		int32_t first = load->first[relief->worst], last = load->last[relief->worst];
		*u = relief->vertex_at[first + (int32_t)st_below(random, (uint32_t)(last - first))];
		*w = relief->vertex_at[st_below(random, (uint32_t)load->slots)];
	} else {
		*u = relief->active[st_below(random, (uint32_t)relief->active_count)];
		*w = relief->vertex_at[st_below(random, (uint32_t)load->slots)];
		if (kind < 7 && load->levels > 1) {
			uint32_t degree = (uint32_t)(load->rows.row[*u + 1] - load->rows.row[*u]);
			int32_t v = load->rows.to[load->rows.row[*u] + st_below(random, degree)];
			int32_t link = links_at(load, (int32_t)st_below(random, (uint32_t)load->levels -
										  1))[relief->slot_of[v]];
			int32_t size = load->last[link] - load->first[link];
			*w = relief->vertex_at[load->first[link] + (int32_t)st_below(random, (uint32_t)size)];
		}
	}
	if (relief->fixed && (relief->fixed[*u] || relief->fixed[*w]))
		return false;
	/* Two free cores, or two places in one innermost group: nothing changes. */
	return *u != *w && meeting(load, relief->slot_of[*u], relief->slot_of[*w]) > 0 &&
	       (load->rows.row[*u] < load->rows.row[*u + 1] || load->rows.row[*w] < load->rows.row[*w + 1]);
}

static int open_relief(st_relief *relief, const st_load *load, const uint8_t *fixed, const int32_t *slot_of)
{
	size_t n = (size_t)load->slots, links = (size_t)load->links + 1;

	relief->load = load;
	relief->fixed = fixed;
	relief->slot_of = malloc(n * sizeof(int32_t));
	relief->vertex_at = malloc(n * sizeof(int32_t));
	relief->active = malloc(n * sizeof(int32_t));
	relief->up = malloc(links * sizeof(double));
	relief->down = malloc(links * sizeof(double));
	relief->up_change = calloc(links, sizeof(double));
	relief->down_change = calloc(links, sizeof(double));
	relief->touched = malloc(links * sizeof(int32_t));
	relief->is_touched = calloc(links, 1);
	if (!relief->slot_of || !relief->vertex_at || !relief->active || !relief->up || !relief->down ||
	    !relief->up_change || !relief->down_change || !relief->touched || !relief->is_touched)
		return -1;
	for (int32_t v = 0; v < load->slots; v++) {
		relief->slot_of[v] = slot_of[v];
		relief->vertex_at[slot_of[v]] = v;
		if (load->rows.row[v] < load->rows.row[v + 1] && !(fixed && fixed[v]))
			relief->active[relief->active_count++] = v;
	}
	return 0;
}

static void close_relief(st_relief *relief)
{
	free(relief->slot_of);
	free(relief->vertex_at);
	free(relief->active);
	free(relief->up);
	free(relief->down);
	free(relief->up_change);
	free(relief->down_change);
	free(relief->touched);
	free(relief->is_touched);
}

double st_load_most(const st_load *load, const int32_t *slot_of, double *cost)
{
	st_relief relief = {0};
	double found = -1;
	int32_t where;

	if (!open_relief(&relief, load, NULL, slot_of)) {
		measure(&relief);
		found = most(&relief, &where);
		*cost = relief.cost;
	}
	close_relief(&relief);
	return found;
}

/* A typical change of the value: the mean of the sizes of some that chance proposes. */
static double typical(st_relief *relief)
{
	double sum = 0, cost, norm;
	int32_t u, w, count = 0;

	for (int k = 0; k < SAMPLES; k++) {
		if (!propose(relief, &u, &w))
			continue;
		sum += fabs(try_swap(relief, u, w, &cost, &norm));
		count++;
		forget(relief);
	}
	return count ? sum / count : 0;
}

/* The cost if every pair met at the dearest level: what sums that are changed may be off is a share of that. */
static double dearest_cost(const st_load *load)
{
	double byte = 0, message = 0, cost = 0;

	for (int32_t l = 0; l < load->levels; l++) {
		byte = fmax(byte, load->per_byte[l]);
		message = fmax(message, load->per_message[l]);
	}
	for (int64_t i = 0; i < load->rows.row[load->slots]; i++)
		cost += load->rows.out[i] * byte + 0.5 * load->rows.messages[i] * message;
	return cost;
}

/* The same of the maximum: all bytes over the slowest link. */
static double heaviest_load(const st_load *load)
{
	double seconds = 0, bytes = 0;

	for (int32_t link = 0; link < load->links; link++)
		seconds = fmax(seconds, load->seconds[link]);
	for (int64_t i = 0; i < load->rows.row[load->slots]; i++)
		bytes += load->rows.out[i];
	return bytes * seconds;
}

static int64_t anneal(st_relief *relief, const st_relief_schedule *schedule, const st_control *control, int32_t *best_of)
{
	int64_t swaps = 0;
	double heat, best = INFINITY, dearest = dearest_cost(relief->load), heaviest = heaviest_load(relief->load), cost, norm;
	int32_t u, w;

	relief->unloaded = heaviest;
	measure(relief);
	heat = schedule->hot * typical(relief);
	for (int step = 0; step <= STEPS; step++) {
		/* What is the best is judged without smoothing, and on loads that no rounding has crept into. */
		cost = relief->cost;
		double most_before = smooth(relief, relief->norm);
		measure(relief);
		double most_now = smooth(relief, relief->norm);
		/* The smallest doubles have too few digits to be off by a share. */
		if (dearest > 1e-290)
			relief->drift = fmax(relief->drift, fabs(cost - relief->cost) / dearest);
		if (heaviest > 1e-290)
			relief->drift = fmax(relief->drift, fabs(most_before - most_now) / heaviest);
		double now = relief->share_of_sum * relief->cost +
			     relief->share_of_most * most(relief, &relief->worst);
		if (now < best) {
			best = now;
			memcpy(best_of, relief->slot_of, (size_t)relief->load->slots * sizeof(*best_of));
		}
		if (step == STEPS || st_expired(control))
			break;
		/* The last quarter only descends. */
		double limit = step < STEPS * 3 / 4 ? heat * pow(schedule->fall, -(double)step / (STEPS * 0.75)) : 0;
		for (int64_t k = 0; k < schedule->moves / STEPS; k++) {
			if ((k & 255) == 255 && st_expired(control))
				break;
			if (!propose(relief, &u, &w))
				continue;
			double change = try_swap(relief, u, w, &cost, &norm);
			double draw = (double)(st_next(&relief->random) >> 11) * 0x1p-53;
			if (change < 0 || (limit > 0 && change < -limit * log(draw + 1e-300))) {
				bool loaded = relief->norm != 0 || norm != 0;
				accept(relief, u, w, cost, norm);
				swaps++;
				/*
				 * Far from the scale the eighth root of a rounding error would be seen; so would a
				 * small load be missed that a large one has left behind in its rounding, as 0.
				 */
				if (loaded && !(relief->norm > FAR_BELOW && relief->norm < FAR_ABOVE))
					measure(relief);
			} else {
				forget(relief);
			}
		}
	}
	return swaps;
}

int64_t st_load_relieve(const st_load *load, const uint8_t *fixed, const st_relief_schedule *schedule,
			const st_control *control, int32_t *slot_of, double *drift)
{
	st_relief relief = {.random = {schedule->seed},
			    .share_of_sum = schedule->share_of_sum,
			    .share_of_most = schedule->share_of_most};
	int64_t swaps = -1;

	if (open_relief(&relief, load, fixed, slot_of))
		goto out;
	swaps = relief.active_count && load->links ? anneal(&relief, schedule, control, slot_of) : 0;
	*drift = relief.drift;
out:
	close_relief(&relief);
	return swaps;
}
