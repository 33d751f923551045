/* The communication graph in compressed rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

enum { MOST_EXPONENT = 1000 };

static const double FAR_APART = 1e100;

static bool all_zero(const double *values, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (values[i] != 0)
			return false;
	return true;
}

/*
 * One weight is enough where one of the two parts costs nothing or both rise alike from level to level. Then
 * weight = byte_share * nbytes + message_share * messages, and the tree's per_byte holds its cost.
 */
static bool one_component(st_tree *tree, int64_t pairs, const double *nbytes, const double *messages,
			  double *byte_share, double *message_share)
{
	double *pb = tree->per_byte, *pm = tree->per_message;
	bool no_messages = all_zero(messages, pairs) || all_zero(pm, tree->levels);
	bool no_bytes = all_zero(nbytes, pairs) || all_zero(pb, tree->levels);
	double ratio = 0;

	*byte_share = no_bytes && !no_messages ? 0 : 1;
	*message_share = no_messages ? 0 : 1;
	if (no_messages || no_bytes) {
		if (!no_messages)
			memcpy(pb, pm, sizeof(tree->per_byte));
		return true;
	}
	for (int32_t l = 0; l < tree->levels; l++)
		if (pb[l] > 0)
			ratio = pm[l] / pb[l];
	/* Costs so far apart that one number cannot hold both. */
	if (!(ratio < FAR_APART))
		return false;
	for (int32_t l = 0; l < tree->levels; l++)
		if (fabs(pm[l] - ratio * pb[l]) > 1e-12 * (fabs(pm[l]) + ratio * pb[l]))
			return false;
	*message_share = ratio;
	return true;
}

/*
 * A power of two that brings the largest weight near 2^20: exact, and far from the ends of a float. What is so small
 * that the power itself would be infinite (a denormal number, say) stays small.
 */
static double scale_of(const double *values, int64_t count)
{
	double most = 0;
	int exponent = 0;

	for (int64_t i = 0; i < count; i++)
		most = values[i] > most ? values[i] : most;
	frexp(most, &exponent);
	return ldexp(1.0, exponent < 20 - MOST_EXPONENT ? MOST_EXPONENT : 20 - exponent);
}

static int fill_rows(st_graph *graph, int64_t pairs, const int32_t *source, const int32_t *target,
		     const double *weight, double weight_scale, const double *message, double message_scale)
{
	int rv = -1;
	int32_t n = graph->vertices;
	int64_t *start = calloc((size_t)n + 2, sizeof(*start)), kept = 0;
	int64_t *seen = malloc((size_t)n * sizeof(*seen));

	graph->row = malloc(((size_t)n + 1) * sizeof(*graph->row));
	graph->to = malloc(((size_t)pairs * 2 + 1) * sizeof(*graph->to));
	graph->weight = malloc(((size_t)pairs * 2 + 1) * sizeof(*graph->weight));
	graph->message = message ? malloc(((size_t)pairs * 2 + 1) * sizeof(*graph->message)) : NULL;
	if (!start || !seen || !graph->row || !graph->to || !graph->weight || (message && !graph->message))
		goto out;
	for (int64_t i = 0; i < pairs; i++) {
		start[source[i] + 2]++;
		start[target[i] + 2]++;
	}
	for (int32_t v = 0; v < n; v++)
		start[v + 2] += start[v + 1];
	for (int64_t i = 0; i < pairs; i++) {
		int64_t there = start[source[i] + 1]++, back = start[target[i] + 1]++;
		graph->to[there] = (uint32_t)target[i];
		graph->to[back] = (uint32_t)source[i];
		graph->weight[there] = graph->weight[back] = (float)(weight[i] * weight_scale);
		if (message)
			graph->message[there] = graph->message[back] = (float)(message[i] * message_scale);
	}
	/* Merge the two directions of a pair; drop pairs that carry nothing. */
	for (int32_t v = 0; v < n; v++)
		seen[v] = -1;
	for (int32_t v = 0; v < n; v++) {
		int64_t begin = kept;
		for (int64_t i = start[v]; i < start[v + 1]; i++) {
			uint32_t to = graph->to[i];
			float w = graph->weight[i], m = message ? graph->message[i] : 0;
			if ((w <= 0 && m <= 0) || (int32_t)to == v)
				continue;
			if (seen[to] < begin) {
				seen[to] = kept;
				graph->to[kept] = to;
				graph->weight[kept] = w;
				if (message)
					graph->message[kept] = m;
				kept++;
				continue;
			}
			graph->weight[seen[to]] += w;
			if (message)
				graph->message[seen[to]] += m;
		}
		graph->row[v] = begin;
	}
	graph->row[n] = kept;
	rv = 0;
out:
	free(start);
	free(seen);
	return rv;
}

void st_graph_measure(st_instance *instance)
{
	const st_graph *graph = &instance->graph;
	double sum = 0, square = 0, messages = 0, messages_square = 0;

	for (int64_t i = 0; i < graph->row[graph->vertices]; i++) {
		sum += graph->weight[i];
		square += (double)graph->weight[i] * graph->weight[i];
		if (graph->message) {
			messages += graph->message[i];
			messages_square += (double)graph->message[i] * graph->message[i];
		}
	}
	instance->typical_weight = sum > 0 ? square / sum : 0;
	instance->typical_message = messages > 0 ? messages_square / messages : 0;
}

static void cost_by_bit(st_tree *tree, double byte_scale, double message_scale)
{
	for (int32_t l = 0; l < tree->levels; l++) {
		tree->per_byte[l] /= byte_scale;
		tree->per_message[l] /= message_scale;
	}
	for (int b = 1; b <= ST_CODE_BITS; b++) {
		tree->byte_by_bit[b] = tree->per_byte[tree->level_by_bit[b]];
		tree->message_by_bit[b] = tree->per_message[tree->level_by_bit[b]];
	}
}

int st_graph_build(st_instance *instance, int32_t ranks, int64_t pairs, const int32_t *source, const int32_t *target,
		   const double *nbytes, const double *messages)
{
	st_graph *graph = &instance->graph;
	st_tree *tree = &instance->tree;
	double byte_share, message_share;
	double *mixed = NULL;
	const double *weight = nbytes;
	int rv = -1;

	(void)ranks;
	graph->vertices = tree->slots;
	bool one = one_component(tree, pairs, nbytes, messages, &byte_share, &message_share);
	if (one && message_share > 0) {
		mixed = malloc(((size_t)pairs + 1) * sizeof(*mixed));
		if (!mixed)
			return -1;
		for (int64_t i = 0; i < pairs; i++)
			mixed[i] = byte_share * nbytes[i] + message_share * messages[i];
		weight = mixed;
	}
	double byte_scale = scale_of(weight, pairs);
	double message_scale = one ? 1.0 : scale_of(messages, pairs);
	if (fill_rows(graph, pairs, source, target, weight, byte_scale, one ? NULL : messages, message_scale))
		goto out;
	cost_by_bit(tree, byte_scale, message_scale);
	st_graph_measure(instance);
	rv = 0;
out:
	free(mixed);
	return rv;
}

void st_graph_free(st_graph *graph)
{
	free(graph->row);
	free(graph->to);
	free(graph->weight);
	free(graph->message);
}
