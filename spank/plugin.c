/* The entry points that Slurm looks for. None of them ever returns an error: a job must run as it would without us. */
#include "context.h"

SPANK_PLUGIN(slurm_topo, 1)

/* The arguments, the same in every call of a process; NULL where one of them is wrong (said once, then inert). */
static const struct st_args *arguments(int argc, char **argv)
{
	static enum { UNREAD, READ, WRONG } state = UNREAD;
	static struct st_args args;
	struct st_why why;

	if (state == UNREAD) {
		state = st_args_parse(argc, argv, &args, &why) < 0 ? WRONG : READ;
		if (state == WRONG)
			slurm_error("slurm-topo: %s", why.text);
	}
	return state == READ ? &args : NULL;
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	spank_context_t context = spank_context();
	const struct st_args *args;

	/* slurmd and prolog have no use for us. */
	if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
		return 0;
	/* Also where the arguments are wrong: `--topo` in a user's script must stay a known option. */
	st_option_register(spank);
	args = arguments(argc, argv);
	if (args && context == S_CTX_LOCAL)
		st_srun_init(args);
	else if (args && context == S_CTX_ALLOCATOR)
		st_allocator_init();
	else if (args && context == S_CTX_REMOTE)
		st_step_begin();
	return 0;
}

int slurm_spank_local_user_init(spank_t spank, int argc, char **argv)
{
	const struct st_args *args = arguments(argc, argv);

	(void)spank;
	if (args && spank_context() == S_CTX_LOCAL)
		st_srun_started(args);
	return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	const struct st_args *args = arguments(argc, argv);

	if (args && spank_context() == S_CTX_REMOTE)
		st_task_init(spank, args);
	return 0;
}

int slurm_spank_exit(spank_t spank, int argc, char **argv)
{
	const struct st_args *args;

	if (spank_context() != S_CTX_REMOTE)
		return 0;
	args = arguments(argc, argv);
	if (args)
		st_step_exit(spank, args);
	return 0;
}
