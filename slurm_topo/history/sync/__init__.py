"""Reads accounting and spool into the history, and publishes what was learnt."""
