/* Who sends to whom, in compressed rows that know both directions. */
#include <stdlib.h>
#include <string.h>

#include "st_internal.h"

/* One row a vertex, from pairs in any order; each pair of vertices at most once in each direction. */
int st_rows_build(st_rows *rows, int32_t vertices, int64_t pairs, const int32_t *source, const int32_t *target,
		  const double *nbytes, const double *messages)
{
	int rv = -1;
	size_t n = (size_t)vertices, entries = (size_t)pairs * 2 + 1;
	int64_t *at = calloc(n + 1, sizeof(*at)), *seen = malloc((n + 1) * sizeof(*seen)), kept = 0;
	int32_t *to = malloc(entries * sizeof(*to));
	double *out = malloc(entries * sizeof(*out)), *in = malloc(entries * sizeof(*in));
	double *both = malloc(entries * sizeof(*both));
	int64_t *row = calloc(n + 2, sizeof(*row));

	rows->vertices = vertices;
	rows->row = malloc((n + 1) * sizeof(*rows->row));
	rows->to = malloc(entries * sizeof(*rows->to));
	rows->out = malloc(entries * sizeof(*rows->out));
	rows->in = malloc(entries * sizeof(*rows->in));
	rows->messages = malloc(entries * sizeof(*rows->messages));
	if (!at || !seen || !to || !out || !in || !both || !row || !rows->row || !rows->to || !rows->out ||
	    !rows->in || !rows->messages)
		goto out;
	for (int64_t i = 0; i < pairs; i++) {
		row[source[i] + 1]++;
		row[target[i] + 1]++;
	}
	for (size_t v = 0; v < n; v++)
		row[v + 1] += row[v];
	for (int64_t i = 0; i < pairs; i++) {
		int64_t a = row[source[i]] + at[source[i]]++;
		int64_t b = row[target[i]] + at[target[i]]++;
		to[a] = target[i];
		to[b] = source[i];
		out[a] = in[b] = nbytes[i];
		in[a] = out[b] = 0;
		both[a] = both[b] = messages[i];
	}
	for (size_t v = 0; v < n; v++)
		seen[v] = -1;
	for (size_t v = 0; v < n; v++) {
		rows->row[v] = kept;
		for (int64_t i = row[v]; i < row[v + 1]; i++) {
			int32_t u = to[i];
			if ((size_t)u == v)
				continue;
			if (seen[u] < rows->row[v]) {
				seen[u] = kept;
				rows->to[kept] = u;
				rows->out[kept] = rows->in[kept] = rows->messages[kept] = 0;
				kept++;
			}
			rows->out[seen[u]] += out[i];
			rows->in[seen[u]] += in[i];
			rows->messages[seen[u]] += both[i];
		}
	}
	rows->row[n] = kept;
	rv = 0;
out:
	free(at);
	free(seen);
	free(to);
	free(out);
	free(in);
	free(both);
	free(row);
	return rv;
}

void st_rows_free(st_rows *rows)
{
	free(rows->row);
	free(rows->to);
	free(rows->out);
	free(rows->in);
	free(rows->messages);
	memset(rows, 0, sizeof(*rows));
}

double st_rows_degree(const st_rows *rows)
{
	int32_t joined = 0;

	for (int32_t v = 0; v < rows->vertices; v++)
		joined += rows->row[v] < rows->row[v + 1];
	return joined ? (double)rows->row[rows->vertices] / joined : 0;
}
