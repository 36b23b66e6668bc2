// SPDX-License-Identifier: Apache-2.0 OR MIT
// Clusters a stream of points, chunk by chunk: very many short phases, and barriers at which threads spin
// and then sleep. See --help.
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"
#include "meeting.h"

enum {
    AXES = 16,
    SOURCES = 12,           // places around which points are drawn
    CENTRE_LIMIT = 64,
    SPREAD = 150,           // spread of the points around their place
    RANGE = 1000,           // range of the places
};

// Cost of an open centre, as a squared distance. A second centre for the points of one place saves
// less than this; a centre for the points of another place saves more than this.
static const int64_t centre_cost = INT64_C(60) * RANGE * RANGE;

struct point {
    int32_t at[AXES];       // integers, so that sums are the same in any order
    uint32_t weight;        // number of points that it represents: itself, and points of earlier chunks
    uint32_t centre;        // index into the table of centres
    int64_t cost;           // weight × squared distance from its centre
    int64_t offered;        // weight × squared distance from the candidate
};

// Results of one thread for a candidate.
struct offer {
    _Alignas(64) int64_t saved;          // saving by points that are closer to the candidate
    int64_t stranded[CENTRE_LIMIT];      // cost of moving a centre's other points to the candidate
};

struct run {
    size_t threads, count, centre_count;
    uint64_t chunks, candidates;
    struct point *points;
    size_t centres[CENTRE_LIMIT];        // indices of the points that are centres
    bool closing[CENTRE_LIMIT];
    bool accepted;
    struct offer *offers;
    int64_t cost;                        // of all points and centres, updated by each decision
    uint64_t checksum;
    struct meeting meeting;
};

static int64_t distance_cost(const struct point *point, const struct point *centre)
{
    int64_t sum = 0;
    for (size_t axis = 0; axis < AXES; axis++) {
        int64_t offset = point->at[axis] - centre->at[axis];
        sum += offset * offset;
    }
    return sum * point->weight;
}

static void draw_point(struct point *point, uint64_t number)
{
    struct random_sequence sequence = random_numbered(number);
    struct random_sequence source = random_numbered(~random_below(&sequence, SOURCES));
    for (size_t axis = 0; axis < AXES; axis++)
        point->at[axis] = (int32_t)random_below(&source, RANGE) +
                          (int32_t)random_below(&sequence, SPREAD);
    point->weight = 1;
}

// Keeps the centres of the last chunk, each with the weight of its points, as the first points of this chunk.
static void keep_centres(struct run *run)
{
    struct point kept[CENTRE_LIMIT];
    for (size_t i = 0; i < run->centre_count; i++) {
        kept[i] = run->points[run->centres[i]];
        kept[i].weight = 0;
    }
    for (size_t i = 0; run->centre_count > 0 && i < run->count; i++)
        kept[run->points[i].centre].weight += run->points[i].weight;
    for (size_t i = 0; i < run->centre_count; i++)
        run->points[i] = kept[i];
}

static void begin_chunk(struct run *run, uint64_t chunk)
{
    keep_centres(run);
    for (size_t i = run->centre_count; i < run->count; i++)
        draw_point(&run->points[i], chunk * run->count + i);
    run->centre_count = 1;
    run->centres[0] = 0;
    run->cost = centre_cost;
    for (size_t i = 0; i < run->count; i++) {
        run->points[i].centre = 0;
        run->points[i].cost = distance_cost(&run->points[i], &run->points[0]);
        run->cost += run->points[i].cost;
    }
}

// Each thread computes for its own points what a centre at the candidate would save.
static void weigh_candidate(struct run *run, size_t thread, const struct point *candidate)
{
    struct offer *mine = &run->offers[thread];
    struct share share = share_of(run->count, run->threads, thread);
    mine->saved = 0;
    for (size_t i = 0; i < run->centre_count; i++)
        mine->stranded[i] = 0;
    for (size_t i = share.begin; i < share.end; i++) {
        struct point *point = &run->points[i];
        point->offered = distance_cost(point, candidate);
        if (point->offered < point->cost)
            mine->saved += point->cost - point->offered;
        else
            mine->stranded[point->centre] += point->offered - point->cost;
    }
}

// Runs in one thread: opens the candidate if that saves more than it costs. It also closes every centre
// whose other points lose less by moving to the candidate than the centre costs.
static void decide(struct run *run)
{
    int64_t gain = -centre_cost;
    for (size_t i = 0; i < run->threads; i++)
        gain += run->offers[i].saved;
    size_t closed = 0;
    for (size_t centre = 0; centre < run->centre_count; centre++) {
        int64_t loss = 0;
        for (size_t i = 0; i < run->threads; i++)
            loss += run->offers[i].stranded[centre];
        run->closing[centre] = loss < centre_cost;
        if (run->closing[centre]) {
            gain += centre_cost - loss;
            closed++;
        }
    }
    run->accepted = gain > 0 && run->centre_count - closed < CENTRE_LIMIT - 1;
    if (run->accepted)
        run->cost -= gain;
}

