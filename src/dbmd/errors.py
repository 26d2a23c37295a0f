"""What a user can put right."""


class DataError(ValueError):
    """The data cannot be used as they are; the message says where, what is wrong, and what to do."""
