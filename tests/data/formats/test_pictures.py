"""Arrays of three dimensions are pictures: their pixels are samples, line by line."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd import DBMD
from dbmd.data.formats import _reader, open_reader
from dbmd.data.location import locate
from dbmd.dataset import open_data
from tables import contents

HEIGHT, WIDTH, M = 40, 17, 5


@pytest.mark.parametrize("save", [np.save, np.savez])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("transpose", [False, True])
def test_pixels_are_rows_in_any_order_of_the_file(save, order, transpose, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(_reader, "BATCH_BYTES", 0)  # batches of 256 rows, which do not end where lines do
    cube = rng.normal(size=(HEIGHT, WIDTH, M))
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    save(path, np.asarray(np.moveaxis(cube, 2, 0) if transpose else cube, order=order))
    data = open_data(path, transpose=transpose)
    assert data.map_shape == (HEIGHT, WIDTH)
    assert_array_equal(contents(data)[0], cube.reshape(-1, M))
    reader = open_reader(*locate(path), transpose=transpose)
    if reader.seekable_rows is None:
        found = np.concatenate([batch.Xt for batch in reader.read(100, 613, ["4", "0"])])
        assert_array_equal(found, cube.reshape(-1, M)[100:613, [4, 0]])
    assert reader.decodes == (save is np.savez or order == "F")


def test_other_data_have_no_map_shape(tmp_path, rng):
    cube = rng.normal(size=(HEIGHT, WIDTH, M))
    np.save(tmp_path / "a.npy", cube)
    np.save(tmp_path / "b.npy", cube.reshape(-1, M))
    assert open_data(tmp_path / "b.npy").map_shape is None
    assert open_data([tmp_path / "a.npy", tmp_path / "b.npy"]).map_shape is None  # of several, which one?


def test_a_picture_in_memory_is_refused_with_what_to_do(rng):
    with pytest.raises(ValueError, match=r"dim 3.* X\.reshape\(-1, 5\), images .* X\.reshape\(40, -1\)\."):
        DBMD(2).fit(rng.normal(size=(HEIGHT, WIDTH, M)))
