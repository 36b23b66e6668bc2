# LULESH 2.0 with OpenMP, without MPI and without the viewer's files.
"$CXX" -DUSE_MPI=0 -O3 -fopenmp -I. -o "$OUT/lulesh.$COMPILER" \
	lulesh.cc lulesh-comm.cc lulesh-viz.cc lulesh-util.cc lulesh-init.cc -lm
