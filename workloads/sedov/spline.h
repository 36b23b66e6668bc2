// SPDX-License-Identifier: Apache-2.0 OR MIT
// The cubic spline kernel (Monaghan and Lattanzio 1985) in three dimensions. Its integral over space is 1.
#ifndef COX_WORKLOADS_SEDOV_SPLINE_H
#define COX_WORKLOADS_SEDOV_SPLINE_H

// Returns the weight at a distance; it is 0 from twice the smoothing length on.
static inline double spline(double distance, double smoothing)
{
    const double one_over_pi = 0.31830988618379067154;
    double inverse = 1 / smoothing, q = distance * inverse;
    double scale = one_over_pi * inverse * inverse * inverse;
    if (q >= 2)
        return 0;
    if (q >= 1)
        return scale * 0.25 * (2 - q) * (2 - q) * (2 - q);
    return scale * (1 - 1.5 * q * q + 0.75 * q * q * q);
}

#endif
