"""Each kind of dataset says where its samples are, and releases what it holds."""

import numpy as np
import pytest

from dbmd.data.block import Block
from dbmd.data.collection import CollectionLayout, array_to_node, scan_partition
from dbmd.dataset import CollectionDataset, FileDataset, InMemory, SingleBlock, in_memory, open_data
from dbmd.engines.local import Engine

X = np.arange(12.0).reshape(6, 2)


def total(node):
    return node, sum(chunk.Xt.sum() for chunk in node.block.chunks())


def asked(data, engine="local"):
    with data.on(engine, 2, 1) as running:
        return running.ask(total)


@pytest.fixture
def csv(tmp_path):
    np.savetxt(tmp_path / "a.csv", X, delimiter=",", header="x,y", comments="")
    return tmp_path / "a.csv"


@pytest.fixture
def npy(tmp_path):
    np.save(tmp_path / "a.npy", X)
    return tmp_path / "a.npy"


def test_files_are_loaded_if_they_are_small_and_have_to_be_decoded(csv, npy):
    kinds = [type(open_data(csv)), type(open_data(csv, memory=0)), type(open_data(npy))]
    assert kinds == [InMemory, FileDataset, FileDataset]


def test_columns_to_copy_are_not_loaded(csv):
    data = open_data(csv, columns=["x"], keep=["y"])
    assert isinstance(data, FileDataset)
    (window,) = data.nodes(1, 1)[0].block.windows()
    assert [float(text) for text in window.extra["y"].to_pylist()] == X[:, 1].tolist()


@pytest.mark.parametrize(
    ("opened", "description"),
    [
        (lambda csv: in_memory(X), "in memory"),
        (open_data, "in memory"),
        (lambda csv: open_data(csv, memory=0), "read from the file in every pass"),
        (
            lambda csv: SingleBlock(shape=X.shape, dtype=X.dtype, block=Block(X), name="adata"),
            "read from adata in every pass",
        ),
    ],
    ids=["arrays", "small file", "large file", "one block"],
)
def test_samples_that_any_engine_can_fit(opened, description, csv):
    with opened(csv) as data:
        assert data.description == description
        assert data.framework is None
        assert data.returns_labels
        assert asked(data) == X.sum()
        assert asked(data, Engine) == X.sum()  # a class instead of a name


class Cluster:
    """A placement of two partitions, in this process, that counts what is closed."""

    def __init__(self, fails=False):
        self.nodes = [array_to_node(X[:2], 0), array_to_node(X[2:], 1)]
        self.n_nodes, self.closed, self.fails = 2, [], fails

    def engine(self):
        return Engine(self.nodes)

    def close(self):
        self.closed.append("placement")
        if self.fails:
            raise OSError("lost")


class Session:
    def __init__(self, closed):
        self.closed = closed

    def close(self):
        self.closed.append("session")


def collection(placement):
    with placement.engine() as engine:
        found = engine.ask(scan_partition)
    layout = CollectionLayout.of(found, has_sources=False, has_classes=False, dtype=None)
    return CollectionDataset(
        shape=layout.shape,
        dtype=layout.dtype,
        engine="spark",
        placement=placement,
        layout=layout,
        session=Session(placement.closed),
    )


def test_a_collection_is_fitted_where_it_is_and_nowhere_else():
    data = collection(Cluster())
    assert data.description == "on spark in 2 partitions"
    assert data.framework == "spark"
    assert not data.returns_labels
    assert asked(data, "spark") == X.sum()
    for elsewhere in (lambda: data.on("local", None, 1), lambda: data.nodes(None, 1)):
        with pytest.raises(ValueError, match=r"^The data are on spark: fit them with engine='spark'. Got 'local'.$"):
            elsewhere()


@pytest.mark.parametrize("fails", [False, True])
def test_a_collection_releases_its_partitions_before_its_session(fails):
    placement = Cluster(fails)
    try:
        collection(placement).close()
    except OSError:
        assert fails
    assert placement.closed == ["placement", "session"]
