"""Tables of pandas, polars and pyarrow, whose columns are named as source and weight."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.fixes import parse_version

from dbmd import DBMD, load, open_data
from estimator.making import mixture

MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
FEATURES = [f"x{j}" for j in range(8)]
HOW = {"source": "lab", "sample_weight": "times"}


@pytest.fixture(scope="module")
def columns():
    X, source, *_ = mixture(n=120)
    columns = {name: X[:, j] for j, name in enumerate(FEATURES)}
    # Neither first nor last, and in another order than the features.
    columns |= {"lab": np.array(["oslo", "lima", "bern"])[source], "times": 1.0 + np.arange(120) % 3}
    return {name: columns[name] for name in ("x0", "lab", *FEATURES[1:4], "times", *FEATURES[4:])}


@pytest.fixture(params=MAKE)
def make(request):
    """Return a function that makes a table of some columns."""
    return MAKE[request.param]


def features(columns):
    return {name: columns[name] for name in FEATURES}


def model(**parameters):
    return DBMD(3, random_state=0, **parameters)


@pytest.fixture(scope="module")
def by_arrays(columns):
    """A fit of the same features, with sources and weights as arrays."""
    return model().fit(pd.DataFrame(features(columns)), source=columns["lab"], sample_weight=columns["times"])


def test_named_columns_are_sources_and_weights_and_no_features(make, columns, by_arrays):
    fitted = model().fit(make(columns), **HOW)
    assert fitted.feature_names_in_.tolist() == FEATURES
    assert fitted.sources_.tolist() == ["bern", "lima", "oslo"]
    np.testing.assert_allclose(fitted.components_, by_arrays.components_, rtol=1e-6)
    np.testing.assert_allclose(fitted.noise_variance_, by_arrays.noise_variance_, rtol=1e-6)


def test_new_data_may_have_these_columns_or_not(make, columns, by_arrays, tmp_path):
    model().fit(make(columns), **HOW).save(tmp_path / "model")
    fitted = load(tmp_path / "model")
    whole, bare = make(columns), make(features(columns))
    expected = by_arrays.transform(pd.DataFrame(features(columns)), source=columns["lab"])
    for table, how in ((whole, {"source": "lab"}), (whole, {}), (bare, {"source": columns["lab"]})):
        np.testing.assert_allclose(fitted.transform(table, **how), expected, atol=1e-6)
        assert fitted.predict(table, **how).tolist() == expected.argmax(axis=1).tolist()
    np.testing.assert_allclose(fitted.transform(bare), by_arrays.transform(pd.DataFrame(features(columns))), atol=1e-6)
    score = by_arrays.score(pd.DataFrame(features(columns)), source=columns["lab"], sample_weight=columns["times"])
    for how in (HOW, {}, {"source": "lab"}):
        assert fitted.score(whole, **how) == pytest.approx(score, rel=1e-6)


def test_the_source_of_new_data_matters_where_the_model_has_offsets(make, columns):
    columns = columns | {name: columns[name] + 5.0 * (columns["lab"] == "oslo") for name in FEATURES[:4]}
    whole = make(columns)
    fitted = model(offsets=True).fit(whole, **HOW)
    np.testing.assert_array_equal(fitted.transform(whole), fitted.transform(whole, source="lab"))
    other = make(columns | {"lab": np.roll(columns["lab"], 1)})
    assert abs(fitted.transform(other) - fitted.transform(whole)).max() > 1e-3


def test_batches_of_a_stream_are_tables_as_well(make, columns):
    halves = [make({name: values[rows] for name, values in columns.items()}) for rows in (np.s_[:60], np.s_[60:])]
    named, remembered = model(), model()
    for half in halves:
        named.partial_fit(half, **HOW)
    remembered.partial_fit(halves[0], **HOW).partial_fit(halves[1])
    np.testing.assert_array_equal(named.components_, remembered.components_)
    assert named.n_samples_seen_ == 120
    assert named.feature_names_in_.tolist() == FEATURES


def test_fit_transform_fit_predict_and_check_take_names_too(columns):
    table = pl.DataFrame(columns)
    H = model().fit_transform(table, **HOW)
    assert H.shape == (120, 3)
    np.testing.assert_array_equal(model().fit_predict(table, **HOW), H.argmax(axis=1))
    assert "offsets" in model().check(table, **HOW).gains


def test_a_model_of_a_file_knows_the_columns_of_a_table(columns, tmp_path):
    pl.DataFrame(columns).write_parquet(tmp_path / "data.parquet")
    fitted = model().fit(open_data(tmp_path / "data.parquet", **HOW))
    table = pl.DataFrame(columns)
    np.testing.assert_allclose(fitted.transform(table), fitted.transform(table, source="lab"), atol=1e-9)


def test_a_wrong_name_is_refused_with_those_that_there_are(make, columns):
    with pytest.raises(ValueError, match=r"has no column 'lap'. Did you mean 'lab'?"):
        model().fit(make(columns), source="lap")
    with pytest.raises(ValueError, match=r"has no column 'where'. It has 'x0', 'lab', .*'times', .*'x7'."):
        model().fit(make(columns), sample_weight="where")


def test_a_name_for_an_array_is_refused(columns):
    with pytest.raises(ValueError, match="source='lab' is the name of a column, and ndarray has no columns"):
        model().fit(np.ones((4, 2)), source="lab")


def test_a_column_of_text_that_nobody_named_is_named(make, columns):
    with pytest.raises(
        ValueError, match=r"column 'lab' does not hold numbers \('(oslo|lima|bern)'\). Name it in source="
    ):
        model().fit(make(columns))


def test_a_column_of_the_fit_is_no_feature_but_any_other_is(make, columns):
    fitted = model().fit(make(columns), **HOW)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(make(columns | {"more": columns["x0"]}))


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="pipelines of old releases of scikit-learn do not pass metadata on to score",
)
def test_a_grid_search_over_a_pipeline_passes_names_on(columns):
    table = pd.DataFrame(columns)
    with config_context(enable_metadata_routing=True):
        asks = (
            DBMD(random_state=0)
            .set_fit_request(source=True, sample_weight=True)
            .set_score_request(source=True, sample_weight=True)
        )
        pipeline = make_pipeline(FunctionTransformer(), asks)
        search = GridSearchCV(pipeline, {"dbmd__n_components": [2, 3]}, cv=2).fit(table, **HOW)
    assert search.best_estimator_[-1].sources_.tolist() == ["bern", "lima", "oslo"]
    assert search.best_params_ == {"dbmd__n_components": 3}


def test_set_output_gives_a_table_of_the_same_kind(columns):
    found = model().set_output(transform="pandas").fit(pd.DataFrame(columns), **HOW).transform(pd.DataFrame(columns))
    assert isinstance(found, pd.DataFrame)
    assert found.shape == (120, 3)
