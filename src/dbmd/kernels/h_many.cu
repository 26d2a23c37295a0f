// The H-step without a prior for many components: LANES threads for each sample. N b comes from h_start.cu.
//
// With the constant OWN each sample has a Gram matrix of its own, plus 1 1', and a factor `units` of b. Where that is
// negative, the memberships are not unique, and the interior-point method starts from the centre.

#include "_h_step.cuh"
#include "_triangle.cuh"

#define TILE 64  // samples that a warp takes at a time

// Some rows and columns of a symmetric matrix K, whose rows have `width` numbers.
struct Part {
    const double *K;
    int width;
    const int *chosen;
    INLINE int place(int i) const { return chosen[i]; }
    INLINE double at(int i, int j) const { return K[i * width + j]; }
    INLINE double least(int) const { return -1e300; }
};

// Numbers of float64 that solve_many needs for each sample: a triangle of up to `limit` rows with two rows below it, and
// which rows of the matrix they are.
#define ROOM(limit) (EVEN(ROW(limit) + 2 * EVEN(limit) + ((limit) + 1) / 2))

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
solve_many(const REAL *__restrict__ Bt, const REAL *Ht0, REAL *out, long long n, int r, int limit, double unit,
           const double *__restrict__ M_of_all, const double *__restrict__ Nb_of_all, const double *__restrict__ units,
           double *rooms) {
    ROOMS(all_rooms, ROOM(limit));
    const double *M = M_of_all;
    const double *N = M + (long long)r * r, *N_ones = N + (long long)r * r;
    const bool has_inverse = limit < r;
    const double N_sum = has_inverse ? N_ones[r] : 0.0;
    const int lane = lane_of_group(), before_lane = (1u << lane) - 1, per_warp = WARP / LANES;
    double *A = all_rooms + threadIdx.x / LANES * ROOM(limit);
    int *chosen = reinterpret_cast<int *>(A + ROW(limit) + 2 * EVEN(limit));
    const long long n_tiles = (n + TILE - 1) / TILE;
    for (long long tile = (long long)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP; tile < n_tiles;
         tile += (long long)gridDim.x * (THREADS / WARP)) {
        const long long first = tile * TILE;
        const int count = n - first < TILE ? (int)(n - first) : TILE;
        // Each group has a sample of the tile, and takes the next one when it is done: one try of a face at a time.
        int mine = lane_of_warp() / LANES, next = per_warp;
        int n_inside = 0, tries = 0, fewest = 0, patience = 0;
        bool is_new = true;
        double b[SLOTS], Nb[SLOTS], y[SLOTS], Nb_sum = 0.0;
        bool is_inside[SLOTS];
        while (warp_ballot(mine < count)) {
            const bool is_busy = mine < count;
            const long long at = (first + mine) * r;
#ifdef OWN
            M = M_of_all + (is_busy ? at * r : 0);
            unit = is_busy ? units[first + mine] : 1.0;
            const bool is_unique = unit > 0.0;
#else
            const bool is_unique = true;
#endif
            if (warp_ballot(is_new)) {
                const bool is_loaded = is_new && is_busy;
                int number = 0;
                double best = -1e300, sum = 0.0;
                if (is_loaded) FOR_OWN {
                    b[c] = Bt[at + k] * unit;
                    Nb[c] = has_inverse ? Nb_of_all[at + k] : 0.0;
                    is_inside[c] = Ht0 && Ht0[at + k] > (REAL)POSITIVE;
                    number += is_inside[c];
                    sum += Nb[c];
                    if (!has_inverse) best = fmax(best, b[c] - 0.5 * M[k * r + k]);
                }
                number = group_sum(number);
                sum = group_sum(sum);
                if (is_new) {
                    n_inside = number;
                    Nb_sum = sum;
                }
                best = group_max(best);
                // Without memberships: the positive ones of the solution without h >= 0, or the nearest corner. With very
                // many components, the least of the positive ones mostly turn out to be zero.
                const bool is_cold = is_loaded && n_inside == 0;
                const double nu = (Nb_sum - 1.0) / N_sum;
                number = 0;
                const double little = r > 32 ? 0.2 / r : -SLACK;
                FOR_OWN {
                    if (is_cold)
                        is_inside[c] =
                            has_inverse ? Nb[c] - nu * N_ones[k] >= little : b[c] - 0.5 * M[k * r + k] >= best;
                    number += is_inside[c];
                }
                number = group_sum(number);
                if (is_new) {
                    n_inside = number;
                    tries = 0;
                    fewest = r + 1;
                    patience = PATIENCE;
                    is_new = false;
                }
            }
            const bool on_inside = !has_inverse || 2 * n_inside <= r;
            const int m = !is_busy ? 0 : on_inside ? n_inside : r - n_inside, m_all = most_of_groups(m);
            double *p = A + ROW(m), *q = p + EVEN(m);
            const double *K = on_inside ? M : N;
            int before = 0;
#pragma unroll
            for (int c = 0, k = lane; c < SLOTS; c++, k += LANES) {
                if (c * LANES >= r) break;
                const bool is_chosen = is_busy && k < r && is_inside[c] == on_inside;
                const unsigned bits = group_ballot(is_chosen);
                if (is_chosen) {
                    const int place = before + count_bits(bits & before_lane);
                    chosen[place] = k;
                    p[place] = on_inside ? b[c] : Nb[c];
                    q[place] = on_inside ? 1.0 : N_ones[k];
                }
                before += count_bits(bits);
            }
            __syncwarp();
            const double least = factor<2>(Part{K, r, chosen}, m, m_all, A).least;
            double pq = 0.0, qq = 0.0;
            for (int j = lane; j < m; j += LANES) {
                pq += p[j] * q[j];
                qq += q[j] * q[j];
            }
            pq = group_sum(pq);
            qq = group_sum(qq);
            const double nu = on_inside ? (pq - 1.0) / qq : (Nb_sum - 1.0 - pq) / (N_sum - qq);
            for (int j = lane; j < m; j += LANES) p[j] -= nu * q[j];
            __syncwarp();
            solve_transposed(A, m, m_all, p, q);
            const double sign = on_inside ? 1.0 : -1.0;
            FOR_OWN y[c] = on_inside ? nu - b[c] : Nb[c] - nu * N_ones[k];
#pragma unroll 2
            for (int j = 0; j < m; j++) {
                const double x = sign * q[j];
                const double *K_j = K + chosen[j] * r;
                FOR_OWN y[c] += x * K_j[k];
            }
            // What was eliminated takes its own place; then those that are negative change sides.
            int n_wrong = 0, last = -1;
            before = 0;
#pragma unroll
            for (int c = 0, k = lane; c < SLOTS; c++, k += LANES) {
                if (c * LANES >= r) break;
                const bool is_chosen = is_busy && k < r && is_inside[c] == on_inside;
                const unsigned bits = group_ballot(is_chosen);
                if (is_chosen) y[c] = sign * q[before + count_bits(bits & before_lane)];
                before += count_bits(bits);
                const unsigned wrong = group_ballot(k < r && y[c] < -SLACK);
                n_wrong += count_bits(wrong);
                if (wrong) last = c * LANES + last_bit(wrong);
            }
            tries++;
            const bool is_regular = is_unique && least * REGULAR >= 1.0;
            bool is_found = is_regular && n_wrong == 0;
            double total = 0.0;
            int number = 0;
            patience = n_wrong < fewest ? PATIENCE : patience - 1;
            fewest = n_wrong < fewest ? n_wrong : fewest;
            FOR_OWN {
                if (is_found) {
                    y[c] = is_inside[c] && !(y[c] < LEAST) ? y[c] : LEAST;
                    total += y[c];
                } else if (patience > 0 ? y[c] < -SLACK : k == last) {
                    is_inside[c] = !is_inside[c];
                }
                number += is_inside[c];
            }
            total = group_sum(total);
            n_inside = group_sum(number);
            const bool is_done = is_busy && (is_found || !is_regular || tries == TRIES || n_inside == 0);
            if (is_done) {
                // NaN, or numbers so large that their rounding shows, do not sum to one.
                is_found = is_found && fabs(total - 1.0) <= 1e-10;
                const double inverse = 1.0 / total;
                FOR_OWN out[at + k] = is_found ? (REAL)(y[c] * inverse) : (REAL)MARK;
                is_new = true;
            }
            const unsigned done = warp_ballot(is_done && lane == 0);
            if (is_done) mine = next + count_bits(done & ((1u << (lane_of_warp() - lane)) - 1));
            next += count_bits(done);
            __syncwarp();
        }
    }
}
