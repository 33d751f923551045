/* Putting the tracer into a task, and turning its counters into one file when the step ends. */
#ifndef ST_TRACING_H
#define ST_TRACING_H

#include "context.h"

/* Names a step as files do: its number, or "batch". False for steps that are not ours (extern, interactive). */
bool st_step_name(uint32_t step, char *name, size_t size);

/* A library of ours: `given` itself, or the file `name` in that folder. 0, or -1 and why it cannot be preloaded. */
int st_library_find(const char *given, const char *name, char *path, size_t size, struct st_why *why);

/* LD_PRELOAD of the task with `path` in front of what the user has there, and not twice. 0, or -1 and why. */
int st_task_preload(spank_t spank, const char *path, struct st_why *why);
/* The same without the file of that name. */
void st_task_unload(spank_t spank, const char *name);

/* Makes the folder of the counters and sets LD_PRELOAD. 0, or -1 and why; then the task's environment is as it was. */
int st_trace_enter(spank_t spank, const struct st_args *args, uint32_t job, const char *step, struct st_why *why);

/* Takes out of the task's environment what a traced batch step left there. */
void st_trace_leave(spank_t spank, const struct st_args *args);

#endif
