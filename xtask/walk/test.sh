# `make test` under difficult conditions: in a clone called coxswain, so that all paths contain that name; started by nohup; with two MPIs. TESTS
# contains the arguments of `cargo nextest run`, if not all tests are wanted.

#: Open MPI beside MPICH
cd tests/coxswain
apt-get -qq update
apt-get -qq install -y --no-install-recommends openmpi-bin libopenmpi-dev mpich libmpich-dev >/dev/null
make test-packages
readlink -f "$(command -v mpicc)" "$(command -v mpiexec)"

#: workloads are built and run by one MPI
cd tests/coxswain
make -C workloads check | tee checked
if grep 'needs MPI' checked; then fail "MPI programs were not run"; fi
ls -l target/workloads/heat-mpi target/workloads/fwi-mpi

#: nohup make test
cd tests/coxswain
code=0
nohup make test ${TESTS:+TESTS="$TESTS"} >test.out 2>&1 </dev/null & wait $! || code=$?
tail -n 60 test.out
grep -a 'skipped: ' test.out | sort -u || true
[ "$code" = 0 ] || { grep -aE '^( *(FAIL|TIMEOUT|SIG[A-Z]+) \[|test .* FAILED|supervise:)' test.out; fail "exit code $code"; }
grep -aqE '^[0-9]+ passed, 0 failed' test.out

#: a report for each rank, of both MPIs
# As `make test` has built it.
PATH=~/tests/coxswain/target/debug:$PATH
cat >ranks.c <<'END'
#include <mpi.h>
int main(int count, char **words) {
    int rank, sum;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum != 1;
}
END
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
for mpi in mpich openmpi; do
    "mpicc.$mpi" -o "ranks-$mpi" ranks.c
    "mpiexec.$mpi" -n 2 cox run -q --json "$mpi.%r.json" -- "./ranks-$mpi"
    for rank in 0 1; do json "$mpi.$rank.json" 'd["programs"][0]["processes"][0]["threads"]'; done
done
