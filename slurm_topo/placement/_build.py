"""cffi binding of the placement kernel (API mode): ``_build.py OUT.c`` writes its C code."""

from __future__ import annotations

import sys

from cffi import FFI

CDEF = """
typedef struct { volatile int32_t stop; double deadline; } st_control;
typedef struct { int64_t moves; double hot; double fall; double rise; uint64_t seed; } st_schedule;
typedef struct st_instance st_instance;
bool st_expired(const st_control *control);

st_instance *st_instance_new(int32_t cores, int32_t levels, const int32_t *groups, const double *per_byte,
    const double *per_message, int32_t ranks, int64_t pairs, const int32_t *source, const int32_t *target,
    const double *nbytes, const double *messages);
st_instance *st_instance_groups(const st_instance *fine, int32_t level, const int32_t *core_of);
void st_instance_free(st_instance *instance);
int32_t st_instance_levels(const st_instance *instance);
int32_t st_instance_vertices(const st_instance *instance);
double st_instance_degree(const st_instance *instance);
double st_instance_cost(const st_instance *instance, const int32_t *core_of);
int st_instance_expand(const st_instance *fine, int32_t level, const int32_t *old_core_of,
    const int32_t *core_of_group, int32_t *core_of);
typedef struct {
    int32_t tries; int32_t deep; int32_t cycles; int32_t growths; int32_t join;
    int32_t shuffle; double taste; uint64_t seed;
} st_section_style;
int st_multisect(const st_instance *instance, const st_section_style *style, const st_control *control,
    int32_t *core_of);
int64_t st_descend(const st_instance *instance, const uint8_t *fixed, int32_t sweeps,
    const st_control *control, int32_t *core_of);
int64_t st_anneal(const st_instance *instance, const uint8_t *fixed, const st_schedule *schedule,
    const st_control *control, int32_t *core_of);

typedef struct st_load st_load;
st_load *st_load_new(int32_t slots, int32_t levels, int32_t links, const int32_t *link_of,
    const double *seconds, const double *per_byte, const double *per_message, int64_t pairs,
    const int32_t *source, const int32_t *target, const double *nbytes, const double *messages);
void st_load_free(st_load *load);
double st_load_degree(const st_load *load);
double st_load_most(const st_load *load, const int32_t *slot_of, double *cost);
typedef struct {
    int64_t moves; double hot; double fall; double share_of_sum; double share_of_most; uint64_t seed;
} st_relief_schedule;
int64_t st_load_relieve(const st_load *load, const uint8_t *fixed, const st_relief_schedule *schedule,
    const st_control *control, int32_t *slot_of, double *drift);

typedef struct st_distance st_distance;
st_distance *st_distance_new(int32_t cores, int32_t matrix_rows, const int32_t *row_of, const double *matrix,
    int32_t levels, const int32_t *groups, const double *per_byte, const double *per_message, int64_t pairs,
    const int32_t *source, const int32_t *target, const double *nbytes, const double *messages);
void st_distance_free(st_distance *distance);
double st_distance_degree(const st_distance *distance);
double st_distance_cost(const st_distance *distance, const int32_t *core_of);
int64_t st_distance_anneal(const st_distance *distance, const uint8_t *fixed, const st_schedule *schedule,
    const st_control *control, int32_t *core_of);
"""

ffibuilder = FFI()
ffibuilder.set_source("slurm_topo.placement._kernel", '#include "st_kernel.h"', py_limited_api=True)
ffibuilder.cdef(CDEF)

if __name__ == "__main__":
    ffibuilder.emit_c_code(sys.argv[1])
