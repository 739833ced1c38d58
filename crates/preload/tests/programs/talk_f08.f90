! The rest of MPI, in Fortran by mpi_f08.
program talk
  use mpi_f08
  implicit none
  include "talk.inc"
end program
