"""The inner loop: the H-step for many samples, on plain arrays.

A kernel is a module that satisfies :class:`dbmd.protocols.Kernel`. ``reference`` is plain NumPy, the oracle of the
tests; ``cpu`` is compiled, and the one that is used.
"""
