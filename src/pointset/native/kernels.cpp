// The encoders' forward and backward pass on a processor, one graph after another.
//
// A model is a program (program.py): a list of operations on buffers. A buffer holds rows of channels, channels last,
// for one graph: n rows for nodes, n·r for vectors, n² for pairs (n(n + 1)/2 where x_ij = x_ji), r for eigenvalues, m for
// edges, 1 for the graph. What
// the operations of one graph touch stays in the cache; threads take whole graphs. So there is neither padding of
// graphs nor grouping, and the result for a graph does not depend on its batch, bit for bit.
//
// Channels are padded with zeros to whole SIMD vectors. Every operation keeps those zeros, in values and in gradients.
//
// Plain C interface, no headers but the standard library's; compiled on first use (build.py). Not with -ffast-math: a NaN
// must stay one, so that a run that diverges is noticed.

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

// ---------------------------------------------------------------------------------------------------------------
// What Python hands over. Mirrored field by field in execute.py.

enum Space { GRAPH, NODES, VECTORS, PAIRS, EIGENVALUES, EDGES, SQUARES, SYMMETRIC, SPACES };

enum Code {
    INPUT, OUTPUT, LINEAR, SILU, ADD, MULTIPLY, GATE, NORM, BOUND_VECTORS, NORM_VECTORS, BOUND_SCALARS, PAIR_PRODUCTS,
    PAIR_OUTER, PAIR_ADD, ROW_PRODUCTS, DIAGONAL, SUMS, POOL, TIMES_GRAPH, PLUS_GRAPH, POINTS, EDGE_SUMS, EDGE_PAIRS,
    SQUARE, TIMES_SQUARE, SCALE, COPY, POINTS_OF_PAIRS
};

struct Ref {               // columns of a buffer
    int32_t buffer;
    int32_t column;        // first column, a multiple of LANES
    int32_t padded;        // columns, a multiple of LANES
    int32_t width;         // channels, without padding
    int32_t first_segment; // channels stand in segments, each padded: their list begins here
    int32_t segments;
    int32_t mask;          // where its 1 for each channel and 0 for padding begin
};

struct Segment {
    int32_t column;        // within the ref
    int32_t width;
};

struct Op {
    int32_t code;
    int32_t in[4];         // refs, -1: none
    int32_t out;           // ref
    int32_t weight, bias;  // parameters, -1: none
    int32_t flag;
    float number;
    int64_t packed;        // where its packed parameters begin in the packed area
    int64_t packed_back;   // its weights, packed for the backward pass
    int64_t gradient;      // where the gradients of its parameters begin in a thread's area
};

struct Step {              // of a plan
    int32_t op;
    int32_t kind;          // 0 forward, 1 backward, 2 set the gradient of a ref (op is the ref) to zero
    int32_t accumulate;    // bit i: add to the gradient of in[i] instead of writing it
};

struct Place {             // of a buffer of one graph: offset = Σ coefficient · rows of each space
    int32_t arena;         // 0 the graph's own memory, kept for the backward pass; 1 the thread's, used again
    int64_t coefficient[SPACES];
};

struct Buffer {
    int32_t space;
    int32_t stride;        // columns
};

struct Program {
    const Op* ops; int32_t op_count;
    const Ref* refs;
    const Segment* segments;
    const float* masks;
    const Buffer* buffers; int32_t buffer_count;
    int64_t packed_floats, gradient_floats;
};

struct Plan {
    const Step* steps; int32_t step_count;
    const Place* values;     // of each buffer
    const Place* gradients;  // of each buffer
    int64_t kept[SPACES];    // coefficients of a graph's own memory
    int64_t scratch[SPACES]; // and of a thread's
};

struct Batch {
    int32_t graphs;
    const int64_t* nodes;    // (graphs,)
    const int64_t* ranks;
    const int64_t* edge_counts;
    const float* eigenvectors;  // (Σ n·r,)
    const int64_t* sources;     // (Σ m,) within the graph
    const int64_t* targets;
    const float* const* inputs;  // rows of all graphs, one after the other
    float* const* input_gradients;  // null: not wanted
    float* const* outputs;
    const float* const* output_gradients;
    const float* const* parameters;
    float* const* parameter_gradients;
    float* kept;                 // memory of all graphs
    float* scratch;              // of all threads
    float* packed;
    float* gradient_sums;        // of all threads
    int32_t threads;
    int32_t backward;            // whether the plan has backward steps
};

// ---------------------------------------------------------------------------------------------------------------
// Vectors of channels.

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

// ---------------------------------------------------------------------------------------------------------------
// One graph: where its buffers are, and the operations on them.

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

static void copy_in(Graph& g, const Op& op) {
    View y = g.value(op.out);
    const float* from = g.batch->inputs[op.flag] + g.first[g.space(op.out)] * y.width;
    const Columns columns = g.columns(op.out);
    zero(y);
    for (long row = 0; row < y.rows; ++row)
        for (int segment = 0; segment < columns.count; ++segment) {
            memcpy(at(y, row, columns.segments[segment].column), from, columns.segments[segment].width * sizeof(float));
            from += columns.segments[segment].width;
        }
}

static void without_padding(const View& x, Columns columns, float* to) {
    for (long row = 0; row < x.rows; ++row)
        for (int segment = 0; segment < columns.count; ++segment) {
            memcpy(to, at(x, row, columns.segments[segment].column), columns.segments[segment].width * sizeof(float));
            to += columns.segments[segment].width;
        }
}

static void copy_in_back(Graph& g, const Op& op) {
    float* to = g.batch->input_gradients[op.flag];
    View dy = g.gradient(op.out);
    if (to) without_padding(dy, g.columns(op.out), to + g.first[g.space(op.out)] * dy.width);
}

static void copy_out(Graph& g, const Op& op) {
    View x = g.value(op.in[0]);
    without_padding(x, g.columns(op.in[0]), g.batch->outputs[op.flag] + g.first[g.space(op.in[0])] * x.width);
}

static void copy_out_back(Graph& g, const Op& op, bool accumulate) {
    View dx = g.gradient(op.in[0]);
    const float* from = g.batch->output_gradients[op.flag] + g.first[g.space(op.in[0])] * dx.width;
    const Columns columns = g.columns(op.in[0]);
    if (!accumulate) zero(dx);
    for (long row = 0; row < dx.rows; ++row)
        for (int segment = 0; segment < columns.count; ++segment)
            for (int c = 0; c < columns.segments[segment].width; ++c)
                *at(dx, row, columns.segments[segment].column + c) += *from++;
}

// y = x W (+ b)
static void linear(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    const float* packed = g.batch->packed + op.packed;
    const float* bias = op.bias < 0 ? nullptr : packed;
    product(y.rows, x.p, x.ld, g.columns(op.in[0]), packed + y.padded, y.padded, y.p, y.ld, bias, false);
}

static void linear_back(Graph& g, const Op& op, bool wanted, bool accumulate) {
    View x = g.value(op.in[0]), dy = g.gradient(op.out);
    float* sums = g.sums + op.gradient;
    outer_product(dy.rows, x.p, x.ld, g.columns(op.in[0]), dy.p, dy.ld, dy.padded, sums + dy.padded, dy.padded);
    if (op.bias >= 0)
        for (int column = 0; column < dy.padded; column += LANES) {
            Vec sum = load(sums + column);
            for (long row = 0; row < dy.rows; ++row) sum += load(at(dy, row, column));
            store(sums + column, sum);
        }
    if (!wanted) return;
    View dx = g.gradient(op.in[0]);
    product(dx.rows, dy.p, dy.ld, g.columns(op.out), g.batch->packed + op.packed_back, dx.padded, dx.p, dx.ld, nullptr,
            accumulate);
}

