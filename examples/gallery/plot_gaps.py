"""
=============================
Images with half their pixels
=============================

Entries of a table may be missing: a sensor failed, a question was not asked. With ``missing="allow"``, NaN stands for
what is not known. The memberships of a sample follow from what is there, and the patterns from all samples together.
"""

# %%
# Digits, half of them gone
# -------------------------
# Every pixel of scikit-learn's digits is removed with probability 1/2.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
rng = np.random.default_rng(0)

digits = load_digits().data
holes = np.where(rng.random(digits.shape) < 0.5, np.nan, digits)

# %%
# A fit of the pixels that are there, and one with the mean of each pixel in the gaps. Memberships times patterns
# rebuild whole images.

model = DBMD(n_components=20, missing="allow", random_state=0).fit(holes)
rebuilt = model.inverse_transform(model.transform(holes))

filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
by_means = DBMD(n_components=20, random_state=0).fit(filled)
rebuilt_by_means = by_means.inverse_transform(by_means.transform(filled))

gone = np.isnan(holes)
rows = {
    "as it was": digits,
    "what is there": holes,
    "gaps allowed": rebuilt,
    "means in gaps": rebuilt_by_means,
}
for name, values in list(rows.items())[2:]:
    print(f"{name}: root mean square error of missing pixels {np.sqrt(np.mean((values - digits)[gone] ** 2)):.2f}")

shown = [np.flatnonzero(load_digits().target == digit)[3] for digit in range(10)]
grey = plt.get_cmap("gray_r").with_extremes(bad="#e8a33d")
fig, axes = plt.subplots(4, 10, figsize=(9.5, 4.5), layout="constrained")
for line, (name, values) in zip(axes, rows.items(), strict=True):
    line[0].set_ylabel(name)
    for ax, i in zip(line, shown, strict=True):
        ax.imshow(values[i].reshape(8, 8), cmap=grey, vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])

plt.show()

# %%
# How much may be missing
# -----------------------
# Mixtures of four patterns with 50 features, made up, so that memberships are known. With 60 % of the entries
# missing, the error is half as large again. Means in the gaps pull samples to the middle, and leaving out samples with
# a gap leaves hardly any: at 10 % one sample in 200 is whole.

patterns = rng.uniform(size=(4, 50))
truth = rng.dirichlet(np.full(4, 0.3), 1000)
clean = truth @ patterns
X = clean + np.sqrt(clean.var(axis=0).mean() / 10**1.5) * rng.normal(size=clean.shape)


def error(model, X):
    """Return the root mean square error of the memberships, in the order of components that comes nearest."""
    H = model.transform(X)
    return min(np.sqrt(np.mean((H[:, order] - truth) ** 2)) for order in permutations(range(4)))


fractions = [0.0, 0.15, 0.3, 0.45, 0.6]
chance = rng.random(X.shape)
errors = {"gaps allowed": [], "means in gaps": []}
for fraction in fractions:
    holed = np.where(chance < fraction, np.nan, X)
    model = DBMD(n_components=4, missing="allow", random_state=0).fit(holed)
    errors["gaps allowed"].append(error(model, holed))
    filled = np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed)
    errors["means in gaps"].append(error(DBMD(n_components=4, random_state=0).fit(filled), filled))

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for (name, values), color in zip(errors.items(), ["C0", "C1"], strict=True):
    ax.plot(100 * np.array(fractions), values, "o-", color=color, label=name)
    ax.annotate(f"{values[-1]:.3f}", (60, values[-1]), (6, 0), textcoords="offset points", va="center", color=color)
ax.set(xlabel="% of entries missing", ylabel="error of memberships", ylim=(0, None), xlim=(-2, 68))
ax.legend()

plt.show()

# %%
# Gaps must not depend on the values that are missing. Where small values are missing because they are small, below a
# limit of detection, say, patterns come out too large there.
