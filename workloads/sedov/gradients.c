// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "forces.h"

// Returns the second moments of the neighbours' positions, weighted by kernel and volume. The matrix of the gradient
// terms is their inverse.
static struct symmetric_matrix moments_at(const struct particles *particles, const struct neighbours *neighbours,
                                          size_t i)
{
    const uint32_t *list = neighbours_of(neighbours, i);
    struct symmetric_matrix sum = {0};
    for (uint32_t place = 0; place < neighbours->counts[i]; place++) {
        uint32_t j = list[place];
        struct separation to = separation_of(particles, i, j);
        double weight =
            particles->mass / particles->density[j] * spline(to.distance, particles->smoothing[i]);
        sum.xx += weight * to.x * to.x;
        sum.xy += weight * to.x * to.y;
        sum.xz += weight * to.x * to.z;
        sum.yy += weight * to.y * to.y;
        sum.yz += weight * to.y * to.z;
        sum.zz += weight * to.z * to.z;
    }
    return sum;
}

static struct symmetric_matrix inverse(struct symmetric_matrix m)
{
    struct symmetric_matrix cofactors = {
        .xx = m.yy * m.zz - m.yz * m.yz,
        .xy = m.xz * m.yz - m.xy * m.zz,
        .xz = m.xy * m.yz - m.xz * m.yy,
        .yy = m.xx * m.zz - m.xz * m.xz,
        .yz = m.xy * m.xz - m.xx * m.yz,
        .zz = m.xx * m.yy - m.xy * m.xy,
    };
    double determinant = m.xx * cofactors.xx + m.xy * cofactors.xy + m.xz * cofactors.xz;
    double scale = 1 / determinant;
    return (struct symmetric_matrix){
        .xx = scale * cofactors.xx,
        .xy = scale * cofactors.xy,
        .xz = scale * cofactors.xz,
        .yy = scale * cofactors.yy,
        .yz = scale * cofactors.yz,
        .zz = scale * cofactors.zz,
    };
}

void forces_gradient_terms(struct particles *particles, const struct neighbours *neighbours, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_GRADIENT_TERMS);
#pragma omp parallel
    {
#pragma omp for schedule(runtime) nowait
        for (size_t i = 0; i < particles->count; i++)
            particles->gradient[i] = inverse(moments_at(particles, neighbours, i));
        loop_thread_finished(loops);
    }
    loop_end(loops);
}