static void silu(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    each(y, [&](long row, int column) {
        Vec value = load(at(x, row, column));
        store(at(y, row, column), value * sigmoid(value));
    });
}

static void silu_back(Graph& g, const Op& op, bool accumulate) {
    View x = g.value(op.in[0]), dy = g.gradient(op.out), dx = g.gradient(op.in[0]);
    each(dy, [&](long row, int column) {
        Vec value = load(at(x, row, column)), s = sigmoid(value);
        put(dx, row, column, load(at(dy, row, column)) * (s + value * s * (1.0f - s)), accumulate);
    });
}

// y = x + number · z
static void add(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), z = g.value(op.in[1]), y = g.value(op.out);
    each(y, [&](long row, int c) { store(at(y, row, c), load(at(x, row, c)) + op.number * load(at(z, row, c))); });
}

static void add_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dy = g.gradient(op.out);
    for (int side = 0; side < 2; ++side) {
        if (!wanted[side]) continue;
        View dx = g.gradient(op.in[side]);
        const float factor = side ? op.number : 1.0f;
        each(dy, [&](long row, int c) { put(dx, row, c, factor * load(at(dy, row, c)), accumulate[side]); });
    }
}

static void multiply(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), z = g.value(op.in[1]), y = g.value(op.out);
    each(y, [&](long row, int c) { store(at(y, row, c), load(at(x, row, c)) * (op.number + load(at(z, row, c)))); });
}

static void multiply_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View x = g.value(op.in[0]), z = g.value(op.in[1]), dy = g.gradient(op.out);
    if (wanted[0]) {
        View dx = g.gradient(op.in[0]);
        each(dy, [&](long row, int c) {
            put(dx, row, c, load(at(dy, row, c)) * (op.number + load(at(z, row, c))), accumulate[0]);
        });
    }
    if (wanted[1]) {
        View dz = g.gradient(op.in[1]);
        each(dy, [&](long row, int c) { put(dz, row, c, load(at(dy, row, c)) * load(at(x, row, c)), accumulate[1]); });
    }
}

// y_ik = v_ik ⊙ (number + gate_i)
static void gate(Graph& g, const Op& op) {
    View v = g.value(op.in[0]), z = g.value(op.in[1]), y = g.value(op.out);
    each_point(g.n, y.rows * y.padded, [&](long i) {
        for (int c = 0; c < y.padded; c += LANES) {
            const Vec factor = op.number + load(at(z, i, c));
            for (long k = i * g.r; k < (i + 1) * g.r; ++k) store(at(y, k, c), load(at(v, k, c)) * factor);
        }
    });
}

static void gate_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View v = g.value(op.in[0]), z = g.value(op.in[1]), dy = g.gradient(op.out);
    View dv = wanted[0] ? g.gradient(op.in[0]) : dy, dz = wanted[1] ? g.gradient(op.in[1]) : z;
    each_point(g.n, dy.rows * dy.padded, [&](long i) {
        for (int c = 0; c < dy.padded; c += LANES) {
            const Vec factor = op.number + load(at(z, i, c));
            Vec sum = filled(0);
            for (long k = i * g.r; k < (i + 1) * g.r; ++k) {
                const Vec dyk = load(at(dy, k, c));
                sum += dyk * load(at(v, k, c));
                if (wanted[0]) put(dv, k, c, dyk * factor, accumulate[0]);
            }
            if (wanted[1]) put(dz, i, c, sum, accumulate[1]);
        }
    });
}

constexpr float NORM_EPSILON = 1e-5f;

static inline void moments(const View& x, long row, float& mean, float& inverse) {
    Vec sum = filled(0);
    for (int c = 0; c < x.padded; c += LANES) sum += load(at(x, row, c));
    mean = total(sum) / x.width;
    Vec square = filled(0);
    for (int c = 0; c < x.padded; c += LANES) {
        const Vec centred = (load(at(x, row, c)) - mean) * load(x.mask + c);
        square += centred * centred;
    }
    inverse = 1.0f / sqrtf(total(square) / x.width + NORM_EPSILON);
}

// y = (x − mean) / √(variance + ε) over the channels (⊙ weight + bias)
static void norm(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    const float* packed = g.batch->packed + op.packed;
    for (long row = 0; row < y.rows; ++row) {
        float mean, inverse;
        moments(x, row, mean, inverse);
        for (int c = 0; c < y.padded; c += LANES) {
            Vec value = (load(at(x, row, c)) - mean) * inverse * load(x.mask + c);
            if (op.weight >= 0) value = value * load(packed + c) + load(packed + y.padded + c);
            store(at(y, row, c), value);
        }
    }
}

static void norm_back(Graph& g, const Op& op, bool wanted, bool accumulate) {
    View x = g.value(op.in[0]), dy = g.gradient(op.out), dx = wanted ? g.gradient(op.in[0]) : dy;
    const float* packed = g.batch->packed + op.packed;
    float* sums = g.sums + op.gradient;
    for (long row = 0; row < dy.rows; ++row) {
        float mean, inverse;
        moments(x, row, mean, inverse);
        Vec plain = filled(0), along = filled(0);
        for (int c = 0; c < dy.padded; c += LANES) {
            const Vec hat = (load(at(x, row, c)) - mean) * inverse * load(x.mask + c);
            Vec d = load(at(dy, row, c));
            if (op.weight >= 0) {
                store(sums + c, load(sums + c) + d * hat);
                store(sums + dy.padded + c, load(sums + dy.padded + c) + d);
                d *= load(packed + c);
            }
            plain += d;
            along += d * hat;
        }
        if (!wanted) continue;
        const float mean_plain = total(plain) / x.width, mean_along = total(along) / x.width;
        for (int c = 0; c < dy.padded; c += LANES) {
            const Vec mask = load(x.mask + c), hat = (load(at(x, row, c)) - mean) * inverse * mask;
            Vec d = load(at(dy, row, c));
            if (op.weight >= 0) d *= load(packed + c);
            put(dx, row, c, (d - mean_plain - hat * mean_along) * inverse * mask, accumulate);
        }
    }
}

// y = x / √(1 + ℓ²/reach²), ℓ² the mean over the channels of the squares of a point: of its r rows, or of its one
static void bound(Graph& g, const Op& op, long rows_of_point) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    each_point(g.n, y.rows * y.padded, [&](long i) {
        Vec sum = filled(0);
        const long first = i * rows_of_point, end = first + rows_of_point;
        for (long row = first; row < end; ++row)
            for (int c = 0; c < x.padded; c += LANES) sum += load(at(x, row, c)) * load(at(x, row, c));
        const float factor = 1.0f / sqrtf(1.0f + total(sum) / x.width / (op.number * op.number));
        for (long row = first; row < end; ++row)
            for (int c = 0; c < x.padded; c += LANES) store(at(y, row, c), factor * load(at(x, row, c)));
    });
}

