# miniFE with OpenMP, without MPI. Its own script copies the common files and writes a header about the build.
cd openmp/src
./get_common_files
./generate_info_header "$CXX" "-O3 -fopenmp" miniFE MINIFE
"$CXX" -O3 -fopenmp -I. -I../utils -I../fem -DMINIFE_SCALAR=double -DMINIFE_LOCAL_ORDINAL=int -DMINIFE_GLOBAL_ORDINAL=int \
	-DMINIFE_CSR_MATRIX -DMINIFE_INFO=1 -DMINIFE_KERNELS=0 -o "$OUT/minife.$COMPILER" \
	main.cpp YAML_Doc.cpp YAML_Element.cpp \
	../utils/BoxPartition.cpp ../utils/param_utils.cpp ../utils/utils.cpp ../utils/mytimer.cpp
