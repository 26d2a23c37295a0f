"""Where classes were that a pickled model refers to, so that pickles of earlier versions still load.

A pickle names the estimator before anything that the estimator holds; so these names are known in time.
"""

from __future__ import annotations

import sys

from dbmd.model import profile, result

for old, module in {"dbmd.profile": profile, "dbmd.result": result}.items():
    sys.modules.setdefault(old, module)
