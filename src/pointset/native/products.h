// The two kinds of products that nearly all time goes into: of matrices, and of one channel over points.
#pragma once

#include "simd.h"
#include "structures.h"

// ---------------------------------------------------------------------------------------------------------------
// Matrix products. C (rows × N) = A (rows × K) · B, B packed in panels of at most PANEL vectors: panel, k, vector.

#if defined(__AVX512F__)
constexpr int PANEL = 4;
constexpr int ROWS_OF[5] = {0, 12, 12, 8, 6};
#elif defined(__aarch64__)
constexpr int PANEL = 4;
constexpr int ROWS_OF[5] = {0, 12, 8, 6, 4};
#else
constexpr int PANEL = 2;
constexpr int ROWS_OF[5] = {0, 10, 6, 0, 0};
#endif

static inline int panel_width(int vectors) {  // of the next panel: even panels, none wider than PANEL
    int panels = (vectors + PANEL - 1) / PANEL;
    return (vectors + panels - 1) / panels;
}

struct Columns { const Segment* segments; int count; };

template <int ROWS, int VECTORS_>
static void product_block(const float* a, long lda, Columns k_of, const float* b, float* c, long ldc, const float* bias,
                          bool accumulate) {
    Vec sum[ROWS][VECTORS_];
    for (int row = 0; row < ROWS; ++row)
        for (int v = 0; v < VECTORS_; ++v)
            sum[row][v] = accumulate ? load(c + row * ldc + v * LANES) : bias ? load(bias + v * LANES) : filled(0);
    for (int segment = 0; segment < k_of.count; ++segment) {
        const float* column = a + k_of.segments[segment].column;
        const int width = k_of.segments[segment].width;
        for (int k = 0; k < width; ++k) {
            Vec right[VECTORS_];
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS_; ++v) right[v] = load(b + v * LANES);
            b += VECTORS_ * LANES;
#pragma GCC unroll 12
            for (int row = 0; row < ROWS; ++row) {
                const float left = column[row * lda + k];
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS_; ++v) sum[row][v] += left * right[v];
            }
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int v = 0; v < VECTORS_; ++v) store(c + row * ldc + v * LANES, sum[row][v]);
}

// dW (K × N) += Aᵀ (K × rows) · G (rows × N): ROWS of its rows, i.e. columns of A, at a time.
template <int ROWS, int VECTORS_>
static void outer_block(const float* a, long lda, const float* g, long ldg, long rows, float* c, long ldc) {
    Vec sum[ROWS][VECTORS_];
    for (int row = 0; row < ROWS; ++row)
        for (int v = 0; v < VECTORS_; ++v) sum[row][v] = load(c + row * ldc + v * LANES);
    for (long m = 0; m < rows; ++m) {
        Vec right[VECTORS_];
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS_; ++v) right[v] = load(g + m * ldg + v * LANES);
#pragma GCC unroll 12
        for (int row = 0; row < ROWS; ++row) {
            const float left = a[m * lda + row];
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS_; ++v) sum[row][v] += left * right[v];
        }
    }
    for (int row = 0; row < ROWS; ++row)
        for (int v = 0; v < VECTORS_; ++v) store(c + row * ldc + v * LANES, sum[row][v]);
}

// Blocks of fewer rows, for what is left over: chosen at run time among those compiled.
template <int ROWS, int VECTORS_>
static void product_rows(int rows, const float* a, long lda, Columns k_of, const float* b, float* c, long ldc,
                         const float* bias, bool accumulate) {
    if constexpr (ROWS > 0) {
        if (rows == ROWS) product_block<ROWS, VECTORS_>(a, lda, k_of, b, c, ldc, bias, accumulate);
        else product_rows<ROWS - 1, VECTORS_>(rows, a, lda, k_of, b, c, ldc, bias, accumulate);
    }
}

template <int ROWS, int VECTORS_>
static void outer_rows(int count, const float* a, long lda, const float* g, long ldg, long rows, float* c, long ldc) {
    if constexpr (ROWS > 0) {
        if (count == ROWS) outer_block<ROWS, VECTORS_>(a, lda, g, ldg, rows, c, ldc);
        else outer_rows<ROWS - 1, VECTORS_>(count, a, lda, g, ldg, rows, c, ldc);
    }
}

