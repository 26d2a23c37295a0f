"""How often the truth lies within nominal 90 % intervals, of memberships and of components, on made-up mixtures.

python benchmarks/intervals.py               the settings that the method was made with, a few minutes on two cores
python benchmarks/intervals.py aside         settings that were kept aside until it was finished
python benchmarks/intervals.py all           both

An interval is the value plus and minus 1.645 standard deviations. For memberships these are of
``transform(X, return_std=True)`` with ``kind="peak"`` and ``kind="mean"``, for components ``components_`` and
``components_std_``. It must hold 85 to 95 % of the truths, over all samples and seeds. Memberships are from a Dirichlet
distribution, patterns uniform from 0 to 1 in 50 features. Noise is that of each source, in decibels below the variance
of the samples without it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

from dbmd import DBMD

Z = 1.645  # half of a 90 % interval, in standard deviations
LOW, HIGH = 0.85, 0.95
ZERO = 0.01  # a true membership below that counts as zero
FEATURES = 50


@dataclass(frozen=True)
class Setting:
    """Made-up mixtures.

    Attributes
    ----------
    r : int
        Number of patterns.
    alpha : float or tuple of float
        Of the Dirichlet distribution, of all patterns or of each.
    decibels : tuple of float
        Signal to noise of each source.
    sizes : tuple of int
        Number of samples of each source.
    seeds : tuple of int
        Of the samples.
    """

    r: int
    alpha: float | tuple[float, ...]
    decibels: tuple[float, ...]
    sizes: tuple[int, ...] = (4000,)
    seeds: tuple[int, ...] = (0, 1, 2)

    def __str__(self) -> str:
        noise = " and ".join(f"{each:g}" for each in self.decibels)
        sizes = " and ".join(f"{each:,}" for each in self.sizes)
        alpha = f"{self.alpha:g}" if isinstance(self.alpha, int | float) else ", ".join(f"{a:g}" for a in self.alpha)
        return f"r = {self.r}, Dirichlet({alpha}), {noise} dB, n = {sizes}"

    def made(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return samples, their memberships, the patterns and the source of each sample."""
        rng = np.random.default_rng(seed)
        patterns = rng.uniform(0.0, 1.0, (self.r, FEATURES))
        H = rng.dirichlet(np.broadcast_to(np.asarray(self.alpha, float), self.r), sum(self.sizes))
        clean, source = H @ patterns, np.repeat(np.arange(len(self.sizes)), self.sizes)
        std = np.sqrt(clean.var(axis=0).mean() / 10 ** (np.array(self.decibels) / 10.0))
        return clean + rng.normal(size=clean.shape) * std[source][:, None], H, patterns, source


@dataclass
class Row:
    """A line of the table: sums over seeds of one source of a setting, or of all for its components."""

    what: str
    peak: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    of_zeros: list[float] = field(default_factory=list)
    of_others: list[float] = field(default_factory=list)
    components: list[float] = field(default_factory=list)
    errors: list[tuple[float, float]] = field(default_factory=list)


MADE_WITH = (
    *(Setting(4, alpha, (snr,)) for alpha in (1.0, 0.3, 0.1) for snr in (15.0, 5.0, 0.0, -5.0)),
    *(Setting(3, alpha, (snr,)) for alpha, snr in ((1.0, 15.0), (0.3, 0.0), (0.1, 15.0))),
    *(Setting(10, alpha, (8.0,), seeds=(0, 1)) for alpha in (1.0, 0.3, 0.1)),
    Setting(4, 0.3, (15.0, 0.0), (2000, 2000)),
    Setting(4, 0.1, (15.0, 5.0, -5.0), (1000, 3000, 500)),
    Setting(5, (1.2, 0.6, 0.3, 0.15, 0.1), (12.0,), (5000,)),
)
ASIDE = (
    Setting(3, 0.3, (8.0,), (10_000,), (10, 11)),
    Setting(3, 1.0, (-5.0,), (2000,), (10, 11)),
    Setting(4, 0.5, (10.0,), (2000,), (10, 11)),
    Setting(4, 1.0, (15.0, 0.0), (3000, 1000), (10, 11)),
    Setting(6, 0.2, (5.0,), (6000,), (10, 11)),
    Setting(10, 0.1, (15.0, 0.0), (3000, 3000), (10,)),
    Setting(10, 0.3, (0.0,), (8000,), (10,)),
    Setting(4, (2.0, 0.5, 0.2, 0.2), (8.0, -5.0), (2000, 2000), (10, 11)),
)


def measured(setting: Setting) -> Iterator[Row]:
    """Yield a row for each source of a setting."""
    several = len(setting.sizes) > 1
    rows = [Row(f"{setting}{f', source of {each:g} dB' if several else ''}") for each in setting.decibels]
    for seed in setting.seeds:
        X, H, patterns, source = setting.made(seed)
        model = DBMD(setting.r, random_state=seed).fit(X, source=source)
        distances = np.square(model.components_[:, None] - patterns[None]).sum(axis=2)
        order = linear_sum_assignment(distances.T)[1]
        is_held = np.abs(model.components_[order] - patterns) <= Z * model.components_std_[order]
        for code, row in enumerate(rows):
            own = source == code
            peak, std = (each[:, order] for each in model.transform(X[own], source=source[own], return_std=True))
            mean = model.transform(X[own], source=source[own], kind="mean")[:, order]
            held, is_zero = np.abs(mean - H[own]) <= Z * std, H[own] < ZERO
            row.peak.append(float((np.abs(peak - H[own]) <= Z * std).mean()))
            row.mean.append(float(held.mean()))
            row.of_zeros.append(float(held[is_zero].mean()))
            row.of_others.append(float(held[~is_zero].mean()))
            row.components.append(float(is_held.mean()))
            row.errors.append(tuple(float(np.sqrt(np.square(each - H[own]).mean())) for each in (peak, mean)))
    yield from rows


def verdict(*held: float) -> str:
    """Return whether fractions are as they must be."""
    return "holds" if all(LOW <= each <= HIGH for each in held) else "**does not hold**"


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    chosen = {"made": MADE_WITH, "aside": ASIDE, "all": MADE_WITH + ASIDE}.get((sys.argv[1:] or ["made"])[0])
    if chosen is None:
        sys.exit("Say 'aside' or 'all', or nothing.")
    print("| setting | peak | mean | true zeros | others | | components | | error of peaks | of means |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for setting in chosen:
        for row in measured(setting):
            peak, mean, zeros, others, components = (
                float(np.mean(each)) for each in (row.peak, row.mean, row.of_zeros, row.of_others, row.components)
            )
            errors = np.mean(row.errors, axis=0)
            print(
                f"| {row.what} | {peak:.1%} | {mean:.1%} | {zeros:.1%} | {others:.1%} | {verdict(peak, mean)} | "
                f"{components:.1%} | {verdict(components)} | {errors[0]:.4f} | {errors[1]:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
