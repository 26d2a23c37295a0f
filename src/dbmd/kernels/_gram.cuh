// H H' of groups of samples, in float64, see sums.cu.
//
// Constants: REAL, GROUP, THREADS.

// Number of batches of THREADS blocks of 4 x 4 entries, on the diagonal and above, of a matrix with r + 1 columns.
INLINE int n_batches(int r) {
    const int blocks = r / 4 + 1;
    return (blocks * (blocks + 1) / 2 + THREADS - 1) / THREADS;
}

// One group of samples: the products of memberships, and of a one beside them, in float64. A thread has a block of
// 4 x 4 entries; the other threads have other samples of the group.
INLINE void gram_of_group(
    const REAL *__restrict__ H, const double *__restrict__ weights, long long n, int r,
    long long group, int batch,
    double *__restrict__ gram,  // shape (groups, r + 1, r + 1)
    REAL *h, int room  // shared: room for so many numbers, at least one row and 2 THREADS
) {
    const int rows = n - group * GROUP < GROUP ? n - group * GROUP : GROUP;
    H += group * GROUP * r;
    weights = weights ? weights + group * GROUP : 0;
    gram += group * (r + 1) * (r + 1);
    const int blocks = r / 4 + 1, wide = 4 * blocks, left = blocks * (blocks + 1) / 2 - batch * THREADS;
    const int here = left < THREADS ? left : THREADS;
    const int most = THREADS / here, slices = most < 16 ? most : 16, slice = threadIdx.x / here;
    int row_block = 0, column_block = batch * THREADS + threadIdx.x % here;
    while (column_block >= blocks - row_block) column_block -= blocks - row_block++;
    column_block += row_block;
    const int fits = room / wide, at_once = fits < GROUP ? fits : GROUP;

    double sums[4][4] = {};
    for (int top = 0; top < rows; top += at_once) {
        const int count = rows - top < at_once ? rows - top : at_once;
        __syncthreads();
        for (int i = threadIdx.x; i < count * wide; i += THREADS) {
            const int row = i / wide, k = i % wide;
            h[i] = k < r ? H[(long long)(top + row) * r + k] : REAL(k == r);
        }
        __syncthreads();
        if (slice >= slices) continue;
        for (int row = slice; row < count; row += slices) {
            const REAL *left = h + row * wide + 4 * row_block, *right = h + row * wide + 4 * column_block;
            const double weight = weights ? weights[top + row] : 1.0;
#pragma unroll
            for (int p = 0; p < 4; ++p) {
                const double weighted = weight * left[p];
#pragma unroll
                for (int q = 0; q < 4; ++q) sums[p][q] += weighted * right[q];
            }
        }
    }
    double *others = reinterpret_cast<double *>(h);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            if (slices > 1) {
                __syncthreads();
                others[threadIdx.x] = sums[p][q];
                __syncthreads();
            }
            const int i = 4 * row_block + p, j = 4 * column_block + q;
            if (slice == 0 && i <= r && j <= r) {
                for (int s = 1; s < slices; ++s) sums[p][q] += others[s * here + threadIdx.x];
                gram[i * (r + 1) + j] = gram[j * (r + 1) + i] = sums[p][q];
            }
        }
    }
}
