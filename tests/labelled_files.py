"""Small data sets in the layout and formats of the real ones: as files, and as scikit-learn's fetchers give them."""

import gzip

import numpy as np
from sklearn.utils import Bunch

rng = np.random.default_rng(0)

# -- CoverType -----------------------------------------------------------------------------------------------------

MEASURED = [f"Measured {i}" for i in range(10)]
LAND = np.hstack([rng.integers(-173, 7173, (60, 10)), np.eye(44, dtype=int)[rng.integers(0, 44, 60)]])
COVER = rng.integers(1, 8, 60)


def write_covtype(folder):
    columns = [
        *MEASURED,
        *(f"Wilderness_Area{i + 1}" for i in range(4)),
        *(f"Soil_Type{i + 1}" for i in range(40)),
        "y",
    ]
    X = np.asfortranarray(LAND, np.int16)
    np.savez_compressed(folder / "covtype.npz", X=X, y=COVER.astype(np.uint8), columns=columns)


def fetch_covtype():
    names = [*MEASURED, *(f"Wilderness_Area_{i}" for i in range(4)), *(f"Soil_Type_{i}" for i in range(40))]
    return Bunch(data=LAND.astype(float), target=COVER.astype(np.int32), feature_names=names)


# -- KDD-99 --------------------------------------------------------------------------------------------------------

KDD_NAMES = [
    "duration",
    "protocol_type",
    "service",
    "flag",
    "src_bytes",
    *(f"rate {i}".replace(" ", "_") for i in range(36)),
]
KDD_CLASSES = {"smurf": 130, "back": 100, "spy": 99, "normal": 110}


def _connections():
    labels = rng.permutation(np.repeat(list(KDD_CLASSES), list(KDD_CLASSES.values())))
    for label in labels:
        protocol, service, flag = (
            rng.choice(["udp", "tcp", "icmp"]),
            rng.choice(["http", "X11", "auth"]),
            rng.choice(["SF", "S0"]),
        )
        counts = [int(rng.integers(0, 10)), str(protocol), str(service), str(flag), int(rng.integers(0, 1_400_000_000))]
        yield [*counts, *(float(rate) / 100 for rate in rng.integers(0, 101, 36)), f"{label}."]


CONNECTIONS = list(_connections())


def write_kdd99(folder):
    (folder / "columns.txt").write_text("\n".join([*KDD_NAMES, "label"]) + "\n")
    lines = (
        ",".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row) for row in CONNECTIONS
    )
    with gzip.open(folder / "kddcup.data_10_percent.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def fetch_kddcup99(percent10):
    assert percent10
    rows = [[value.encode() if isinstance(value, str) else value for value in row] for row in CONNECTIONS]
    table = np.array(rows, dtype=object)
    return Bunch(data=table[:, :-1], target=table[:, -1], feature_names=KDD_NAMES, target_names=["labels"])


# -- MNIST ---------------------------------------------------------------------------------------------------------

N_TRAIN, N_TEST = 12, 5
IMAGES = rng.integers(0, 256, (N_TRAIN + N_TEST, 28, 28)).astype(np.uint8)
DIGITS = rng.integers(0, 10, N_TRAIN + N_TEST).astype(np.uint8)


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def write_mnist(folder):
    for part, rows in (("train", slice(N_TRAIN)), ("t10k", slice(N_TRAIN, None))):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", IMAGES[rows])
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", DIGITS[rows])


def fetch_openml(name, version, as_frame):
    assert (name, version, as_frame) == ("mnist_784", 1, False)
    return Bunch(data=IMAGES.reshape(-1, 784).astype(np.int64), target=DIGITS.astype(str).astype(object))


# -- cellmix -------------------------------------------------------------------------------------------------------

GENES = [["g3", "g1", "g2", "g5"], ["g2", "g3", "g1"], ["g1", "g3", "g4", "g2"], ["g2", "g1", "g3"]]
CELLS = [["A1", "L19"], ["A1", "B2", "C3"], ["B2"], ["C3", "A1"]]
MIXTURES = {"A1": (0, 0, 9), "L19": (7, 0, 2), "B2": (3, 5, 1), "C3": (1, 1, 1)}


def count(batch, cell, gene):
    """Return a number that identifies its row and column."""
    return 1000 * batch + 10 * list(MIXTURES).index(cell) + int(gene[1])


def write_cellmix(folder):
    for batch, (genes, cells) in enumerate(zip(GENES, CELLS, strict=True), start=1):
        lines = [",".join(f'"{cell}"' for cell in cells)]
        lines += [",".join([f'"{gene}"', *(str(count(batch, cell, gene)) for cell in cells)]) for gene in genes]
        metadata = ['"mapped","HCC827","H1975","H2228","traj"']  # in an order of its own, as are the rows
        for cell in reversed(cells):
            a, b, c = MIXTURES[cell]
            metadata.append(f'"{cell}",0.5,{c},{a},{b},"NO"')
        for kind, text in (("count", lines), ("metadata", metadata)):
            (folder / f"cellmix{batch}.{kind}.csv.gz").write_bytes(gzip.compress("\n".join(text).encode() + b"\n"))


FOLDERS = {"covtype": write_covtype, "kdd99": write_kdd99, "mnist": write_mnist, "cellmix": write_cellmix}
FETCHERS = {"covtype": fetch_covtype, "kdd99": fetch_kddcup99, "mnist": fetch_openml}


def write_all(folder):
    """Write all into a folder, to be named by DBMD_DATA."""
    for name, write in FOLDERS.items():
        (folder / name).mkdir()
        write(folder / name)
