"""What is kept in files: a model as a directory, a fit as a checkpoint, and the lock on either."""
