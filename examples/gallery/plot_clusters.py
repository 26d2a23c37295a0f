"""
========================================
The same numbers on a cluster as locally
========================================

With ``engine="dask"`` or ``engine="spark"`` the samples stay on the workers of a cluster. Apart from some thousands
that are drawn for the start, only sums travel, whose size does not depend on the number of samples, and the result is
the same as on one machine.
"""

# %%
# A Dask array
# ------------
# 100,000 samples in ten blocks, made where they are needed: mixtures of four patterns of 60 features. Without a
# client Dask computes in this process; with ``dask.distributed.Client("scheduler:8786")`` the same lines run on a
# cluster.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
# sphinx_gallery_thumbnail_number = 2

feature = np.arange(60)
patterns = np.array([np.exp(-(((feature - center) / 7) ** 2)) for center in (10, 24, 36, 50)])


def make_block(n_samples, block_id):
    """Return the samples of one block."""
    rng = np.random.default_rng(block_id)
    H = rng.dirichlet(np.full(4, 0.4), size=n_samples)
    return H @ patterns + 0.2 * rng.normal(size=(n_samples, 60))


def make_array(n_samples, n_blocks):
    """Return a Dask array of samples."""
    chunks = (n_samples // n_blocks,) * n_blocks, (60,)
    return da.map_blocks(make_block, n_samples // n_blocks, chunks=chunks, dtype=float, meta=np.empty((0, 0)))


X = make_array(100_000, n_blocks=10)
print(X)

# %%
# Fit twice
# ---------
# Once on Dask, and once in memory.

distributed = DBMD(n_components=4, engine="dask", random_state=0).fit(X)
local = DBMD(n_components=4, random_state=0).fit(X.compute())

difference = np.abs(distributed.components_ - local.components_).max()
print(f"largest difference of the components: {difference:.0e}")
print(f"noise: {np.sqrt(local.noise_variance_[0]):.6f} and {np.sqrt(distributed.noise_variance_[0]):.6f}, true 0.2")

fig, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
for k in range(4):
    ax.plot(feature, local.components_[k], color="C8", linewidth=6, label="local" if k == 0 else None)
    ax.plot(feature, distributed.components_[k], color="C0", linewidth=1.5, label="Dask" if k == 0 else None)
ax.set(xlabel="feature", ylabel="components")
ax.legend(title="engine")

plt.show()

# %%
# What travels
# ------------
# ``history_`` counts the numbers that a node sends to the driver. With 60 features and 4 components that is ``60 *
# 4`` and ``4 * 4`` numbers and a few more in each iteration, however many samples the node holds.

n_samples = np.array([1_000, 5_000, 20_000, 100_000])
sent = []
for n in n_samples:
    model = DBMD(n_components=4, engine="dask", random_state=0).fit(make_array(int(n), n_blocks=5))
    sent.append(model.history_[0].total_floats_up)

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(n_samples, 60 * n_samples / 5, color="C1", marker="s", label="held by a node")
ax.plot(n_samples, sent, color="C0", marker="o", label="sent by a node in an iteration")
ax.set(xscale="log", yscale="log", xlabel="samples on five nodes", ylabel="numbers", ylim=(100, None))
ax.legend()

plt.show()

# %%
# :ref:`sphx_glr_gallery_plot_solvers.py` compares what other solvers send.
