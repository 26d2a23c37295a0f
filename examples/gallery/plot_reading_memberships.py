"""
=======================
How to read memberships
=======================

The memberships of a sample are non-negative and sum to one: they are the share that each pattern has in it. With
three patterns they are a point in a triangle, so that all samples can be seen at once.
"""

# %%
# Three patterns
# --------------
# Zeros, fours and sixes are handwritten digits that ship with scikit-learn.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from sklearn.datasets import load_digits

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
colors = ["C0", "C1", "C3"]

X, digit = load_digits(return_X_y=True)
chosen = np.isin(digit, [0, 4, 6])
X, digit = X[chosen], digit[chosen]

model = DBMD(n_components=3, random_state=0).fit(X)
H = model.transform(X)
print(H[:4].round(2))

# %%
# The triangle
# ------------
# Each corner stands for one pattern, whose image is shown there. A sample at a corner consists of that pattern alone,
# one on an edge is a mixture of two, and one inside has something of all three. The colours show which digit it is;
# the fit did not know.

corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
points = H @ corners

fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
ax.fill(*corners.T, facecolor="none", edgecolor="0.6")
for value, color, marker in zip([0, 4, 6], colors, "o^s", strict=True):
    ax.scatter(*points[digit == value].T, s=24, color=color, marker=marker, alpha=0.6, label=f"a {value}")
for corner, component, shift in zip(corners, model.components_, [(-40, -10), (40, -10), (0, 36)], strict=True):
    image = OffsetImage(component.reshape(8, 8), cmap="gray_r", zoom=5)
    ax.add_artist(AnnotationBbox(image, corner, xybox=shift, boxcoords="offset points", pad=0.1))
ax.set(aspect="equal", xlim=(-0.2, 1.2), ylim=(-0.15, 1.1))
ax.set_axis_off()
ax.legend(loc="upper right", title="handwritten")

plt.show()

# %%
# Pure and mixed samples
# ----------------------
# The purest samples of each pattern look like it. Those that are most mixed are the ones that a person would hesitate
# about, or that are written in a way that no pattern stands for.

purest = np.argsort(-H, axis=0)[:4].T.ravel()
most_mixed = np.argsort(H.max(axis=1))[:12]

fig = plt.figure(figsize=(8, 5.2), layout="constrained")
for panel, rows, title in zip(fig.subfigures(2, 1), [purest, most_mixed], ["Purest", "Most mixed"], strict=True):
    panel.suptitle(title)
    axes = panel.subplots(2, 12, height_ratios=[1, 1])
    for (image, bars), i in zip(axes.T, rows, strict=True):
        image.imshow(X[i].reshape(8, 8), cmap="gray_r")
        image.set(xticks=[], yticks=[])
        bars.bar(range(3), H[i], color=colors)
        bars.set(xticks=range(3), yticks=[], ylim=(0, 1))
    axes[1, 0].set_yticks([0, 1])
    axes[1, 0].set_ylabel("membership")
    panel.supxlabel("component")

plt.show()

# %%
# What memberships are not
# ------------------------
# They are no probabilities of a class: a membership of 0.6 does not say that three in five such samples belong to a
# cluster, but that three fifths of this sample are that pattern. ``predict`` returns the largest one, and with it
# gives up what is between the corners.

largest = H.max(axis=1)
print(f"more than 90 % one pattern: {np.mean(largest > 0.9):.0%} of the samples")
print(f"less than 60 % of any pattern: {np.mean(largest < 0.6):.0%} of the samples")

# %%
# :ref:`sphx_glr_gallery_plot_spectra.py` has mixtures whose true shares are known.
