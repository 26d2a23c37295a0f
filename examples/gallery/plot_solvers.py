"""
============================================
Four solvers, one result, different messages
============================================

Given the memberships, the patterns W are the solution of one convex problem. dbmd has four solvers for it:
``"exact"`` sums statistics of all nodes and solves in one round, while ``"agd"``, ``"admm"`` and ``"cease"``, those
of the paper, exchange matrices of the size of W with the nodes in several rounds.
"""

# %%
# The same fit with each solver
# -----------------------------
# Ten nodes hold 180 digits each, and each node is a source with a noise level of its own.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.engines import Link, Traffic

plt.style.use("tableau-colorblind10")
rng = np.random.default_rng(0)

X = rng.permutation(load_digits().data)
source = np.arange(len(X)) * 10 // len(X)
X = X + np.linspace(0.5, 5, 10)[source, np.newaxis] * rng.normal(size=X.shape)

start = X[rng.choice(len(X), 5, replace=False)]
solvers = {
    "exact": {"color": "C0", "marker": "o"},
    "agd": {"color": "C1", "marker": "s"},
    "admm": {"color": "C3", "marker": "^"},
    "cease": {"color": "C4", "marker": "D"},
}
models = {solver: DBMD(5, solver=solver, init=start, n_nodes=10).fit(X, source=source) for solver in solvers}

W = models["exact"].components_
for solver, model in models.items():
    difference = np.linalg.norm(model.components_ - W) / np.linalg.norm(W)
    print(f"{solver:>5}: {model.n_iter_} iterations, difference of W from that of exact {difference:.0e}")

# %%
# How fast one step converges
# ---------------------------
# All four end at the same W. To see how they get there, the first W-step is cut off after a given number of rounds.
# Distances below 1e-15, such as that of ``"exact"`` from itself, are drawn there.

warnings.simplefilter("ignore", ConvergenceWarning)
most_rounds = [1, 2, 4, 8, 16, 32, 64]
one_step = DBMD(5, init=start, n_nodes=10, max_iter=1).fit(X, source=source)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for solver, style in solvers.items():
    rounds, floats, gaps = [], [], []
    for n in most_rounds:
        model = DBMD(
            5, solver=solver, init=start, n_nodes=10, max_iter=1, solver_options={"max_rounds": n, "tol": 1e-12}
        )
        record = model.fit(X, source=source).history_[0]
        rounds.append(record.rounds)
        floats.append(record.floats_up + record.floats_down)
        gaps.append(np.linalg.norm(model.components_ - one_step.components_) / np.linalg.norm(one_step.components_))
    left.plot(rounds, np.maximum(gaps, 1e-15), label=solver, **style)
    right.plot(floats, np.maximum(gaps, 1e-15), label=solver, **style)
left.set(xscale="log", yscale="log", xlabel="rounds", ylabel="relative distance from the minimiser")
right.set(xscale="log", xlabel="numbers sent and received by a node")
left.legend(title="solver")

plt.show()

# %%
# What a whole fit sends
# ----------------------
# ``history_`` counts the rounds and the numbers that each node sent and received. :class:`~dbmd.engines.Link` turns
# them into seconds for a given latency and bandwidth, here those of a wide-area network.

link = Link(latency=0.05, bandwidth=1e8)  # seconds, bits per second

numbers, seconds = [], []
for solver in solvers:
    history = models[solver].history_
    traffic = Traffic(
        asks=sum(record.rounds for record in history),
        floats_down=sum(record.floats_down for record in history),
        floats_up=sum(record.floats_up for record in history),
    )
    numbers.append(traffic.floats_down + traffic.floats_up)
    seconds.append(link.seconds(traffic))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", sharey=True)
colors = [style["color"] for style in solvers.values()]
left.bar_label(left.barh(list(solvers), numbers, color=colors), fmt="{:,.0f}", padding=4)
right.bar_label(right.barh(list(solvers), seconds, color=colors), fmt="{:,.0f} s", padding=4)
left.set(xlabel="numbers sent and received by a node", xlim=(0, 1.25 * max(numbers)))
left.xaxis.set_major_formatter("{x:,.0f}")
right.set(xlabel="seconds on a link of 50 ms and 100 Mbit/s", xlim=(0, 1.2 * max(seconds)))
left.invert_yaxis()

plt.show()

# %%
# ``"exact"`` is the default because one round is all that it needs: :ref:`sphx_glr_gallery_plot_clusters.py` shows
# what that means on a cluster.
