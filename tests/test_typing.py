"""A user's script passes mypy's strictest checks, and a mistake in it does not."""

from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
# In folders of packages that are installed, mypy reports nothing of what is in them.
CONFIG = "[mypy]\nstrict = true\n[mypy-dbmd.*]\nfollow_imports = silent\n"
SCRIPT = '''
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import dbmd
from dbmd import DBMD, load, metrics, open_data


def fitted(X: NDArray[np.float64], folder: Path) -> DBMD:
    """Return a model: what a chain of methods returns is known."""
    model = DBMD(n_components=3, scaling="standard", n_init=2, random_state=0).fit(X, source=["a", "b"] * 10)
    model.partial_fit(X, source="lab", sample_weight=np.ones(20))
    model.save(folder / "model", overwrite=True)
    return load(folder / "model").fit_data(open_data(folder / "data.csv", source="lab", columns=["x", "y"]))


def shares(X: NDArray[np.float64]) -> NDArray[np.float64]:
    model = DBMD(3)
    H: NDArray[np.float64] = model.fit_transform(X, source="lab")
    labels: NDArray[np.intp] = model.fit_predict(X)
    assert_type(model.predict(X), NDArray[np.intp])
    assert_type(model.score(X, sample_weight=np.ones(20)), float)
    assert_type(model.transform(X), NDArray[Any])
    H, std = model.transform(X, source="lab", return_std=True, kind="mean")
    H, brightness = model.transform(X, return_brightness=True)
    H, std, brightness = model.transform(X, return_std=True, return_brightness=True)
    back: NDArray[np.float64] = model.inverse_transform(H, brightness=brightness)
    error: NDArray[np.float64] = H @ model.components_ - back
    return error if len(labels) else H


def told(model: DBMD) -> str:
    assert_type(model.labels_, NDArray[np.intp])
    assert_type(model.noise_variance_, NDArray[np.float64])
    assert_type(model.cluster_sizes_, NDArray[np.float64])
    assert_type(model.n_iter_, int)
    assert_type(model.effective_features_, float)
    last = model.history_[-1]
    accuracy = metrics.clustering_accuracy([0, 1], model.labels_)
    assert_type(accuracy, float)
    assert_type(model.n_components_, int)
    assert_type(model.choice_.sentence, str)
    names: list[str] = model.feature_names_in_.tolist()
    pays: tuple[str, ...] = model.check(np.ones((3, 2))).pays
    return f"{model.objective_ / 2:.2f} {last.objective:.2f} {accuracy:.2f} {names} {pays} {dbmd.__version__}"
'''
MISTAKES = {
    'DBMD(3).fit([[0.0]], sources=["a"])': "sources",
    "DBMD(n_component=3)": "n_component",
    'DBMD(3, scaling="z-score")': "scaling",
    "DBMD(3).n_iter_.sum()": "sum",
    "DBMD(3).predict([[0.0]]).nonsense": "nonsense",
    "(H, std) = DBMD(3).transform([[0.0]], return_std=True, return_brightness=True)": "unpack",
    'DBMD(3).transform([[0.0]], kind="median")': "transform",
    'open_data("a.csv", sep=";")': "sep",
}


@pytest.mark.slow
def test_a_script_passes_mypy_strict_and_mistakes_do_not(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed: pip install 'dbmd[check]'")
    monkeypatch.setenv("MYPYPATH", str(SRC))
    (tmp_path / "mypy.ini").write_text(CONFIG, "utf-8")
    mistakes = "\n".join(MISTAKES)
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    (tmp_path / "mistakes.py").write_text(f"from dbmd import DBMD, open_data\n{mistakes}\n", "utf-8")
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    told, failed, _ = api.run([*options, str(tmp_path / "script.py"), str(tmp_path / "mistakes.py")])
    assert failed == "", failed
    errors = [line for line in told.splitlines() if " error: " in line]
    assert not [line for line in errors if "script.py" in line], told
    for number, name in enumerate(MISTAKES.values(), 2):
        assert any(f"mistakes.py:{number}:" in line and name in line for line in errors), (number, told)
