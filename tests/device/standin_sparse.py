"""CSR matrices of the stand-in for CuPy: ``cupyx.scipy.sparse.csr_matrix``."""

import numpy as np
import scipy.sparse

_bound = {}


def bind(cupy, ndarray, unwrapped, wrapped):
    """Say what arrays of the device are."""
    _bound.update(cupy=cupy, ndarray=ndarray, unwrapped=unwrapped, wrapped=wrapped)


class csr_matrix:
    """A CSR matrix of the device: three of its arrays."""

    format = "csr"
    ndim = 2
    __array_priority__ = 101
    __array_ufunc__ = None

    def __init__(self, arg1, shape=None, dtype=None, copy=False, *, check_contents=True):
        cupy, ndarray = _bound["cupy"], _bound["ndarray"]
        if isinstance(arg1, csr_matrix):
            parts, shape = (arg1.data, arg1.indices, arg1.indptr), arg1.shape
        elif scipy.sparse.issparse(arg1):
            arg1 = arg1.tocsr()
            parts, shape = [cupy.array(x) for x in (arg1.data, arg1.indices, arg1.indptr)], arg1.shape
        elif isinstance(arg1, ndarray):
            self.__init__(scipy.sparse.csr_matrix(_bound["unwrapped"](arg1)))
            return
        elif isinstance(arg1, tuple) and len(arg1) == 3:
            if not all(isinstance(x, ndarray) and x.ndim == 1 for x in arg1):
                raise ValueError("data, indices, and indptr should be 1-D")
            parts = arg1
        elif isinstance(arg1, tuple) and len(arg1) == 2 and all(isinstance(x, (int, np.integer)) for x in arg1):
            shape = arg1
            parts = cupy.zeros(0, dtype or float), cupy.zeros(0, np.int32), cupy.zeros(shape[0] + 1, np.int32)
        else:
            raise ValueError("Unsupported initializer format")
        data, indices, indptr = parts
        if len(indptr) != shape[0] + 1:
            raise ValueError("index pointer size")
        if data.dtype.char not in "?fdFD" and dtype is None:
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")
        self.data = data if dtype is None else data.astype(dtype, copy=copy)
        self.indices, self.indptr = indices, indptr
        self._shape = tuple(int(x) for x in shape)

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self.data.dtype)
    nnz = property(lambda self: int(self.data.size))
    size = property(lambda self: int(self.data.size))

    @property
    def device(self):
        raise NotImplementedError

    def _theirs(self):
        unwrapped = _bound["unwrapped"]
        return scipy.sparse.csr_matrix(tuple(unwrapped(x) for x in (self.data, self.indices, self.indptr)), self.shape)

    def _mine(self, matrix):
        return type(self)(scipy.sparse.csr_matrix(matrix))

    def __len__(self):
        raise TypeError("sparse matrix length is ambiguous; use getnnz()")

    def get(self, stream=None):
        return scipy.sparse.csr_matrix((self.data.get(), self.indices.get(), self.indptr.get()), self.shape)

    def copy(self):
        return type(self)((self.data.copy(), self.indices.copy(), self.indptr.copy()), self.shape)

    def astype(self, t):  # releases before 14.2 have no copy=False; that of 14.2 returns the matrix itself
        return type(self)((self.data.astype(t), self.indices, self.indptr), self.shape)

    def toarray(self, order=None, out=None):
        return _bound["wrapped"](self._theirs().toarray(order=order or "C"), ())

    todense = toarray

    def tocsr(self, copy=False):
        return self

    def __matmul__(self, other):
        if isinstance(other, _bound["ndarray"]):
            return _bound["wrapped"](np.asarray(self._theirs() @ _bound["unwrapped"](other)), ())
        if isinstance(other, csr_matrix):
            return self._mine(self._theirs() @ other._theirs())
        return NotImplemented

    dot = __matmul__

    def __rmatmul__(self, other):
        if isinstance(other, _bound["ndarray"]):
            return _bound["wrapped"](np.asarray(_bound["unwrapped"](other) @ self._theirs()), ())
        return NotImplemented

    def __mul__(self, other):
        if np.isscalar(other):
            return type(self)((self.data * other, self.indices, self.indptr), self.shape)
        return self @ other

    __rmul__ = __mul__

    def multiply(self, other):
        if np.isscalar(other):
            return self * other
        return self._mine(self._theirs().multiply(_bound["unwrapped"](other)))

    def power(self, n, dtype=None):
        return type(self)((self.data**n, self.indices, self.indptr), self.shape)

    def sum(self, axis=None, dtype=None, out=None):
        return _bound["wrapped"](np.asarray(self._theirs().sum(axis=axis, dtype=dtype)), ())

    def min(self, axis=None, out=None, *, explicit=False):
        return _Dense(_bound["wrapped"](self._theirs().min(axis=axis).toarray(), ()))

    def max(self, axis=None, out=None, *, explicit=False):
        return _Dense(_bound["wrapped"](self._theirs().max(axis=axis).toarray(), ()))

    def __getitem__(self, key):
        unwrapped = _bound["unwrapped"]
        if isinstance(key, _bound["ndarray"]):
            key = unwrapped(key)
        elif isinstance(key, tuple):
            key = tuple(unwrapped(part) for part in key)
        elif isinstance(key, np.ndarray):
            raise IndexError("index of NumPy")
        return self._mine(self._theirs()[key])

    @property
    def T(self):
        return self.transpose()

    def transpose(self, axes=None, copy=False):
        return _Transposed(self)

    @property
    def has_sorted_indices(self):
        return bool(self._theirs().has_sorted_indices)

    @property
    def has_canonical_format(self):
        return bool(self._theirs().has_canonical_format)

    def sum_duplicates(self):
        matrix = self._theirs().copy()
        matrix.sum_duplicates()
        fresh = self._mine(matrix)
        self.data, self.indices, self.indptr = fresh.data, fresh.indices, fresh.indptr

    def sort_indices(self):
        matrix = self._theirs().copy()
        matrix.sort_indices()
        fresh = self._mine(matrix)
        self.data, self.indices = fresh.data, fresh.indices


csr_matrix.__module__ = "cupyx.scipy.sparse._csr"


class _Dense:
    """The least or largest entries of rows or columns: CuPy returns them as a sparse matrix of another format."""

    def __init__(self, array):
        self.toarray = lambda: array


class _Transposed:
    """The transpose of a CSR matrix, of which only products are computed."""

    __array_ufunc__ = None

    def __init__(self, matrix):
        self.T = matrix
        self.shape = matrix.shape[::-1]

    def __matmul__(self, other):
        if not isinstance(other, _bound["ndarray"]):
            return NotImplemented
        return _bound["wrapped"](np.asarray(self.T._theirs().T @ _bound["unwrapped"](other)), ())

    def tocsr(self):
        return csr_matrix(scipy.sparse.csr_matrix(self.T._theirs().T))
