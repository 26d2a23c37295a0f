"""What others on this machine could get at: ports that this process and those it began listen on, and their files."""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

import psutil


def each(look):
    """Return all of look(process), of this process and those it began that are still there."""
    this, found = psutil.Process(), []
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            found += look(process)
    return found


def doors():
    """Return for each open port the address, and what one who has no secret is told there."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway and SparkContext._gateway.gateway_parameters.port
    found = [c.laddr for c in each(lambda process: process.net_connections("inet")) if c.status == "LISTEN"]
    return [[door.ip, told(door.port, COMMAND if door.port == gateway else REQUEST)] for door in found]


# A request of Spark's own protocol: length, type, number, length of the body, body; and a command of Py4J.
BODY = b"let me in"
REQUEST = struct.pack(">QBQI", 8 + 1 + 8 + 4 + len(BODY), 3, 1, len(BODY)) + BODY
COMMAND = b"r\nu\njava.lang.System\nrj\ne\n"


def told(port, question):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(question)
        return connection.recv(4000).decode(errors="replace")


def within_reach():
    """Return sockets, and folders that Spark and Dask were given, that others can get at."""
    sockets = [c.laddr for c in each(lambda process: process.net_connections("unix")) if c.laddr.startswith("/")]
    folders = each(lambda process: filter(None, process.environ().get("SPARK_LOCAL_DIRS", "").split(",")))
    return sorted({path for path in [*sockets, *folders, *folders_of_dask()] if not is_private(path)})


def folders_of_dask():
    import distributed

    try:
        cluster = distributed.get_client().cluster
    except ValueError:
        return []
    return [server.local_directory for server in (cluster.scheduler, *cluster.workers.values())]


def is_private(path):
    """Return whether a path is in a folder for its owner alone, or is one."""
    places = [place for place in [Path(path), *Path(path).parents] if place.is_dir()]
    return any(place.stat().st_uid == os.getuid() and not place.stat().st_mode & 0o077 for place in places)
