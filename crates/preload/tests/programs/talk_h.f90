! The rest of MPI, in Fortran by mpif.h.
program talk
  implicit none
  include "mpif.h"
  include "talk.inc"
end program
