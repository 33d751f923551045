/* What the history knows of a step: by its command line, its program, or the job's program, each with its ranks. */
#ifndef ST_ADVICE_H
#define ST_ADVICE_H

#include "base.h"

/* A kind (one letter) and 22 hexadecimal digits. */
#define ST_KEY_SIZE 24

struct st_step_keys {
	char command[ST_KEY_SIZE];    /* user, all words, ranks; empty: not known */
	char executable[ST_KEY_SIZE]; /* user, program without its folder, ranks; empty: not known */
};

struct st_advice {
	char graph[48]; /* digest, empty: none */
	uint32_t ranks;
	bool trace;
	int arm;        /* at most */
	double holdout; /* share of the launches that stay in observe */
};

/* 22 hexadecimal digits and a byte 0 of the text: the hash of the fingerprint keys (docs/formats.md). */
void st_key_digest(const char *text, size_t size, char *digits);

/*
 * The keys of a program with its arguments (`words`, NULL behind the last) on so many ranks. What interpreters and wrappers
 * start counts as the program.
 */
void st_step_keys(char *const *words, uint32_t ranks, struct st_step_keys *keys);

/* The key of a program of the history on so many ranks. */
void st_program_key(const char *program, uint32_t ranks, char key[ST_KEY_SIZE]);

/*
 * Looks the keys up in <spool>/<uid>/advice/steps, in their order. The index of the first one with advice for this number
 * of ranks; -1 where there is none, or no valid file.
 */
int st_advice_find(const char *spool, const char *const *keys, int count, uint32_t ranks, struct st_advice *advice);

/*
 * The keys of a job (`job`, may be NULL) and of its step as one text, joined by colons: what fits into a trace. Where there
 * are keys of a step the job's key of the account's executable is left out.
 */
void st_keys_join(const char *job, const struct st_step_keys *keys, char *text, size_t size);

#endif
