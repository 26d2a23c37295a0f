"""
==================================
Materials in a hyperspectral image
==================================

A pixel of a hyperspectral image covers several materials, and its spectrum is a mixture of theirs. Unmixing recovers
the spectra of the materials and a map of how much of each there is.
"""

# %%
# A scene of four materials
# -------------------------
# The image has 60 x 60 pixels and 120 bands: a river in a land of woods, fields and rock. Slopes in the sun are
# bright and others lie in the shade, so that every spectrum is multiplied by an unknown factor.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from dbmd import DBMD

plt.style.use("tableau-colorblind10")
# sphinx_gallery_thumbnail_number = 2
rng = np.random.default_rng(0)

shape = 60, 60
wavelength = np.linspace(0.4, 2.5, 120)  # micrometres


def bump(center, width):
    """Return a smooth peak on the wavelengths."""
    return np.exp(-(((wavelength - center) / width) ** 2))


materials = ["woods", "fields", "rock", "water"]
spectra = np.array(
    [
        0.04 + 0.06 * bump(0.55, 0.04) + 0.5 * bump(1.05, 0.4) + 0.2 * bump(1.65, 0.15) + 0.1 * bump(2.2, 0.15),
        0.08 + 0.25 * bump(0.7, 0.2) + 0.3 * bump(1.6, 0.45) + 0.25 * bump(2.2, 0.3),
        0.2 + 0.12 * (wavelength - 0.4) - 0.05 * bump(1.9, 0.1),
        0.02 + 0.12 * bump(0.45, 0.15),
    ]
)

row, column = np.indices(shape)
water = gaussian_filter(1.0 * (np.abs(row - 30 - 12 * np.sin(column / 12)) < 4), 1)
land = gaussian_filter(rng.normal(size=(3, *shape)), (0, 5, 5))
land = np.exp(5 * land / land.std())
land *= (1 - water) / land.sum(axis=0)
abundance = np.stack([*land, water]).reshape(4, -1).T  # (3600, 4), rows that sum to one

light = np.clip(1 + 7 * gaussian_filter(rng.normal(size=shape), 4), 0.3, None).reshape(-1, 1)
X = light * (abundance @ spectra) + 0.01 * rng.normal(size=(3600, 120))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
bands = [np.abs(wavelength - center).argmin() for center in (1.05, 0.66, 0.55)]
left.imshow(np.clip(1.3 * X[:, bands], 0, 1).reshape(*shape, 3))
left.set(title="The scene, in colour infrared", xticks=[], yticks=[])
for material, spectrum, color in zip(materials, spectra, ["C3", "C1", "C2", "C0"], strict=True):
    right.plot(wavelength, spectrum, color=color, linewidth=2, label=material)
right.set(title="True spectra", xlabel="wavelength (µm)", ylabel="reflectance", ylim=(0, None))
right.legend()

plt.show()

# %%
# Divide each pixel by its sum
# ----------------------------
# The model takes a sample for a weighted *mean* of the patterns, but a pixel in the shade is darker than any mean.
# Divided by its sum, a pixel no longer depends on the light, and is a weighted mean of the spectra divided by their
# sums. ``scaling="sum"`` does this while the data are read, and again in ``transform``.

as_measured = DBMD(n_components=4, random_state=0).fit(X)
divided = DBMD(n_components=4, scaling="sum", random_state=0).fit(X)

# %%
# Its weights are then shares of the *light* that a pixel reflects. Water is dark, so its share of the light is
# smaller than its share of the area. Where the brightness of the materials is known, from a library of spectra, say,
# this is put right by a division.

brightness = spectra.sum(axis=1)


def matched(H, truth):
    """Return memberships with their columns in the order that comes nearest to the truth."""
    return min((H[:, order] for order in permutations(range(4))), key=lambda H: np.sum((H - truth) ** 2))


light_share = abundance * brightness / (abundance @ brightness)[:, np.newaxis]
area = matched(divided.transform(X), light_share) / brightness
area /= area.sum(axis=1, keepdims=True)
maps = {
    "truth": abundance,
    "divided": area,
    "as measured": matched(as_measured.transform(X), abundance),
}
for name in ("divided", "as measured"):
    print(f"{name}: root mean square error of the abundances {np.sqrt(np.mean((maps[name] - abundance) ** 2)):.3f}")

# %%
# The maps
# --------

fig, axes = plt.subplots(3, 4, figsize=(9, 6.6), layout="constrained")
for line, (name, found) in zip(axes, maps.items(), strict=True):
    line[0].set_ylabel(name)
    for ax, values in zip(line, found.T, strict=True):
        image = ax.imshow(values.reshape(shape), cmap="cividis", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
for ax, material in zip(axes[0], materials, strict=True):
    ax.set_title(material)
fig.colorbar(image, ax=axes, label="abundance", shrink=0.6)

plt.show()

# %%
# Without the division, shade is taken for water: both are dark.
#
# The spectra
# -----------
# Both are divided by their sums. The pixels of the scene are all that the fit has seen: no spectra were given. That
# of water is the least exact, for its dark pixels are the noisiest after the division.

true_spectra = spectra / brightness[:, np.newaxis]
found_spectra = matched(divided.components_.T, true_spectra.T).T

fig, axes = plt.subplots(1, 4, figsize=(11, 2.8), layout="constrained", sharey=True)
for ax, material, true, found in zip(axes, materials, true_spectra, found_spectra, strict=True):
    ax.plot(wavelength, true, color="0.6", linewidth=4, label="true")
    ax.plot(wavelength, found, color="C0", linewidth=1.5, label="found")
    ax.set(title=material, xlabel="wavelength (µm)")
axes[0].set_ylabel("reflectance, divided by its sum")
axes[0].legend()

plt.show()

# %%
# :ref:`sphx_glr_gallery_plot_brightness.py` gives each pixel a brightness of its own instead.
# :ref:`sphx_glr_gallery_plot_tables.py` shows the other case, columns that have to be scaled.