template <int VECTORS_>
static void product_panel(long rows, const float* a, long lda, Columns k_of, const float* b, float* c, long ldc,
                          const float* bias, bool accumulate) {
    constexpr int ROWS = ROWS_OF[VECTORS_];
    long row = 0;
    for (; row + ROWS <= rows; row += ROWS)
        product_block<ROWS, VECTORS_>(a + row * lda, lda, k_of, b, c + row * ldc, ldc, bias, accumulate);
    if (row < rows)
        product_rows<ROWS - 1, VECTORS_>(rows - row, a + row * lda, lda, k_of, b, c + row * ldc, ldc, bias, accumulate);
}

constexpr long OUTER_ROWS = 128;  // of A and G that stay in the first cache

template <int VECTORS_>
static void outer_panel(long rows, const float* a, long lda, Columns k_of, const float* g, long ldg, float* c, long ldc) {
    constexpr int ROWS = ROWS_OF[VECTORS_];
    for (int segment = 0; segment < k_of.count; ++segment) {
        const int column = k_of.segments[segment].column, width = k_of.segments[segment].width;
        int k = 0;
        for (; k + ROWS <= width; k += ROWS, c += ROWS * ldc)
            outer_block<ROWS, VECTORS_>(a + column + k, lda, g, ldg, rows, c, ldc);
        if (k < width) outer_rows<ROWS - 1, VECTORS_>(width - k, a + column + k, lda, g, ldg, rows, c, ldc);
        c += (width - k) * ldc;
    }
}

static void product_part(long rows, const float* a, long lda, Columns k_of, const float* b, int n, float* c, long ldc,
                         const float* bias, bool accumulate) {
    int depth = 0;
    for (int segment = 0; segment < k_of.count; ++segment) depth += k_of.segments[segment].width;
    for (int left = n / LANES, v = 0; left > 0;) {
        const int width = panel_width(left);
        float* to = c + v * LANES;
        const float* from = bias ? bias + v * LANES : nullptr;
        switch (width) {
            case 1: product_panel<1>(rows, a, lda, k_of, b, to, ldc, from, accumulate); break;
            case 2: product_panel<2>(rows, a, lda, k_of, b, to, ldc, from, accumulate); break;
#if !defined(__AVX__) || defined(__AVX512F__)
            case 3: product_panel<3>(rows, a, lda, k_of, b, to, ldc, from, accumulate); break;
            case 4: product_panel<4>(rows, a, lda, k_of, b, to, ldc, from, accumulate); break;
#endif
        }
        b += (long)depth * width * LANES;
        v += width;
        left -= width;
    }
}

static void product(long rows, const float* a, long lda, Columns k_of, const float* b, int n, float* c, long ldc,
                    const float* bias, bool accumulate) {
    const int team = team_of(rows * n);
    const long share = ((rows + team - 1) / team + 23) / 24 * 24;
    in_team(team, [&](int self) {
        const long first = self * share, count = rows - first < share ? rows - first : share;
        if (count > 0) product_part(count, a + first * lda, lda, k_of, b, n, c + first * ldc, ldc, bias, accumulate);
    });
}

static void outer_part(long rows, const float* a, long lda, Columns k_of, const float* g, long ldg, int n, float* c,
                       long ldc) {
    for (long first = 0; first < rows; first += OUTER_ROWS) {
        const long count = rows - first < OUTER_ROWS ? rows - first : OUTER_ROWS;
        const float *at = a + first * lda, *gt = g + first * ldg;
        for (int left = n / LANES, v = 0; left > 0;) {
            const int width = panel_width(left);
            switch (width) {
                case 1: outer_panel<1>(count, at, lda, k_of, gt + v * LANES, ldg, c + v * LANES, ldc); break;
                case 2: outer_panel<2>(count, at, lda, k_of, gt + v * LANES, ldg, c + v * LANES, ldc); break;
#if !defined(__AVX__) || defined(__AVX512F__)
                case 3: outer_panel<3>(count, at, lda, k_of, gt + v * LANES, ldg, c + v * LANES, ldc); break;
                case 4: outer_panel<4>(count, at, lda, k_of, gt + v * LANES, ldg, c + v * LANES, ldc); break;
#endif
            }
            v += width;
            left -= width;
        }
    }
}

static void outer_product(long rows, const float* a, long lda, Columns k_of, const float* g, long ldg, int n, float* c,
                          long ldc) {
    const int vectors = n / LANES, team = team_of(rows * n), share = (vectors + team - 1) / team * LANES;
    in_team(team, [&](int self) {
        const int first = self * share, count = n - first < share ? n - first : share;
        if (count > 0) outer_part(rows, a, lda, k_of, g + first, ldg, count, c + first, ldc);
    });
}

