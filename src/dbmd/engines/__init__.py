"""Where the nodes live: an engine runs a function at every node and adds the replies.

    engine.ask(node_function, *broadcast) -> reply          node_function(node, *broadcast) -> (node, reply)

An engine is a module whose name is the engine's name, with a class ``Engine`` that has ``ask``, ``n_nodes`` and
``close`` and is a context manager. It keeps the node that a function returns for the next call, as a cache: what a
node holds besides its block may be lost at any time. Replies are added in the order of the nodes.

Engines around engines: :class:`Metered` counts what travels, :class:`Linked` tells how long that takes over links.
"""

from dbmd.engines._link import Link, Linked
from dbmd.engines._metered import Metered, Traffic

__all__ = ["Link", "Linked", "Metered", "Traffic"]
