// Operations between points: products and sums over pairs, edges, coordinates. Each forward pass stands beside its backward.
#pragma once

#include "graph.h"

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
