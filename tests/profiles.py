"""How many examples the laws are tried with.

"usual" is the default, of make test and of .ci/run; HYPOTHESIS_PROFILE=thorough make test has more examples, and takes
minutes longer. With other versions of Python and libraries, where the laws were just tried, "quick" has a few.
"""

import os

from hypothesis import settings

# The same examples in every run; a compiled kernel may take its time on the first one.
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=25, print_blob=True)
settings.register_profile("usual", settings.get_profile("thorough"), max_examples=10)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=3)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "usual")
settings.load_profile(PROFILE)


def examples(usual, thorough):
    """Return the setting of a law that is tried with so many examples in each profile."""
    return settings(max_examples={"quick": min(usual, 3), "usual": usual, "thorough": thorough}[PROFILE])
