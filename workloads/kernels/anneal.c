// SPDX-License-Identifier: Apache-2.0 OR MIT
// Simulated annealing of a placement: fine-grained claims by atomics, a barrier per temperature.
// See --help.
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"

enum { WIRES = 6 };    // wires of each element

struct place {
    uint16_t x, y;
};

struct element {
    _Atomic uint32_t owner;    // number + 1 of the thread that has claimed it, or 0
    struct place place;        // only the owner may read or change it
    uint32_t neighbours[WIRES];
};

// Results of one thread.
struct tally {
    _Alignas(64) int64_t cost_change;
    uint64_t accepted, refused, given_up;    // given_up: another thread had claimed an element
};

struct run {
    size_t threads, edge, count;
    uint64_t steps, moves;
    struct element *elements;
    struct tally *tallies;
    struct crew_barrier barrier;
};

// The elements claimed for one move: two, and the neighbours of both.
struct claim {
    uint32_t owner;
    unsigned count;
    struct element *claimed[2 + 2 * WIRES];
};

static const double first_temperature = 3, last_temperature = 0.1;

// A torus whose elements have random numbers and random places: the wiring is as irregular in memory as a
// real netlist, but a good placement exists.
static void make_netlist(struct run *run)
{
    uint32_t *shuffled = kernel_array(run->count, sizeof *shuffled);
    struct random_sequence sequence = random_numbered(0);
    for (size_t i = 0; i < run->count; i++) {
        size_t j = random_below(&sequence, i + 1);
        shuffled[i] = shuffled[j];
        shuffled[j] = (uint32_t)i;
    }
    const size_t steps[WIRES / 2] = {1, run->edge, run->edge + 1};
    for (size_t i = 0; i < run->count; i++) {
        struct element *element = &run->elements[shuffled[i]];
        for (size_t k = 0; k < WIRES / 2; k++) {
            element->neighbours[2 * k] = shuffled[(i + steps[k]) % run->count];
            element->neighbours[2 * k + 1] = shuffled[(i + run->count - steps[k]) % run->count];
        }
    }
    for (size_t i = 0; i < run->count; i++)
        run->elements[i].place =
            (struct place){(uint16_t)(i % run->edge), (uint16_t)(i / run->edge)};
    free(shuffled);
}

static int64_t wire_length(struct place a, struct place b)
{
    return abs(a.x - b.x) + abs(a.y - b.y);
}

// Each wire counts twice, once at each end.
static int64_t placement_cost(const struct run *run)
{
    int64_t cost = 0;
    for (size_t i = 0; i < run->count; i++)
        for (int wire = 0; wire < WIRES; wire++)
            cost += wire_length(run->elements[i].place,
                                run->elements[run->elements[i].neighbours[wire]].place);
    return cost;
}

static bool claim_element(struct claim *claim, struct element *element)
{
    uint32_t found = 0;
    // Acquire: this thread sees the place that the last owner stored.
    if (atomic_compare_exchange_strong_explicit(&element->owner, &found, claim->owner,
                                                memory_order_acquire, memory_order_relaxed)) {
        claim->claimed[claim->count++] = element;
        return true;
    }
    return found == claim->owner;    // already claimed by this move: a neighbour of both
}

static void release_all(struct claim *claim)
{
    while (claim->count > 0)
        atomic_store_explicit(&claim->claimed[--claim->count]->owner, 0, memory_order_release);
}

// Never waits: a preempted thread that holds claims does not block others.
static bool claim_with_neighbours(struct run *run, struct claim *claim, struct element *element)
{
    if (!claim_element(claim, element))
        return false;
    for (int wire = 0; wire < WIRES; wire++)
        if (!claim_element(claim, &run->elements[element->neighbours[wire]]))
            return false;
    return true;
}

// Returns by how much the wires of `moved` get longer if it swaps places with `other`. A wire between the two
// keeps its length.
static int64_t change_of(const struct run *run, const struct element *moved,
                         const struct element *other)
{
    int64_t change = 0;
    for (int wire = 0; wire < WIRES; wire++) {
        const struct element *end = &run->elements[moved->neighbours[wire]];
        if (end != other)
            change += wire_length(other->place, end->place) - wire_length(moved->place, end->place);
    }
    return change;
}

