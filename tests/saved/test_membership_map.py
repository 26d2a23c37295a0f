"""The map in a model directory is checked when it is read."""

import numpy as np
import pytest

from dbmd._utils.model_files import MAP, OWNED
from dbmd.model.membership_map import MembershipMap
from dbmd.saved.membership_map import read_map, write_map
from dbmd.storage import to_npz


def test_a_map_comes_back(tmp_path):
    H = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    assert read_map(tmp_path, 3, 12) is None
    write_map(MembershipMap.of(H, (3, 4)), tmp_path)
    found = read_map(tmp_path, 3, 12)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(found.memberships.reshape(3, -1).T, H, atol=0.5 / 254 + 1e-9)
    assert MAP in OWNED


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no archive", "cannot be read"),
        (to_npz({"shape": np.array([3, 4])}), "'values' is missing"),
        (to_npz({"shape": np.array([3, 4]), "values": np.zeros((2, 3, 4), np.uint8)}), r"shape \(3, height, width\)"),
        (to_npz({"shape": np.array([3, 4]), "values": np.zeros((3, 3, 4))}), "must be bytes"),
        (to_npz({"shape": np.array([3, 5]), "values": np.zeros((3, 3, 5), np.uint8)}), "must make 12 pixels"),
        (to_npz({"shape": np.array([-3, -4]), "values": np.zeros((3, 3, 4), np.uint8)}), "shape must hold"),
    ],
)
def test_a_map_that_was_damaged_is_told(tmp_path, content, told):
    (tmp_path / MAP).write_bytes(content)
    with pytest.raises(ValueError, match=f"{MAP} is not a sound map: .*{told}"):
        read_map(tmp_path, 3, 12)
