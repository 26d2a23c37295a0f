"""The first entry that cannot be fitted is found wherever it is, also if threads look for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dbmd.data import finite
from dbmd.data.finite import first_unusable


@given(data=st.data())
@pytest.mark.parametrize("part_bytes", [1, 100, 1 << 40])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_the_first_entry_that_is_not_finite_is_found(part_bytes, make, data):
    n, m = data.draw(st.integers(0, 30)), data.draw(st.integers(1, 4))
    Xt = np.full((n, m), data.draw(st.sampled_from([1.0, 1e308])))  # a sum may overflow
    bad = data.draw(st.lists(st.integers(0, max(n * m - 1, 0)), max_size=2)) if n else []
    Xt.ravel()[bad] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finite, "PART_BYTES", part_bytes)
        patch.setenv("DBMD_NUM_THREADS", "3")
        with np.errstate(over="ignore", invalid="ignore"):
            found = first_unusable(make(Xt))
    assert (found is None) == (not bad)
    if found is not None:
        assert (found.row, found.column) == divmod(min(bad), m)
        assert not np.isfinite(found.value)
