program mpi_use
  use mpi
  implicit none
  integer :: file, status(MPI_STATUS_SIZE), requests(2)
  include 'mpi_fortran.inc'
end program
