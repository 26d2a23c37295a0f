"""Fits on Spark and Dask: the same model as on the local engine, from every kind of data."""

import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dbmd
import tables
from dbmd.data.features import find_preparation
from dbmd.dataset import in_memory
from dbmd.errors import DataError
from dbmd.model.draw import moments
from engine_params import on_clusters, on_each_cluster

from .data import LABS, NAMES, N, R, close_to, model, samples

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
on_spark, on_dask = pytest.mark.spark, pytest.mark.dask

X, LAB, START = samples()


@pytest.fixture(scope="module")
def local():
    """Return a function that fits on the local engine, each setting once."""
    known = {}

    def fit(Xt=X, source=LAB, **changes):
        key = (id(Xt), source is None, repr(sorted(changes.items())))
        if key not in known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                known[key] = model(**changes).fit(Xt, source=source)
        return known[key]

    return fit


# -- arrays of this process ----------------------------------------------------------------------------------------


SETTINGS = {
    "exact": ({}, 1e-8),
    "prior and penalty": ({"inference": "map", "alpha": 1.5, "lam": 0.5}, 1e-8),
    "two starts": ({"n_init": 2, "init": "k-means++", "random_state": 0}, 1e-8),
    "k-means||": ({"noise": "shared", "init": "k-means||", "random_state": 0}, 1e-8),
    "agd": ({"solver": "agd", "max_iter": 1}, 1e-6),
    "admm": ({"solver": "admm", "max_iter": 1}, 1e-6),
    "cease": ({"solver": "cease", "max_iter": 1, "lam": 0.5}, 1e-6),
}


@on_each_cluster("setting", spark=["prior and penalty", "k-means||", "cease"], dask=SETTINGS)
def test_arrays_have_the_w_of_the_local_engine(engine, cluster, local, setting):
    changes, tolerance = SETTINGS[setting]
    cluster(engine)
    if changes.get("solver"):  # every round is a job
        changes = {**changes, "solver_options": {"max_rounds": 12}}
    found = model(engine, n_nodes=3, **changes).fit(X, source=LAB)
    expected = local(n_nodes=3, **changes)
    assert close_to(found, expected, tolerance)
    assert_array_equal(found.labels_, expected.labels_)
    assert [record.rounds for record in found.history_] == [record.rounds for record in expected.history_]
    assert_allclose(found.objective_, expected.objective_, rtol=tolerance)


@on_clusters
def test_types_and_sparse_arrays_stay_what_they_are(engine, cluster, local):
    cluster(engine)
    narrow, thin = X.astype(np.float32), sparse.csr_array(X)
    found = model(engine).fit(narrow, source=LAB)
    assert found.components_.dtype == np.float32
    assert close_to(found, local(narrow), 1e-5)
    assert close_to(model(engine).fit(thin, source=LAB), local(thin), 1e-8)


@on_clusters
def test_a_model_fitted_there_scores_and_transforms_here(engine, cluster, local):
    cluster(engine)
    found = model(engine).fit(X, source=LAB)
    assert_allclose(found.transform(X, source=LAB), local().transform(X, source=LAB), atol=1e-8)
    assert_allclose(found.score(X, source=LAB), local().score(X, source=LAB))


# -- files ---------------------------------------------------------------------------------------------------------


@on_each_cluster("variant", spark=["parquet", "npy"], dask=["parquet", "csv", "npy", "npz", "h5ad"])
def test_files_are_read_by_the_workers(engine, cluster, tmp_path, variant):
    cluster(engine)
    rng = np.random.default_rng(7)
    whole = tables.table(rng, 60, 4)
    write = tables.VARIANTS[variant].write
    written = [write(whole.rows(0, 25), tmp_path, "one"), write(whole.rows(25, 60), tmp_path, "two")]
    start = whole.X[:R] + 0.1
    paths, source = [each.path for each in written], written[0].source
    options = {"source": source, "label": written[0].label, "columns": written[0].features}
    found = model(engine, init=start).fit(dbmd.open_data(paths, engine=engine, **options))
    expected = model(init=start).fit(dbmd.open_data(paths, **options))
    assert close_to(found, expected, 1e-8)
    assert_array_equal(found.sources_, expected.sources_)
    assert not hasattr(found, "labels_")  # a number for each row would have to come here
    assert_array_equal(found.profile_.contingency, expected.profile_.contingency)


