"""Where classes were that a pickled model refers to, so that pickles of earlier versions still load.

A pickle names the estimator before anything that the estimator holds; so these names are known in time.
"""

from __future__ import annotations

import sys
from types import ModuleType

from dbmd.model import past, profile, result


class _Memory(ModuleType):
    """The former module ``dbmd.model.memory`` with its class ``Memory``."""

    Memory = past.PastStatistics


OLD: dict[str, ModuleType] = {
    "dbmd.model.memory": _Memory("dbmd.model.memory"),
    "dbmd.profile": profile,
    "dbmd.result": result,
}
for old, module in OLD.items():
    sys.modules.setdefault(old, module)
