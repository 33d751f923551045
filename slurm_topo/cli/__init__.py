"""The command line: one file a command; the only place where errors become messages and exit codes."""
