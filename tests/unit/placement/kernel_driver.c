/* Drives the placement kernel with random problems; built with sanitizers by test_kernel.py. Silent when all is well. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			fprintf(stderr, "problem %d: %s (line %d)\n", problem, #what, __LINE__); \
			return 1;                                                        \
		}                                                                        \
	} while (0)

enum { MOST_CORES = 300, MOST_LEVELS = 32, MOST_PAIRS = 3000 };

static int32_t groups[MOST_LEVELS * MOST_CORES], source[MOST_PAIRS], target[MOST_PAIRS];
static double per_byte[MOST_LEVELS], per_message[MOST_LEVELS], nbytes[MOST_PAIRS], messages[MOST_PAIRS];

/* Any finite number that is not negative: most are zero, tiny (denormal ones too) or huge. */
static double extreme_number(st_random *random)
{
	return st_below(random, 4) ? ldexp(1 + st_below(random, 7), (int)st_below(random, 2090) - 1074) : 0;
}

/* Nested groups of random sizes, numbered at random. */
static void random_machine(st_random *random, int32_t cores, int32_t levels)
{
	for (int32_t l = 0; l < levels; l++) {
		int32_t number = (int32_t)st_below(random, 1000);
		for (int32_t i = 0; i < cores; i++) {
			int32_t *below = groups + (l - 1) * cores;
			bool may_split = l == 0 || i == 0 || below[i] != below[i - 1];
			if (i && may_split && l + 1 < levels && st_below(random, 3 + 2 * (uint32_t)l) == 0)
				number += 1 + (int32_t)st_below(random, 5);
			groups[l * cores + i] = number;
		}
		per_byte[l] = st_below(random, 4) ? (double)st_below(random, 100) * (l + 1) : 0;
		per_message[l] = st_below(random, 2) ? (double)st_below(random, 100) : 0;
	}
}

static void random_graph(st_random *random, int32_t ranks, int32_t pairs)
{
	bool with_messages = st_below(random, 2), with_bytes = st_below(random, 4);

	for (int32_t i = 0; i < pairs; i++) {
		source[i] = (int32_t)st_below(random, (uint32_t)ranks);
		target[i] = (int32_t)st_below(random, st_below(random, 3) ? (uint32_t)ranks : 1);
		nbytes[i] = with_bytes ? ldexp(1.0, (int)st_below(random, 40)) : 0;
		messages[i] = with_messages ? (double)st_below(random, 50) : 0;
	}
}

static bool is_permutation(const int32_t *core_of, int32_t cores)
{
	static uint8_t taken[MOST_CORES];

	memset(taken, 0, sizeof(taken));
	for (int32_t v = 0; v < cores; v++) {
		if (core_of[v] < 0 || core_of[v] >= cores || taken[core_of[v]])
			return false;
		taken[core_of[v]] = 1;
	}
	return true;
}

static double plain_cost(int32_t cores, int32_t levels, int32_t pairs, const int32_t *core_of)
{
	double cost = 0;

	for (int32_t i = 0; i < pairs; i++) {
		int32_t a = core_of[source[i]], b = core_of[target[i]], l = 0;
		if (a == b)
			continue;
		while (l + 1 < levels && groups[l * cores + a] != groups[l * cores + b])
			l++;
		cost += nbytes[i] * per_byte[l] + messages[i] * per_message[l];
	}
	return cost;
}

/* Swaps that relieve links: a permutation, fixed vertices stay, sums that are changed stay what they are anew. */
static int relieve(int problem, int32_t cores, int32_t levels, int32_t ranks, int32_t pairs)
{
	static int32_t link_of[MOST_LEVELS * MOST_CORES], at[MOST_CORES];
	static double seconds[MOST_LEVELS * MOST_CORES];
	uint8_t fixed[MOST_CORES] = {0};
	int32_t links = 0;
	double before, after, cost, drift;
	st_control control = {0, 0};

	for (int32_t l = 0; l + 1 < levels; l++)
		for (int32_t s = 0; s < cores; s++) {
			if (s == 0 || groups[l * cores + s] != groups[l * cores + s - 1])
				seconds[links++] = 1 + (problem + s) % 7;
			link_of[l * cores + s] = links - 1;
		}
	st_load *load = st_load_new(cores, levels, links, link_of, seconds, per_byte, per_message, pairs, source,
				    target, nbytes, messages);
	CHECK(load);
	CHECK(ranks <= cores);
	for (int32_t v = 0; v < cores; v++) {
		at[v] = cores - 1 - v;
		fixed[v] = v % 3 == 0;
	}
	before = st_load_most(load, at, &cost);
	CHECK(fabs(cost - plain_cost(cores, levels, pairs, at)) <= 1e-9 * (1 + cost));
	st_relief_schedule schedule = {4000, problem % 2, 50, 0, 1, (uint64_t)problem};
	CHECK(st_load_relieve(load, problem % 3 ? fixed : NULL, &schedule, &control, at, &drift) >= 0);
	CHECK(drift < 1e-6);
	CHECK(is_permutation(at, cores));
	after = st_load_most(load, at, &cost);
	CHECK(after <= before * (1 + 1e-9));
	for (int32_t v = 0; problem % 3 && v < cores; v += 3)
		CHECK(at[v] == cores - 1 - v);
	control.stop = 1;
	CHECK(st_load_relieve(load, NULL, &schedule, &control, at, &drift) == 0);
	CHECK(is_permutation(at, cores));
	st_load_free(load);
	return 0;
}

