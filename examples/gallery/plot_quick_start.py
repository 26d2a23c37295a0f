"""
===================================
Quick start: digits from three labs
===================================

Three labs scan handwritten digits, each with a scanner of its own quality. :class:`~dbmd.DBMD` finds ten patterns
that all labs share, the memberships of every digit in them, and the noise level of each lab, without any labels.
"""

# %%
# Digits from three labs
# ----------------------
# The digits ship with scikit-learn: 1,797 images of 8 x 8 pixels from 0 to 16. Each is assigned to a lab at random,
# and gets the noise of that lab.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
# sphinx_gallery_thumbnail_number = 2
rng = np.random.default_rng(0)

noise = {"lab A": 1.0, "lab B": 4.0, "lab C": 12.0}  # standard deviation, in units of the pixels
labs = np.array(list(noise))

X, digit = load_digits(return_X_y=True)
source = rng.choice(labs, size=len(X))
X = X + np.array([noise[lab] for lab in source])[:, np.newaxis] * rng.normal(size=X.shape)

# %%
# Fit
# ---
# ``source`` is a label for each sample. Nothing else about the labs is given.

model = DBMD(n_components=10, random_state=0).fit(X, source=source)
H = model.transform(X, source=source)
print("memberships of the first digit:", H[0].round(2))

# %%
# The patterns
# ------------
# The rows of ``components_`` are images, too, ordered by size, which is the sum of their memberships. Most look like
# a digit; a digit that is written in two ways may have two patterns, and an 8, which resembles several others, none.

fig, axes = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
for ax, component, size in zip(axes.flat, model.components_, model.cluster_sizes_, strict=True):
    ax.imshow(component.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    ax.set_title(f"size {size:.0f}", fontsize="medium")
    ax.set(xticks=[], yticks=[])
fig.suptitle("Components")

plt.show()

# %%
# What is left of the noise
# -------------------------
# ``inverse_transform`` turns memberships into images again. A digit of lab C can hardly be read; as a mixture of ten
# patterns that the other labs helped to find, it can.

rebuilt = model.inverse_transform(H)

fig = plt.figure(figsize=(8, 6.6), layout="constrained")
for panel, lab in zip(fig.subfigures(3, 1), labs, strict=True):
    panel.suptitle(f"{lab}, noise {noise[lab]:g}")
    axes = panel.subplots(2, 8)
    for column, j in enumerate(np.flatnonzero(source == lab)[:8]):
        axes[0, column].imshow(X[j].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axes[1, column].imshow(rebuilt[j].reshape(8, 8), cmap="Blues", vmin=0, vmax=16)
    axes[0, 0].set_ylabel("scanned")
    axes[1, 0].set_ylabel("rebuilt")
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])

plt.show()

# %%
# The noise of each lab
# ---------------------
# ``noise_variance_`` is in the order of ``sources_``. What ten patterns cannot express, a standard deviation of about
# 2.7 here, counts as noise as well; the solid curve shows what to expect.

found = np.sqrt(model.noise_variance_)
put_in = np.array([noise[lab] for lab in model.sources_])

fig, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
grid = np.linspace(0, 13)
ax.plot(grid, grid, color="0.7", linestyle=":", label="noise alone")
ax.plot(grid, np.hypot(grid, 2.7), color="0.5", label="noise and misfit")
ax.plot(put_in, found, "o", markersize=8, label="found")
for lab, x, y in zip(model.sources_, put_in, found, strict=True):
    ax.annotate(lab, (x, y), xytext=(8, -12), textcoords="offset points")
ax.set(xlabel="standard deviation put in", ylabel="standard deviation found", xlim=(0, 14), ylim=(0, 14))
ax.legend()

plt.show()

# %%
# :ref:`sphx_glr_gallery_plot_noisy_sources.py` shows what it is worth to weigh samples by their noise, and
# :ref:`sphx_glr_gallery_plot_reading_memberships.py` how to read memberships.
