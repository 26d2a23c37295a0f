"""Pictures and pages of what was found. matplotlib and jinja2 live here."""
