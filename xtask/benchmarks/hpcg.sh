# HPCG (reference code) with OpenMP, without MPI.
"$CXX" -DHPCG_NO_MPI -O3 -fopenmp -Isrc -o "$OUT/hpcg.$COMPILER" src/*.cpp
