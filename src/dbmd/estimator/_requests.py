"""Short texts for the methods that scikit-learn adds to an estimator for its metadata routing.

Each comes with a page of text, the same for all of them: a third of what ``help(DBMD)`` would show.
"""

from __future__ import annotations

import re
from copy import copy
from typing import Any

REQUEST = re.compile(r"set_(\w+)_request")
TEXT = """Say which of these a pipeline or a search passes on to ``{}``.

True: pass it on; False: do not; None: refuse it; a name: pass on what is given by that name. Only with
``sklearn.set_config(enable_metadata_routing=True)``. Returns the estimator.
"""


def brief(added: Any, method: str) -> Any:
    """Return a method that scikit-learn added to a class, a descriptor, with a short docstring.

    It is of a subclass of its own class: scikit-learn renews those that a subclass of the estimator inherits, and
    recognises them by their class.
    """
    kind = type(added)

    def get(self: Any, instance: Any, owner: Any = None) -> Any:
        request = kind.__get__(self, instance, owner)
        request.__doc__ = TEXT.format(method)
        return request

    found = copy(added)
    found.__class__ = type(kind.__name__, (kind,), {"__get__": get, "__module__": __name__})
    return found


class BriefRequestsMixin:
    """Shortens the docstrings of the methods ``set_..._request`` of an estimator."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)  # where scikit-learn adds them
        for name, added in list(vars(cls).items()):
            found = REQUEST.fullmatch(name)
            if found is not None and type(added).__module__.startswith("sklearn."):
                setattr(cls, name, brief(added, found[1]))
