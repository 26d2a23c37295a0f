"""Models to report on: one that was fitted, and ones of any shape that are made up in no time."""

import numpy as np
from sklearn.datasets import load_digits

from dbmd import DBMD
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.profile import Profile
from dbmd.model.result import Iteration

EVIL = "</script><script>alert('x')</script><!-- & \"<img src=x onerror=alert(1)>"


def fitted_digits():
    """Real digits, three sources of different noise, labels."""
    X, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, len(X))
    X = X + rng.normal(size=X.shape) * np.array([1.0, 8.0, 30.0])[codes][:, None]
    names = np.array(["clinic A", "clinic B", "field station"])
    model = DBMD(10, random_state=0).fit(X, source=names[codes])
    H = model.transform(X, source=names[codes])
    profile = Profile.zero(3, 10, 10)
    for c in range(3):
        profile.count(H[codes == c], c, digit[codes == c])
    model.profile_ = profile
    model.fit_info_ = info(n_samples=len(X), classes=list(range(10)), explained_by_source=[0.7, 0.4, 0.1])
    return model


def made_up(
    *, r=5, m=12, n=200, sources=("a", "b", "c"), classes=None, features=None, iterations=12, empty=0, seed=0, **details
):
    """Return a model that was never fitted but has all that a fit leaves behind; ``empty`` clusters have no samples."""
    rng = np.random.default_rng(seed)
    model = DBMD(r)
    model.components_ = rng.normal(size=(r, m))
    model.sources_ = np.array(sources)
    model.noise_variance_ = rng.permutation(np.geomspace(0.01, 100.0, len(sources)))
    weights = np.full(r, 0.3)
    weights[r - empty :] = 1e-9
    H = rng.dirichlet(weights[: r - empty], n) if r > empty else np.ones((n, 1))
    H = np.pad(H, ((0, 0), (0, r - H.shape[1])))
    codes = rng.integers(0, len(sources), n)
    known = None if classes is None else rng.integers(0, len(classes), n)
    model.profile_ = Profile.zero(len(sources), r, 0 if classes is None else len(classes))
    for c in range(len(sources)):
        rows = codes == c
        model.profile_.count(H[rows], c, None if known is None else known[rows])
    model.cluster_sizes_ = H.sum(axis=0)
    objective = 1000.0 + 500.0 * 0.7 ** np.arange(iterations)
    model.history_ = [Iteration(i + 1, float(f), 0.01, 1, 0, 0, 0, 0, 0.0, True) for i, f in enumerate(objective)]
    model.n_iter_, model.objective_, model.n_features_in_ = iterations, float(objective[-1]), m
    if features is not None:
        model.feature_names_in_ = np.array(features, dtype=object)
    model.fit_info_ = info(n_samples=n, classes=None if classes is None else list(classes), **details)
    return model


def info(**details):
    return {
        "seconds": 2.31,
        "converged": True,
        "seed": 0,
        "dtype": "float64",
        "explained": 0.41,
        "data": {"paths": ["digits.parquet"], "source": "site", "label": "digit", "fingerprint": "9f2b6c0e5d1a"},
        "command": "dbmd fit digits.parquet --components 10",
        "versions": {"dbmd": "0.1.0", "numpy": "2.0.0"},
        "created": "2025-06-03T10:12:45+00:00",
    } | details


def warned(kind="variance", **details):
    """A model with a warning and a fit that would be praised without it."""
    warning = {"kind": kind, "text": 'Set scaling="standard".', "command_text": "Set --scaling standard."}
    crisp = made_up(explained=0.9999, explained_by_source=[0.9999] * 3, warnings=[warning], **details)
    largest = crisp.profile_.largest
    largest[:], largest[:, -1], largest[:, 20] = 0, crisp.profile_.n - 1, 1
    return crisp


def with_parts(**details):
    """A model with offsets, brightness, scaled features, and two known patterns among five."""
    model = made_up(noise_unit="standard deviations", **details)
    model.set_params(scaling="standard", brightness=True, offsets=True, known=model.components_[:2])
    model.component_names_ = np.array(["tree", "water", "pattern 1", "pattern 2", "pattern 3"], dtype=object)
    model.offsets_ = np.random.default_rng(1).normal(size=(len(model.sources_), model.n_features_in_))
    model.offsets_[0] = 0.0
    return model


def wide():
    """Counts of three digits in as many columns as a phone has room for, and values far apart."""
    model = made_up(r=15, m=12, n=24_000, classes=list("abcdefghijklmno"), features=[f"x{j}" for j in range(12)])
    model.components_[:] = 3.0 * np.sign(model.components_)
    model.components_[0, 0], model.components_[1, 1] = 4786.0 + model.components_[:, 0].mean(), -3000.0
    return model


def evil():
    """Names that would take over a page that did not escape them."""
    return made_up(
        m=3,
        sources=(EVIL, "b & c", "'d'"),
        classes=(EVIL, "no"),
        features=[EVIL, '"', "\u2028\ud800<"],
        command=f"dbmd fit '{EVIL}\ud800'",
        data={"paths": [EVIL], "source": EVIL, "label": EVIL, "fingerprint": EVIL},
        versions={EVIL: EVIL},
        created=EVIL,
        dtype=EVIL,
        warnings=[{"kind": EVIL, "text": EVIL, "command_text": EVIL}],
    )


def large():
    """More of everything than a page can show, with long names."""
    long = "a name that goes on and on, " * 40
    return made_up(
        r=150,
        m=20_000,
        n=3000,
        sources=[f"{long} {c}" for c in range(500)],
        classes=[f"{long} {c}" for c in range(300)],
        features=[f"{long} {j}" for j in range(20_000)],
        iterations=5000,
        explained_by_source=[0.5] * 500,
        data={"paths": [f"{long} {c}" for c in range(1000)], "source": long, "label": long, "fingerprint": long},
        command=long * 100,
    )


def sample_of(model, n=300, H=None, classes=0):
    """Memberships of some samples of a model, as a fit keeps them."""
    rng = np.random.default_rng(0)
    r, n_sources = len(model.components_), len(model.sources_)
    H = rng.dirichlet(np.full(r, 0.3), n) if H is None else H
    class_codes = rng.integers(-1, classes, len(H)) if classes else np.full(len(H), -1)
    limit = MembershipSample.empty(n_sources, r).limit
    return MembershipSample(np.arange(len(H)) * 3, rng.integers(0, n_sources, len(H)), class_codes, H, None, limit)


def with_std(model, std):
    """Return the model with standard deviations of its components, as if a fit had found them."""
    model.__class__ = type("DBMD", (DBMD,), {"components_std_": std})
    return model


def with_views():
    """Spectra of three patterns with their deviation, of the pixels of a picture, and what a page of them needs."""
    t = np.linspace(0, 1, 60)
    model = made_up(r=3, m=60, n=24 * 30, classes=list("xy"), features=[f"{400 + 5 * j} nm" for j in range(60)])
    model.components_ = np.stack([np.exp(-(((t - c) / 0.15) ** 2)) for c in (0.2, 0.5, 0.8)])
    model = with_std(model, np.full((3, 60), 0.02))
    model.membership_sample_ = sample_of(model, classes=2)
    H = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 24 * 30)
    H[5] = np.nan
    return model, {"map_shape": (24, 30), "memberships": H}
