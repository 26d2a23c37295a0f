// Samples with gaps: the Gram matrix of W over the observed features of each, as in _observed.py, and products with the
// covariance of each, as in _gap_covariance.py.

#ifndef __CUDACC__
#undef SLOTS
#define SLOTS 256
#endif

#define FOR_OWN for (int c = 0, k = lane; c < SLOTS; c++, k += LANES) if (k < r)
#define LITTLE 1e-3  // fraction of Q below which a difference from Q would have lost too many digits

// Add w_j w_j' over features to `gram`, rows of r numbers: LANES threads share it, four rows at a time.
//   is_gap     whether over the gaps, and then they are subtracted from Q, or over all other features
INLINE void add_features(bool is_gap, const long long *__restrict__ columns, long long start, long long end, int m, int r,
                         const double *__restrict__ W, const double *__restrict__ Q, double *gram) {
    const int lane = lane_of_group();
    for (int first = 0; first < r; first += 4) {
        const int rows = r - first < 4 ? r - first : 4;
        double total[4][SLOTS];
        for (int i = 0; i < 4; i++) FOR_OWN total[i][c] = 0.0;
        long long gap = start;
        for (long long step = is_gap ? start : 0; step < (is_gap ? end : m); step++) {
            long long j = step;
            if (is_gap) {
                j = columns[step];
            } else if (gap < end && columns[gap] == step) {
                gap++;
                continue;
            }
            const double *w = W + j * r;
            double four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) four[i] = i < rows ? w[first + i] : 0.0;
            FOR_OWN {
                const double w_k = w[k];
#pragma unroll
                for (int i = 0; i < 4; i++) total[i][c] += four[i] * w_k;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < rows) FOR_OWN {
                const int e = (first + i) * r + k;
                gram[e] = is_gap ? Q[e] - total[i][c] : total[i][c];
            }
    }
}

// Write the Gram matrix of each sample, times a factor, plus a number, to `grams`.
//   starts, columns  as in model/gaps.py
//   given    the factor, or zero: one over the largest entry of the diagonal
//   most     the largest entry of the diagonal of Q
//   units    for the factor of each sample; negative if so few features are observed that memberships are not unique
extern "C" __global__ void __launch_bounds__(THREADS)
observed_grams(const long long *__restrict__ starts, const long long *__restrict__ columns, long long n, int m, int r,
               const double *__restrict__ W, const double *__restrict__ Q, double most, double given, double added,
               double *grams, double *units) {
    const int lane = lane_of_group();
    const long long stride = (long long)gridDim.x * (THREADS / LANES);
    // All threads of a warp take as many turns.
    for (long long turn = 0; turn * stride < n; turn++) {
        const long long i = turn * stride + (long long)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
        const bool is_busy = i < n;
        const long long start = is_busy ? starts[i] : 0, end = is_busy ? starts[i + 1] : 0, n_gaps = end - start;
        double *gram = grams + (is_busy ? i : 0) * r * r;
        double largest = 0.0;
        bool is_difference = 2 * n_gaps <= m;
        if (is_busy && is_difference) {
            add_features(true, columns, start, end, m, r, W, Q, gram);
            FOR_OWN largest = fmax(largest, gram[k * r + k]);
        }
        __syncwarp();
        largest = group_max(largest);
        if (is_busy && !(is_difference && largest >= LITTLE * most)) {
            add_features(false, columns, start, end, m, r, W, Q, gram);
            largest = 0.0;
            FOR_OWN largest = fmax(largest, gram[k * r + k]);
        }
        __syncwarp();
        largest = group_max(largest);
        const double unit = given > 0.0 ? given : largest > 0.0 ? 1.0 / largest : 1.0;
        if (is_busy) {
            for (int l = 0; l < r; l++) FOR_OWN gram[l * r + k] = gram[l * r + k] * unit + added;
            if (lane == 0) units[i] = m - n_gaps >= r - 1 ? unit : -unit;
        }
    }
}

// Add w_j'S_i to row j of WS for each gap j of sample i, one after the other.
//   keys     feature times n plus sample of each gap, sorted
//   firsts   where those of each feature begin, shape (m + 1,)
//   S        covariances, rows of r numbers
extern "C" __global__ void __launch_bounds__(THREADS)
add_products(const long long *__restrict__ keys, const long long *__restrict__ firsts, long long n, int m, int r,
             const double *__restrict__ W, const double *__restrict__ S, double *WS) {
    const int lane = lane_of_group();
    for (int j = (blockIdx.x * THREADS + threadIdx.x) / LANES; j < m; j += gridDim.x * (THREADS / LANES)) {
        const double *w = W + (long long)j * r;
        double total[SLOTS];
        FOR_OWN total[c] = WS[(long long)j * r + k];
        for (long long g = firsts[j]; g < firsts[j + 1]; g++) {
            const double *one = S + keys[g] % n * r * r;
            double product[SLOTS];
            FOR_OWN product[c] = 0.0;
            for (int l = 0; l < r; l++) FOR_OWN product[c] += w[l] * one[l * r + k];
            FOR_OWN total[c] += product[c];
        }
        FOR_OWN WS[(long long)j * r + k] = total[c];
    }
}
