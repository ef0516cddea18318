// Vectors of channels, and teams of threads.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cmath>
#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

static inline Vec load(const float* p) { return *(const Vec*)p; }
static inline void store(float* p, Vec v) { *(Vec*)p = v; }
static inline Vec filled(float x) { Vec v = {}; return v + x; }

static inline float total(Vec v) {
    float sum = 0;
    for (int lane = 0; lane < LANES; ++lane) sum += v[lane];
    return sum;
}

static inline Vec exponential(Vec x) {
    const Vec low = filled(-87.0f), high = filled(88.0f);
    x = x < low ? low : x;  // a NaN passes, and makes the result NaN where it is multiplied by its argument
    x = x > high ? high : x;
    Vec scaled = x * 1.44269504f;
    Vec half = scaled < 0 ? filled(-0.5f) : filled(0.5f);
    IntVec whole = __builtin_convertvector(scaled + half, IntVec);
    Vec rounded = __builtin_convertvector(whole, Vec);
    Vec rest = x - rounded * 0.693359375f + rounded * 2.12194440e-4f;
    Vec y = filled(1.9875691500e-4f);
    y = y * rest + 1.3981999507e-3f;
    y = y * rest + 8.3334519073e-3f;
    y = y * rest + 4.1665795894e-2f;
    y = y * rest + 1.6666665459e-1f;
    y = y * rest + 5.0000001201e-1f;
    y = y * rest * rest + rest + 1.0f;
    IntVec power = (whole + 127) << 23;
    return y * (Vec)power;
}

static inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exponential(-x)); }

// ---------------------------------------------------------------------------------------------------------------
// Teams: threads take whole graphs, but a graph that is alone, or much larger than the others, is shared by all of them.

static thread_local int team_size = 1;  // threads that share the graph at hand
constexpr long TEAM_WORK = 20000;       // vector operations below which it is not worth calling the others

static inline int team_of(long work) { return work < TEAM_WORK ? 1 : team_size; }

template <typename Function>
static void in_team(int team, Function function) {  // function(self) for every member; each writes what no other does
    if (team == 1) return function(0);
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int self = 0; self < team; ++self) function(self);
}
