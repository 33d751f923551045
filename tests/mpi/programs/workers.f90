! A master hands out tasks of growing size; the workers answer with a result each.
program workers
  use mpi
  implicit none
  integer, parameter :: tasks = 40
  integer :: ierror, rank, ranks, state(MPI_STATUS_SIZE), task, who, open_tasks, length
  real(8) :: work(2000), answer, total, parameters(6)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  parameters = 1.5d0
  call MPI_Bcast(parameters, 6, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierror)
  total = 0
  if (rank == 0) then
    work = 2
    do task = 1, tasks
      who = 1 + mod(task, ranks - 1)
      call MPI_Send(work, 40 * task, MPI_DOUBLE_PRECISION, who, task, MPI_COMM_WORLD, ierror)
    end do
    open_tasks = tasks
    do while (open_tasks > 0)
      call MPI_Recv(answer, 1, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, state, ierror)
      total = total + answer
      open_tasks = open_tasks - 1
    end do
    do who = 1, ranks - 1
      call MPI_Send(work, 0, MPI_DOUBLE_PRECISION, who, 0, MPI_COMM_WORLD, ierror)
    end do
  else
    do
      call MPI_Recv(work, 2000, MPI_DOUBLE_PRECISION, 0, MPI_ANY_TAG, MPI_COMM_WORLD, state, ierror)
      if (state(MPI_TAG) == 0) exit
      call MPI_Get_count(state, MPI_DOUBLE_PRECISION, length, ierror)
      answer = sum(work(1:length)) * parameters(1)
      call MPI_Send(answer, 1, MPI_DOUBLE_PRECISION, 0, state(MPI_TAG), MPI_COMM_WORLD, ierror)
    end do
  end if
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(f16.4)', total
  call MPI_Finalize(ierror)
end program workers
