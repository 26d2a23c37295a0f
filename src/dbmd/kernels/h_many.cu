// The H-step without a prior for many components: LANES threads for each sample. N b comes from h_start.cu.
//
// With the constant OWN each sample has a Gram matrix of its own, plus 1 1', and a factor `units` of b. Where that is
// negative, the memberships are not unique, and the interior-point method starts from the centre.

#include "_h_step.cuh"
#include "_panels.cuh"

#define WHOLE(m) (((m) + PANEL - 1) / PANEL * PANEL)

// Rows and columns of a symmetric matrix K of r rows, which goes on with rows of the identity.
struct Matrix {
    const double *K;
    int r, width;
    const unsigned short *chosen;  // those that are eliminated
    INLINE int place(int i) const { return chosen[i]; }
#ifdef STAGED  // in shared memory, with PANEL - 1 rows of the identity
    INLINE double at(int i, int k) const { return K[i * width + k]; }
    INLINE Two two(int i, int k) const { return *reinterpret_cast<const Two *>(K + i * width + k); }
#else
    INLINE double at(int i, int k) const { return i < r && k < r ? K[i * width + k] : (double)(i == k); }
    INLINE Two two(int i, int k) const { return {at(i, k), at(i, k + 1)}; }
#endif
};

// A thread has pairs of components side by side: so it loads two numbers of a row at once.
#define OWN_COMPONENT(c) (((c) / 2 * LANES + lane) * 2 + (c) % 2)
#ifdef __CUDACC__
#define IS_OWN(c, k) ((c) < SLOTS - 2 || (k) < r)  // there are no more SLOTS than it takes
#else
#define IS_OWN(c, k) ((k) < r)
#endif
#undef FOR_OWN
#define FOR_OWN \
    _Pragma("unroll") for (int c = 0, k = lane * 2; c < SLOTS; c++, k = OWN_COMPONENT(c)) if (IS_OWN(c, k))

// For each sample there is room for a triangle of up to `limit` rows, two rows below it, and which rows of the matrix they
// are, eight to a Two.
#define ROOM_OF_CHOSEN ((WHOLE(limit) + 7) / 8)
#define ROOM (ROOM_OF_TRIANGLE(WHOLE(limit), 2) + ROOM_OF_CHOSEN)