// Each thread updates its own points after the decision. Centres are renumbered: the remaining ones in
// their order, then the candidate.
static void reassign(struct run *run, size_t thread)
{
    uint32_t renumbered[CENTRE_LIMIT], stay = 0;
    for (size_t centre = 0; centre < run->centre_count; centre++)
        renumbered[centre] = run->closing[centre] ? UINT32_MAX : stay++;
    struct share share = share_of(run->count, run->threads, thread);
    for (size_t i = share.begin; i < share.end; i++) {
        struct point *point = &run->points[i];
        if (point->offered < point->cost || run->closing[point->centre]) {
            point->centre = stay;
            point->cost = point->offered;
        } else {
            point->centre = renumbered[point->centre];
        }
    }
}

// Runs in one thread, after all threads have reassigned their points.
static void change_centres(struct run *run, size_t candidate)
{
    size_t stay = 0;
    for (size_t centre = 0; centre < run->centre_count; centre++)
        if (!run->closing[centre])
            run->centres[stay++] = run->centres[centre];
    run->centres[stay++] = candidate;
    run->centre_count = stay;
}

static void try_candidate(struct run *run, size_t thread, size_t candidate)
{
    weigh_candidate(run, thread, &run->points[candidate]);
    meeting_wait(&run->meeting);
    if (thread == 0)
        decide(run);
    meeting_wait(&run->meeting);
    if (!run->accepted)
        return;
    reassign(run, thread);
    meeting_wait(&run->meeting);
    if (thread == 0)
        change_centres(run, candidate);
    meeting_wait(&run->meeting);
}

// All decisions used exact sums, so the cost must equal the sum over the points exactly.
static void check_chunk(struct run *run)
{
    int64_t cost = (int64_t)run->centre_count * centre_cost;
    for (size_t i = 0; i < run->count; i++) {
        const struct point *point = &run->points[i];
        if (point->centre >= run->centre_count ||
            point->cost != distance_cost(point, &run->points[run->centres[point->centre]]))
            check_failed("point %zu has the wrong cost", i);
        cost += point->cost;
    }
    if (cost != run->cost)
        check_failed("the clusters cost %" PRId64 ", by the decisions %" PRId64, cost, run->cost);
    run->checksum = digest_u64(digest_u64(run->checksum, (uint64_t)cost), run->centre_count);
}

static void all_chunks(void *work, size_t thread)
{
    struct run *run = work;
    for (uint64_t chunk = 0; chunk < run->chunks; chunk++) {
        if (thread == 0)
            begin_chunk(run, chunk);
        meeting_wait(&run->meeting);
        struct random_sequence sequence = random_numbered(UINT64_MAX - chunk);
        for (uint64_t i = 0; i < run->candidates; i++)
            try_candidate(run, thread, random_below(&sequence, run->count));
        meeting_wait(&run->meeting);
        if (thread == 0)
            check_chunk(run);
    }
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 4096, chunks = 20, candidates = 1500, spins = 5000;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, CENTRE_LIMIT, 1e6, NULL, "N", "points of a chunk (4096)", NULL},
        {"steps", OPTION_COUNT, &chunks, 1, 1e6, NULL, "S", "chunks (20)", NULL},
        {"candidates", OPTION_COUNT, &candidates, 1, 1e9, NULL, "K",
         "candidates for a centre tried per chunk (1500)", NULL},
        {"spins", OPTION_COUNT, &spins, 0, 1e12, NULL, "L",
         "loads, with a pause each, before a waiting thread sleeps (5000)", NULL},
    };
    const struct program program = {
        .name = "kernel-stream",
        .summary = "Clusters a stream of points chunk by chunk: for one candidate after the other all\n"
                   "threads find out what a centre there would save, one decides, all reassign their\n"
                   "points. Very short phases, between barriers of the program's own that spin for a\n"
                   "while and then sleep on a condition variable.",
        .example = "kernel-stream --threads 3 --spins 100000 --truth -",
        .checked = "After each chunk, every point's cost and centre, and that all cost together is\n"
                   "exactly what the decisions made of it. The checksum, of all costs and numbers of\n"
                   "centres, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    struct run run = {.threads = kernel.threads, .count = size, .chunks = chunks,
                      .candidates = candidates};
    run.points = kernel_array(size, sizeof *run.points);
    run.offers = kernel_array(run.threads, sizeof *run.offers);
    meeting_create(&run.meeting, (uint32_t)run.threads, spins);

    crew_run(&kernel, all_chunks, &run);
    kernel.phases += run.meeting.rounds;
    kernel.checksum = run.checksum;
    size_t centres = run.centre_count;
    meeting_destroy(&run.meeting);
    free(run.offers);
    free(run.points);
    return kernel_end(&kernel, &program, "%" PRIu64 " chunks of %" PRIu64 " points, at the end %zu"
                      " centres", chunks, size, centres);
}
