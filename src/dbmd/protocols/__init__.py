"""What plug-ins must offer: engines, solvers, kernels and file formats.

A plug-in is one module in ``dbmd.engines``, ``dbmd.solvers``, ``dbmd.kernels`` or ``dbmd.data.formats``. The name of
the module is the name of the plug-in, and the suites ``test_conformance.py`` test every plug-in that they find there.

Shapes use the letters of the model: m features, r components, n samples, n_i samples of node i.
"""

from dbmd.protocols.clustering import Clustering
from dbmd.protocols.clusters import Cluster, Placement, Session
from dbmd.protocols.engines import Ask, Engine, NodeFunction
from dbmd.protocols.engines import MakeEngine as MakeEngine  # for annotations
from dbmd.protocols.engines import Reply as Reply
from dbmd.protocols.formats import Format
from dbmd.protocols.kernels import FaceCovariance, GapCovariance, Kernel, Sums
from dbmd.protocols.passes import LoopSums, OneLoop, Pass, Passed
from dbmd.protocols.solvers import Solver

__all__ = [
    "Ask",
    "Cluster",
    "Clustering",
    "Engine",
    "FaceCovariance",
    "Format",
    "GapCovariance",
    "Kernel",
    "LoopSums",
    "NodeFunction",
    "OneLoop",
    "Pass",
    "Passed",
    "Placement",
    "Session",
    "Solver",
    "Sums",
]