static int run(int problem)
{
	st_random random = {(uint64_t)problem};
	int32_t cores = 1 + (int32_t)st_below(&random, problem % 4 ? 40 : MOST_CORES);
	int32_t levels = 1 + (int32_t)st_below(&random, problem % 6 ? 5 : MOST_LEVELS);
	int32_t ranks = 1 + (int32_t)st_below(&random, (uint32_t)cores);
	int32_t pairs = (int32_t)st_below(&random, MOST_PAIRS);
	int32_t core_of[MOST_CORES], other[MOST_CORES];
	uint8_t fixed[MOST_CORES] = {0};
	st_control control = {0, 0};
	bool extreme = problem % 5 == 4;

	random_machine(&random, cores, levels);
	random_graph(&random, ranks, pairs);
	if (relieve(problem, cores, levels, ranks, pairs))
		return 1;
	for (int32_t l = 0; extreme && l < levels; l++) {
		per_byte[l] = extreme_number(&random);
		per_message[l] = extreme_number(&random);
	}
	for (int32_t i = 0; extreme && i < pairs; i++) {
		nbytes[i] = extreme_number(&random);
		messages[i] = problem % 2 ? extreme_number(&random) : 0;
	}
	st_instance *instance = st_instance_new(cores, levels, groups, per_byte, per_message, ranks, pairs, source,
						target, nbytes, messages);
	CHECK(instance);
	CHECK(st_instance_vertices(instance) == cores);
	st_section_style style = {
		.tries = 1 + problem % 3,
		.deep = 4,
		.cycles = problem % 2,
		.growths = 1 + problem % 7,
		.join = problem / 2 % 2,
		.shuffle = problem / 3 % 2,
		.taste = problem % 5 ? 0 : 2,
		.seed = random.state,
	};
	CHECK(st_multisect(instance, &style, &control, core_of) == 0);
	CHECK(is_permutation(core_of, cores));
	double scale = 0, first = st_instance_cost(instance, core_of), now;
	double plain = plain_cost(cores, levels, pairs, core_of);
	scale = first > 0 ? plain / first : 1;
	CHECK(extreme || (first > 0) == (plain > 0));

	CHECK(st_descend(instance, NULL, 20, &control, core_of) >= 0);
	CHECK(is_permutation(core_of, cores));
	now = st_instance_cost(instance, core_of);
	CHECK(extreme || now <= first * (1 + 1e-9));
	CHECK(extreme || fabs(now * scale - plain_cost(cores, levels, pairs, core_of)) <= 1e-5 * plain);

	for (int32_t v = 0; v < cores; v += 3)
		fixed[v] = 1;
	memcpy(other, core_of, sizeof(other));
	st_schedule schedule = {3000, 0.5, 5, problem % 3 ? 0.2 : 0, random.state};
	CHECK(st_anneal(instance, fixed, &schedule, &control, other) >= 0);
	CHECK(is_permutation(other, cores));
	for (int32_t v = 0; v < cores; v += 3)
		CHECK(other[v] == core_of[v]);
	CHECK(extreme || fabs(st_instance_cost(instance, other) * scale - plain_cost(cores, levels, pairs, other)) <=
	      1e-5 * (plain + plain_cost(cores, levels, pairs, other)));

	for (int32_t l = 0; l + 1 < st_instance_levels(instance); l++) {
		st_instance *coarse = st_instance_groups(instance, l, core_of);
		int32_t place[MOST_CORES], moved[MOST_CORES], count;
		CHECK(coarse);
		count = st_instance_vertices(coarse);
		for (int32_t g = 0; g < count; g++)
			place[g] = g;
		double before = st_instance_cost(instance, core_of) - st_instance_cost(coarse, place);
		CHECK(st_anneal(coarse, NULL, &schedule, &control, place) >= 0);
		CHECK(is_permutation(place, count));
		CHECK(st_instance_expand(instance, l, core_of, place, moved) == 0);
		CHECK(is_permutation(moved, cores));
		/* What happens inside the groups does not change when they move. */
		double after = st_instance_cost(instance, moved) - st_instance_cost(coarse, place);
		CHECK(extreme || fabs(after - before) <= 1e-5 * (1 + first + st_instance_cost(instance, moved)));
		st_instance_free(coarse);
	}
	control.stop = 1;
	CHECK(st_multisect(instance, &style, &control, core_of) == 0);
	CHECK(is_permutation(core_of, cores));
	st_instance_free(instance);
	return 0;
}

int main(int argc, char **argv)
{
	int problems = argc > 1 ? atoi(argv[1]) : 100;

	for (int problem = 0; problem < problems; problem++)
		if (run(problem))
			return 1;
	return 0;
}
