"""What a user can put right."""


class DataError(ValueError):
    """The data cannot be used as they are; the message says where, what is wrong, and what to do."""


def first_line(error: BaseException) -> str:
    """Return what an error says, as a part of a sentence."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
