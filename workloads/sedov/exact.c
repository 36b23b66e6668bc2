// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "exact.h"

#include <math.h>

// With s = ln(r / R), R the radius of the shock: velocity = 2/5 r/t V(s), density = G(s), (speed of sound)^2 =
// (2/5 r/t)^2 Z(s). The energy inside a sphere of constant s is constant, which gives Z as a function of V (Landau and
// Lifshitz, Fluid Mechanics, section 106). Towards r = 0, V approaches 1 / gamma and Z infinity, so w = gamma V - 1 is
// integrated instead of V.
struct profile {
    double w;
    double log_density;
    double energy;    // integral from the shock to r, over the dimensionless energy density
};

static struct profile rates(double gamma, double s, struct profile at)
{
    double v = (1 + at.w) / gamma;
    double v_rate = at.w * ((3 * gamma - 1) * v - 5) /
                    (at.w * (2 * (1 - v) / v - gamma) - gamma * (1 - v));
    // Thermal energy is Z / (gamma (gamma - 1)) times the density; Z is known from v.
    double thermal = (1 - v) * v * v / (2 * at.w), kinetic = v * v / 2;
    return (struct profile){
        .w = gamma * v_rate,
        .log_density = (v_rate + 3 * v) / (1 - v),
        .energy = exp(at.log_density + 5 * s) * (thermal + kinetic),
    };
}

static struct profile advanced(struct profile at, double step, struct profile rate)
{
    return (struct profile){at.w + step * rate.w, at.log_density + step * rate.log_density,
                            at.energy + step * rate.energy};
}

// Integrates from the shock inwards by the classical Runge-Kutta method.
double exact_xi0(double gamma)
{
    const double step = -1e-3;
    struct profile at = {
        .w = (gamma - 1) / (gamma + 1),
        .log_density = log((gamma + 1) / (gamma - 1)),
    };
    // The volume inside is exp(3 s): what is left out is below 10^-7 of the energy.
    for (int i = 0; i < 6000; i++) {
        double s = i * step;
        struct profile a = rates(gamma, s, at);
        struct profile b = rates(gamma, s + step / 2, advanced(at, step / 2, a));
        struct profile c = rates(gamma, s + step / 2, advanced(at, step / 2, b));
        struct profile d = rates(gamma, s + step, advanced(at, step, c));
        at = advanced(advanced(advanced(advanced(at, step / 6, a), step / 3, b), step / 3, c), step / 6, d);
    }
    return pow(16 * M_PI / 25 * -at.energy, -0.2);
}

double exact_radius(double xi0, double time)
{
    return xi0 * pow(time, 0.4);
}
