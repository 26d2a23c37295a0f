"""A sample of memberships adds, whatever the order and the number of nodes."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dbmd.model.evidence import golden
from dbmd.model.membership_sample import MembershipSample


def of(rows, source_codes, n_sources):
    empty = MembershipSample.empty(n_sources, 2)
    h = np.column_stack([rows, rows]) / 1e6
    return empty + MembershipSample(rows, source_codes, np.full(len(rows), -1), h, None, empty.limit)


@given(st.integers(0, 9000), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_the_sample_does_not_depend_on_nodes(n, n_sources, seed):
    rng = np.random.default_rng(seed)
    rows, source_codes = np.arange(n), rng.integers(0, n_sources, n)
    cut = np.sort(rng.integers(0, n + 1, 2))
    pieces = [of(part, source_codes[part], n_sources) for part in np.split(rows, cut)]
    rng.shuffle(pieces)
    parted, whole = pieces[0] + pieces[1] + pieces[2], of(rows, source_codes, n_sources)
    assert_array_equal(parted.rows, whole.rows)
    assert_array_equal(parted.memberships, whole.memberships)
    counts = np.bincount(source_codes, minlength=n_sources)
    drawn = np.bincount(whole.source_codes, minlength=n_sources)
    assert_array_equal(drawn, np.minimum(counts, whole.limit))


@given(st.integers(0, 9000), st.sampled_from([0.0, 0.6, 0.99]))
@example(9000, 0.6)
def test_no_other_rows_than_the_candidates_are_drawn(n, least):
    # Where all have large golden numbers, as the samples of one source may, a first look finds too few.
    rows = np.arange(17, 17 + int(1.2 * n / (1.0 - least)))
    rows = rows[golden(rows) >= least][:n]
    n = len(rows)
    zeros = np.zeros(n, int)
    whole = of(rows, zeros, 1)
    few = of(rows[:0], zeros[:0], 1).candidates(rows, 0)
    assert_array_equal(of(rows[few], zeros[few], 1).rows, whole.rows)
    # Beside others that are there already, too; those of another source do not matter.
    first = of(rows[: n // 2], zeros[: n // 2], 1)
    rest = rows[n // 2 :]
    few = first.candidates(rest, 0)
    assert_array_equal((first + of(rest[few], 0 * rest[few], 1)).rows, whole.rows)
    assert len(few) <= len(first.candidates(rest, 1))
