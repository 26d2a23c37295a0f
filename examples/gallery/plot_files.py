"""
============================================
A sediment core in files, larger than memory
============================================

Grain sizes of sediment are mixtures of a few end members: what rivers, wind and ice brought. Here three labs have
measured them and each wrote a file; dbmd fits the files as they are, without loading them into memory.
"""

# %%
# Three files
# -----------
# A core of 30,000 slices, measured by three labs in turn, with 48 classes of grain size. The labs differ in
# precision.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

import dbmd

plt.style.use("tableau-colorblind10")
# sphinx_gallery_thumbnail_number = 2
colors = ["C0", "C1", "C3"]
rng = np.random.default_rng(0)

size = np.geomspace(0.5, 1000, 48)  # micrometres
peaks = [(4, 0.9), (35, 0.45), (220, 0.6)]  # of clay, loess and sand: median, width of the logarithm
end_members = np.array([np.exp(-((np.log(size / median) / width) ** 2) / 2) for median, width in peaks])
end_members *= 100 / end_members.sum(axis=1, keepdims=True)  # per cent in each class

depth = np.linspace(0, 300, 30_000)  # metres
waves = np.exp([3 * np.cos(depth / period) for period in (11, 23, 47)]).T
truth = waves / waves.sum(axis=1, keepdims=True)
lab = np.arange(len(depth)) // 50 % 3
X = truth @ end_members + np.array([0.1, 0.4, 1.5])[lab, np.newaxis] * rng.normal(size=(len(depth), 48))

folder = tempfile.TemporaryDirectory()
core, saved = Path(folder.name, "core"), Path(folder.name, "model")
core.mkdir()
for code, name in enumerate(["lab_a", "lab_b", "lab_c"]):
    own = lab == code
    columns = {f"{s:.1f} um": values for s, values in zip(size, X[own].T, strict=True)}
    table = pa.table({"depth": depth[own], "lab": [name] * int(own.sum()), **columns})
    parquet.write_table(table, core / f"{name}.parquet", row_group_size=2000)
print(f"{sum(path.stat().st_size for path in core.iterdir()) / 1e6:.0f} MB in {len(list(core.iterdir()))} files")

# %%
# Open, fit, save
# ---------------
# A folder stands for all files in it. The column ``lab`` names the source of each row, and ``depth`` is no feature.
# Files larger than ``memory``, here 1 MB, are read again in every pass, in pieces.

with dbmd.open_data(core, source="lab", drop=["depth"], memory=1_000_000) as data:
    model = dbmd.DBMD(n_components=3, random_state=0).fit(data)
model.save(saved)

for name, variance in zip(model.sources_, model.noise_variance_, strict=True):
    print(f"{name}: noise {np.sqrt(variance):.2f} %")

# %%
# The command line does the same, and writes a report:
#
# .. code-block:: bash
#
#     dbmd fit core/ -k 3 --source lab --drop depth -o model
#     dbmd transform model core/ -o memberships.parquet
#
# The end members
# ---------------

order = model.components_.argmax(axis=1).argsort()  # from fine to coarse

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.plot(size, X[lab == 2][::500].T, color="0.88", linewidth=0.8, zorder=0)
found = model.components_[order]
for k, name in enumerate(["clay", "loess", "sand"]):
    ax.plot(size, end_members[k], color=colors[k], linewidth=5, alpha=0.35)
    ax.plot(size, found[k], color=colors[k], label=name)
ax.set(xscale="log", xlabel="grain size (µm)", ylabel="per cent in each class")
ax.set_title("Wide lines: true end members, thin lines: found, grey: samples of the noisiest lab")
ax.legend()

plt.show()

# %%
# The core
# --------
# A model that was saved can be loaded elsewhere. The memberships of all rows of the files come in the order of the
# files, by name; their depths put them in the order of the core.

model = dbmd.load(saved)
with dbmd.open_data(core, source="lab", drop=["depth"]) as data:
    H = model.transform(data)
rows = np.argsort(parquet.read_table(core, columns=["depth"])["depth"].to_numpy())
H = H[rows][:, order]

fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.stackplot(depth, H.T, colors=colors, labels=["clay", "loess", "sand"], alpha=0.8)
ax.plot(depth, truth.cumsum(axis=1)[:, :2], color="black", linewidth=1)
ax.set(xlabel="depth (m)", ylabel="membership", xlim=(0, 300), ylim=(0, 1))
ax.set_title("Shares of the end members down the core; black: truth")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))

plt.show()
folder.cleanup()

# %%
# Files that many machines can reach are fitted where they are: :ref:`sphx_glr_gallery_plot_clusters.py`.