@on_clusters
def test_a_path_alone_and_a_list_of_paths_will_do(engine, cluster, tmp_path, local):
    cluster(engine)
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, rows in {"one": slice(0, 30), "two": slice(30, N)}.items():
        columns = {**dict(zip(NAMES, X[rows].T, strict=True)), "lab": LAB[rows]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    one, two = str(tmp_path / "one.parquet"), tmp_path / "two.parquet"
    assert close_to(model(engine).fit([one, two], source="lab"), local(), 1e-8)
    assert close_to(model(engine).fit(tmp_path, source="lab"), local(), 1e-8)
    alone = model(engine).fit(one, source="lab")
    assert close_to(alone, model().fit(one, source="lab"), 1e-8)
    assert alone.fit_info_["n_samples"] == 30


@on_clusters
def test_gaps_weights_and_scaling_of_files_that_workers_read(engine, cluster, tmp_path):
    """What is found of the features, and what a pass sees, is that of the local engine."""
    cluster(engine)
    import pyarrow as pa
    import pyarrow.parquet as pq

    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    columns = {name: pa.array(x, mask=np.isnan(x)) for name, x in zip(NAMES, holed.T, strict=True)}
    pq.write_table(pa.table({**columns, "lab": LAB, "w": np.arange(N) % 3}), tmp_path / "a.parquet", row_group_size=30)
    options = {"source": "lab", "sample_weight": "w"}
    for missing in ("allow", "drop"):
        found = []
        for name in (engine, "local"):
            path = tmp_path / "a.parquet"
            with (
                dbmd.open_data(path, engine=name, missing=missing, **options) as data,
                data.on(name, 2, R) as running,
            ):
                preparation = find_preparation(running, scaling="standard", missing=missing)
                seen = preparation.around(running).ask(moments)
            found.append([preparation.scale, preparation.fill, *(each.total for _, each in sorted(seen.items()))])
        for one, other in zip(*found, strict=True):
            assert_allclose(one, other, rtol=1e-9)
        if missing == "allow":
            mean = np.nansum(holed * (np.arange(N) % 3)[:, None], axis=0) / ((np.arange(N) % 3) @ ~np.isnan(holed))
            assert_allclose(found[0][1] * found[0][0], mean)


@on_clusters
def test_files_that_need_no_decoding_are_mapped_where_they_are(engine, cluster, tmp_path, local):
    cluster(engine)
    np.save(tmp_path / "x.npy", X)
    with dbmd.open_data(tmp_path / "x.npy", engine=engine) as data:
        assert "in every pass" in data.description
        found = model(engine).fit(data)
    assert close_to(found, model().fit(dbmd.open_data(tmp_path / "x.npy")), 1e-8)


# -- DataFrames of Spark -------------------------------------------------------------------------------------------


def dense_vector(x):
    from pyspark.ml.linalg import Vectors

    return Vectors.dense(x)


def sparse_vector(x):
    from pyspark.ml.linalg import Vectors

    places = np.flatnonzero(x)
    return Vectors.sparse(len(x), places, x[places])


def vectors(kind, Xt=X):
    """Return rows as vectors of pyspark.ml."""
    make = {"dense": [dense_vector], "sparse": [sparse_vector], "mixed": [dense_vector, sparse_vector]}[kind]
    return [make[i % len(make)](x) for i, x in enumerate(Xt)]


@pytest.fixture(scope="module")
def frame(spark):
    """Return all samples in every form, in order, in three partitions."""
    rows = [
        (*map(float, x), str(lab), int(i % 2), x.astype(np.float32).tolist(), *given)
        for i, (x, lab, *given) in enumerate(
            zip(X, LAB, vectors("dense"), vectors("sparse"), vectors("mixed"), strict=True)
        )
    ]
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, LongType, StringType, StructField, StructType

    schema = StructType(
        [
            *(StructField(name, DoubleType()) for name in NAMES),
            StructField("lab", StringType()),
            StructField("kind", LongType()),
            StructField("list", ArrayType(FloatType())),
            *(StructField(name, VectorUDT()) for name in ("dense", "sparse", "mixed")),
        ]
    )
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 3), schema).cache()


@on_spark
def test_a_column_of_vectors_dense_and_sparse(frame, local):
    found = model("spark").fit(frame.select("mixed", "lab"), source="lab")
    assert close_to(found, local(), 1e-8)
    assert found.sources_.tolist() == LABS.tolist()
    assert not hasattr(found, "feature_names_in_")
    assert not hasattr(found, "labels_")  # a number for each row would have to come here


