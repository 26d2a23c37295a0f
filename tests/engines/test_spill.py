"""What nodes hold, in files that are mapped."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.block import Block
from dbmd.engines import _spill
from dbmd.model.node import Node

ARRAYS = hnp.arrays(
    st.sampled_from(["f4", "f8", "i2", "?", ">f8", "i8"]), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0)
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("spill") / "deep" / "file"


@given(st.lists(ARRAYS, max_size=4), st.dictionaries(st.text(max_size=3), st.integers() | st.none(), max_size=3))
def test_what_is_read_is_what_was_written(path, arrays, rest):
    _spill.dump((arrays, rest), path)
    read, others = _spill.load(path)
    assert others == rest
    assert len(read) == len(arrays)
    for one, other in zip(read, arrays, strict=True):
        assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_keep_their_order_and_are_aligned(path, order, rng):
    array = np.asarray(rng.normal(size=(7, 5)), order=order)
    _spill.dump({"odd": np.arange(3, dtype=np.int8), "array": array}, path)
    read = _spill.load(path)["array"]
    assert_array_equal(read, array)
    assert read.flags[f"{order}_CONTIGUOUS"]
    assert read.ctypes.data % _spill.ALIGNMENT == 0


def test_arrays_that_are_views_are_written_too(path, rng):
    array = rng.normal(size=(8, 6))[::2, 1::2]
    _spill.dump(array, path)
    assert_array_equal(_spill.load(path), array)


def test_a_node_with_a_sparse_block_comes_back(path, rng):
    Xt = sparse.csr_array(rng.normal(size=(9, 4)) * (rng.random((9, 4)) < 0.3))
    node = Node("a", Block(Xt, rng.integers(0, 2, 9)), scratch=("text", np.float32(2.0)))
    _spill.dump(node, path)
    read = _spill.load(path)
    assert_array_equal(read.block.Xt.toarray(), Xt.toarray())
    assert_array_equal(read.block.source_codes, node.block.source_codes)
    assert (read.name, read.scratch) == (node.name, node.scratch)
    assert replace(read, block=None).block is None


def test_arrays_can_be_changed_and_the_file_does_not_notice(path):
    _spill.dump(np.zeros(5000), path)
    mine, yours = _spill.load(path), _spill.load(path)
    mine[:] = 1.0
    assert not yours.any()
    assert not _spill.load(path).any()


def test_arrays_stay_readable_when_the_file_is_replaced_or_removed(path):
    _spill.dump(np.zeros(5000), path)
    old = _spill.load(path)
    _spill.dump(np.ones(5000), path)
    assert not old.any()
    assert _spill.load(path).all()
    path.unlink()
    assert not old.any()


class Unwritable:
    def __reduce__(self):
        raise pickle.PicklingError("not me")


def test_what_cannot_be_written_leaves_nothing_behind_and_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    _spill.dump("old", path)
    with pytest.raises(pickle.PicklingError):
        _spill.dump([np.zeros(3), Unwritable()], path)
    assert _spill.load(path) == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_disk_that_is_full_leaves_the_old_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "file"
    _spill.dump("old", path)

    def full(*arguments, **options):
        file = open(*arguments, **options)  # noqa: SIM115
        if "w" in arguments[1]:
            file.write(b"half")
            file.close()
            raise OSError("No space left on device")
        return file

    monkeypatch.setattr(_spill, "open", full, raising=False)
    with pytest.raises(OSError, match="No space"):
        _spill.dump(np.zeros(3), path)
    assert _spill.load(path) == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_files_and_folders_are_for_their_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0o022)
    try:
        _spill.dump(np.zeros(3), tmp_path / "name" / "0" / "held" / "1")
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"name": 0o700, "name/0": 0o700, "name/0/held": 0o700, "name/0/held/1": 0o600}


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        _spill.load(tmp_path / "nothing")
