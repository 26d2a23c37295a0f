"""Malformed files, models and checkpoints, made at random but the same in every run.

Every case ends in a right result (exit code 0) or in one sentence of ours (exit code 2), in little time and memory. A
case is known by its area, seed and number; to look at one: ``cd tests && python -m fuzzing data 0 17``.
"""
