"""The experiments of the paper, each from one command: ``dbmd experiment run NAME``.

An experiment is a package here with

``setting.toml``
    What it asks, the paper's setting and a small one, and the numbers that the paper published.
``run.py``
    ``tasks(setting)``: what there is to do, a list of plain dicts. ``run(task, setting)``: does one of them, and
    returns its records, plain dicts. Tasks do not depend on each other, so a run that was stopped goes on.
``draw.py``
    From the records alone: ``draw`` the figures, a dict by the short name that is part of their files' names,
    ``table`` of ours beside the paper's numbers, ``claims``, what was to be shown and whether it was.
"""

# In the order of the paper; the last is ours.
NAMES = (
    "variance-ratio",
    "eigenvalues",
    "convergence",
    "communication",
    "scalability",
    "clustering",
    "noisy-mnist",
    "truth",
)
SCALES = ("small", "paper")