static void bound_back(Graph& g, const Op& op, long rows_of_point, bool accumulate) {
    View x = g.value(op.in[0]), dy = g.gradient(op.out), dx = g.gradient(op.in[0]);
    const float reach = op.number * op.number;
    each_point(g.n, dy.rows * dy.padded, [&](long i) {
        Vec sum = filled(0), along = filled(0);
        const long first = i * rows_of_point, end = first + rows_of_point;
        for (long row = first; row < end; ++row)
            for (int c = 0; c < x.padded; c += LANES) {
                const Vec value = load(at(x, row, c));
                sum += value * value;
                along += value * load(at(dy, row, c));
            }
        const float factor = 1.0f / sqrtf(1.0f + total(sum) / x.width / reach);
        const float back = -factor * factor * factor * total(along) / x.width / reach;
        for (long row = first; row < end; ++row)
            for (int c = 0; c < x.padded; c += LANES)
                put(dx, row, c, factor * load(at(dy, row, c)) + back * load(at(x, row, c)), accumulate);
    });
}

static inline float channel_mean(const View& x, long row) {
    Vec sum = filled(0);
    for (int c = 0; c < x.padded; c += LANES) sum += load(at(x, row, c));
    return total(sum) / x.width;
}

static inline Vec inverse_length(Vec squares, float floor) {
    const Vec least = filled(floor * floor);
    squares = squares < least ? least : squares;
    Vec result = {};
    for (int lane = 0; lane < LANES; ++lane) result[lane] = 1.0f / sqrtf(squares[lane]);
    return result;
}

// y: vectors centred over the channels, then of length 1 over the rank axis: c / max(‖c‖, floor)
static void norm_vectors(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    for (long row = 0; row < y.rows; ++row) {
        const float mean = channel_mean(x, row);
        for (int c = 0; c < y.padded; c += LANES)
            store(at(y, row, c), (load(at(x, row, c)) - mean) * load(x.mask + c));
    }
    for (long i = 0; i < g.n; ++i)
        for (int c = 0; c < y.padded; c += LANES) {
            Vec squares = filled(0);
            for (long k = i * g.r; k < (i + 1) * g.r; ++k) squares += load(at(y, k, c)) * load(at(y, k, c));
            const Vec factor = inverse_length(squares, op.number);
            for (long k = i * g.r; k < (i + 1) * g.r; ++k) store(at(y, k, c), load(at(y, k, c)) * factor);
        }
}

static void norm_vectors_back(Graph& g, const Op& op, bool accumulate) {
    View x = g.value(op.in[0]), y = g.value(op.out), dy = g.gradient(op.out), dx = g.gradient(op.in[0]);
    const Vec least = filled(op.number * op.number);
    // First into dy itself, which nothing reads any more: the gradient of the centred vectors.
    for (long i = 0; i < g.n; ++i)
        for (int c = 0; c < y.padded; c += LANES) {
            const Vec mask = load(x.mask + c);
            Vec squares = filled(0), along = filled(0);
            for (long k = i * g.r; k < (i + 1) * g.r; ++k) {
                const Vec centred = (load(at(x, k, c)) - channel_mean(x, k)) * mask;
                squares += centred * centred;
                along += load(at(dy, k, c)) * load(at(y, k, c));
            }
            const Vec factor = inverse_length(squares, op.number) * mask;
            along = squares > least ? along : filled(0);  // below the floor the length counts as a constant
            for (long k = i * g.r; k < (i + 1) * g.r; ++k)
                store(at(dy, k, c), (load(at(dy, k, c)) - load(at(y, k, c)) * along) * factor);
        }
    for (long row = 0; row < dy.rows; ++row) {
        const float mean = channel_mean(dy, row);
        for (int c = 0; c < dy.padded; c += LANES)
            put(dx, row, c, (load(at(dy, row, c)) - mean) * load(x.mask + c), accumulate);
    }
}

// x_ij = Σ_k q_ik ⊙ w_jk; of unordered pairs x_ij = Σ_k q_ik ⊙ q_jk
static void pair_products(Graph& g, const Op& op) {
    View q = g.value(op.in[0]), w = g.value(op.in[1]), x = g.value(op.out);
    for (int c = 0; c < x.padded; c += LANES) {
        if (g.space(op.out) == PAIRS) {
            channel_products({at(q, 0, c), g.r * q.ld, q.ld}, {at(w, 0, c), g.r * w.ld, w.ld}, g.n, g.n, g.r,
                             at(x, 0, c), g.n * x.ld, x.ld, nullptr, 1.0f);
            continue;
        }
        float* full = unfolded(g.n * g.n * LANES);
        const long height = team_size > 1 ? 16 * BLOCK : BLOCK;
        for (long i = 0; i < g.n; i += height) {  // only what is right of the diagonal
            const long rows = g.n - i < height ? g.n - i : height;
            channel_products({at(q, i * g.r, c), g.r * q.ld, q.ld}, {at(q, i * g.r, c), g.r * q.ld, q.ld}, rows,
                             g.n - i, g.r, full + (i * g.n + i) * LANES, g.n * LANES, LANES, nullptr, 1.0f);
            for (long row = i; row < i + rows; ++row)
                for (long j = row; j < g.n; ++j)
                    store(at(x, g.pair(row, j), c), load(full + (row * g.n + j) * LANES));
        }
    }
}

// dq_ik (+)= Σ_j dx_ij ⊙ w_jk, dw_jk (+)= Σ_i dx_ij ⊙ q_ik
static void pair_products_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dx = g.gradient(op.out);
    if (g.space(op.out) == SYMMETRIC) {
        View q = g.value(op.in[0]), dq = g.gradient(op.in[0]);
        for (int c = 0; c < dx.padded; c += LANES)
            channel_products({unfold(g, dx, c, 2.0f), g.n * LANES, LANES}, {at(q, 0, c), q.ld, g.r * q.ld}, g.n, g.r,
                             g.n, at(dq, 0, c), g.r * dq.ld, dq.ld, accumulate[0] ? at(dq, 0, c) : nullptr, 1.0f);
        return;
    }
    for (int side = 0; side < 2; ++side) {
        if (!wanted[side]) continue;
        View other = g.value(op.in[1 - side]), d = g.gradient(op.in[side]);
        const long outer = side ? dx.ld : g.n * dx.ld, inner = side ? g.n * dx.ld : dx.ld;
        for (int c = 0; c < dx.padded; c += LANES)
            channel_products({at(dx, 0, c), outer, inner}, {at(other, 0, c), other.ld, g.r * other.ld}, g.n, g.r, g.n,
                             at(d, 0, c), g.r * d.ld, d.ld, accumulate[side] ? at(d, 0, c) : nullptr, 1.0f);
    }
}

// x_ij = a_i ⊙ b_j
static void pair_outer(Graph& g, const Op& op) {
    View a = g.value(op.in[0]), b = g.value(op.in[1]), x = g.value(op.out);
    for (long i = 0; i < g.n; ++i)
        for (long j = 0; j < g.n; ++j)
            for (int c = 0; c < x.padded; c += LANES)
                store(at(x, i * g.n + j, c), load(at(a, i, c)) * load(at(b, j, c)));
}

static void pair_outer_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dx = g.gradient(op.out);
    for (int side = 0; side < 2; ++side) {
        if (!wanted[side]) continue;
        View other = g.value(op.in[1 - side]), d = g.gradient(op.in[side]);
        const long step = side ? g.n : 1, of_point = side ? 1 : g.n;
        for (long i = 0; i < g.n; ++i)
            for (int c = 0; c < dx.padded; c += LANES) {
                Vec sum = filled(0);
                for (long j = 0; j < g.n; ++j) sum += load(at(dx, i * of_point + j * step, c)) * load(at(other, j, c));
                put(d, i, c, sum, accumulate[side]);
            }
    }
}

