/* The order in which a rank sees the GPUs of its step. */
#ifndef ST_DEVICES_H
#define ST_DEVICES_H

#include "plan.h"

/*
 * Rewrites a list of visible devices (CUDA_VISIBLE_DEVICES and its like) so that the rank's own come first; the others
 * follow unless `isolate`. `known` holds the numbers that Slurm has for the devices of the step, one for each entry of
 * `visible` and in its order: under ConstrainDevices the visible ones are counted from 0. NULL: they are the same.
 * 0, or -1 where the lists do not fit together; then nothing is written.
 */
int st_devices_order(const char *visible, const char *known, const struct st_span *gpus, bool isolate, char *list,
		     size_t size);

#endif
