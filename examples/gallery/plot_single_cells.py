"""
=======================================
Gene programs of cells from two batches
=======================================

Cells that change from one type to another are mixtures of gene programs rather than members of one cluster, and
batches of an experiment differ in depth and so in noise. ``dbmd.tl.dbmd`` fits an AnnData, takes batches for sources,
and puts what it finds where the tools of scanpy look for it.
"""

# %%
# Cells on the way from one type to two others
# --------------------------------------------
# Of 3,000 made-up cells, some are stem cells, and the others are on their way to one of two types. A cell is a
# mixture of three programs over 300 genes, and its counts are drawn from it: about 2,000 in the first batch, and 300
# in the second.

import anndata as ad
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

import dbmd

plt.style.use("tableau-colorblind10")
rng = np.random.default_rng(0)

n_cells, n_genes = 3000, 300
programs = rng.gamma(2.0, size=(1, n_genes)) * np.exp(1.2 * rng.normal(size=(3, n_genes)))
programs /= programs.sum(axis=1, keepdims=True)

progress = rng.beta(0.7, 0.7, size=n_cells)  # 0: a stem cell, 1: at the end of its way
fate = rng.integers(1, 3, size=n_cells)
truth = np.zeros((n_cells, 3))
truth[:, 0] = 1 - progress
truth[np.arange(n_cells), fate] = progress

batch = rng.choice(["deep", "shallow"], size=n_cells)
depth = np.where(batch == "deep", 2000, 300) * rng.lognormal(sigma=0.3, size=n_cells)
counts = rng.poisson(depth[:, np.newaxis] * (truth @ programs))
adata = ad.AnnData(counts.astype(float), obs=pd.DataFrame({"batch": batch}, index=[f"cell{i}" for i in range(n_cells)]))

# %%
# Relative counts, not their logarithms
# -------------------------------------
# A mixture of programs is a mean of their *relative* counts, and a logarithm would bend it. So the counts of each
# cell are divided by their sum. Each gene is then divided by its standard deviation, so that the most abundant do not
# decide alone.

adata.X /= adata.X.sum(axis=1, keepdims=True)
adata.X /= adata.X.std(axis=0)

dbmd.tl.dbmd(adata, n_components=3, batch_key="batch", random_state=0)
print(adata)

# %%
# Memberships
# -----------
# The memberships are in ``adata.obsm["X_dbmd"]``. They are drawn over the first two principal components: the ends of
# the two ways and the stem cells are the corners of a triangle.

H = adata.obsm["X_dbmd"]
embedding = PCA(n_components=2).fit_transform(adata.X)

fig, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained", sharex=True, sharey=True)
for name, color in [("shallow", "C1"), ("deep", "C0")]:
    axes[0].scatter(*embedding[batch == name].T, s=3, color=color, label=name)
axes[0].set(title="batch", ylabel="second principal component")
axes[0].legend(markerscale=3)
for k, ax in enumerate(axes[1:]):
    points = ax.scatter(*embedding.T, c=H[:, k], s=3, cmap="cividis", vmin=0, vmax=1)
    ax.set_title(f"program {k}")
fig.supxlabel("first principal component", fontsize="medium")
fig.colorbar(points, ax=axes, label="membership")

plt.show()

# %%
# Against the truth
# -----------------
# Programs are matched with the true ones by their memberships. The noise levels of the batches are in
# ``adata.uns["dbmd"]``.

order = [int(np.argmax([np.corrcoef(H[:, k], truth[:, j])[0, 1] for k in range(3)])) for j in range(3)]
for name, variance in zip(adata.uns["dbmd"]["batches"], adata.uns["dbmd"]["noise_variance"], strict=True):
    print(f"noise of the {name} batch: {np.sqrt(variance):.2f}")

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharex=True, sharey=True)
for ax, k, true, title in zip(axes, order, truth.T, ["stem cell", "first fate", "second fate"], strict=True):
    for name, color in [("shallow", "C1"), ("deep", "C0")]:
        ax.scatter(true[batch == name], H[batch == name, k], s=3, color=color, label=name)
    ax.plot([0, 1], [0, 1], "k:", linewidth=1)
    ax.set(title=title, xlabel="true share", aspect="equal")
axes[0].set_ylabel("membership")
axes[0].legend(markerscale=3, title="batch")

plt.show()

# %%
# ``adata`` may also be backed by a file, which is then read piece by piece. :ref:`sphx_glr_gallery_plot_files.py`
# shows the same for tables.
