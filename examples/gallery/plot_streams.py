"""
=====================================
Streams of samples that change slowly
=====================================

Samples that arrive in batches need not be kept: ``partial_fit`` brings a model up to date with each batch. When the
patterns themselves change with time, ``forget_factor`` says how quickly earlier batches lose their weight.
"""

# %%
# A pattern that moves
# --------------------
# Each sample is a mixture of three patterns of ten features. The patterns lie in a plane, so that they can be drawn.
# From batch 10 to batch 30 one of them moves, by more than the distance from the centre; then it stays where it is.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
# sphinx_gallery_thumbnail_number = 2

n_batches = 60
plane = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 2)))[0].T  # (2, 10), orthonormal rows


def patterns_at(batch):
    """Return the patterns at the time of a batch, in coordinates of the plane."""
    patterns = np.array([[10.0, 0.0], [-5.0, 8.7], [-5.0, -8.7]])
    patterns[0, 1] = 14 * np.clip((batch - 10) / 20, 0, 1)
    return patterns


def samples_at(batch):
    """Return the samples of a batch."""
    rng = np.random.default_rng(batch)
    H = rng.dirichlet(np.full(3, 0.5), size=200)
    return H @ patterns_at(batch) @ plane + rng.normal(size=(200, 10))


# %%
# Bring models up to date
# -----------------------
# With a ``forget_factor`` of 1 nothing is forgotten; with 0.7, the default, a batch counts for half after two more.
# The models see one batch at a time, and keep statistics of the size of the patterns.

factors = {1.0: "C1", 0.9: "C3", 0.7: "C0", 0.3: "C4"}
models = {factor: DBMD(n_components=3, forget_factor=factor, random_state=0) for factor in factors}
found = {factor: [] for factor in factors}
for batch in range(n_batches):
    X = samples_at(batch)
    for factor, model in models.items():
        model.partial_fit(X)
        found[factor].append(model.components_ @ plane.T)

# %%
# What they find
# --------------
# Before the move, in the middle of it, at its end, and much later:

fig, axes = plt.subplots(1, 4, figsize=(12, 3.8), layout="constrained", sharex=True, sharey=True)
for ax, batch in zip(axes, [9, 19, 29, 59], strict=True):
    ax.scatter(*(samples_at(batch) @ plane.T).T, s=4, color="C2")
    ax.plot(*patterns_at(batch)[[0, 1, 2, 0]].T, "k:", linewidth=2, label="truth")
    for factor in (1.0, 0.7):
        ax.plot(*found[factor][batch][[0, 1, 2, 0]].T, color=factors[factor], label=f"forget_factor={factor}")
    ax.set(title=f"Batch {batch + 1}", aspect="equal", xlabel="first direction")
axes[0].set_ylabel("second direction")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

plt.show()

# %%
# How far they lag behind
# -----------------------
# A model that forgets nothing still describes what was long ago. The faster a model forgets, the closer it follows,
# and the fewer samples it rests on: with small batches a factor nearer to 1 is the better choice.


def error(components, truth):
    """Return the relative error of patterns, in the order that suits them best."""
    return min(np.linalg.norm(components[list(p)] - truth) for p in permutations(range(3))) / np.linalg.norm(truth)


fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for factor, color in factors.items():
    errors = [error(components, patterns_at(batch)) for batch, components in enumerate(found[factor])]
    ax.plot(np.arange(n_batches) + 1, errors, color=color, label=factor)
ax.axvspan(10, 30, color="0.92")
ax.text(20, 0.01, "the pattern moves", ha="center")
ax.set(xlabel="batch", ylabel="relative error of the patterns", ylim=(0, None))
ax.legend(title="forget_factor", loc="upper left")

plt.show()

# %%
# Sources may come and go in a stream, too: each has its own noise level, see
# :ref:`sphx_glr_gallery_plot_noisy_sources.py`.
