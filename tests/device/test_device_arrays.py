"""Arrays on a GPU of whatever library: recognised, shared and not copied, handed back."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.engines._device_arrays import as_device_array, as_given, beside, brought_here, has_device, is_on_device
from device.libraries import DataFrame, DeviceArray, Tensor, library
from device.standin import installed

X = np.arange(12.0).reshape(4, 3)
HERE = {
    "an array": X,
    "a list": X.tolist(),
    "a masked array": np.ma.array(X, mask=X > 3),
    "a sparse matrix": sparse.csr_array(X),
    "a matrix by columns": sparse.csc_array(X),
    "a DataFrame": pd.DataFrame({"nnz": [1.0], "data": [2.0]}),
    "a tensor": Tensor(X),
    "a path": "data.npy",
    "nothing": None,
}


@pytest.mark.parametrize("what", HERE)
def test_what_is_here_is_not_on_a_gpu_and_stays_as_it_is(what):
    assert not is_on_device(HERE[what])
    assert brought_here(HERE[what]) is HERE[what]
    assert beside(X, HERE[what]) is X
    assert as_given(X, HERE[what]) is X


def forms(cupy):
    from cupyx.scipy.sparse import csr_matrix

    on_device = cupy.asarray(X)
    return {
        "an array": on_device,
        "a sparse matrix": csr_matrix(sparse.csr_matrix(X)),
        "a tensor": Tensor(on_device),
        "an array of numba": DeviceArray(on_device),
        "a table": DataFrame(dict(zip("abc", X.T, strict=True))),
    }


FORMS = ("an array", "a sparse matrix", "a tensor", "an array of numba", "a table")


@pytest.mark.parametrize("what", FORMS)
def test_what_is_on_a_gpu_is_taken_as_one_of_cupy(what, device):
    found = forms(device)[what]
    assert is_on_device(found)
    taken = as_device_array(found)
    assert type(taken).__module__.startswith("cupy")
    assert_array_equal(taken.get() if what != "a sparse matrix" else taken.get().toarray(), X)
    assert is_on_device(taken)


@pytest.mark.parametrize("what", ["an array", "a tensor", "an array of numba"])
def test_no_copy_is_made(what, device):
    array = device.asarray(X)
    taken = as_device_array(
        {"an array": array, "a tensor": Tensor(array), "an array of numba": DeviceArray(array)}[what]
    )
    array[0, 0] = 77.0
    assert float(taken[0, 0]) == 77.0


@given(transposed=st.booleans(), first=st.integers(0, 2), step=st.integers(1, 2))
def test_rows_are_stored_one_after_the_other(transposed, first, step):
    with installed() as cupy:
        there = cupy.asarray(X)
        there, here = (there.T, X.T) if transposed else (there, X)
        taken = as_device_array(there[:, first::step])
        assert taken.flags.c_contiguous
        assert_array_equal(taken.get(), here[:, first::step])


def test_an_array_stays_on_its_device():
    with installed(n_devices=2) as cupy:
        with cupy.cuda.Device(1):
            array = cupy.asarray(X)
            by_columns = cupy.asarray(np.asfortranarray(X))
        for each in (array, by_columns, Tensor(array)):
            assert as_device_array(each).device.id == 1
        assert beside(X, array).device.id == 1


def test_what_holds_no_numbers_is_refused(device):
    with pytest.raises(TypeError, match="must be numbers of a type that NumPy has"):
        as_device_array(device.asarray(X + 1j))


def test_a_tensor_that_is_part_of_a_gradient_is_recognised_and_refused_with_a_reason(device):
    with library() as tensors:
        tensor = tensors.Tensor(device.asarray(X), requires_grad=True)
        assert is_on_device(tensor)
        with pytest.raises(TypeError, match=r"array of tensors .*detach"):
            as_device_array(tensor)


def test_text_of_a_column_is_brought_here(device):
    assert brought_here(DataFrame({"lab": ["a", "b"]})["lab"]).tolist() == ["a", "b"]


def test_results_are_of_the_library_that_they_were_computed_from(device):
    found = device.asarray(X)
    with library() as tensors:
        given_back = as_given(found, tensors.Tensor(found))
        assert type(given_back) is tensors.Tensor
        assert given_back.array.device == found.device
        assert type(beside(X, tensors.Tensor(found))) is tensors.Tensor
    for what in FORMS:
        if what != "a tensor":
            assert as_given(found, forms(device)[what]) is found


def test_without_cupy_there_is_no_device_and_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)  # what makes an import fail
    assert not has_device()

    class Foreign:
        __cuda_array_interface__ = None

    with pytest.raises(ImportError, match=r"needs the package 'cupy'.*dbmd\[gpu\]"):
        as_device_array(Foreign())


def test_a_machine_without_a_gpu_has_no_device():
    with installed(n_devices=0):
        assert not has_device()
    with installed(n_devices=1):
        assert has_device()


def test_a_table_of_a_library_that_takes_arrays_gives_arrays_of_cupy(device, monkeypatch):
    """cuDF has ``from_dlpack``, but for capsules alone."""
    table = type("DataFrame", (DataFrame,), {"__module__": "tensors"})(dict(zip("abc", X.T, strict=True)))
    with library() as tensors:
        monkeypatch.setattr(tensors, "from_dlpack", None)
        found = device.asarray(X)
        assert as_given(found, table) is found
        monkeypatch.setattr(tensors, "from_dlpack", lambda array: pytest.fail("it takes capsules alone"))
        assert as_given(found, table) is found


def test_an_array_of_a_subclass_is_taken_as_one_of_cupy_itself(device):
    """As AnnData has them for views."""
    kind = type("ArrayView", (device.ndarray,), {"__module__": "anndata._core.views"})
    array = device.asarray(X)
    view = kind(array.shape, array.dtype, array.data, array.strides)
    assert is_on_device(view)
    taken = as_device_array(view)
    assert type(taken) is device.ndarray
    assert taken.data.ptr == array.data.ptr
    assert_array_equal(taken.get(), X)


def test_a_sparse_matrix_shares_its_arrays_and_nothing_else(device):
    given = forms(device)["a sparse matrix"]
    taken = as_device_array(given)
    assert taken is not given
    assert taken.data.data.ptr == given.data.data.ptr
    assert taken.indices.data.ptr == given.indices.data.ptr
