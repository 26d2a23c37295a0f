"""Where the nodes are: an engine runs a function at every node and adds the replies.

    engine.ask(node_function, *broadcast) -> reply          node_function(node, *broadcast) -> (node, reply)

An engine is a module with a class ``Engine`` that satisfies :class:`dbmd.protocols.Engine`.

Engines around engines: :class:`Metered` counts the numbers that are sent, :class:`Linked` computes how long they take
over links with a latency and a bandwidth, or takes that long.
"""

from dbmd.engines._link import Link, Linked
from dbmd.engines._metered import Metered, Traffic

__all__ = ["Link", "Linked", "Metered", "Traffic"]
