"""Nodes on the GPUs of this machine, through CuPy.

Samples that fit into the memory of a device are copied there once. Others, and those in files, stream through it in
every pass: while the device works on some rows, the next ones are on their way.

Rows go to the device sorted by source, so that chunks are consecutive and have one source each. The first row of a
chunk, counted from the first of its source, is a multiple of ``ROWS``: the kernel adds up runs of so many rows, and so
sums have the same bits however large chunks are. A pass that needs more memory than there is is made again in smaller
chunks, and at last with samples that are no longer kept on the device.

``DBMD_GPU_MEMORY`` limits the memory of a device that samples may take: bytes, or, up to 1, a fraction of all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from dbmd._utils.arrays import is_here, is_sparse, to_host
from dbmd._utils.logs import logger
from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Samples
from dbmd.engines import _at_node
from dbmd.engines._gpu_device import Device
from dbmd.engines._gpu_resident import bytes_taken, on_device
from dbmd.engines._gpu_samples import DeviceSamples
from dbmd.engines._gpu_streams import Streamed, StreamedBlock
from dbmd.errors import EngineError, first_line
from dbmd.kernels._cuda import cupy
from dbmd.model.node import Node
from dbmd.protocols import NodeFunction, Reply

__all__ = ["Engine", "Found", "default_n_nodes", "find_devices", "versions"]

RESIDENT = 0.6  # the part of the free memory that samples may take; memberships and results need some, too

HOW_TO_INSTALL = "Install it with: pip install 'dbmd[gpu]' for CUDA 12, or 'dbmd[gpu-cuda13]' for CUDA 13."

T = TypeVar("T")


class Found(NamedTuple):
    """A device of this machine.

    Attributes
    ----------
    name : str
        Of the product.
    memory : int
        Bytes.
    """

    name: str
    memory: int


def find_devices() -> list[Found]:
    """Return the devices that CuPy may use, at least one.

    Raises
    ------
    ImportError
        If CuPy is not installed.
    EngineError
        If it finds no device that it can use.
    """
    runtime, found = _cupy().cuda.runtime, []
    for number in range(default_n_nodes()):
        properties = runtime.getDeviceProperties(number)
        found.append(Found(properties["name"].decode(errors="replace"), int(properties["totalGlobalMem"])))
    return found


def versions() -> dict[str, str]:
    """Return the versions of CuPy, of the CUDA that it was made for, and of the newest CUDA that the driver knows."""
    runtime = _cupy().cuda.runtime
    driver, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    return {"cupy": _cupy().__version__, "cuda": _shown(built), "driver": _shown(driver)}


def default_n_nodes() -> int:
    """Return the number of nodes if the user has no wish: one for each device. Raises as :func:`find_devices` does."""
    runtime = _cupy().cuda.runtime
    try:
        count: int = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise EngineError(_why_none(runtime, error)) from None
    if not count:
        raise EngineError(_NO_DEVICE)
    return count


_NO_DEVICE = (
    "The engine 'gpu' found no GPU of NVIDIA (nvidia-smi lists them, and CUDA_VISIBLE_DEVICES may hide some): use "
    "engine='local'."
)


def _cupy() -> Any:
    try:
        return cupy()
    except ImportError as error:
        if isinstance(error.__cause__, ModuleNotFoundError) or isinstance(error, ModuleNotFoundError):
            raise ImportError(f"The engine 'gpu' needs the package 'cupy'. {HOW_TO_INSTALL}") from None
        raise EngineError(
            f"The engine 'gpu' cannot load CuPy: {first_line(error)}; a driver of NVIDIA and one package of CuPy that "
            "suits it, cupy-cuda12x or cupy-cuda13x, are needed."
        ) from error


def _why_none(runtime: Any, error: Exception) -> str:
    """Return what the driver is too old for, or that there is none, or what else keeps CuPy from finding a device."""
    driver, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if not driver or getattr(error, "status", None) == 100:
        return _NO_DEVICE
    if driver // 1000 < built // 1000:
        return (
            f"The driver of the GPU is too old for CuPy: it knows CUDA {_shown(driver)}, and CuPy was built for "
            f"{_shown(built)}. Install a newer driver, or the package cupy-cuda{driver // 1000}x in the place of CuPy."
        )
    return f"The engine 'gpu' cannot use a GPU: {first_line(error)}."


def _shown(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


class Engine:
    """Run node functions on the GPUs of this machine.

    Nodes are spread over the devices in order, unless their samples are on one already, where they stay. A device has
    one thread, and works on one node after the other. Replies are added in the order of the nodes: the number of
    devices does not change the result.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes. Their samples may be in memory, in files, or on a device already.

    Raises
    ------
    ImportError
        If CuPy is not installed.
    EngineError
        If there is no device, or not enough memory.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        given = list(nodes)
        n_devices = min(default_n_nodes(), max(len(given), 1))
        spread = [i * n_devices // max(len(given), 1) for i in range(len(given))]
        places = [_where(node.block, number) for node, number in zip(given, spread, strict=True)]
        devices = {number: _opened(number) for number in sorted({*places} or {0})}
        self._devices = list(devices.values())
        self._places = [devices[number] for number in places]
        self.nodes: list[Node] = given
        try:
            with one_blas_thread():
                budgets = {device.number: device.run(partial(_allowed, device)) for device in self._devices}
                self._all(partial(self._load, budgets))
        except BaseException:
            self.close()
            raise

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run node_function(node, *broadcast) -> (node, reply) at every node; return the sum of the replies."""
        with one_blas_thread():
            answers = self._all(partial(self._answer, node_function, broadcast))
        self.nodes = [node for node, _ in answers]
        return reduce(add, (reply for _, reply in answers))

    def work_on(self, Xt: Any, work: Callable[[Any], T]) -> T:
        """Return work(Xt), computed on the first device, where Xt may be; without memory for it, on the cores."""
        device = self._devices[0]
        if not is_here(Xt) and int(Xt.device.id) != device.number:
            Xt = to_host(Xt)
        try:
            return device.run(lambda: work(cupy().asarray(Xt)))  # to pin memory would take longer than it saves
        except device.out_of_memory as error:
            reason = first_line(error)
        device.release()
        logger.info(f"The memory of GPU {device.number} does not suffice ({reason}): the start is found on the cores.")
        return work(to_host(Xt))

    def _all(self, work: Callable[[Device, int], T]) -> list[T]:
        """Return work(device, number) for all nodes in order, each device doing its own ones in order."""

        def on(device: Device) -> dict[int, T]:
            return {number: work(device, number) for number, place in enumerate(self._places) if place is device}

        if len(self._devices) == 1:
            return list(self._devices[0].run(partial(on, self._devices[0])).values())
        waiting = [device.start(partial(on, device)) for device in self._devices]
        for error in [future.exception() for future in waiting]:
            if error is not None:
                raise error
        answers = {number: answer for future in waiting for number, answer in future.result().items()}
        return [answers[number] for number in range(len(self._places))]

    def _load(self, budgets: dict[int, float], device: Device, number: int) -> None:
        """Put the samples of a node on a device, as far as they fit."""
        node, before = self.nodes[number], device.used()
        try:
            block = on_device(node.block, device, budgets[device.number])
        except device.out_of_memory:
            block = None
        if block is None and node.block is not None:  # other programs have it
            device.release()
            try:
                block = on_device(node.block, device, 0.0)
            except device.out_of_memory as error:
                raise EngineError(_too_little(device, node.samples, first_line(error))) from None
        # Where CuPy has another allocator than its own, it does not know how much is in use.
        budgets[device.number] -= max(device.used() - before, bytes_taken(block))
        self.nodes[number] = replace(node, block=block)

    def _answer(
        self, node_function: NodeFunction[Reply], broadcast: tuple[Any, ...], device: Device, number: int
    ) -> tuple[Node, Reply]:
        """Return the node and the reply of a function; where memory does not suffice, in smaller chunks."""
        is_second_try = False  # of samples in the same form
        while True:
            try:
                return _at_node.run(node_function, self.nodes[number], broadcast, "gpu")
            except device.out_of_memory as error:
                reason = first_line(error)
            # Nothing refers to what the function had allocated any more, which may be all that was lacking.
            device.release()
            is_second_try = not is_second_try
            if is_second_try:
                continue
            node = self.nodes[number]
            smaller = node.block.smaller() if isinstance(node.block, DeviceSamples) else None
            if smaller is None:
                raise EngineError(_too_little(device, node.samples, reason))
            self.nodes[number] = replace(node, block=smaller)
            del node
            device.release()
            where = "no longer kept there, but sent" if isinstance(smaller, Streamed | StreamedBlock) else "taken"
            logger.info(
                f"The memory of GPU {device.number} does not suffice ({reason}): the samples of node {number} are "
                f"{where} {smaller.size:,} at a time."
            )

    def close(self, *, wait: bool = True) -> None:
        """Give back the memory of the devices and end the threads; without ``wait``, return at once."""
        self.nodes = [replace(node, block=None, Ht=None, scratch=None) for node in self.nodes]
        for device in self._devices:
            device.close(wait=wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A user who interrupts a fit does not want to wait for the end of a pass.
        self.close(wait=kind is None or issubclass(kind, Exception))


def _where(block: Any, number: int) -> int:
    """Return the number of the device that the samples of a block are on; another one if they are not on a device."""
    Xt = getattr(block, "Xt", None)
    if Xt is None or is_here(Xt):
        return number
    return int((Xt.data if is_sparse(Xt) else Xt).device.id)


def _opened(number: int) -> Device:
    """Return a device, or say which one cannot be used, and how to leave it out."""
    try:
        return Device(number)
    except _cupy().cuda.runtime.CUDARuntimeError as error:
        raise EngineError(
            f"GPU {number} cannot be used: {first_line(error)}. Another program may have all of it; "
            "CUDA_VISIBLE_DEVICES says which ones to use."
        ) from error


def _too_little(device: Device, samples: Samples, reason: str) -> str:
    n, m = samples.shape
    return (
        f"The memory of GPU {device.number} does not suffice for {n:,} samples of {m:,} features, even in the smallest "
        f"chunks ({reason}; {device.free():,} of {device.memory:,} bytes are free): take more nodes on more devices, "
        "or engine='local'."
    )


def _allowed(device: Device) -> float:
    """Return how many bytes samples may take on a device."""
    free, asked = RESIDENT * device.free(), os.environ.get("DBMD_GPU_MEMORY")
    if not asked:
        return free
    try:
        limit = float(asked)
    except ValueError:
        raise EngineError(f"DBMD_GPU_MEMORY must be a number of bytes, or a fraction up to 1. Got {asked!r}.") from None
    return min(free, limit * device.memory if limit <= 1.0 else limit)
