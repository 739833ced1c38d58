program mpif_h
  implicit none
  include 'mpif.h'
  integer :: file, status(MPI_STATUS_SIZE), requests(2)
  include 'mpi_fortran.inc'
end program