// x_ij = z_ij + a_i + a_j; of unordered pairs
static void pair_add(Graph& g, const Op& op) {
    View z = g.value(op.in[0]), a = g.value(op.in[1]), x = g.value(op.out);
    for (long i = 0, row = 0; i < g.n; ++i)
        for (long j = i; j < g.n; ++j, ++row)
            for (int c = 0; c < x.padded; c += LANES)
                store(at(x, row, c), load(at(z, row, c)) + load(at(a, i, c)) + load(at(a, j, c)));
}

static void pair_add_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dx = g.gradient(op.out);
    if (wanted[0]) {
        View dz = g.gradient(op.in[0]);
        each(dx, [&](long row, int c) { put(dz, row, c, load(at(dx, row, c)), accumulate[0]); });
    }
    if (!wanted[1]) return;
    View da = g.gradient(op.in[1]);
    if (!accumulate[1]) zero(da);
    for (long i = 0, row = 0; i < g.n; ++i)
        for (long j = i; j < g.n; ++j, ++row)
            for (int c = 0; c < dx.padded; c += LANES) {
                const Vec d = load(at(dx, row, c));
                put(da, i, c, d, true);
                put(da, j, c, d, true);
            }
}

// y_i = Σ_k a_ik ⊙ b_ik
static void row_products(Graph& g, const Op& op) {
    View a = g.value(op.in[0]), b = g.value(op.in[1]), y = g.value(op.out);
    for (long i = 0; i < g.n; ++i)
        for (int c = 0; c < y.padded; c += LANES) {
            Vec sum = filled(0);
            for (long k = i * g.r; k < (i + 1) * g.r; ++k) sum += load(at(a, k, c)) * load(at(b, k, c));
            store(at(y, i, c), sum);
        }
}

static void row_products_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dy = g.gradient(op.out);
    for (int side = 0; side < 2; ++side) {
        if (!wanted[side]) continue;
        View other = g.value(op.in[1 - side]), d = g.gradient(op.in[side]);
        for (long i = 0; i < g.n; ++i)
            for (int c = 0; c < dy.padded; c += LANES) {
                const Vec factor = load(at(dy, i, c));
                for (long k = i * g.r; k < (i + 1) * g.r; ++k)
                    put(d, k, c, factor * load(at(other, k, c)), accumulate[side]);
            }
    }
}

static inline long diagonal_row(const Graph& g, const Op& op, long i) {
    return g.space(op.in[0]) == PAIRS ? i * (g.n + 1) : g.pair(i, i);
}

// y_i = x_ii
static void diagonal(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    each(y, [&](long i, int c) { store(at(y, i, c), load(at(x, diagonal_row(g, op, i), c))); });
}

static void diagonal_back(Graph& g, const Op& op, bool accumulate) {
    View dx = g.gradient(op.in[0]), dy = g.gradient(op.out);
    if (!accumulate) zero(dx);
    each(dy, [&](long i, int c) { put(dx, diagonal_row(g, op, i), c, load(at(dy, i, c)), true); });
}

// The attention of a sum, one vector of channels, as a full matrix.
static Strided attention(const Graph& g, const View& a, int space, int c) {
    if (space == SYMMETRIC) return {unfold(g, a, c, 1.0f), g.n * LANES, LANES};
    return {at(a, 0, c), g.n * a.ld, a.ld};
}

// y_ik = base_ik + factor Σ_j a_ij ⊙ w_jk, of vectors, or of scalars (one row for each point). Where w has more channels
// than a, channels of a are used again and again.
static void sums(Graph& g, const Op& op) {
    View a = g.value(op.in[0]), w = g.value(op.in[1]), y = g.value(op.out);
    const long rank = g.space(op.out) == VECTORS ? g.r : 1;
    const float factor = g.sum_factor(op);
    for (int first = 0; first < a.padded; first += LANES) {
        const Strided weights = attention(g, a, g.space(op.in[0]), first);
        for (int c = first; c < y.padded; c += a.padded) {
            float* base = nullptr;
            if (op.in[2] >= 0) {
                View x = g.value(op.in[2]);
                base = at(x, 0, c);
                if (x.ld != y.ld) {  // blocks are read and written with one stride
                    for (long row = 0; row < y.rows; ++row) store(at(y, row, c), load(at(x, row, c)));
                    base = at(y, 0, c);
                }
            }
            channel_products(weights, {at(w, 0, c), w.ld, rank * w.ld}, g.n, rank, g.n, at(y, 0, c), rank * y.ld, y.ld,
                             base, factor);
        }
    }
}

static void sums_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View a = g.value(op.in[0]), w = g.value(op.in[1]), dy = g.gradient(op.out);
    const long rank = g.space(op.out) == VECTORS ? g.r : 1;
    const float factor = g.sum_factor(op);
    const bool symmetric = g.space(op.in[0]) == SYMMETRIC;
    if (wanted[0]) {
        View da = g.gradient(op.in[0]);
        for (int c = 0; c < dy.padded; c += LANES) {
            const int of = c % da.padded;
            const bool more = accumulate[0] || c >= da.padded;
            float* to = symmetric ? unfolded(g.n * g.n * LANES) : at(da, 0, of);
            const long step = symmetric ? LANES : da.ld;
            channel_products({at(dy, 0, c), rank * dy.ld, dy.ld}, {at(w, 0, c), rank * w.ld, w.ld}, g.n, g.n, rank, to,
                             g.n * step, step, more && !symmetric ? to : nullptr, factor);
            if (!symmetric) continue;
            for (long i = 0, row = 0; i < g.n; ++i)
                for (long j = i; j < g.n; ++j, ++row) {
                    const Vec upper = load(to + (i * g.n + j) * LANES);
                    put(da, row, of, i == j ? upper : upper + load(to + (j * g.n + i) * LANES), more);
                }
        }
    }
    if (wanted[1]) {
        View dw = g.gradient(op.in[1]);
        for (int first = 0; first < a.padded; first += LANES) {
            const Strided weights = attention(g, a, g.space(op.in[0]), first);
            for (int c = first; c < dy.padded; c += a.padded)
                channel_products({weights.p, weights.inner, weights.outer}, {at(dy, 0, c), dy.ld, rank * dy.ld}, g.n,
                                 rank, g.n, at(dw, 0, c), rank * dw.ld, dw.ld,
                                 accumulate[1] ? at(dw, 0, c) : nullptr, factor);
        }
    }
    if (wanted[2]) {
        View dx = g.gradient(op.in[2]);
        each(dy, [&](long row, int c) { put(dx, row, c, load(at(dy, row, c)), accumulate[2]); });
    }
}

// y = Σ over the rows (flag 0), their mean (flag 1), or the largest (flag 2). Vectors may also be added up over the points
// alone: y then has a row for each of the r coordinates.
static void pool(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    zero(y);
    if (!x.rows) return;
    if (op.flag == 2) {
        for (int c = 0; c < y.padded; c += LANES) {
            Vec largest = load(at(x, 0, c));
            for (long row = 1; row < x.rows; ++row) {
                const Vec value = load(at(x, row, c));
                largest = value > largest || value != value ? value : largest;
            }
            store(at(y, 0, c), largest);
        }
        return;
    }
    in_order(x, [&](long row, int c) { put(y, row % y.rows, c, load(at(x, row, c)), true); });
    const float factor = (float)y.rows / x.rows;
    if (op.flag == 1) each(y, [&](long row, int c) { store(at(y, row, c), factor * load(at(y, row, c))); });
}

