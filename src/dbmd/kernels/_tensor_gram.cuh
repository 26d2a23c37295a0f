// H H' of groups of samples, in float64, on tensor cores: as _gram.cuh, several times as fast.
//
// Constants: GROUP, THREADS, PAIRS (of tiles that a warp has at a time).

// Number of batches of pairs of tiles of eight columns, on the diagonal and above, of a matrix with r + 1 columns.
INLINE int n_batches(int r) {
    const int tiles = r / 8 + 1, at_once = PAIRS * (THREADS / 32);
    return (tiles * (tiles + 1) / 2 + at_once - 1) / at_once;
}

// One group of samples: the products of memberships, and of a one beside them, in float64. A batch of pairs of tiles is
// divided among the warps.
INLINE void gram_of_group(
    const float *__restrict__ H, const double *__restrict__ weights, long long n, int r, long long group, int batch,
    double *__restrict__ gram,  // shape (groups, r + 1, r + 1)
    float *h, int room  // shared: room for so many numbers
) {
    const int rows = n - group * GROUP < GROUP ? n - group * GROUP : GROUP, warps = THREADS / 32;
    H += group * GROUP * r;
    weights = weights ? weights + group * GROUP : 0;
    gram += group * (r + 1) * (r + 1);
    const int tiles = r / 8 + 1, left = tiles * (tiles + 1) / 2 - batch * PAIRS * warps, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int here = left < PAIRS * warps ? left : PAIRS * warps, each = (here + warps - 1) / warps;
    const int first = threadIdx.x / 32 * each, count = here - first < each ? here - first : each;
    int of_left[PAIRS], of_right[PAIRS];  // columns of this thread
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        int row = 0, column = batch * PAIRS * warps + first + (p < count ? p : 0);
        while (row < tiles && column >= tiles - row) column -= tiles - row++;
        of_left[p] = 8 * row + g;
        of_right[p] = 8 * (row + column) + g;
    }
    double sums[PAIRS][2] = {};
    const int fits = room / r / 4 * 4, at_once = fits < GROUP ? fits : GROUP;
    for (int top = 0; top < rows; top += at_once) {
        const int some = rows - top < at_once ? rows - top : at_once;
        __syncthreads();
        for (int i = threadIdx.x; i < some * r; i += THREADS) h[i] = H[(long long)top * r + i];
        __syncthreads();
        for (int i = t; i < some + t; i += 4) {  // the four samples of a step: all threads take as many
            const bool is_one = i < some;
            const double weight = !is_one ? 0.0 : weights ? weights[top + i] : 1.0;
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                if (p >= count) break;
                const int k = of_left[p], l = of_right[p];
                const double one = k < r && is_one ? h[i * r + k] : k == r;
                const double other = l < r && is_one ? h[i * r + l] : l == r;
                tensor_multiply(sums[p], one * weight, other);
            }
        }
    }
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
        if (p >= count) break;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int k = of_left[p], l = of_right[p] - g + 2 * t + q;
            if (k <= l && l <= r) gram[k * (r + 1) + l] = gram[l * (r + 1) + k] = sums[p][q];
        }
    }
}
