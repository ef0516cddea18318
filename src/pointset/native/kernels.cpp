// The encoders' forward and backward pass on a processor, one graph after another.
//
// A model is a program (program.py): a list of operations on buffers. A buffer holds rows of channels, channels last,
// for one graph: n rows for nodes, n·r for vectors, n² for pairs (n(n + 1)/2 where x_ij = x_ji), r for eigenvalues, m for
// edges, 1 for the graph. What the operations of one graph touch stays in the cache; threads take whole graphs. So there
// is neither padding of graphs nor grouping, and the result for a graph does not depend on its batch, bit for bit.
//
// Channels are padded with zeros to whole SIMD vectors. Every operation keeps those zeros, in values and in gradients.
//
// Plain C interface, no headers but the standard library's; compiled on first use (build.py). Not with -ffast-math: a NaN
// must stay one, so that a run that diverges is noticed.
//
// simd.h vectors and threads · structures.h what Python hands over · products.h the heavy products · graph.h a graph's
// buffers · rows.h, pairs.h the operations · fingerprints.h similarity of molecules, no part of a model · here: which is
// called, parameters, batches, the C interface.

#include "fingerprints.h"
#include "pairs.h"
#include "rows.h"

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
    pack(batch.parameters[op.weight], from, to, padded, false, packed + padded);  // a backward pass repeats some of it
    if (batch.backward)
        pack(batch.parameters[op.weight], to, from, program.refs[op.in[0]].padded, true, batch.packed + op.packed_back);
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
    if (batch->backward) {
        const long count = program->gradient_floats;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (long at = 0; at < count; ++at)
            for (int part = 1; part < threads; ++part) batch->gradient_sums[at] += batch->gradient_sums[part * count + at];
        for (int op = 0; op < program->op_count; ++op) unpack_gradients(*program, *batch, program->ops[op]);
    }
    release(layout);
}

// For each of (queries, words) fingerprints the similarity to the nearest of (count, words) references with these bits;
// left out are those at these positions, where there are any.
void pointset_nearest_similarity(const uint64_t* query, int64_t queries, const uint64_t* references, const int32_t* bits,
                                 int64_t count, int64_t words, const int64_t* left_out, double* similarity,
                                 int32_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic, 16)
    for (long at = 0; at < queries; ++at)
        similarity[at] =
            nearest_similarity(query + at * words, references, bits, count, words, left_out ? left_out[at] : -1);
}

}  // extern "C"
