"""The maths: the model, its objective and the statistics that carry it, in plain NumPy."""