// Shared memory: with the constant STAGED, M and N; then the rooms, or with ROOMS_OUTSIDE none.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
solve_many(const REAL *__restrict__ Bt, const REAL *Ht0, REAL *out, long long n, int r, int limit, double unit,
           const double *__restrict__ M_of_all, const double *__restrict__ Nb_of_all, const double *__restrict__ units,
           double *rooms) {
    const int lane = lane_of_group(), before_lane = (1u << lane) - 1, per_warp = WARP / LANES;
    const double *N_ones = M_of_all + 2 * (long long)r * r;
    const bool has_inverse = limit < r;
    const double N_sum = has_inverse ? N_ones[r] : 0.0;
#ifdef STAGED
    DYNAMIC_SHARED(double, staged);
    const int rows = r + PANEL - 1, width = (rows + 1) / 2 * 2, size = rows * width;
    for (int e = threadIdx.x; e < 2 * size; e += THREADS) {
        const int i = e % size / width, k = e % width;
        staged[e] = i < r && k < r ? M_of_all[(e / size * (long long)r + i) * r + k] : (double)(i == k);
    }
    __syncthreads();
    const double *M = staged, *N = M + size;
    double *all_rooms = staged + 2 * size;
#else
    const int width = r;
    const double *M = M_of_all, *N = M + (long long)r * r;
    ROOMS(all_rooms, 2 * ROOM);
#endif
    const Triangle A = {reinterpret_cast<Two *>(all_rooms) + threadIdx.x / LANES * ROOM, WHOLE(limit) + 2};
    unsigned short *chosen = reinterpret_cast<unsigned short *>(A.numbers + (ROOM - ROOM_OF_CHOSEN));
    // Each warp has some samples that are side by side. Each group has one of them, and takes the next one when it is done:
    // one try of a face at a time.
    const long long n_warps = (long long)gridDim.x * (THREADS / WARP);
    const long long warp = (long long)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    const long long first = n * warp / n_warps;
    const int count = (int)(n * (warp + 1) / n_warps - first);
    int mine = lane_of_warp() / LANES, next = per_warp;
    int n_inside = 0, tries = 0, fewest = 0, patience = 0;
    double Nb_sum = 0.0;
    bool is_new = true, is_inside[SLOTS] = {};
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
        double y[SLOTS];
        if (warp_ballot(is_new)) {
            const bool is_loaded = is_new && is_busy;
            int number = 0;
            double best = -1e300, sum = 0.0;
            if (is_loaded) FOR_OWN {
                y[c] = has_inverse ? Nb_of_all[at + k] : Bt[at + k] * unit - 0.5 * M[k * width + k];
                is_inside[c] = Ht0 && Ht0[at + k] > (REAL)POSITIVE;
                number += is_inside[c];
                sum += y[c];
                best = fmax(best, y[c]);
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
                if (is_cold) is_inside[c] = has_inverse ? y[c] - nu * N_ones[k] >= little : y[c] >= best;
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
        const int n_chosen = !is_busy ? 0 : on_inside ? n_inside : r - n_inside;
        const int m = WHOLE(n_chosen), m_all = most_of_groups(m);
        const Matrix K = {on_inside ? M : N, r, width, chosen};
        int before = 0;
#pragma unroll
        for (int c = 0; c < SLOTS; c++) {
            const int k = OWN_COMPONENT(c);
            const bool is_chosen = is_busy && IS_OWN(c, k) && is_inside[c] == on_inside;
            const unsigned bits = group_ballot(is_chosen);
            if (is_chosen) {
                const int place = before + count_bits(bits & before_lane);
                chosen[place] = k;
                A.at(m, place) = on_inside ? Bt[at + k] * unit : Nb_of_all[at + k];
                A.at(m + 1, place) = on_inside ? 1.0 : N_ones[k];
            }
            before += count_bits(bits);
        }
        for (int j = n_chosen + lane; j < m; j += LANES) {
            chosen[j] = r + j - n_chosen;
            A.at(m, j) = A.at(m + 1, j) = 0.0;
        }
        __syncwarp();
        const double least = factor<2>(K, m, m_all, A);
        double pq = 0.0, qq = 0.0;
        for (int b = lane; 2 * b < m; b += LANES) {
            const Two p = A.block(b)[m], q = A.block(b)[m + 1];
            pq += p.x[0] * q.x[0] + p.x[1] * q.x[1];
            qq += q.x[0] * q.x[0] + q.x[1] * q.x[1];
        }
        pq = group_sum(pq);
        qq = group_sum(qq);
        const double nu = on_inside ? (pq - 1.0) / qq : (Nb_sum - 1.0 - pq) / (N_sum - qq);
        for (int b = lane; 2 * b < m; b += LANES) {
            Two *block = A.block(b), p = block[m];
            const Two q = block[m + 1];
            p.x[0] -= nu * q.x[0];
            p.x[1] -= nu * q.x[1];
            block[m] = p;
        }
        __syncwarp();
        solve_transposed(A, m, m_all, m, m + 1);
        const double sign = on_inside ? 1.0 : -1.0;
        if (is_busy) FOR_OWN y[c] = on_inside ? nu - Bt[at + k] * unit : Nb_of_all[at + k] - nu * N_ones[k];
        const Two *solution = A.numbers + m + 1;
        int step = A.height - 2;
#pragma unroll 1
        for (int j = 0; j < n_chosen; j += 2, solution += step, step -= 2) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const double x = sign * solution->x[e];
                const int row = chosen[j + e];
#pragma unroll
                for (int c = 0; c < SLOTS; c += 2) {
                    const int k = OWN_COMPONENT(c);
                    if (!IS_OWN(c, k)) continue;
                    const Two numbers = K.two(row, k);
                    y[c] += x * numbers.x[0];
                    y[c + 1] += x * numbers.x[1];
                }
            }
        }
        // What was eliminated takes its own place; then those that are negative change sides.
        int n_wrong = 0, last = -1;
        before = 0;
#pragma unroll
        for (int c = 0; c < SLOTS; c++) {
            const int k = OWN_COMPONENT(c);
            const bool is_chosen = is_busy && IS_OWN(c, k) && is_inside[c] == on_inside;
            const unsigned bits = group_ballot(is_chosen);
            if (is_chosen) y[c] = sign * A.at(m + 1, before + count_bits(bits & before_lane));
            before += count_bits(bits);
            const unsigned wrong = group_ballot(is_busy && IS_OWN(c, k) && y[c] < -SLACK);
            n_wrong += count_bits(wrong);
            if (wrong) last = (c / 2 * LANES + last_bit(wrong)) * 2 + c % 2;
        }
        tries++;
        const bool is_regular = is_unique && least * REGULAR >= 1.0;
        bool is_found = is_regular && n_wrong == 0;
        double total = 0.0;
        int number = 0;
        patience = n_wrong < fewest ? PATIENCE : patience - 1;
        fewest = n_wrong < fewest ? n_wrong : fewest;
        if (is_busy) FOR_OWN {
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
