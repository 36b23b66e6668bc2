# The NAS Parallel Benchmarks with OpenMP, in C (NPB3.0-omp-C, any compiler) or mostly in Fortran (NPB3.4-OMP, gfortran only).
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
cat >config/make.def <<END
FC = gfortran
FLINK = gfortran
F77 = gfortran
F_LIB =
F_INC =
FFLAGS = -O3 -fopenmp
FLINKFLAGS = -fopenmp
CC = $CC
CLINK = $CC
C_LIB = -lm
C_INC = -I../common
CFLAGS = -O3 -fopenmp -std=gnu89 -fcommon -w
CLINKFLAGS = -fopenmp
UCC = gcc -w
BINDIR = ../bin
RAND = $random
WTIME = wtime.c
END
mkdir -p bin
for each in bt.W cg.A ep.W ft.W is.A lu.W mg.A sp.W; do
	name=${each%.*}
	folder=$(echo "$name" | tr a-z A-Z)
	# A suite can lack one of the benchmarks.
	[ -d "$folder" ] || continue
	make -C "$folder" CLASS="${each#*.}" >"$each.log" 2>&1 || { tail -n 3 "$each.log" >&2; continue; }
	for built in "bin/$each" "bin/$each.x"; do
		if [ -e "$built" ]; then cp "$built" "$OUT/$each.$COMPILER"; fi
	done
done
