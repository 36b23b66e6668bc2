// SPDX-License-Identifier: Apache-2.0 OR MIT
// The self-similar solution of a point explosion (Sedov 1946, Taylor 1950): radius = xi0 (E t^2 / density)^(1/5).
#ifndef COX_WORKLOADS_SEDOV_EXACT_H
#define COX_WORKLOADS_SEDOV_EXACT_H

// Returns xi0 for a ratio of specific heats: 1.1517 for 5/3, 1.0328 for 1.4 (Kamm and Timmes 2007).
double exact_xi0(double gamma);

// Returns the radius of the shock at a time, for energy 1 and density 1.
double exact_radius(double xi0, double time);

#endif
