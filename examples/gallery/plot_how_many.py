"""
===============================
How many patterns, and how sure
===============================

Patterns that are in the data are found by either half of them; a pattern too many is another one in each half. That
says how many to take, and which of them to trust.
"""

# %%
# Mixtures of five patterns
# -------------------------
# 1,200 samples from two labs, one of which is noisier. We know that there are five patterns; the program does not.

import matplotlib.pyplot as plt
import numpy as np

import dbmd

plt.style.use("tableau-colorblind10")

rng = np.random.default_rng(0)
patterns = rng.random((5, 40))
truth = rng.dirichlet([0.3] * 5, 1200)
lab = np.where(np.arange(1200) % 3, "quiet", "noisy")
X = truth @ patterns + rng.normal(size=(1200, 40)) * np.where(lab == "quiet", 0.1, 0.3)[:, None]

# %%
# The curve
# ---------
# For each number, both halves are fitted, and the memberships of the same samples are compared. The worst pair of
# patterns decides: the largest number is proposed for which even this pair agrees. Explained variance is no such
# guide: it grows with every pattern, real or not.

choice = dbmd.choose_components(X, range(3, 8), source=lab, random_state=0)
print(choice.sentence)

ax = dbmd.pl.choice(choice)

plt.show()

# %%
# Which patterns
# --------------
# A fit with two patterns too many, by mistake. With ``halves=True`` it says which ones depend on the samples that were
# seen.

model = dbmd.DBMD(n_components=7, halves=True, random_state=0).fit(X, source=lab)
print(model.agreement_.round(2))

ax = dbmd.pl.agreement(model)

plt.show()

# %%
# How sure of a membership
# ------------------------
# A fit with the number that was proposed. In the picture, a sample lies between the patterns that it is made of;
# colours say how uncertain its memberships are: those of the noisy lab more than those of the other.

model = dbmd.DBMD(n_components=choice.n_components, random_state=0).fit(X, source=lab)
H, std = model.transform(X, source=lab, return_std=True)
for name in model.sources_:
    print(f"{name}: standard deviation of a membership {std[lab == name].mean():.3f}")

ax = dbmd.pl.simplex(model, H, color=std.max(axis=1))
ax.figure.axes[-1].set_ylabel("largest standard deviation of its memberships")

plt.show()

# %%
# Patterns are numbered by size. Matched to those that we know, about nine of ten true memberships are within 1.645
# standard deviations of what was found. :doc:`/how-many` says what this rests on, and where it does not hold.

order = [int(np.argmax(np.corrcoef(each, model.components_)[0, 1:])) for each in patterns]
inside = np.abs(H[:, order] - truth) <= 1.645 * std[:, order]
print(f"{inside.mean():.0%} of the true memberships are inside")
