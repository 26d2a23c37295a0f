"""Kernels as functions of arrays of NumPy, so that one test suits all of them."""

import numpy as np
from numpy.testing import assert_array_equal

from dbmd._utils.arrays import to_host
from dbmd.model.gaps import Gaps
from dbmd.registry import load_kernel


def load_on_host(name):
    """Return a kernel by its name; one whose arrays are elsewhere takes and returns arrays of NumPy."""
    kernel = load_kernel(name)
    return kernel if isinstance(kernel.empty((1,), np.float64), np.ndarray) else OnHost(kernel)


class OnHost:
    """A kernel whose arrays are elsewhere: they are copied there and back. It must not change what it is given."""

    def __init__(self, kernel):
        self._kernel = kernel
        self.asarray, self.empty, self.coming = kernel.asarray, kernel.empty, kernel.coming
        self.products, self.Sums = kernel.products, kernel.Sums

    def solve_h(self, Q, Bt, a, Ht0=None, out=None):
        return self._solved(lambda *arrays: self._kernel.solve_h(Q, arrays[0], a, *arrays[1:]), Bt, Ht0, out)

    def solve_h_with_gaps(self, Q, W, gaps, Bt, a, Ht0=None, out=None):
        there = self.there(gaps)

        def solve(Bt, *rest):
            return self._kernel.solve_h_with_gaps(Q, W, there, Bt, a, *rest)

        return self._solved(solve, Bt, Ht0, out)

    def locate(self, mask):
        return Gaps(*map(to_host, self._kernel.locate(self.asarray(mask))))

    def put(self, Xt, gaps, values):
        self._changed(Xt, lambda there: self._kernel.put(there, self.there(gaps), values))

    def put_products(self, Xt, gaps, Ht, W, centre):
        memberships = self.asarray(Ht)
        self._changed(Xt, lambda there: self._kernel.put_products(there, self.there(gaps), memberships, W, centre))

    def sum_log(self, Ht):
        return to_host(self._kernel.sum_log(self.asarray(Ht)))

    def FaceCovariance(self, Q, noise):
        return _Covariance(self, self._kernel.FaceCovariance(Q, noise))

    def GapCovariance(self, Q, W, noise):
        return _Covariance(self, self._kernel.GapCovariance(Q, W, noise))

    def there(self, given):
        """Return an array, Gaps or None as what the kernel takes."""
        if given is None:
            return None
        return Gaps(*map(self.asarray, given)) if isinstance(given, Gaps) else self.asarray(given)

    def _solved(self, solve, Bt, Ht0, out):
        start, given = self.there(Ht0), self.there(Bt)
        target = start if out is Ht0 else self.there(out)
        found = solve(given, start, target)
        assert_array_equal(to_host(given), Bt)
        if start is not None and start is not target:
            assert_array_equal(to_host(start), Ht0)
        if out is None:
            return to_host(found)
        assert found is target
        out[...] = to_host(found)
        return out

    def _changed(self, Xt, change):
        there = self.asarray(Xt)
        change(there)
        Xt[...] = to_host(there)


class _Covariance:
    """The sum of covariances of memberships in arrays of NumPy."""

    def __init__(self, kernel, covariance):
        self._kernel, self._covariance = kernel, covariance

    def add(self, *given):
        self._covariance.add(*map(self._kernel.there, given))

    def send(self):
        self._covariance.send()

    def total(self):
        found = self._covariance.total()
        assert all(isinstance(each, (float, np.ndarray)) for each in found)
        return found
