// What Python hands over. Mirrored field by field in execute.py.
#pragma once

#include <cstdint>

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
