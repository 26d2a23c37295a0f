"""How many examples the laws are tried with.

The profile "ci", which .ci/run chooses with HYPOTHESIS_PROFILE, has all of them; "dev", the default, has fewer. With
other versions of Python and libraries, where the laws were just tried with all examples, "quick" has a few.
"""

import os

from hypothesis import settings

# The same examples in every run; a compiled kernel may take its time on the first one.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25, print_blob=True)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=10)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=3)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)


def examples(dev, ci):
    """Return the setting of a law that is tried with so many examples in each profile."""
    return settings(max_examples={"quick": min(dev, 3), "dev": dev, "ci": ci}[PROFILE])
