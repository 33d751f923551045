/* slurm-topo-collect DIR OUT [NAME=VALUE ...]: st_collect for scripts. Prints "ranks N" and a reason, if any. */
#include "collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(int argc, char **argv, const char *name)
{
    size_t length = strlen(name);

    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return NULL;
}

static long long number_of(int argc, char **argv, const char *name)
{
    const char *value = value_of(argc, argv, name);
    return value ? strtoll(value, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    struct st_collect_meta meta;
    char reason[256];
    int ranks;

    if (argc < 3) {
        fprintf(stderr, "usage: slurm-topo-collect DIR OUT [job=J step=S node=N keys=K plan=P nodes=C start=NS end=NS]\n");
        return 2;
    }
    meta = (struct st_collect_meta){
        .job = value_of(argc, argv, "job"),
        .step = value_of(argc, argv, "step"),
        .node = value_of(argc, argv, "node"),
        .keys = value_of(argc, argv, "keys"),
        .plan = value_of(argc, argv, "plan"),
        .nodes = (uint32_t)number_of(argc, argv, "nodes"),
        .start_ns = number_of(argc, argv, "start"),
        .end_ns = number_of(argc, argv, "end"),
    };
    ranks = st_collect(argv[1], argv[2], &meta, reason, sizeof reason);
    printf("ranks %d\n%s%s", ranks, reason, reason[0] ? "\n" : "");
    return ranks < 0;
}