static void pool_back(Graph& g, const Op& op, bool accumulate) {
    View x = g.value(op.in[0]), dx = g.gradient(op.in[0]), dy = g.gradient(op.out);
    if (op.flag != 2) {
        const float factor = op.flag == 1 && dx.rows ? (float)dy.rows / dx.rows : 1.0f;
        each(dx, [&](long row, int c) { put(dx, row, c, factor * load(at(dy, row % dy.rows, c)), accumulate); });
        return;
    }
    View y = g.value(op.out);
    for (int column = 0; column < y.padded; ++column) {
        float ties = 0;  // the gradient is shared among equal rows, as torch.amax does
        for (long row = 0; row < x.rows; ++row) ties += *at(x, row, column) == *at(y, 0, column);
        for (long row = 0; row < x.rows; ++row) {
            const float d = *at(x, row, column) == *at(y, 0, column) ? *at(dy, 0, column) / ties : 0;
            *at(dx, row, column) = accumulate ? *at(dx, row, column) + d : d;
        }
    }
}

// Rows of a point that a row of the graph, or of an eigenvalue's vectors, meets: x has n·r rows, z has r (flag 1) or one.
static inline long other_row(const Op& op, long row, long r) { return op.flag ? row % r : 0; }

// y = x ⊙ z, z one row for the graph; flag 1: one row for each of the r coordinates
static void times_graph(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), z = g.value(op.in[1]), y = g.value(op.out);
    each(y, [&](long row, int c) {
        store(at(y, row, c), load(at(x, row, c)) * load(at(z, other_row(op, row, g.r), c)));
    });
}

static void times_graph_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View x = g.value(op.in[0]), z = g.value(op.in[1]), dy = g.gradient(op.out);
    if (wanted[1]) {
        View dz = g.gradient(op.in[1]);
        if (!accumulate[1]) zero(dz);
        in_order(dy, [&](long row, int c) {
            put(dz, other_row(op, row, g.r), c, load(at(dy, row, c)) * load(at(x, row, c)), true);
        });
    }
    if (wanted[0]) {
        View dx = g.gradient(op.in[0]);
        each(dy, [&](long row, int c) {
            put(dx, row, c, load(at(dy, row, c)) * load(at(z, other_row(op, row, g.r), c)), accumulate[0]);
        });
    }
}

// y = x + z, z one row for the graph; flag 1: one row for each of the r coordinates
static void plus_graph(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), z = g.value(op.in[1]), y = g.value(op.out);
    each(y, [&](long row, int c) {
        store(at(y, row, c), load(at(x, row, c)) + load(at(z, other_row(op, row, g.r), c)));
    });
}

static void plus_graph_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dy = g.gradient(op.out);
    if (wanted[0]) {
        View dx = g.gradient(op.in[0]);
        each(dy, [&](long row, int c) { put(dx, row, c, load(at(dy, row, c)), accumulate[0]); });
    }
    if (wanted[1]) {
        View dz = g.gradient(op.in[1]);
        if (!accumulate[1]) zero(dz);
        in_order(dy, [&](long row, int c) { put(dz, other_row(op, row, g.r), c, load(at(dy, row, c)), true); });
    }
}

// v_ik = U_ik f_k
static void points(Graph& g, const Op& op) {
    View f = g.value(op.in[0]), v = g.value(op.out);
    for (long i = 0; i < g.n; ++i)
        for (long k = 0; k < g.r; ++k) {
            const float u = g.eigenvectors[i * g.r + k];
            for (int c = 0; c < v.padded; c += LANES) store(at(v, i * g.r + k, c), u * load(at(f, k, c)));
        }
}

static void points_back(Graph& g, const Op& op, bool accumulate) {
    View df = g.gradient(op.in[0]), dv = g.gradient(op.out);
    if (!accumulate) zero(df);
    for (long i = 0; i < g.n; ++i)
        for (long k = 0; k < g.r; ++k) {
            const float u = g.eigenvectors[i * g.r + k];
            for (int c = 0; c < dv.padded; c += LANES) put(df, k, c, u * load(at(dv, i * g.r + k, c)), true);
        }
}

// y_ik = base_ik + Σ_j e_ij ⊙ v_jk over the edges (i, j); without base 0 +
static void edge_sums(Graph& g, const Op& op) {
    View e = g.value(op.in[0]), v = g.value(op.in[1]), y = g.value(op.out);
    if (op.in[2] < 0) zero(y);
    else {
        View base = g.value(op.in[2]);
        each(y, [&](long row, int c) { store(at(y, row, c), load(at(base, row, c))); });
    }
    for (long edge = 0; edge < g.m; ++edge)
        for (int c = 0; c < y.padded; c += LANES) {
            const Vec weight = load(at(e, edge, c));
            for (long k = 0; k < g.r; ++k)
                put(y, g.source[edge] * g.r + k, c, weight * load(at(v, g.target[edge] * g.r + k, c)), true);
        }
}

static void edge_sums_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View e = g.value(op.in[0]), v = g.value(op.in[1]), dy = g.gradient(op.out);
    View de = wanted[0] ? g.gradient(op.in[0]) : e, dv = wanted[1] ? g.gradient(op.in[1]) : v;
    if (wanted[1] && !accumulate[1]) zero(dv);
    for (long edge = 0; edge < g.m; ++edge)
        for (int c = 0; c < dy.padded; c += LANES) {
            const Vec weight = load(at(e, edge, c));
            Vec sum = filled(0);
            for (long k = 0; k < g.r; ++k) {
                const Vec d = load(at(dy, g.source[edge] * g.r + k, c));
                const long from = g.target[edge] * g.r + k;
                sum += d * load(at(v, from, c));
                if (wanted[1]) put(dv, from, c, d * weight, true);
            }
            if (wanted[0]) put(de, edge, c, sum, accumulate[0]);
        }
    if (wanted[2]) {
        View dbase = g.gradient(op.in[2]);
        each(dy, [&](long row, int c) { put(dbase, row, c, load(at(dy, row, c)), accumulate[2]); });
    }
}

// x_ij = number · e_ij at the edges; elsewhere in[1] (one row for the graph), or 0
static void edge_pairs(Graph& g, const Op& op) {
    View x = g.value(op.out);
    if (op.in[1] < 0) zero(x);
    else {
        View elsewhere = g.value(op.in[1]);
        each(x, [&](long row, int c) { store(at(x, row, c), load(at(elsewhere, 0, c))); });
    }
    if (op.in[0] < 0) return;
    View e = g.value(op.in[0]);
    for (long edge = 0; edge < g.m; ++edge) {
        const long row = g.edge_row(op.out, edge);
        if (row < 0) continue;
        for (int c = 0; c < x.padded; c += LANES) store(at(x, row, c), op.number * load(at(e, edge, c)));
    }
}

static void edge_pairs_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dx = g.gradient(op.out);
    if (wanted[1]) {
        View d = g.gradient(op.in[1]);
        if (!accumulate[1]) zero(d);
        in_order(dx, [&](long row, int c) { put(d, 0, c, load(at(dx, row, c)), true); });
        for (long edge = 0; edge < g.m; ++edge) {
            const long row = g.edge_row(op.out, edge);
            if (row < 0) continue;
            for (int c = 0; c < dx.padded; c += LANES) put(d, 0, c, -load(at(dx, row, c)), true);
        }
    }
    if (!wanted[0]) return;
    View de = g.gradient(op.in[0]);
    for (long edge = 0; edge < g.m; ++edge) {
        const long row = g.edge_row(op.out, edge);
        for (int c = 0; c < dx.padded; c += LANES)
            put(de, edge, c, row < 0 ? filled(0) : op.number * load(at(dx, row, c)), accumulate[0]);
    }
}