// ---------------------------------------------------------------------------------------------------------------
// Products of one channel: x_ij = Σ_k q_ik ⊙ w_jk and y_ik = Σ_j a_ij ⊙ w_jk.

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int BLOCK = 4;  // BLOCK² sums and 2·BLOCK operands in registers
#else
constexpr int BLOCK = 3;
#endif

// y (I × J) (+)= alpha Σ_k left_ik ⊙ right_jk, with steps in floats between i, j and k.
template <int I, int J>
static void channel_block(const float* left, long left_i, long left_k, const float* right, long right_j, long right_k,
                          long depth, float* y, long y_i, long y_j, const float* base, float alpha) {
    Vec sum[I][J];
    for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j) sum[i][j] = filled(0);
    for (long k = 0; k < depth; ++k) {
        Vec l[I], r[J];
#pragma GCC unroll 4
        for (int i = 0; i < I; ++i) l[i] = load(left + i * left_i + k * left_k);
#pragma GCC unroll 4
        for (int j = 0; j < J; ++j) r[j] = load(right + j * right_j + k * right_k);
#pragma GCC unroll 4
        for (int i = 0; i < I; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < J; ++j) sum[i][j] += l[i] * r[j];
    }
    for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j) {
            const long at = i * y_i + j * y_j;
            store(y + at, base ? load(base + at) + alpha * sum[i][j] : alpha * sum[i][j]);
        }
}

template <int I, int J, typename... Arguments>
static void channel_rest(int i, int j, Arguments... arguments) {
    if constexpr (I > 0 && J > 0) {
        if (i == I && j == J) channel_block<I, J>(arguments...);
        else if (i < I) channel_rest<I - 1, J>(i, j, arguments...);
        else channel_rest<I, J - 1>(i, j, arguments...);
    }
}

struct Strided { const float* p; long outer, inner; };

// y_ij = base_ij + alpha Σ_k left(i, k) ⊙ right(j, k) for all i < rows, j < columns, one vector of channels.
static void channel_tile(Strided left, Strided right, long rows, long columns, long depth, float* y, long y_i, long y_j,
                         const float* base, float alpha) {
    for (long i = 0; i < rows; i += BLOCK) {
        const int height = rows - i < BLOCK ? rows - i : BLOCK;
        for (long j = 0; j < columns; j += BLOCK) {
            const int width = columns - j < BLOCK ? columns - j : BLOCK;
            const float *l = left.p + i * left.outer, *r = right.p + j * right.outer;
            const long at = i * y_i + j * y_j;
            if (height == BLOCK && width == BLOCK)
                channel_block<BLOCK, BLOCK>(l, left.outer, left.inner, r, right.outer, right.inner, depth, y + at, y_i,
                                            y_j, base ? base + at : nullptr, alpha);
            else
                channel_rest<BLOCK, BLOCK>(height, width, l, left.outer, left.inner, r, right.outer, right.inner, depth,
                                           y + at, y_i, y_j, base ? base + at : nullptr, alpha);
        }
    }
}

constexpr long TILE_VECTORS = 8192;  // of the right side: half a megabyte, which stays in the second cache
constexpr long TILE_DEPTH = 64;

// The same in tiles, for graphs that do not fit into the cache; in a team each thread takes some of the rows.
static void channel_products(Strided left, Strided right, long rows, long columns, long depth, float* y, long y_i,
                             long y_j, const float* base, float alpha) {
    long deep = depth, wide = columns;
    if (columns * depth > TILE_VECTORS) {
        deep = depth < TILE_DEPTH ? depth : TILE_DEPTH;
        wide = (TILE_VECTORS / deep + BLOCK - 1) / BLOCK * BLOCK;
    }
    const int team = team_of(rows * columns * depth);
    const long share = ((rows + team - 1) / team + BLOCK - 1) / BLOCK * BLOCK;
    in_team(team, [&](int self) {
        const long first = self * share, count = rows - first < share ? rows - first : share;
        if (count <= 0) return;
        for (long j = 0; j < columns; j += wide)
            for (long k = 0; k == 0 || k < depth; k += deep > 0 ? deep : 1) {  // once also for rank 0: sums of nothing
                const long at = first * y_i + j * y_j;
                const float* before = k ? y + at : base ? base + at : nullptr;
                channel_tile({left.p + first * left.outer + k * left.inner, left.outer, left.inner},
                             {right.p + j * right.outer + k * right.inner, right.outer, right.inner}, count,
                             columns - j < wide ? columns - j : wide, depth - k < deep ? depth - k : deep, y + at, y_i,
                             y_j, before, alpha);
            }
    });
}
