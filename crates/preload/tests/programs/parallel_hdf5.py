# All ranks write their rows of one dataset of a parallel HDF5 file, step by step, half of the steps collectively.
# Prints the bytes of its own rows.
import h5py
import numpy
from mpi4py import MPI

N_STEPS, N_VALUES = 8, 1 << 15

comm = MPI.COMM_WORLD
with h5py.File("parallel.h5", "w", driver="mpio", comm=comm) as file:
    dataset = file.create_dataset("temperature", (N_STEPS, comm.size, N_VALUES), dtype="f8")
    for step in range(N_STEPS):
        row = numpy.full(N_VALUES, comm.rank + step, dtype="f8")
        if step % 2:
            with dataset.collective:
                dataset[step, comm.rank, :] = row
        else:
            dataset[step, comm.rank, :] = row
print("hdf5 write %d" % (N_STEPS * N_VALUES * 8), flush=True)
