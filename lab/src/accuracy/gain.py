"""HDF5 by all ranks, in columns: each row by itself, or collectively. `gain.py hdf5 before|after`, under mpirun."""
import sys
import time

import h5py
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows, columns = 2000, 64
with h5py.File("columns.h5", "w", driver="mpio", comm=comm) as file:
    data = file.create_dataset("data", (rows, columns * comm.size), dtype="f8")
    own = numpy.full((rows, columns), float(comm.rank))
    mine = slice(comm.rank * columns, (comm.rank + 1) * columns)
    for step in range(5):
        time.sleep(0.2)
        if sys.argv[2] == "after":
            with data.collective:
                data[:, mine] = own
        else:
            for row in range(rows):
                data[row, mine] = own[row]
