! A ring, a reduction in place and a persistent request; compiled with -DF08 it uses mpi_f08, with -DMPIF_H mpif.h.
program ring
#ifdef F08
  use mpi_f08
#elif !defined(MPIF_H)
  use mpi
#endif
  implicit none
#ifdef MPIF_H
  include 'mpif.h'
#endif
#ifdef F08
  type(MPI_Status) :: state
  type(MPI_Request) :: request
  type(MPI_Comm) :: half
#else
  integer :: state(MPI_STATUS_SIZE), request, half
#endif
  integer :: ierror, rank, ranks, to, from, i
  integer :: counts(0:63), displs(0:63)
  real(8) :: a(100), b(100)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  to = mod(rank + 1, ranks)
  from = mod(rank + ranks - 1, ranks)
  a = rank
  call MPI_Sendrecv(a, 100, MPI_DOUBLE_PRECISION, to, 1, b, 100, MPI_DOUBLE_PRECISION, from, 1, &
                    MPI_COMM_WORLD, state, ierror)
  call MPI_Send_init(a, 10, MPI_DOUBLE_PRECISION, to, 2, MPI_COMM_WORLD, request, ierror)
  do i = 1, 2
    call MPI_Start(request, ierror)
    call MPI_Recv(b, 10, MPI_DOUBLE_PRECISION, from, 2, MPI_COMM_WORLD, state, ierror)
    call MPI_Wait(request, state, ierror)
  end do
  call MPI_Request_free(request, ierror)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, ierror)
  if (rank < 2) call MPI_Send(a, 3, MPI_INTEGER, 1, 3, half, ierror)
  if (rank == 2 .or. rank == 3) call MPI_Recv(b, 3, MPI_INTEGER, 0, 3, half, state, ierror)
  call MPI_Comm_free(half, ierror)
  ! In place: without it being noticed the counts of rank 0 would be read from nowhere.
  do i = 0, ranks - 1
    counts(i) = 8
    displs(i) = 8 * i
  end do
  call MPI_Alltoallv(MPI_IN_PLACE, counts, displs, MPI_DOUBLE_PRECISION, a, counts, displs, MPI_DOUBLE_PRECISION, &
                     MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
end program ring