// x_ii = in[1] (one row for the graph) + z_ii, elsewhere z_ij
static void points_of_pairs(Graph& g, const Op& op) {
    View z = g.value(op.in[0]), d = g.value(op.in[1]), x = g.value(op.out);
    each(x, [&](long row, int c) { store(at(x, row, c), load(at(z, row, c))); });
    for (long i = 0; i < g.n; ++i)
        for (int c = 0; c < x.padded; c += LANES) put(x, diagonal_row(g, op, i), c, load(at(d, 0, c)), true);
}

static void points_of_pairs_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dx = g.gradient(op.out);
    if (wanted[0]) {
        View dz = g.gradient(op.in[0]);
        each(dx, [&](long row, int c) { put(dz, row, c, load(at(dx, row, c)), accumulate[0]); });
    }
    if (!wanted[1]) return;
    View d = g.gradient(op.in[1]);
    if (!accumulate[1]) zero(d);
    for (long i = 0; i < g.n; ++i)
        for (int c = 0; c < dx.padded; c += LANES) put(d, 0, c, load(at(dx, diagonal_row(g, op, i), c)), true);
}

// Σ_i Σ_c a_ikc b_ilc for I rows k and J rows l; written, or added to what is there.
template <int I, int J>
static void square_block(const View& a, const View& b, long n, long r, long k, long l, const View& z, float factor,
                         bool accumulate) {
    Vec sum[I][J];
    for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j) sum[i][j] = filled(0);
    for (long point = 0; point < n; ++point)
        for (int c = 0; c < a.padded; c += LANES) {
            Vec right[J];
            for (int j = 0; j < J; ++j) right[j] = load(at(b, point * r + l + j, c));
            for (int i = 0; i < I; ++i) {
                const Vec left = load(at(a, point * r + k + i, c));
                for (int j = 0; j < J; ++j) sum[i][j] += left * right[j];
            }
        }
    for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j) {
            Vec value = {};
            value[0] = factor * total(sum[i][j]);
            put(z, (k + i) * r + l + j, 0, value, accumulate);
        }
}

// Z (r × r, in the first column) = factor Σ_i Σ_c a_ikc b_ilc
static void squares(const View& a, const View& b, long n, long r, const View& z, float factor, bool accumulate) {
    for (long k = 0; k < r; k += 3)
        for (long l = 0; l < r; l += 3)
            if (k + 3 <= r && l + 3 <= r) square_block<3, 3>(a, b, n, r, k, l, z, factor, accumulate);
            else
                for (long i = k; i < r && i < k + 3; ++i)
                    for (long j = l; j < r && j < l + 3; ++j) square_block<1, 1>(a, b, n, r, i, j, z, factor, accumulate);
}

// y_ik = base_ik + factor Σ_l Z_kl v_il; `transposed`: with Z_lk
static void times_squares(const View& v, const View& z, long n, long r, const View& y, const View* base, float factor,
                          bool transposed) {
    constexpr int ROWS = 4;
    const long step_k = (transposed ? 1 : r) * z.ld, step_l = (transposed ? r : 1) * z.ld;
    for (long i = 0; i < n; ++i)
        for (int c = 0; c < y.padded; c += LANES)
            for (long k = 0; k < r; k += ROWS) {
                const int count = r - k < ROWS ? r - k : ROWS;
                Vec sum[ROWS] = {};
                for (long l = 0; l < r; ++l) {
                    const Vec right = load(at(v, i * r + l, c));
                    for (int row = 0; row < ROWS; ++row)
                        if (row < count) sum[row] += z.p[(k + row) * step_k + l * step_l] * right;
                }
                for (int row = 0; row < count; ++row) {
                    const Vec value = factor * sum[row];
                    store(at(y, i * r + k + row, c), base ? load(at(*base, i * r + k + row, c)) + value : value);
                }
            }
}

static void square(Graph& g, const Op& op) {
    View a = g.value(op.in[0]), b = g.value(op.in[1]), z = g.value(op.out);
    squares(a, b, g.n, g.r, z, g.sum_factor(op) / a.width, false);
}

static void square_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View dz = g.gradient(op.out);
    for (int side = 0; side < 2; ++side) {
        if (!wanted[side]) continue;
        View other = g.value(op.in[1 - side]), d = g.gradient(op.in[side]);
        times_squares(other, dz, g.n, g.r, d, accumulate[side] ? &d : nullptr, g.sum_factor(op) / other.width, side);
    }
}

static void times_square(Graph& g, const Op& op) {
    View v = g.value(op.in[0]), z = g.value(op.in[1]), base = g.value(op.in[2]), y = g.value(op.out);
    times_squares(v, z, g.n, g.r, y, &base, 1.0f, false);
}

static void times_square_back(Graph& g, const Op& op, const bool* wanted, const bool* accumulate) {
    View v = g.value(op.in[0]), z = g.value(op.in[1]), dy = g.gradient(op.out);
    if (wanted[0]) {
        View dv = g.gradient(op.in[0]);
        times_squares(dy, z, g.n, g.r, dv, accumulate[0] ? &dv : nullptr, 1.0f, true);
    }
    if (wanted[1]) squares(dy, v, g.n, g.r, g.gradient(op.in[1]), 1.0f, accumulate[1]);
    if (wanted[2]) {
        View dbase = g.gradient(op.in[2]);
        each(dy, [&](long row, int c) { put(dbase, row, c, load(at(dy, row, c)), accumulate[2]); });
    }
}

// y = x · n^-number (flag 0), or x · number
static void scale(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    const float factor = g.sum_factor(op);
    each(y, [&](long row, int c) { store(at(y, row, c), factor * load(at(x, row, c))); });
}

static void scale_back(Graph& g, const Op& op, bool accumulate) {
    View dx = g.gradient(op.in[0]), dy = g.gradient(op.out);
    const float factor = g.sum_factor(op);
    each(dy, [&](long row, int c) { put(dx, row, c, factor * load(at(dy, row, c)), accumulate); });
}

// y = x, into columns of another buffer
static void copy(Graph& g, const Op& op) {
    View x = g.value(op.in[0]), y = g.value(op.out);
    each(y, [&](long row, int c) { store(at(y, row, c), load(at(x, row, c))); });
}

static void copy_back(Graph& g, const Op& op, bool accumulate) {
    View dx = g.gradient(op.in[0]), dy = g.gradient(op.out);
    each(dy, [&](long row, int c) { put(dx, row, c, load(at(dy, row, c)), accumulate); });
}

static void forward(Graph& g, const Op& op) {
    switch (op.code) {
        case INPUT: return copy_in(g, op);
        case OUTPUT: return copy_out(g, op);
        case LINEAR: return linear(g, op);
        case SILU: return silu(g, op);
        case ADD: return add(g, op);
        case MULTIPLY: return multiply(g, op);
        case GATE: return gate(g, op);
        case NORM: return norm(g, op);
        case BOUND_VECTORS: return bound(g, op, g.r);
        case NORM_VECTORS: return norm_vectors(g, op);
        case BOUND_SCALARS: return bound(g, op, 1);
        case PAIR_PRODUCTS: return pair_products(g, op);
        case PAIR_OUTER: return pair_outer(g, op);
        case PAIR_ADD: return pair_add(g, op);
        case ROW_PRODUCTS: return row_products(g, op);
        case DIAGONAL: return diagonal(g, op);
        case SUMS: return sums(g, op);
        case POOL: return pool(g, op);
        case TIMES_GRAPH: return times_graph(g, op);
        case PLUS_GRAPH: return plus_graph(g, op);
        case POINTS: return points(g, op);
        case EDGE_SUMS: return edge_sums(g, op);
        case EDGE_PAIRS: return edge_pairs(g, op);
        case SQUARE: return square(g, op);
        case TIMES_SQUARE: return times_square(g, op);
        case SCALE: return scale(g, op);
        case COPY: return copy(g, op);
        case POINTS_OF_PAIRS: return points_of_pairs(g, op);
    }
}

