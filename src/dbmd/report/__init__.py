"""Pictures of what was found. matplotlib lives here."""
