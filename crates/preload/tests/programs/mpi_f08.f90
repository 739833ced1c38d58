program mpi_f08_calls
  use mpi_f08
  implicit none
  type(MPI_File) :: file
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2)
  include 'mpi_fortran.inc'
end program