static void backward(Graph& g, const Op& op, int accumulate_bits, int wanted_bits) {
    bool wanted[4], accumulate[4];
    for (int side = 0; side < 4; ++side) {
        wanted[side] = op.in[side] >= 0 && (wanted_bits >> side & 1);
        accumulate[side] = accumulate_bits >> side & 1;
    }
    switch (op.code) {
        case INPUT: return copy_in_back(g, op);
        case OUTPUT: return copy_out_back(g, op, accumulate[0]);
        case LINEAR: return linear_back(g, op, wanted[0], accumulate[0]);
        case SILU: return silu_back(g, op, accumulate[0]);
        case ADD: return add_back(g, op, wanted, accumulate);
        case MULTIPLY: return multiply_back(g, op, wanted, accumulate);
        case GATE: return gate_back(g, op, wanted, accumulate);
        case NORM: return norm_back(g, op, wanted[0], accumulate[0]);
        case BOUND_VECTORS: return bound_back(g, op, g.r, accumulate[0]);
        case NORM_VECTORS: return norm_vectors_back(g, op, accumulate[0]);
        case BOUND_SCALARS: return bound_back(g, op, 1, accumulate[0]);
        case PAIR_PRODUCTS: return pair_products_back(g, op, wanted, accumulate);
        case PAIR_OUTER: return pair_outer_back(g, op, wanted, accumulate);
        case PAIR_ADD: return pair_add_back(g, op, wanted, accumulate);
        case ROW_PRODUCTS: return row_products_back(g, op, wanted, accumulate);
        case DIAGONAL: return diagonal_back(g, op, accumulate[0]);
        case SUMS: return sums_back(g, op, wanted, accumulate);
        case POOL: return pool_back(g, op, accumulate[0]);
        case TIMES_GRAPH: return times_graph_back(g, op, wanted, accumulate);
        case PLUS_GRAPH: return plus_graph_back(g, op, wanted, accumulate);
        case POINTS: return points_back(g, op, accumulate[0]);
        case EDGE_SUMS: return edge_sums_back(g, op, wanted, accumulate);
        case EDGE_PAIRS: return edge_pairs_back(g, op, wanted, accumulate);
        case SQUARE: return square_back(g, op, wanted, accumulate);
        case TIMES_SQUARE: return times_square_back(g, op, wanted, accumulate);
        case SCALE: return scale_back(g, op, accumulate[0]);
        case COPY: return copy_back(g, op, accumulate[0]);
        case POINTS_OF_PAIRS: return points_of_pairs_back(g, op, wanted, accumulate);
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Parameters: packed before the graphs, their gradients added up after them.

static int true_width(Columns x) {
    int width = 0;
    for (int segment = 0; segment < x.count; ++segment) width += x.segments[segment].width;
    return width;
}

// weight (outputs × inputs) → panels for y = x W; `transposed`: for dx = dy Wᵀ.
static void pack(const float* weight, Columns from, Columns to, int padded, bool transposed, float* packed) {
    const int inputs = true_width(transposed ? to : from), depth = true_width(from);
    int* channel = (int*)malloc(padded * sizeof(int));  // of each padded column; -1: padding
    for (int column = 0; column < padded; ++column) channel[column] = -1;
    for (int segment = 0, next = 0; segment < to.count; ++segment)
        for (int c = 0; c < to.segments[segment].width; ++c) channel[to.segments[segment].column + c] = next++;
    for (int left = padded / LANES, v = 0; left > 0;) {
        const int width = panel_width(left);
        for (int k = 0; k < depth; ++k)
            for (int column = 0; column < width * LANES; ++column) {
                const int c = channel[v * LANES + column];
                *packed++ = c < 0 ? 0 : transposed ? weight[(long)k * inputs + c] : weight[(long)c * inputs + k];
            }
        v += width;
        left -= width;
    }
    free(channel);
}

static void spread(const float* from, Columns to, int padded, float* packed) {  // a bias, with its padding
    memset(packed, 0, padded * sizeof(float));
    for (int segment = 0; segment < to.count; ++segment) {
        memcpy(packed + to.segments[segment].column, from, to.segments[segment].width * sizeof(float));
        from += to.segments[segment].width;
    }
}

static Columns columns_of(const Program& program, int ref) {
    const Ref& x = program.refs[ref];
    return {program.segments + x.first_segment, x.segments};
}

static void pack_parameters(const Program& program, const Batch& batch, const Op& op) {
    if (op.weight < 0 && op.bias < 0) return;
    const Columns to = columns_of(program, op.out);
    const int padded = program.refs[op.out].padded;
    float* packed = batch.packed + op.packed;
    if (op.code == NORM) {
        spread(batch.parameters[op.weight], to, padded, packed);
        spread(batch.parameters[op.bias], to, padded, packed + padded);
        return;
    }
    const Columns from = columns_of(program, op.in[0]);
    if (op.bias >= 0) spread(batch.parameters[op.bias], to, padded, packed);
    if (!batch.backward) pack(batch.parameters[op.weight], from, to, padded, false, packed + padded);
    else {  // forward operations may be repeated in the backward pass
        pack(batch.parameters[op.weight], from, to, padded, false, packed + padded);
        pack(batch.parameters[op.weight], to, from, program.refs[op.in[0]].padded, true, batch.packed + op.packed_back);
    }
}

static void gather(const float* sums, Columns to, float* gradient) {  // += without padding
    for (int segment = 0; segment < to.count; ++segment)
        for (int c = 0; c < to.segments[segment].width; ++c) *gradient++ += sums[to.segments[segment].column + c];
}

static void unpack_gradients(const Program& program, const Batch& batch, const Op& op) {
    if (op.weight < 0 && op.bias < 0) return;
    const Columns to = columns_of(program, op.out);
    const int padded = program.refs[op.out].padded;
    const float* sums = batch.gradient_sums + op.gradient;
    float *of_weight = op.weight < 0 ? nullptr : batch.parameter_gradients[op.weight];
    float *of_bias = op.bias < 0 ? nullptr : batch.parameter_gradients[op.bias];
    if (op.code == NORM) {
        if (of_weight) gather(sums, to, of_weight);
        if (of_bias) gather(sums + padded, to, of_bias);
        return;
    }
    if (of_bias) gather(sums, to, of_bias);
    if (!of_weight) return;
    const int inputs = true_width(columns_of(program, op.in[0]));
    sums += padded;
    for (int segment = 0, output = 0; segment < to.count; ++segment)
        for (int c = 0; c < to.segments[segment].width; ++c, ++output)
            for (int k = 0; k < inputs; ++k)
                of_weight[(long)output * inputs + k] += sums[(long)k * padded + to.segments[segment].column + c];
}

// ---------------------------------------------------------------------------------------------------------------
// A batch.

static void rows_of(const Batch& batch, long graph, long* rows) {
    const long n = batch.nodes[graph], r = batch.ranks[graph];
    rows[GRAPH] = 1;
    rows[NODES] = n;
    rows[VECTORS] = n * r;
    rows[PAIRS] = n * n;
    rows[EIGENVALUES] = r;
    rows[EDGES] = batch.edge_counts[graph];
    rows[SQUARES] = r * r;
    rows[SYMMETRIC] = n * (n + 1) / 2;
}

static long floats(const int64_t* coefficients, const long* rows) {
    long sum = 0;
    for (int space = 0; space < SPACES; ++space) sum += coefficients[space] * rows[space];
    return sum;
}

struct Layout {          // of the graphs of a batch
    long* first;         // (graphs, SPACES) rows before each graph
    long* kept;          // (graphs,) where its own memory begins
    int* thread;         // (graphs,) who computes it; TEAM: all together
    long scratch;        // floats of a thread
    long kept_total;
};

constexpr int TEAM = -1;
constexpr double TEAM_COST = 20000;  // of a graph of about 64 nodes

static double cost_of(const Batch& batch, int graph) {
    const double n = batch.nodes[graph], r = batch.ranks[graph];
    return n * n + n * r + n * n * r / 16 + 8;
}

// The graph with most work goes to the thread with least so far: the same for the same batch, so sums of gradients are. A
// graph with more work than a thread's share of what is left is for the team.
static void assign(const Batch& batch, Layout& layout) {
    double *work = (double*)calloc(batch.threads, sizeof(double)), left = 0;
    int* order = (int*)malloc(batch.graphs * sizeof(int));
    for (int graph = 0; graph < batch.graphs; ++graph) {
        left += cost_of(batch, graph);
        order[graph] = graph;
    }
    for (int gap = batch.graphs / 2; gap > 0; gap /= 2)  // Shell's sort, largest first; equal ones by position
        for (int i = gap; i < batch.graphs; ++i)
            for (int j = i; j >= gap; j -= gap) {
                const double a = cost_of(batch, order[j - gap]), b = cost_of(batch, order[j]);
                if (a > b || (a == b && order[j - gap] < order[j])) break;
                const int other = order[j - gap];
                order[j - gap] = order[j];
                order[j] = other;
            }
    for (int at = 0; at < batch.graphs; ++at) {
        const double cost = cost_of(batch, order[at]);
        if (batch.threads > 1 && cost > left / batch.threads && cost > TEAM_COST) {
            layout.thread[order[at]] = TEAM;
            left -= cost;
            continue;
        }
        int least = 0;
        for (int thread = 1; thread < batch.threads; ++thread)
            if (work[thread] < work[least]) least = thread;
        layout.thread[order[at]] = least;
        work[least] += cost;
    }
    free(work);
    free(order);
}

static void lay_out(const Plan& plan, const Batch& batch, Layout& layout) {
    layout.first = (long*)malloc((batch.graphs + 1) * SPACES * sizeof(long));
    layout.kept = (long*)malloc((batch.graphs + 1) * sizeof(long));
    layout.thread = (int*)malloc((batch.graphs + 1) * sizeof(int));
    layout.scratch = 0;
    memset(layout.first, 0, SPACES * sizeof(long));
    layout.kept[0] = 0;
    for (int graph = 0; graph < batch.graphs; ++graph) {
        long rows[SPACES];
        rows_of(batch, graph, rows);
        for (int space = 0; space < SPACES; ++space)
            layout.first[(graph + 1) * SPACES + space] = layout.first[graph * SPACES + space] + rows[space];
        layout.kept[graph + 1] = layout.kept[graph] + floats(plan.kept, rows);
        const long scratch = floats(plan.scratch, rows);
        if (scratch > layout.scratch) layout.scratch = scratch;
    }
    layout.kept_total = layout.kept[batch.graphs];
}

static void release(Layout& layout) {
    free(layout.first);
    free(layout.kept);
    free(layout.thread);
}

static void compute(const Program& program, const Plan& plan, const Batch& batch, const Layout& layout, int graph,
                    int thread) {
    Graph g;
    g.program = &program;
    g.plan = &plan;
    g.batch = &batch;
    rows_of(batch, graph, g.rows);
    const long* first = layout.first + graph * SPACES;
    memcpy(g.first, first, SPACES * sizeof(long));
    g.memory[0] = batch.kept + layout.kept[graph];
    g.memory[1] = batch.scratch + thread * layout.scratch;
    g.sums = batch.gradient_sums + thread * program.gradient_floats;
    g.n = g.rows[NODES];
    g.r = g.rows[EIGENVALUES];
    g.m = g.rows[EDGES];
    g.eigenvectors = batch.eigenvectors + first[VECTORS];
    g.source = batch.sources + first[EDGES];
    g.target = batch.targets + first[EDGES];
    for (int at = 0; at < plan.step_count; ++at) {
        const Step& step = plan.steps[at];
        if (step.kind == 0) forward(g, program.ops[step.op]);
        else if (step.kind == 1) backward(g, program.ops[step.op], step.accumulate & 15, step.accumulate >> 4);
        else zero(g.gradient(step.op));
    }
}

extern "C" {

int pointset_abi() { return 1; }

int pointset_lanes() { return LANES; }

// How many floats a batch needs: of all graphs, of a thread.
void pointset_memory(const Plan* plan, const Batch* batch, int64_t* kept, int64_t* scratch) {
    Layout layout;
    lay_out(*plan, *batch, layout);
    *kept = layout.kept_total;
    *scratch = layout.scratch;
    release(layout);
}

void pointset_run(const Program* program, const Plan* plan, const Batch* batch) {
    Layout layout;
    lay_out(*plan, *batch, layout);
    assign(*batch, layout);
    const int threads = batch->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#ifdef _OPENMP
        const int team = omp_get_num_threads(), self = omp_get_thread_num();
#else
        const int team = 1, self = 0;
#endif
        for (int op = self; op < program->op_count; op += team) pack_parameters(*program, *batch, program->ops[op]);
        // A smaller team than asked for still does every thread's part, so results stay the same.
        if (batch->backward)
            for (int part = self; part < threads; part += team)
                memset(batch->gradient_sums + part * program->gradient_floats, 0,
                       program->gradient_floats * sizeof(float));
#pragma omp barrier
        for (int part = self; part < threads; part += team)
            for (int graph = 0; graph < batch->graphs; ++graph)
                if (layout.thread[graph] == part) compute(*program, *plan, *batch, layout, graph, part);
    }
    team_size = threads;
    for (int graph = 0; graph < batch->graphs; ++graph)
        if (layout.thread[graph] == TEAM) compute(*program, *plan, *batch, layout, graph, 0);
    team_size = 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#ifdef _OPENMP
        const int team = omp_get_num_threads(), self = omp_get_thread_num();
#else
        const int team = 1, self = 0;
#endif
        if (batch->backward) {
            const long share = (program->gradient_floats + team - 1) / team;
            const long end = (self + 1) * share < program->gradient_floats ? (self + 1) * share : program->gradient_floats;
            for (int part = 1; part < threads; ++part) {
                const float* from = batch->gradient_sums + part * program->gradient_floats;
                for (long at = self * share; at < end; ++at) batch->gradient_sums[at] += from[at];
            }
        }
    }
    if (batch->backward)
        for (int op = 0; op < program->op_count; ++op) unpack_gradients(*program, *batch, program->ops[op]);
    release(layout);
}

}  // extern "C"
