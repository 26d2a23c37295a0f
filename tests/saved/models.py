"""Models to save, and how saved ones are compared."""

import numpy as np

import dbmd
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.profile import Profile


def samples(n=60, m=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.dirichlet(np.full(3, 0.4), n) @ rng.normal(size=(3, m)) * 5 + rng.normal(size=(n, m)) / 3).astype(dtype)


def learned(model):
    found = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    return found | {"membership_sample_": model.membership_sample_}


def assert_same(mine, other):
    """Compare to the bit, types included."""
    assert type(mine) is type(other)
    if isinstance(mine, np.ndarray):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        assert mine.tolist() == other.tolist()
    elif isinstance(mine, dict):
        assert mine.keys() == other.keys()
        for name in mine:
            assert_same(mine[name], other[name])
    elif isinstance(mine, Profile | MembershipSample):
        assert_same(vars(mine), vars(other))
    elif isinstance(mine, list):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            assert_same(a, b)
    else:
        assert mine == other


def there_and_back(model, path):
    model.save(path)
    return dbmd.load(path)
