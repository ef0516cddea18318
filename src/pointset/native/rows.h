// Operations on rows: inputs and outputs, linear maps, norms, sums over rows. Each forward pass stands beside its backward.
#pragma once

#include "graph.h"

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
