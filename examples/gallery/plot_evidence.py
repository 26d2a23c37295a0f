"""
==================================
Evidence instead of the peak (MAP)
==================================

The paper maximises the posterior over the patterns and all memberships together (``inference="map"``). Each sample's
memberships then fit its noise, and the patterns move outwards as long as the fit runs. By default, dbmd integrates
the memberships out (``inference="evidence"``): the patterns come close to the true ones, and stay there.
"""

# %%
# Mixtures of three patterns
# --------------------------
# The samples come from three sources, of which one is very noisy.

import warnings
from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
rng = np.random.default_rng(0)

sigma = np.array([0.1, 0.5, 2.0])
source = rng.integers(3, size=2000)
patterns = 3 * rng.normal(size=(3, 8))
H = rng.dirichlet(np.full(3, 0.4), size=len(source))
X = H @ patterns + sigma[source, np.newaxis] * rng.normal(size=(len(source), 8))

# %%
# Stop after ever more iterations
# -------------------------------
# ``tol=0`` lets a fit run for ``max_iter`` iterations, and the warnings that it has not converged are expected. Both
# fits start from the centres of k-means.


def error(components):
    """Return the relative error of patterns, in the order that suits them best."""
    differences = [np.linalg.norm(components[list(order)] - patterns) for order in permutations(range(3))]
    return min(differences) / np.linalg.norm(patterns)


warnings.simplefilter("ignore", ConvergenceWarning)
start = KMeans(3, n_init=4, random_state=0).fit(X).cluster_centers_
iterations = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
fits = {
    inference: [DBMD(3, inference=inference, init=start, max_iter=n, tol=0).fit(X, source=source) for n in iterations]
    for inference in ("map", "evidence")
}

# %%
# The error of the MAP estimate falls, then rises again, and nothing in the data says when to stop. That of the
# evidence falls and stays where it is.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for (inference, models), color, marker in zip(fits.items(), ["C1", "C0"], "so", strict=True):
    left.plot(iterations, [error(model.components_) for model in models], color=color, marker=marker, label=inference)
left.set(xscale="log", yscale="log", xlabel="iterations", ylabel="relative error of the patterns")
left.legend(title="inference")

center = patterns.mean(axis=0)
plane = np.linalg.svd(patterns - center, full_matrices=False)[2][:2].T
for level, size, color in [(1, 8, "C2"), (0, 8, "C3")]:
    right.scatter(*((X[source == level] - center) @ plane).T, s=size, color=color, label=f"noise {sigma[level]}")
for inference, color in [("map", "C1"), ("evidence", "C0")]:
    for n, model in zip(iterations, fits[inference], strict=True):
        if n in (8, 64, 512):
            corners = (model.components_[[0, 1, 2, 0]] - center) @ plane
            right.plot(*corners.T, color=color, linewidth=1.5, label=inference if n == 8 else None)
right.plot(*((patterns[[0, 1, 2, 0]] - center) @ plane).T, "k:", linewidth=2, label="truth")
right.set(aspect="equal", xlabel="first direction in the plane", ylabel="second direction in the plane")
right.set_title("After 8, 64 and 512 iterations")
right.legend(loc="center left", bbox_to_anchor=(1, 0.5))

plt.show()

# %%
# The noise levels
# ----------------
# The memberships of the MAP estimate take up a part of the noise, so that its levels are too low.

for inference, models in fits.items():
    print(f"{inference:>8}: {np.sqrt(models[-1].noise_variance_).round(3)}, true levels {sigma}")

# %%
# :ref:`sphx_glr_gallery_plot_solvers.py` looks at another choice, how the patterns are found from the statistics.