@on_spark
def test_a_column_of_arrays_of_float32(frame, local):
    found = model("spark").fit(frame.select("lab", "list"), source="lab")
    assert found.components_.dtype == np.float32
    assert close_to(found, local(X.astype(np.float32)), 1e-5)


@on_spark
def test_columns_of_numbers_with_sources_and_labels(frame, local):
    with dbmd.open_data(frame, source="lab", label="kind", columns=NAMES) as data:
        assert data.shape == X.shape
        assert data.framework == "spark"
        found = model("spark").fit(data)
    assert close_to(found, local(), 1e-8)
    assert found.feature_names_in_.tolist() == NAMES
    assert found.fit_info_["classes"] == [0, 1]
    assert found.profile_.contingency.sum() == N


@on_spark
def test_one_dataset_is_fitted_and_scored_several_times(frame, local):
    with dbmd.open_data(frame, source="lab", columns=NAMES) as data:
        for solver in ("exact", "admm"):
            found = model("spark", solver=solver, max_iter=1, solver_options={"max_rounds": 3}).fit(data)
        again = model("spark").fit(data)
        score = again.score(data)
    assert found.history_[0].rounds == 3
    assert close_to(again, local(), 1e-8)
    assert_allclose(score, local().score(X, source=LAB))


@on_spark
@pytest.mark.parametrize("cut", ["more than rows", "skewed and empty"])
def test_partitions_of_any_kind(spark, local, cut):
    """A source is spread over all of them."""
    rows = [(x.tolist(), str(lab)) for x, lab in zip(X, LAB, strict=True)]
    if cut == "more than rows":
        rows = rows[:12]
        parted = spark.sparkContext.parallelize(rows, 20)
    else:
        parts = [rows[i:j] for i, j in pairwise([0, 0, 1, 2, 2, 80, N, N])]
        parted = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    frame = spark.createDataFrame(parted, "x array<double>, lab string")
    with dbmd.open_data(frame, source="lab") as data:
        assert f"in {parted.getNumPartitions()} partition" in data.description
        found = model("spark", max_iter=1).fit(data)
    n = len(rows)
    expected = local(max_iter=1) if n == N else model(max_iter=1).fit(X[:n], source=LAB[:n])
    assert close_to(found, expected, 1e-8)


@on_spark
def test_the_number_of_nodes_can_be_chosen(frame, local):
    # Spark deals rows out anew, so their order is another: what depends on it is the start, which is given.
    with dbmd.open_data(frame.select("dense", "lab"), source="lab", n_nodes=5) as data:
        assert "in 5 partitions" in data.description
        assert close_to(model("spark").fit(data), local(), 1e-8)


@on_spark
def test_names_of_columns_may_have_dots_and_quotes(spark, local):
    names = ["a.b", "c`d", "e f", "g'h"]
    frame = spark.createDataFrame(X.tolist(), names).repartition(2)
    found = model("spark").fit(frame)
    assert found.feature_names_in_.tolist() == names
    assert close_to(found, local(source=None), 1e-8)


@on_spark
def test_frames_after_a_shuffle_or_a_union_are_frames_like_others(frame, local):
    part = frame.select("dense", "lab")
    first, second = part.filter("lab = 'a'"), part.filter("lab != 'a'")
    assert close_to(model("spark").fit(first.union(second), source="lab"), local(), 1e-8)
    assert close_to(model("spark").fit(part.sort("lab"), source="lab"), local(), 1e-8)


