"""What has to be read, computed and sent at least, and how long that takes at the ceilings of the machine.

n samples of m features, r components, entries of b bytes. A pass reads X once if one kernel does all of it, memberships
are read and written, and two products have m r multiply-adds a sample each. The H-step reads b and the last memberships
and writes new ones; its operations are fewer than its bytes. A CSR entry is a number and a column.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.plan import Record

ENTRY = {"float32": 4, "float64": 8}
OTHER_READS = 4  # of a fit, in addition to its iterations: moments, the draw, distances and levels of the start


class Floor(NamedTuple):
    """The least that something takes.

    Attributes
    ----------
    reads, sends : float
        Bytes from the memory of the device, and over the bus.
    operations : float
        Of floating point.
    """

    reads: float
    operations: float = 0.0
    sends: float = 0.0

    def ms(self, ceilings: Record) -> float:
        """Return milliseconds; reading and computing overlap, and the bus is crossed meanwhile, or before."""
        reading = self.reads / ceilings["read_gbs"] / 1e6
        computing = self.operations / ceilings["float32_tflops"] / 1e9
        return max(reading, computing, self.sends / ceilings["to_device_gbs"] / 1e6)


def floor_of(record: Record) -> Floor | None:
    """Return the floor of what a record is of, if there is one.

    Examples
    --------
    >>> floor_of({"what": "pass", "n": 400_000, "m": 784, "r": 10, "type": "float32"})
    Floor(reads=1286400000, operations=12624000000, sends=0.0)
    """
    what, n, m, r, b = (record.get(key) for key in ("what", "n", "m", "r", "type"))
    size = ENTRY.get(b, 4)
    if what == "pass":
        return Floor(size * n * (m + 2 * r), 4 * n * m * r + 2 * n * r * r)
    if what == "h_step":
        return Floor(3 * size * n * r)
    if what == "csr":
        stored = record["filled"] * n * m
        return Floor((size + 4) * stored + 2 * size * n * r, 4 * stored * r)
    if what == "fit":
        passes = OTHER_READS + sorted(record["iterations"])[len(record["iterations"]) // 2]
        sends = size * n * m if record["where"] == "host" else 0
        return Floor(passes * size * n * m, passes * 4 * n * m * r, sends)
    if what == "streamed":
        return Floor(record["bytes"], 4 * n * m * r, record["bytes"])
    return None