static void one_move(struct run *run, size_t thread, uint64_t number, double temperature)
{
    struct tally *tally = &run->tallies[thread];
    struct random_sequence sequence = random_numbered(number + 1);
    struct element *a = &run->elements[random_below(&sequence, run->count)];
    struct element *b = &run->elements[random_below(&sequence, run->count)];
    struct claim claim = {.owner = (uint32_t)thread + 1};
    if (!claim_with_neighbours(run, &claim, a) || !claim_with_neighbours(run, &claim, b)) {
        tally->given_up++;
        release_all(&claim);
        return;
    }
    int64_t change = 2 * (change_of(run, a, b) + change_of(run, b, a));
    if (change <= 0 || random_unit(&sequence) < exp((double)-change / temperature)) {
        struct place place = a->place;
        a->place = b->place;
        b->place = place;
        tally->cost_change += change;
        tally->accepted++;
    } else {
        tally->refused++;
    }
    release_all(&claim);
}

static void all_temperatures(void *work, size_t thread)
{
    struct run *run = work;
    struct share mine = share_of(run->moves, run->threads, thread);
    double cooling = pow(last_temperature / first_temperature, 1 / (double)run->steps);
    double temperature = first_temperature;
    for (uint64_t step = 0; step < run->steps; step++) {
        for (size_t move = mine.begin; move < mine.end; move++)
            one_move(run, thread, step * run->moves + move, temperature);
        temperature *= cooling;
        crew_barrier_wait(&run->barrier);
    }
}

static void check_permutation(const struct run *run)
{
    bool *taken = kernel_array(run->count, sizeof *taken);
    for (size_t i = 0; i < run->count; i++) {
        struct place place = run->elements[i].place;
        size_t at = place.y * run->edge + place.x;
        if (taken[at])
            check_failed("two elements are at %u,%u", place.x, place.y);
        taken[at] = true;
        if (run->elements[i].owner != 0)
            check_failed("element %zu is still claimed", i);
    }
    free(taken);
}

static void check_costs(const struct run *run, int64_t first_cost)
{
    int64_t expected = first_cost, cost = placement_cost(run);
    uint64_t tried = 0;
    for (size_t i = 0; i < run->threads; i++) {
        const struct tally *tally = &run->tallies[i];
        expected += tally->cost_change;
        tried += tally->accepted + tally->refused + tally->given_up;
    }
    if (cost != expected)
        check_failed("the placement costs %" PRId64 ", but %" PRId64 " by the accepted moves", cost,
                     expected);
    // With few moves, all of them may increase the cost.
    if (tried >= run->count && cost >= first_cost)
        check_failed("the cost went from %" PRId64 " to %" PRId64, first_cost, cost);
    if (tried != run->steps * run->moves)
        check_failed("%" PRIu64 " of %" PRIu64 " moves were tried", tried, run->steps * run->moves);
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 512, steps = 65, moves = 100000;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 4, 4096, NULL, "N", "N x N places and elements (512)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S", "temperatures (65)", NULL},
        {"moves", OPTION_COUNT, &moves, 1, 1e9, NULL, "M", "moves per temperature (100000)", NULL},
    };
    const struct program program = {
        .name = "kernel-anneal",
        .summary = "Elements joined by wires swap places, at random while it is hot, then only for\n"
                   "the better. A thread claims two elements and their neighbours by atomics, and\n"
                   "gives the move up when one is claimed already. A pthread barrier per temperature.",
        .example = "kernel-anneal --threads 3 --steps 10 --truth -",
        .checked = "One element at every place, all moves tried, and the cost of the placement is\n"
                   "what it was at first plus the change of every accepted move, and lower if there\n"
                   "were as many moves as elements. Which moves are accepted depends on the order of\n"
                   "the threads: the checksum is that of the netlist, its first cost and the places\n"
                   "taken.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    struct run run = {.threads = kernel.threads, .edge = size, .count = size * size,
                      .steps = steps, .moves = moves};
    run.elements = kernel_array(run.count, sizeof *run.elements);
    run.tallies = kernel_array(run.threads, sizeof *run.tallies);
    make_netlist(&run);
    int64_t first_cost = placement_cost(&run);
    crew_barrier_create(&run.barrier, run.threads);

    crew_run(&kernel, all_temperatures, &run);
    kernel.phases += crew_barrier_destroy(&run.barrier);
    check_permutation(&run);
    check_costs(&run, first_cost);
    kernel.checksum = digest_u64(0, (uint64_t)first_cost);
    for (size_t i = 0; i < run.count; i++) {
        struct place place = run.elements[i].place;
        kernel.checksum += mix_bits((uint64_t)place.x << 16 | place.y);
        for (int wire = 0; wire < WIRES; wire++)
            kernel.checksum += mix_bits((uint64_t)i << 32 | run.elements[i].neighbours[wire]);
    }
    free(run.tallies);
    free(run.elements);
    return kernel_end(&kernel, &program, "%" PRIu64 "x%" PRIu64 " elements, %" PRIu64
                      " temperatures", size, size, steps);
}
