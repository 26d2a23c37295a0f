"""
==============================
Batches with different offsets
==============================

Three instruments measure samples of the same kind, and each has its own zero in every channel. A model without offsets
takes the instruments for patterns. With ``offsets=True`` each source has an offset, which is found together with the
patterns.
"""

# %%
# Three instruments
# -----------------
# 2,400 samples are mixtures of three patterns over 40 channels. Instruments have offsets as large as the differences
# between patterns, and one of them is noisier than the others.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
rng = np.random.default_rng(1)

patterns = rng.uniform(size=(3, 40))
truth = rng.dirichlet([0.4, 0.4, 0.4], 2400)
instrument = rng.choice(["a", "b", "c"], 2400)
offset = {name: rng.normal(scale=0.3, size=40) for name in "abc"}
noise = {"a": 0.03, "b": 0.03, "c": 0.1}

X = truth @ patterns
X += np.array([offset[name] + noise[name] * rng.normal(size=40) for name in instrument])

# %%
# Before and after
# ----------------

plain = DBMD(n_components=3, random_state=0).fit(X, source=instrument)
model = DBMD(n_components=3, offsets=True, random_state=0).fit(X, source=instrument)


def error(model):
    """Return the root mean square error of the memberships, in the order of components that comes nearest."""
    H = model.transform(X, source=instrument)
    return min(np.sqrt(np.mean((H[:, order] - truth) ** 2)) for order in permutations(range(3)))


print(f"error of memberships without offsets {error(plain):.3f}, with offsets {error(model):.3f}")
print("noise levels without offsets", np.sqrt(plain.noise_variance_).round(3))
print("noise levels with offsets   ", np.sqrt(model.noise_variance_).round(3))

# %%
# The samples are drawn over the first two principal components: as they were measured, and less the offsets that were
# found. Stars are the patterns of each fit.

codes = np.searchsorted(model.sources_, instrument)
corrected = X - model.offsets_[codes]
panels = {
    f"As measured: error of memberships {error(plain):.2f}": (X, plain),
    f"Less the offsets found: error {error(model):.2f}": (corrected, model),
}

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
for ax, (title, (samples, fitted)) in zip(axes, panels.items(), strict=True):
    pca = PCA(2).fit(samples)
    for name, color in zip("abc", ["C0", "C1", "C3"], strict=True):
        ax.scatter(*pca.transform(samples[instrument == name]).T, s=4, color=color, label=f"instrument {name}")
    corners = pca.transform(fitted.components_)
    ax.scatter(*corners.T, s=220, marker="*", color="black", edgecolor="white", zorder=3, label="patterns")
    ax.set(title=title, xticks=[], yticks=[], aspect="equal")
axes[0].legend(loc="best", markerscale=1.5)

plt.show()

# %%
# The offsets
# -----------
# What all instruments share cannot be told from the patterns, and goes to them. So the offsets are compared with the
# true ones less their mean.

true = np.array([offset[name] for name in model.sources_])
true -= true.mean(axis=0)
found = model.offsets_ - model.offsets_.mean(axis=0)

fig, axes = plt.subplots(1, 3, figsize=(9.5, 2.7), layout="constrained", sharey=True)
for ax, name, color, a, b in zip(axes, model.sources_, ["C0", "C1", "C3"], true, found, strict=True):
    ax.plot(a, color="0.7", linewidth=4, label="true")
    ax.plot(b, color=color, linewidth=1.5, label="found")
    ax.set(title=f"instrument {name}", xlabel="channel")
axes[0].set_ylabel("offset")
axes[0].legend(loc="upper right")

plt.show()

# %%
# An instrument that was not in the fit
# -------------------------------------
# ``transform`` finds the offset and the noise level of a new source from its samples.

new = rng.dirichlet([0.4, 0.4, 0.4], 300)
X_new = new @ patterns + rng.normal(scale=0.3, size=40) + 0.05 * rng.normal(size=(300, 40))
H = model.transform(X_new, source=np.full(300, "d"))
best = min(np.sqrt(np.mean((H[:, order] - new) ** 2)) for order in permutations(range(3)))
print(f"error of memberships of the new instrument {best:.3f}")

# %%
# This works because the instruments measured similar mixtures. If each had samples that no other has, an offset would
# explain this, too: the guide to the model says what is assumed.
