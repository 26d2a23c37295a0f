"""Laws of the map of memberships: it is the mean over blocks, whatever the pieces in which samples come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.model import membership_map
from dbmd.model.membership_map import MapSums, MembershipMap, check_map_shape


def plain_map(H, shape, steps):
    """The same in loops: means over blocks, NaN where a block has no memberships."""
    cube = H.reshape(*shape, -1)
    rows, columns = range(0, shape[0], steps[0]), range(0, shape[1], steps[1])
    means = np.full((H.shape[1], len(rows), len(columns)), np.nan)
    for i, a in enumerate(rows):
        for j, b in enumerate(columns):
            block = cube[a : a + steps[0], b : b + steps[1]].reshape(-1, H.shape[1])
            block = block[~np.isnan(block[:, 0])]
            if len(block):
                means[:, i, j] = block.mean(axis=0)
    return means


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 4), st.integers(1, 40), st.integers(0, 99))
def test_it_is_the_mean_over_blocks_in_whatever_pieces_samples_come(height, width, r, piece, seed):
    rng = np.random.default_rng(seed)
    H = rng.dirichlet(np.ones(r), height * width)
    H[rng.random(len(H)) < 0.2] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membership_map, "SIDE", 8)
        sums = MapSums((height, width), r)
        for first in range(0, len(H), piece):
            sums.add(first, H[first : first + piece])
        found = sums.map()
        whole = MembershipMap.of(H, (height, width))
    np.testing.assert_array_equal(found.values, whole.values)
    steps = (-(-height // 8), -(-width // 8))
    np.testing.assert_allclose(found.memberships, plain_map(H, (height, width), steps), atol=0.5 / 254 + 1e-9)
    assert max(found.values.shape[1:]) <= 8


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((9, 12), r"\(9, 12\) makes 108 pixels, but there are 100 rows\. \(10, 10\) would fit"),
        ((100,), r"must be \(height, width\)\. Got \(100,\)"),
        ((10, 10, 3), r"must be \(height, width\)"),
        ((0, 10), r"must be \(height, width\)"),
    ],
)
def test_a_wrong_shape_is_refused_in_words(shape, message):
    with pytest.raises(ValueError, match=message):
        check_map_shape(shape, 100)
    assert check_map_shape(None, 100) is None
    assert check_map_shape([10, 10], 100) == (10, 10)
