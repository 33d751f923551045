"""The independent judge: simulated times of a communication graph on a machine, by SimGrid's SMPI.

Nothing here knows the optimiser's cost function: it would be its own witness.
"""
