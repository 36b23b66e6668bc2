/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Multiplies dense matrices with a multithreaded BLAS: dgemm THREADS SIZE PRODUCTS FILE.
 * The last product is written to FILE, so that results can be compared. */
#include <stdio.h>
#include <stdlib.h>

enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111 };

void cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                 const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);
void openblas_set_num_threads(int threads);
int openblas_get_num_threads(void);

int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "usage: dgemm THREADS SIZE PRODUCTS FILE\n"), 2;
    int threads = atoi(argv[1]), size = atoi(argv[2]), products = atoi(argv[3]);
    size_t cells = (size_t)size * (size_t)size;
    double *a = malloc(cells * sizeof *a), *b = malloc(cells * sizeof *b), *c = calloc(cells, sizeof *c);
    if (a == NULL || b == NULL || c == NULL)
        return fprintf(stderr, "dgemm: no memory for matrices of %d rows\n", size), 1;
    for (size_t i = 0; i < cells; i++) {
        a[i] = (double)(i * 7919 % 1009) / 1009 - 0.5;
        b[i] = (double)(i * 104729 % 2003) / 2003 - 0.5;
    }
    openblas_set_num_threads(threads);
    if (openblas_get_num_threads() != threads)
        return fprintf(stderr, "dgemm: the library uses %d threads instead of %d\n", openblas_get_num_threads(), threads), 1;
    for (int i = 0; i < products; i++)
        cblas_dgemm(ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED, size, size, size, 1.0, a, size, b, size, 0.5, c, size);
    FILE *file = fopen(argv[4], "wb");
    if (file == NULL || fwrite(c, sizeof *c, cells, file) != cells || fclose(file) != 0)
        return fprintf(stderr, "dgemm: cannot write %s\n", argv[4]), 1;
    return 0;
}
