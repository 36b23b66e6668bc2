// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "checks.h"

#include <math.h>

#include "fail.h"
#include "forces.h"
#include "numbers.h"

enum { SAMPLE = 200 };

// Returns a particle of the sample. Each second one has the widest kernel of 500 random particles, so that the few
// particles of the hot centre are in the sample, too.
static size_t sampled(const struct particles *particles, size_t number)
{
    struct random_sequence sequence = random_numbered(number);
    size_t chosen = random_below(&sequence, particles->count);
    for (int choice = 0; number % 2 == 0 && choice < 500; choice++) {
        size_t other = random_below(&sequence, particles->count);
        if (particles->smoothing[other] > particles->smoothing[chosen])
            chosen = other;
    }
    return chosen;
}

void check_lattice_density(const struct particles *particles)
{
    for (size_t i = 0; i < particles->count; i++)
        if (!(fabs(particles->density[i] - 1) < lattice_density_error))
            check_failed("at the start, the density at particle %zu is %g instead of 1", i, particles->density[i]);
}

static void check_list(const struct particles *particles, const struct neighbours *neighbours, size_t i)
{
    uint64_t found = 0, expected = 0, number = 0;
    for (uint32_t place = 0; place < neighbours->counts[i]; place++)
        found += mix_bits(neighbours_of(neighbours, i)[place]);
    for (size_t j = 0; j < particles->count; j++) {
        if (j == i || !are_neighbours(particles, i, j))
            continue;
        expected += mix_bits(j);
        number++;
    }
    if (found != expected)
        check_failed("the list of particle %zu has %u neighbours, and not the %zu that it should have", i,
                     neighbours->counts[i], (size_t)number);
}

void check_neighbours(const struct particles *particles, const struct neighbours *neighbours)
{
    for (size_t number = 0; number < SAMPLE; number++)
        check_list(particles, neighbours, sampled(particles, number));
}

static void check_gradient(const struct particles *particles, const struct neighbours *neighbours, size_t i)
{
    double gradients[3][3] = {0};
    for (uint32_t place = 0; place < neighbours->counts[i]; place++) {
        uint32_t j = neighbours_of(neighbours, i)[place];
        struct separation to = separation_of(particles, i, j);
        struct vector term = gradient_term(&particles->gradient[i], to, particles->smoothing[i]);
        const double differences[3] = {to.x, to.y, to.z}, terms[3] = {term.x, term.y, term.z};
        for (int of = 0; of < 3; of++)
            for (int along = 0; along < 3; along++)
                gradients[of][along] +=
                    particles->mass / particles->density[j] * differences[of] * terms[along];
    }
    for (int of = 0; of < 3; of++)
        for (int along = 0; along < 3; along++)
            if (!(fabs(gradients[of][along] - (of == along)) < 1e-9))
                check_failed("at particle %zu, the gradient of %c along %c is %g", i, "xyz"[of], "xyz"[along],
                             gradients[of][along]);
}

void check_gradients(const struct particles *particles, const struct neighbours *neighbours)
{
    for (size_t number = 0; number < SAMPLE; number++)
        check_gradient(particles, neighbours, sampled(particles, number));
}

void check_sound_speeds(const struct particles *particles)
{
    for (size_t i = 0; i < particles->count; i++) {
        double squared = particles->sound_speed[i] * particles->sound_speed[i];
        double expected = particles->gamma * particles->pressure[i] / particles->density[i];
        if (!(fabs(squared - expected) <= 1e-12 * expected))
            check_failed("at particle %zu, the speed of sound is %g, and not %g as pressure and density say", i,
                         particles->sound_speed[i], sqrt(expected));
    }
}
