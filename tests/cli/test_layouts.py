"""Files of other layouts than samples in rows: from the command line, with the record in the model."""

import json

import anndata
import numpy as np
import pandas as pd
import pytest

from cli.running import refused, run

ARGUMENTS = ("-k", 2, "--max-iter", 3, "--no-report")


@pytest.fixture
def cells(rng):
    W = np.array([[4.0, 0, 1, 2, 3], [0, 4, 2, 1, 0]])
    X = rng.dirichlet([0.5, 0.5], 60) @ W + 0.1 * rng.normal(size=(60, 5))
    return pd.DataFrame(X, index=[f"cell{i}" for i in range(60)], columns=[f"g{j}" for j in range(5)])


def test_a_model_of_a_transposed_table_transforms_others_like_it(cells, tmp_path):
    cells.T.to_csv(tmp_path / "genes.csv")
    cells.to_csv(tmp_path / "cells.csv")
    run("fit", tmp_path / "genes.csv", *ARGUMENTS, "--transpose", "-o", tmp_path / "m")
    run("fit", tmp_path / "cells.csv", *ARGUMENTS, "-o", tmp_path / "same")
    record = json.loads((tmp_path / "m" / "model.json").read_text())
    assert record["fit"]["data"]["transpose"] is True
    assert record["feature_names"] == list(cells.columns)
    run("transform", tmp_path / "m", tmp_path / "genes.csv", "-o", tmp_path / "H.csv")
    run("transform", tmp_path / "m", tmp_path / "cells.csv", "--no-transpose", "-o", tmp_path / "H2.csv")
    h5ad = tmp_path / "cells.h5ad"  # which says itself what is a sample
    anndata.AnnData(cells).write_h5ad(h5ad)
    run("transform", tmp_path / "m", h5ad, "-o", tmp_path / "H4.csv")
    run("transform", tmp_path / "same", tmp_path / "cells.csv", "-o", tmp_path / "H3.csv")
    H, *others = (pd.read_csv(tmp_path / f"{name}.csv", index_col=0) for name in ("H", "H2", "H3", "H4"))
    assert list(H.index) == list(cells.index)
    for other in others:
        pd.testing.assert_frame_equal(H, other, check_names=False)


def test_what_is_wrong_is_said_with_options(cells, tmp_path):
    cells.assign(kind="x").to_csv(tmp_path / "a.csv")
    message = refused("fit", tmp_path / "a.csv", *ARGUMENTS, "-o", tmp_path / "m")
    assert message.endswith("Leave out what is no feature (--drop kind), or one-hot code it (--encode kind).")
    message = refused("fit", tmp_path / "a.csv", *ARGUMENTS, "--transpose", "-o", tmp_path / "m")
    assert "column 'kind' does not hold numbers ('x' in line 2). With --transpose, columns are samples" in message
    run("fit", tmp_path / "a.csv", *ARGUMENTS, "--drop", "kind", "-o", tmp_path / "m")
    message = refused("fit", tmp_path / "a.csv", *ARGUMENTS, "--drop", "kind", "-o", tmp_path / "m")
    assert message.endswith("allow it to be overwritten (--overwrite).")
