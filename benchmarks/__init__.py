"""The benchmark: dbmd beside its peers, in one run and on the same data. ``python -m benchmarks`` or ``make bench``.

__main__.py     the command line
plan.py         what was asked for: parts, data, methods, repetitions
sets.py         the data, prepared once into files (cells.py makes the one that is made up)
parts/          what is measured, a module each: tasks(plan) and run(task)
gpu/            what is measured on a GPU      on_gpu.py   that and the tests, on a machine that has one
worker.py       one task in a fresh process        conduct.py  all of them, one after the other
results.py      one JSON file for each part        tables.py, targets.py  from there into README.md
"""
