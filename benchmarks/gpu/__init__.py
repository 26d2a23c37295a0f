"""What is measured on a GPU: ``python -m benchmarks gpu``, or ``python -m benchmarks.on_gpu FOLDER`` with the tests.

device.py     is there one, what it is, times between its events, memory that holds no old results
data.py       made-up data, drawn by all cores
ceilings.py   what the machine can do: reading memory, copies, products, launches
passes.py     one pass, dense and sparse, and its pieces       h_step.py   the H-step alone
fits.py       whole fits, k-means beside them                  streamed.py data that stay in host memory
floors.py     bytes and operations of each of them, and what they would take at the ceilings
report.py     tables and targets, from the records             expected.py what smaller cards should take
"""