@on_spark
def test_what_cannot_be_fitted_is_said_before_and_leaves_nothing_behind(spark, frame):
    from pyspark.ml.linalg import Vectors

    def opened(rows, schema, **options):
        return dbmd.open_data(spark.createDataFrame(rows, schema).coalesce(1), **options)

    wrong = [
        (partial(dbmd.open_data, frame, source="lap"), r"The DataFrame: has no column 'lap'. Did you mean 'lab'\?"),
        (partial(dbmd.open_data, frame, columns=["x0", "lab"]), "column 'lab' does not hold numbers"),
        (
            partial(dbmd.open_data, frame.select("dense", "x0"), columns=["dense", "x0"]),
            "column 'dense'.*Name it alone",
        ),
        (partial(dbmd.open_data, frame, columns=["x0"], encode=["lab"]), "for files"),
        (partial(dbmd.open_data, frame, source=LAB), "name of one of its columns"),
        (partial(dbmd.open_data, frame.select("lab")), "'lab' does not hold numbers"),
        (partial(dbmd.open_data, frame.filter("x0 > 1e9").select(*NAMES)), "no rows"),
        (
            partial(opened, [(1.0,), (2.0,), (float("nan"),)], "x double"),
            "partition 0: row 3, column 'x' has no number",
        ),
        (partial(opened, [(1.0,), (None,)], "x double"), "partition 0: row 2, column 'x' has no number"),
        (partial(opened, [(1.0,), (float("inf"),)], "x double"), "partition 0: row 2, column 'x' is inf"),
        (
            partial(opened, [(1.0, "a"), (2.0, None)], "x double, lab string", source="lab"),
            "row 2, column 'lab' is empty",
        ),
        (partial(opened, [([1.0, 2.0],), ([1.0],)], "x array<double>"), "row 2, column 'x' has 1 numbers"),
        (partial(opened, [([1.0],), (None,)], "x array<double>"), "row 2, column 'x' is empty"),
        (partial(opened, [([1.0, None],)], "x array<double>"), "partition 0: row 1, column 1 has no number"),
        (partial(opened, [(Vectors.dense([1.0]),), (Vectors.dense([1.0, 2.0]),)], ["x"]), "row 2.*vector of size 2"),
    ]
    for attempt, message in wrong:
        with pytest.raises(DataError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert "py4j" not in str(caught.value)


@on_spark
def test_partitions_of_different_width_are_named(spark):
    rows = spark.sparkContext.parallelize([([1.0, 2.0],), ([1.0],)], 2)
    with pytest.raises(DataError, match=r"Got 1 \(partition 1\) and 2 \(partition 0\)"):
        dbmd.open_data(spark.createDataFrame(rows, "x array<double>"))


@on_spark
def test_a_frame_is_fitted_by_its_own_engine(frame):
    with pytest.raises(ValueError, match=r"The data are on spark: fit them with engine='spark'. Got 'local'"):
        model().fit(frame)
    with dbmd.open_data(frame, columns=NAMES) as data, pytest.raises(ValueError, match=r"on spark.*Got 'local'"):
        model().fit(data)
    with pytest.raises(TypeError, match=r"dbmd\.spark.DBMDModel"):
        model().fit(X).transform(frame)


# -- collections of Dask -------------------------------------------------------------------------------------------


@pytest.fixture
def da(dask_client):
    return pytest.importorskip("dask.array")


@on_dask
@pytest.mark.parametrize("rows", [N, 7, (1, 2, 60, 27), (0, 30, 0, 60)], ids=str)
def test_an_array_of_dask_whatever_its_chunks(da, local, rows):
    found = model("dask").fit(da.from_array(X, chunks=(rows, -1)), source=LAB)
    assert close_to(found, local(), 1e-8)
    assert found.sources_.tolist() == LABS.tolist()


@on_dask
def test_sources_of_an_array_may_be_of_dask_too(da, local):
    found = model("dask").fit(da.from_array(X, chunks=(40, -1)), source=da.from_array(LAB, chunks=17))
    assert close_to(found, local(), 1e-8)


@on_dask
def test_weights_of_an_array_and_of_a_frame(da):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    weights = np.random.default_rng(3).integers(0, 3, N).astype(float)
    estimator = model("dask").set_params(init=X[:R])
    names, codes = np.unique(LAB, return_inverse=True)
    expected = model("local").set_params(init=X[:R]).fit(in_memory(X, names, codes, sample_weight=weights))
    rows = da.from_array(X, chunks=(40, -1))
    for own in (weights, da.from_array(weights, chunks=17)):
        with dbmd.open_data(rows, source=LAB, sample_weight=own) as data:
            assert close_to(estimator.fit(data), expected, 1e-8)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(lab=LAB, w=weights)
    with dbmd.open_data(dd.from_pandas(frame, npartitions=3), source="lab", sample_weight="w") as data:
        assert close_to(estimator.fit(data), expected, 1e-8)
    with pytest.raises(DataError, match=r"^All weights of samples are zero"):
        dbmd.open_data(rows, sample_weight=np.zeros(N))
    with pytest.raises(DataError, match=r"^There must be a weight for each of the"):
        dbmd.open_data(rows, sample_weight=np.ones(3))


@on_dask
def test_gaps_of_arrays_and_frames(da):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    frame = pd.DataFrame(holed, columns=NAMES).assign(whole=pd.array(range(N), "Int64"))
    frame.loc[3, "whole"] = pd.NA
    for data in (da.from_array(holed, chunks=(40, -1)), dd.from_pandas(frame, npartitions=3)):
        with pytest.raises(DataError, match=r"has no number .* missing='allow'"):
            dbmd.open_data(data)
        with dbmd.open_data(data, missing="allow") as opened, opened.on("dask", None, R) as running:
            fill = find_preparation(running, missing="allow").fill
        expected = np.nanmean(holed, axis=0) if len(fill) == len(NAMES) else frame.mean().to_numpy(float)
        assert_allclose(fill, expected)


@on_dask
def test_float32_and_sparse_chunks_stay_what_they_are(da, local):
    narrow = X.astype(np.float32)
    found = model("dask").fit(da.from_array(narrow, chunks=(40, -1)), source=LAB)
    assert found.components_.dtype == np.float32
    assert close_to(found, local(narrow), 1e-5)
    thin = da.from_array(X, chunks=(40, -1)).map_blocks(sparse.csr_array)
    with dbmd.open_data(thin, source=LAB) as data:
        assert close_to(model("dask").fit(data), local(), 1e-8)


@on_dask
def test_chunked_columns_are_put_together_with_a_warning(da, local):
    with pytest.warns(UserWarning, match="2 chunks of columns.*rechunk"):
        found = model("dask").fit(da.from_array(X, chunks=(40, 2)), source=LAB)
    assert close_to(found, local(), 1e-8)


@on_dask
def test_the_number_of_nodes_of_an_array_can_be_chosen(da, local):
    with dbmd.open_data(da.from_array(X, chunks=(N, -1)), source=LAB, n_nodes=4) as data:
        assert "in 4 partitions" in data.description
        assert close_to(model("dask").fit(data), local(), 1e-8)


@on_dask
def test_a_list_of_delayed_blocks(dask_client, local):
    import dask

    cut = [slice(0, 50), slice(50, 50), slice(50, N)]
    blocks = [dask.delayed(X[rows]) for rows in cut]
    found = model("dask").fit(blocks, source=[dask.delayed(LAB[rows]) for rows in cut])
    assert close_to(found, local(), 1e-8)


@pytest.fixture
def dask_frame(dask_client):
    import dask.dataframe as dd
    import pandas as pd

    columns = {**dict(zip(NAMES, X.T, strict=True)), "lab": LAB, "kind": np.arange(N) % 2}
    return dd.from_pandas(pd.DataFrame(columns, index=np.arange(N)[::-1] // 2), npartitions=3, sort=False)


@on_dask
def test_a_dataframe_of_dask(dask_frame, local):
    with dbmd.open_data(dask_frame, source="lab", label="kind") as data:
        found = model("dask").fit(data)
    assert close_to(found, local(), 1e-8)
    assert found.feature_names_in_.tolist() == NAMES
    assert found.fit_info_["classes"] == [0, 1]
    assert close_to(model("dask").fit(dask_frame[[*NAMES, "lab"]], source="lab"), local(), 1e-8)


@on_dask
def test_sources_of_a_dataframe_may_be_categories(dask_frame, local):
    found = model("dask").fit(
        dask_frame.assign(lab=dask_frame.lab.astype("category")).drop(columns="kind"), source="lab"
    )
    assert close_to(found, local(), 1e-8)


@on_dask
def test_columns_of_a_dataframe_may_have_numbers_for_names(dask_client, local):
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    found = model("dask").fit(frame)
    assert close_to(found, local(source=None), 1e-8)
    assert_allclose(found.transform(frame).compute(), local(source=None).transform(X), atol=1e-8)


@on_dask
def test_a_hundred_chunks_of_one_row(da):
    Xt = samples(n=100)[0]
    found = model("dask", max_iter=1).fit(da.from_array(Xt, chunks=(1, -1)))
    assert close_to(found, model(max_iter=1).fit(Xt), 1e-8)


@on_dask
def test_what_dask_has_is_transformed_when_it_is_computed_and_not_before(da, dask_frame, local):
    import dask

    fitted = local(inference="map", alpha=1.5)
    expected = fitted.transform(X, source=LAB)
    Xt, labs = da.from_array(X, chunks=(40, -1)), da.from_array(LAB, chunks=40)

    def fail(*_, **__):
        raise AssertionError("it was computed")

    with dask.config.set(scheduler=fail):  # nothing can be computed
        Ht = fitted.transform(Xt, source=labs)
        clusters = fitted.predict(Xt, source=labs)
    counted = []
    with dask.config.set(scheduler=lambda graph, keys, **_: counted.append(keys) or dask.get(graph, keys)):
        of_frame = fitted.transform(dask_frame[[*NAMES, "lab"]], source="lab")
    assert len(counted) == 1  # the lengths of the partitions, so that the result has known ones
    assert of_frame.shape == (N, R)
    assert of_frame[3:5].compute().shape == (2, R)
    assert Ht.shape == (N, R)
    assert Ht.chunks[0] == Xt.chunks[0]
    assert Ht.dtype == expected.dtype
    assert_allclose(Ht.compute(), expected, atol=1e-10)
    assert_array_equal(clusters.compute(), expected.argmax(axis=1))
    assert_allclose(of_frame.compute(), expected, atol=1e-10)
    narrow = fitted.transform(Xt.astype(np.float32), source=labs)
    assert narrow.dtype == narrow.compute().dtype == np.float32


@on_dask
def test_what_dask_has_is_transformed_by_all_parts_of_the_model(da):
    params = {"scaling": "standard", "brightness": True, "offsets": True, "init": X[:R]}
    here = model(**params).fit(X, source=LAB)
    Xt, labs = da.from_array(X, chunks=(40, -1)), da.from_array(LAB, chunks=40)
    found = [each.compute() for each in here.transform(Xt, source=labs, return_brightness=True)]
    for mine, other in zip(found, here.transform(X, source=LAB, return_brightness=True), strict=True):
        assert_allclose(mine, other, atol=1e-10)
    there = model("dask", **params).fit(Xt, source=labs)
    assert close_to(there, here, 1e-6)
    assert_allclose(there.offsets_, here.offsets_, rtol=1e-5, atol=1e-8)
    with pytest.raises(ValueError, match="say in source= which samples are of which"):
        here.transform(Xt)


@on_dask
def test_lazily_a_noise_level_that_is_not_known_cannot_be_estimated(da, local):
    fitted = local(inference="map", alpha=1.5)
    Xt = da.from_array(X, chunks=(40, -1))
    with pytest.raises(ValueError, match="say in source= which samples are of which"):
        fitted.transform(Xt)
    strange = fitted.transform(Xt, source=np.full(N, "z"))
    with pytest.raises(ValueError, match="does not know the sources"):
        strange.compute()
    assert_allclose(local().transform(Xt).compute(), local().transform(X), atol=1e-10)  # no prior: no noise needed


@on_dask
def test_what_dask_has_and_cannot_be_fitted_is_said(da, dask_frame):
    import dask

    bad = X.copy()
    bad[45, 2] = np.nan
    wrong = [
        (partial(dbmd.open_data, dask_frame, source="lap"), r"has no column 'lap'. Did you mean 'lab'\?"),
        (partial(dbmd.open_data, dask_frame), "column 'lab' does not hold numbers"),
        (partial(dbmd.open_data, da.from_array(bad, chunks=(40, -1))), "partition 1: row 6, column 2 has no number"),
        (partial(dbmd.open_data, da.from_array(X[:, 0])), "two dimensions"),
        (partial(dbmd.open_data, da.from_array(X), source=LAB[:5]), "a source for each of the 90 samples"),
        (partial(dbmd.open_data, da.from_array(X), label="kind"), "Arrays have no names"),
        (
            partial(dbmd.open_data, [dask.delayed(X), dask.delayed(X[:, :2])]),
            r"Got 2 \(partition 1\) and 4 \(partition 0\)",
        ),
        (partial(dbmd.open_data, [dask.delayed(X)], source=[]), "for each of the 1 blocks"),
        (partial(dbmd.open_data, [dask.delayed(X)], source=[dask.delayed(LAB[:4])]), "partition 0: .* its 90 samples"),
        (partial(dbmd.open_data, [dask.delayed(X[:, 0])]), "partition 0: .*two dimensions"),
        (partial(dbmd.open_data, [dask.delayed(X.astype(str))]), "partition 0: entries must be numbers"),
        (partial(dbmd.open_data, da.zeros((0, 3))), "no rows"),
    ]
    for attempt, message in wrong:
        with pytest.raises(DataError, match=message):
            attempt()


@on_dask
def test_data_on_dask_are_not_for_another_cluster(da):
    with (
        dbmd.open_data(da.from_array(X, chunks=(40, -1))) as data,
        pytest.raises(ValueError, match=r"The data are on dask: fit them with engine='dask'. Got 'local'"),
    ):
        model().fit(data)


@on_dask
def test_an_array_of_dask_on_the_local_engine_is_an_array(da, local):
    assert close_to(model().fit(da.from_array(X, chunks=(40, -1)), source=LAB), local(), 1e-12)
