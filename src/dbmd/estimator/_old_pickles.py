"""Modules of earlier versions under their old names, so that pickles of these versions can be loaded.

A pickle refers to the estimator's module first, so that this file is imported before an old name is looked up.
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
