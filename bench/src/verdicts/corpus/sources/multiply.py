# Multiplies matrices: OpenBLAS has the threads.
import numpy

first = numpy.arange(1_000_000, dtype=float).reshape(1000, 1000) / 1e6
second = first.T.copy()
for _ in range(25):
    second = first @ second
    second /= abs(second).max()
print(second.sum())
