// The largest Tanimoto similarity of fingerprints to those of a set: |a ∧ b| / |a ∨ b|, bits packed into words.
#pragma once

#include "simd.h"

static inline int common_bits(const uint64_t* a, const uint64_t* b, long words) {
    long bits = 0;
    for (long at = 0; at < words; ++at) bits += __builtin_popcountll(a[at] & b[at]);
    return (int)bits;
}

// References stand in ascending order of their bits. With |a| ≤ |b| the similarity is at most |a| / |b|, so the search goes
// outwards from those with as many bits as the query, and ends where none can be more similar than the best so far. One of
// them may be left out: the query itself.
static double nearest_similarity(const uint64_t* query, const uint64_t* references, const int32_t* bits, long count,
                                 long words, long left_out) {
    const int own = common_bits(query, query, words);
    if (!own) return 0;
    long low = 0, high = count;  // the first reference with at least as many bits
    while (low < high) {
        const long middle = (low + high) / 2;
        if (bits[middle] < own) low = middle + 1;
        else high = middle;
    }
    double best = 0;
    for (long at = low; at < count && own > best * bits[at]; ++at) {
        if (at == left_out) continue;
        const int common = common_bits(query, references + at * words, words);
        const double similarity = (double)common / (own + bits[at] - common);
        if (similarity > best) best = similarity;
    }
    for (long at = low - 1; at >= 0 && bits[at] > best * own; --at) {
        if (at == left_out) continue;
        const int common = common_bits(query, references + at * words, words);
        const double similarity = (double)common / (own + bits[at] - common);
        if (similarity > best) best = similarity;
    }
    return best;
}
