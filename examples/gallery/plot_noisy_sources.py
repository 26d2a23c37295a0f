"""
==================================
Why it pays to weigh noisy sources
==================================

When some samples are much noisier than others, treating them alike lets the noisy ones spoil the result for all.
Given the source of each sample, :class:`~dbmd.DBMD` finds the noise levels and weighs the samples by their precision.
"""

# %%
# Mixtures from a precise and a noisy source
# ------------------------------------------
# A precise instrument measured 100 samples, a noisy one 500. Each sample is a mixture of the same three patterns of
# 100 features, and the true memberships are known.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from dbmd import DBMD

plt.style.use("tableau-colorblind10")


def measure(noise, seed):
    """Return samples, their sources, the true memberships and the true patterns."""
    rng = np.random.default_rng(seed)
    patterns = rng.uniform(0, 10, size=(3, 100))
    source = np.repeat(["precise", "noisy"], [100, 500])
    H = rng.dirichlet(np.full(3, 0.5), size=len(source))
    sigma = np.where(source == "precise", 0.5, noise)
    return H @ patterns + sigma[:, np.newaxis] * rng.normal(size=(len(source), 100)), source, H, patterns


def error(H, truth):
    """Return the root mean square error of memberships, in the order of the components that suits them best."""
    return min(np.sqrt(np.mean((H[:, order] - truth) ** 2)) for order in permutations(range(3)))


# %%
# The error as one source gets noisier
# ------------------------------------
# What counts is how well the memberships of the *precise* samples are recovered. Four ways to find them: with the
# source of each sample, without it, from the precise samples alone, and by k-means, whose memberships are zero or
# one.

levels = [1, 2, 4, 8, 16]
methods = {
    "DBMD with source": {"color": "C0", "marker": "o"},
    "DBMD without source": {"color": "C1", "marker": "s"},
    "DBMD, precise samples only": {"color": "C4", "marker": "^", "linestyle": "--"},
    "k-means": {"color": "C3", "marker": "x"},
}
errors = np.empty((len(methods), len(levels), 3))
for column, noise in enumerate(levels):
    for seed in range(3):
        X, source, H, _ = measure(noise, seed)
        precise = source == "precise"
        with_source = DBMD(3, random_state=0).fit(X, source=source)
        without = DBMD(3, random_state=0).fit(X)
        alone = DBMD(3, random_state=0).fit(X[precise])
        clusters = KMeans(3, n_init=4, random_state=0).fit_predict(X)[precise]
        errors[:, column, seed] = [
            error(with_source.transform(X[precise], source=source[precise]), H[precise]),
            error(without.transform(X[precise]), H[precise]),
            error(alone.transform(X[precise]), H[precise]),
            error(np.eye(3)[clusters], H[precise]),
        ]

fig, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for (name, style), values in zip(methods.items(), errors, strict=True):
    ax.plot(levels, np.median(values, axis=1), label=name, **style)
    print(f"{name:>26}:", np.median(values, axis=1).round(3))
    ax.fill_between(levels, values.min(axis=1), values.max(axis=1), color=style["color"], alpha=0.15, linewidth=0)
ax.set(xscale="log", yscale="log", xlabel="noise of the noisy source (standard deviation; precise source: 0.5)")
ax.set(ylabel="error of the memberships\nof precise samples", xticks=levels, xticklabels=levels)
ax.set(yticks=[0.02, 0.05, 0.1, 0.2, 0.5], yticklabels=[0.02, 0.05, 0.1, 0.2, 0.5])
ax.minorticks_off()
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))

plt.show()

# %%
# Lines are medians and bands the range over three draws. With ``source`` the noisy samples help a little as long as
# they have something to say, and hardly matter when they are lost in noise. Without it the error grows with their
# noise, and it would have been better to throw them away. k-means has no memberships between zero and one, so its
# error is large anyway. A source whose noise exceeds the distances between the patterns is better left out if it has
# many times more samples than the others: by their number, they still count.
#
# What happens to the patterns
# ----------------------------
# The samples, projected onto the plane of the three true patterns. Weighed by their precision, the noisy samples
# leave the triangle where it belongs; weighed like the others, they distort it.

X, source, H, patterns = measure(noise=16, seed=0)
with_source = DBMD(3, random_state=0).fit(X, source=source)
without = DBMD(3, random_state=0).fit(X)

center = patterns.mean(axis=0)
plane = np.linalg.svd(patterns - center, full_matrices=False)[2][:2].T

fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for name, color, size in [("noisy", "C2", 4), ("precise", "C0", 10)]:
    ax.scatter(*((X[source == name] - center) @ plane).T, s=size, color=color, label=f"{name} samples")
for name, corners, style in [
    ("true patterns", patterns, {"color": "black"}),
    ("found with source", with_source.components_, {"color": "C0", "linestyle": "--"}),
    ("found without source", without.components_, {"color": "C1", "linestyle": "--"}),
]:
    ax.plot(*((corners[[0, 1, 2, 0]] - center) @ plane).T, linewidth=2, label=name, **style)
ax.set(aspect="equal", xlabel="first direction in the plane", ylabel="second direction in the plane")
ax.legend()

for name, variance in zip(with_source.sources_, with_source.noise_variance_, strict=True):
    print(f"noise found in the {name} source: {np.sqrt(variance):.2f}")

plt.show()

# %%
# :ref:`sphx_glr_gallery_plot_evidence.py` shows why the triangle is found at its true size.
