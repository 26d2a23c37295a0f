"""
=============================
Materials in sun and in shade
=============================

The slopes of a landscape that face the sun are bright, the others lie in the shade. The same material then has the same
spectrum in many sizes, which no weighted mean of a few patterns can have. With ``brightness=True`` each sample has a
brightness of its own, from 0 to 1.
"""

# %%
# Hills in the evening sun
# ------------------------
# The image has 64 x 64 pixels and 60 bands: grass, sand and a lake, on hills that are lit from the left. Every spectrum
# is multiplied by how much light the slope gets.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from dbmd import DBMD

rng = np.random.default_rng(3)

shape = 64, 64
band = np.linspace(0.0, 1.0, 60)  # from blue over green and red to infrared


def bump(center, width):
    """Return a smooth peak on the bands."""
    return np.exp(-(((band - center) / width) ** 2))


materials = ["grass", "sand", "lake"]
spectra = np.array(
    [
        0.05 + 0.15 * bump(0.3, 0.07) + 0.6 * bump(0.95, 0.3),
        0.2 + 0.45 * bump(0.6, 0.35) + 0.15 * bump(1.0, 0.2),
        0.05 + 0.3 * bump(0.05, 0.25) + 0.08 * bump(0.35, 0.15),
    ]
)

height = gaussian_filter(rng.normal(size=shape), 5)
height /= height.std()
lake = 1 / (1 + np.exp(12 * (height + 0.9)))
sandy = 1 / (1 + np.exp(-35 * gaussian_filter(rng.normal(size=shape), 4)))
abundance = np.stack([(1 - lake) * (1 - sandy), (1 - lake) * sandy, lake]).reshape(3, -1).T  # (4096, 3)

slope = np.gradient(height, axis=1) * (1 - lake)  # water is flat
light = np.clip(0.6 + 1.6 * slope + 0.02 * rng.normal(size=shape), 0.12, 1.0).reshape(-1, 1)
X = light * (abundance @ spectra) + 0.01 * rng.normal(size=(4096, 60))

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
colors = [np.abs(band - center).argmin() for center in (0.6, 0.3, 0.05)]
axes[0].imshow(np.clip(1.6 * X[:, colors], 0, 1).reshape(*shape, 3))
axes[0].set(title="The scene", xticks=[], yticks=[])
image = axes[1].imshow(light.reshape(shape), cmap="gray", vmin=0, vmax=1)
axes[1].set(title="The light on it", xticks=[], yticks=[])
fig.colorbar(image, ax=axes[1])
for material, spectrum, color in zip(materials, spectra, ["tab:green", "tab:orange", "tab:blue"], strict=True):
    axes[2].plot(band, spectrum, color=color, linewidth=2, label=material)
axes[2].set(title="Spectra in full light", xlabel="band", ylabel="reflectance", ylim=(0, None))
axes[2].legend()

plt.show()

# %%
# With and without brightness
# ---------------------------
# Spectra are not negative, which ``nonnegative=True`` says. Memberships are then the abundances of the materials, and
# the brightness of each pixel is returned beside them.

plain = DBMD(n_components=3, nonnegative=True, random_state=0).fit(X)
bright = DBMD(n_components=3, nonnegative=True, brightness=True, random_state=0).fit(X)
H, found_light = bright.transform(X, return_brightness=True)


def matched(H):
    """Return memberships with their columns in the order that comes nearest to the truth."""
    return min((H[:, order] for order in permutations(range(3))), key=lambda H: np.sum((H - abundance) ** 2))


maps = {"truth": abundance, "brightness=True": matched(H), "brightness=False": matched(plain.transform(X))}
for name, found in list(maps.items())[1:]:
    print(f"{name}: root mean square error of the abundances {np.sqrt(np.mean((found - abundance) ** 2)):.3f}")

fig, axes = plt.subplots(3, 3, figsize=(7.2, 6.6), layout="constrained")
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
# Without brightness the hills show through in every map, and shade is taken for water.
#
# The light that was found
# ------------------------
# Brightness is relative to the brightest samples of a pattern. For grass and sand these are pixels in full light. The
# lake is flat, and gets 0.6 of the light everywhere. Nothing in the data says how bright water would be in full light,
# so its pattern comes out as it is seen, and its brightness as 1.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
axes[0].imshow(found_light.reshape(shape), cmap="gray", vmin=0, vmax=1)
axes[0].set(title="Brightness found", xticks=[], yticks=[])
dots = axes[1].scatter(light, found_light, c=abundance[:, 2], s=2, cmap="viridis", rasterized=True)
axes[1].plot([0, 1], [0, 1], color="0.4", linewidth=1)
axes[1].set(title="Beside the true one", xlabel="light", ylabel="brightness found", aspect="equal")
fig.colorbar(dots, label="abundance of water")

plt.show()

# %%
# J, the negative log evidence, can say whether brightness is there, without knowing the truth. ``check`` compares fits
# of a sample; the gain is by how much J is lower for each sample.

print(DBMD(n_components=3, random_state=0).check(X))

# %%
# :ref:`sphx_glr_gallery_plot_spectra.py` divides each pixel by its sum instead, which works as long as no pixel is very
# dark.
