"""
============================
Tables of columns with units
============================

The columns of a table often have different units, and the one with the largest numbers decides what is found. Columns
that should count alike are divided by their standard deviation first.
"""

# %%
# Thirteen measurements of wine
# -----------------------------
# 178 wines of three cultivars, with the table of their chemical analysis that ships with scikit-learn. The amount of
# proline is some hundreds of mg/l, the hue about one.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from dbmd import DBMD
from dbmd.errors import DataWarning
from dbmd.metrics import clustering_accuracy

plt.style.use("tableau-colorblind10")
colors = ["C0", "C1", "C3"]

wine = load_wine()
X, cultivar = wine.data, wine.target
spread = X.std(axis=0)
print(f"standard deviations from {spread.min():.2f} to {spread.max():.0f}")

# %%
# Unscaled and standardised
# -------------------------
# One fit of the numbers as they are, one with ``scaling="standard"``. The first warns that proline alone decides. In
# the pictures each bar is a wine, split into its three memberships, and the wines are sorted by cultivar.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DataWarning)
    unscaled = DBMD(n_components=3, random_state=0).fit(X)
scaled = DBMD(n_components=3, scaling="standard", random_state=0).fit(X)
models = {"Unscaled": unscaled, "Standardised": scaled}

fig, axes = plt.subplots(2, 1, figsize=(9, 5), layout="constrained", sharex=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    H = model.transform(X)
    order = np.lexsort((H[:, 0] - H[:, 1], cultivar))
    ax.stackplot(np.arange(len(H)), H[order].T, colors=colors, step="mid")
    for boundary in np.flatnonzero(np.diff(cultivar[order])):
        ax.axvline(boundary + 0.5, color="white", linewidth=2)
    accuracy = clustering_accuracy(cultivar, model.labels_)
    ax.set(
        title=f"{name}: {accuracy:.0%} of the wines in the cluster of their cultivar", ylabel="membership", ylim=(0, 1)
    )
    ax.margins(x=0)
axes[1].set(xticks=[29, 94, 154], xticklabels=["cultivar 0", "cultivar 1", "cultivar 2"])

plt.show()

# %%
# Without scaling, the model describes proline and hardly anything else.
#
# The patterns in units
# ---------------------
# ``components_`` are in the units of the table, as something to report. To compare columns, standard deviations from
# the mean are better to look at; ``scale_`` has what columns were divided by.

for name, values in zip(wine.feature_names[:3], scaled.components_.T[:3], strict=True):
    print(f"{name:>12}: {values.round(2)}")
components = (scaled.components_ - X.mean(axis=0)) / scaled.scale_

fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
image = ax.imshow(components, cmap="PuOr_r", vmin=-2, vmax=2, aspect="auto")
ax.set_xticks(range(13), [name.replace("_", " ") for name in wine.feature_names], rotation=40, ha="right")
ax.set_yticks(range(3), [f"component {k}" for k in range(3)])
fig.colorbar(image, label="standard deviations\nfrom the mean")

plt.show()

# %%
# Where the noise of columns is known, divide by it instead of by the standard deviation: the model takes the noise of
# a sample to be the same in all columns. :ref:`sphx_glr_gallery_plot_spectra.py` has data that must *not* be
# standardised.
