"""What a user should know about data and fit before relying on them, and what to do about it."""
