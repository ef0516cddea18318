// One graph: where its buffers are, and how operations walk over their rows.
#pragma once

#include "products.h"

struct View {
    float* p;
    long ld;      // floats from row to row
    int padded;   // columns
    int width;    // channels
    long rows;
    const float* mask;  // 1 for channels, 0 for padding
};

// Memory of a thread for one vector of channels of all pairs, in full: symmetric pairs are unfolded into it.
static float* unfolded(long floats) {
    static thread_local float* memory = nullptr;
    static thread_local long size = 0;
    if (floats > size) {
        free(memory);
        size = (floats + floats / 4 + 1023) / 1024 * 1024;
        memory = (float*)aligned_alloc(64, size * sizeof(float));
    }
    return memory;
}

struct Graph {
    const Program* program;
    const Plan* plan;
    const Batch* batch;
    long rows[SPACES];
    long first[SPACES];  // rows of the graphs before
    float* memory[2];    // its own, the thread's
    float* sums;         // gradients of parameters, the thread's
    long n, r, m;
    const float* eigenvectors;
    const int64_t *source, *target;

    View at(int ref, const Place* places) const {
        const Ref& x = program->refs[ref];
        const Buffer& buffer = program->buffers[x.buffer];
        const Place& place = places[x.buffer];
        long offset = 0;
        for (int space = 0; space < SPACES; ++space) offset += place.coefficient[space] * rows[space];
        return {memory[place.arena] + offset + x.column, buffer.stride, x.padded, x.width, rows[buffer.space],
                program->masks + x.mask};
    }
    View value(int ref) const { return at(ref, plan->values); }
    View gradient(int ref) const { return at(ref, plan->gradients); }
    int space(int ref) const { return program->buffers[program->refs[ref].buffer].space; }
    Columns columns(int ref) const {
        const Ref& x = program->refs[ref];
        return {program->segments + x.first_segment, x.segments};
    }
    long pair(long i, long j) const {  // the row of an unordered pair, i ≤ j
        return i * n - i * (i - 1) / 2 + j - i;
    }
    long edge_row(int ref, long edge) const {  // of an edge among the pairs; -1: the other direction stands there
        const long i = source[edge], j = target[edge];
        if (space(ref) == PAIRS) return i * n + j;
        return i <= j ? pair(i, j) : -1;
    }
    float sum_factor(const Op& op) const {  // n^-exponent, or a constant
        return op.flag ? op.number : powf(n > 1 ? (float)n : 1.0f, -op.number);
    }
};

template <typename Function>
static inline void in_order(const View& x, Function function) {  // function(row, column) for every vector
    for (long row = 0; row < x.rows; ++row)
        for (int column = 0; column < x.padded; column += LANES) function(row, column);
}

template <typename Function>
static inline void each(const View& x, Function function) {  // the same in any order: each writes a row of its own
    const int team = team_of(x.rows * x.padded);
    if (team == 1) return in_order(x, function);
    const long share = (x.rows + team - 1) / team;
    in_team(team, [&](int self) {
        const long end = (self + 1) * share < x.rows ? (self + 1) * share : x.rows;
        for (long row = self * share; row < end; ++row)
            for (int column = 0; column < x.padded; column += LANES) function(row, column);
    });
}

template <typename Function>
static inline void each_point(long points, long work, Function function) {  // function(i): each writes rows of its own
    const int team = team_of(work);
    const long share = (points + team - 1) / team;
    in_team(team, [&](int self) {
        const long end = (self + 1) * share < points ? (self + 1) * share : points;
        for (long i = self * share; i < end; ++i) function(i);
    });
}

static inline float* at(const View& x, long row, int column) { return x.p + row * x.ld + column; }

static inline void put(const View& x, long row, int column, Vec value, bool accumulate) {
    float* p = at(x, row, column);
    store(p, accumulate ? load(p) + value : value);
}

static void zero(const View& x) {
    for (long row = 0; row < x.rows; ++row) memset(x.p + row * x.ld, 0, x.padded * sizeof(float));
}

// Symmetric pairs, one vector of channels, as a full matrix; its diagonal times a factor.
static float* unfold(const Graph& g, const View& x, int c, float diagonal) {
    float* full = unfolded(g.n * g.n * LANES);
    each_point(g.n, g.n * g.n * LANES, [&](long i) {
        for (long j = 0; j < g.n; ++j) {
            const Vec value = load(at(x, j < i ? g.pair(j, i) : g.pair(i, j), c));
            store(full + (i * g.n + j) * LANES, i == j ? diagonal * value : value);
        }
    });
    return full;
}
