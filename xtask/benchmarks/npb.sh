# The NAS Parallel Benchmarks with OpenMP, in C (NPB3.0-omp-C, any compiler) or mostly in Fortran (NPB3.4-OMP, gcc with gfortran).
# Class W or A, whichever takes about a second.
if [ -d NPB3.4-OMP ]; then cd NPB3.4-OMP; fi
random=randdp
if [ ! -e BT/bt.c ]; then
	if [ "$COMPILER" != gcc ]; then
		echo "NPB in Fortran is built by gfortran only; NPB3.0-omp-C is built by all compilers" >&2
		exit 1
	fi
	random=randi8
fi
# gnu99: main() without a return value returns 0. -fallow-invalid-boz: X'3F' is an old form of Z'3F'.
cat >config/make.def <<END
FC = gfortran
FLINK = gfortran
F_LIB =
F_INC =
FFLAGS = -O3 -fopenmp -fallow-invalid-boz
FLINKFLAGS = -fopenmp
CC = $CC
CLINK = $CC
C_LIB = -lm
C_INC = -I../common
CFLAGS = -O3 -fopenmp -std=gnu99 -fcommon -w
CLINKFLAGS = -fopenmp
UCC = gcc -w
BINDIR = ../bin
RAND = $random
WTIME = wtime.c
END
mkdir -p bin
failed=
for each in bt.W cg.A ep.W ft.W is.A lu.W mg.A sp.W; do
	folder=$(echo "${each%.*}" | tr a-z A-Z)
	# One of the Makefiles uses bash's substitutions.
	if ! make -C "$folder" SHELL=/bin/bash CLASS="${each#*.}" >"$each.log" 2>&1; then
		failed="$failed $each"
		continue
	fi
	for built in "bin/$each" "bin/$each.x"; do
		if [ -e "$built" ]; then cp "$built" "$OUT/$each.$COMPILER"; fi
	done
done
if [ -n "$failed" ]; then
	echo "not built:$failed; see the logs in $PWD" >&2
	exit 1
fi
